"""Run an artifact where there is only NumPy: no framework, no compiler.

    python run_without_torch.py MODEL.cuvilpkg INPUTS.npz OUTPUTS.npz

prints what was measured as JSON: seconds of each step, the packages that were imported beside the
standard library, and which of the usual ones this process could not import if it wanted to.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from typing import Any

USUAL = ("torch", "onnx", "onnxruntime", "transformers", "ziglang")


def main(package: str, inputs: str, outputs: str) -> dict[str, Any]:
    """Load, run, write the outputs; returns what was measured."""
    start = time.perf_counter()
    import numpy as np

    with np.load(inputs) as file:
        arrays = dict(file)
    before = time.perf_counter()
    import cuvil

    imported = time.perf_counter()
    artifact = cuvil.load(package)
    loaded = time.perf_counter()
    results = artifact.run(arrays)
    called = time.perf_counter()
    np.savez(outputs, **results)
    roots = {name.partition(".")[0] for name in sys.modules}
    return {
        "import_numpy": before - start,
        "import_cuvil": imported - before,
        "load": loaded - imported,
        "first_output": called - loaded,
        "imported": sorted(roots - {"__main__"} - sys.stdlib_module_names),
        "absent": [name for name in USUAL if importlib.util.find_spec(name) is None],
    }


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: run_without_torch.py MODEL.cuvilpkg INPUTS.npz OUTPUTS.npz")
    print(json.dumps(main(*sys.argv[1:])))
