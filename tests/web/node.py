"""Runs a script beside a saved model in Node.js."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cuvil.runners.node import missing

needs_node = pytest.mark.skipif(missing() is not None, reason=str(missing()))


def in_node(folder: Path, body: str) -> Any:
    """What ``body``, the text of an async function of ``m`` (the loader's module m.mjs), returns.
    It has relaxed SIMD also where Node hides that behind a flag."""
    script = folder / "script.mjs"
    script.write_text(
        'import { setFlagsFromString } from "node:v8";\n'
        'const m = await import("./m.mjs");\n'
        'if (!m.features().relaxed) setFlagsFromString("--experimental-wasm-relaxed-simd");\n'
        f"const found = await (async () => {{{body}}})();\n"
        "console.log(JSON.stringify(found));\nprocess.exit(0);\n"
    )
    done = subprocess.run(
        ["node", str(script)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])
