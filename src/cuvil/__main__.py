"""The command ``cuvil``, and ``python -m cuvil``."""

from __future__ import annotations

import importlib
import importlib.util
import sys

_NEEDED = ("typer", "rich")


def main() -> None:
    """Run the command line. An installation for running artifacts alone may lack its packages."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        needed, names = " and ".join(missing), " ".join(missing)
        sys.stderr.write(f"error: the command line needs {needed}: pip install {names}\n")
        sys.exit(2)
    try:
        app = importlib.import_module("cuvil.cli.main").app
    except KeyboardInterrupt:
        sys.exit(130)  # as later on
    app(prog_name="cuvil")


if __name__ == "__main__":
    main()
