"""``python -m cuvil.cli``, for where the console script is not installed."""

from __future__ import annotations

from cuvil.cli.main import app

app(prog_name="cuvil")
