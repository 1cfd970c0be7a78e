"""Models as C: time of a call and size, beside the native artifact and another generator of C.

    python bench/c_target.py [NAME ...] [--seconds 2] [--emx PROGRAM]

Times are of one thread's processor, the least of calls made in turns, since a shared machine only
ever adds time; both sources are compiled by the same compiler with the same flags. ``--emx`` is
the program of the PyPI package emx-onnx-cgen, which may live in an environment of its own. Sizes
are those of code and weights for a Cortex-M4 at -Os: of the object, which has our own exponentials
and not the libm that the other needs, and of the image, all that is linked from the function on,
with expf, fmaxf and memory functions of zig's compiler_rt and tanhf of its standard library.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

import cuvil  # noqa: E402
from cuvil.build.c_source import (  # noqa: E402
    C_FLAGS,
    CORTEX_M4,
    code_bytes,
    compile_c,
    library_of_c,
)
from cuvil.build.driver import compiler_path  # noqa: E402
from cuvil.options import Options  # noqa: E402
from cuvil.target.native import native_target  # noqa: E402
from tests.e2e.c_models import keyword_spotting, mlp, small_lstm  # noqa: E402

Call = Callable[[], object]
# What emx-onnx-cgen's source includes and a freestanding compiler does not have.
_HEADERS = {
    "math.h": "float expf(float); float fmaxf(float, float); float fminf(float, float);\n"
    "float sqrtf(float); float tanhf(float); float erff(float); float powf(float, float);\n"
    "#define INFINITY __builtin_inff()\n#define NAN __builtin_nanf(\"\")\n",
    "string.h": "#include <stddef.h>\nvoid *memcpy(void *, const void *, size_t);\n"
    "void *memset(void *, int, size_t);\n",
}

_LIBM = """const math = @import("std").math;
export fn tanhf(x: f32) callconv(.c) f32 {
    return math.tanh(x);
}
"""


def _lstm() -> tuple[torch.nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    return torch.nn.LSTM(512, 512, num_layers=2).eval(), torch.randn(16, 1, 512)


def _mobilenet() -> tuple[torch.nn.Module, torch.Tensor]:
    import transformers

    torch.manual_seed(0)
    model = transformers.MobileNetV2ForImageClassification(transformers.MobileNetV2Config())
    return model.eval(), torch.randn(1, 3, 224, 224)


MODELS: dict[str, Callable[[], tuple[torch.nn.Module, torch.Tensor]]] = {
    "mlp": mlp,
    "keywords": lambda: keyword_spotting(64),
    "lstm-32": small_lstm,
    "lstm-512": _lstm,
    "mobilenet-v2": _mobilenet,
}


def _in_c(files: dict[str, str], name: str, function: str, arrays: list[np.ndarray]) -> Call:
    """A call of the compiled function on arrays."""
    made = library_of_c(files, name, native_target(), Options.from_environment())
    with tempfile.NamedTemporaryFile(suffix=".so") as file:
        file.write(made)
        file.flush()
        loaded = ctypes.CDLL(file.name, mode=ctypes.RTLD_GLOBAL)[function]
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in arrays]
    return lambda: loaded(*pointers)


def _emx(program: str, model: torch.nn.Module, x: torch.Tensor, folder: Path) -> str | None:
    """The other generator's source, or None where it refuses the model."""
    torch.onnx.export(model, (x,), str(folder / "net.onnx"), dynamo=False)
    command = [program, "compile", "--model-name", "emx", "--large-temp-threshold", "0",
               "--large-weight-threshold", "0",
               str(folder / "net.onnx"), str(folder / "emx.c")]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (folder / "emx.c").read_text() if done.returncode == 0 else None


def _image(files: dict[str, str], unit: str, function: str) -> int:
    """Bytes in flash of a program that calls the unit's function and needs nothing else."""
    target, cpu = CORTEX_M4[1], CORTEX_M4[2].removeprefix("-mcpu=")
    zig = str(compiler_path())
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**files, "libm.zig": _LIBM}.items():
            (Path(folder) / name).write_text(text)
        for command in (
            ["build-obj", "libm.zig", "-target", target, "-mcpu", cpu, "-O", "ReleaseSmall",
             "-ffunction-sections", "-femit-bin=libm.o"],
            ["cc", *C_FLAGS, *CORTEX_M4, "-I", ".", unit, "libm.o", "-Wl,--gc-sections",
             f"-Wl,-e,{function}", "-o", "image.elf"],
        ):  # fmt: skip
            subprocess.run([zig, *command], cwd=folder, check=True)
        return code_bytes((Path(folder) / "image.elf").read_bytes())


def _least(calls: dict[str, Call], seconds: float) -> dict[str, float]:
    """The least time of each, made in turns."""
    found = dict.fromkeys(calls, float("inf"))
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, call in calls.items():
            start = time.thread_time()
            call()
            found[name] = min(found[name], time.thread_time() - start)
    return found


def row(name: str, seconds: float, emx: str | None) -> Iterator[str]:
    """Lines on one model."""
    model, x = MODELS[name]()
    built: Any = cuvil.compile(model, (x,), target="c")
    native: Any = cuvil.compile(model, (x,), threads=1)
    memory, given = built.manifest.extra["memory"], np.ascontiguousarray(x.numpy())
    shapes = built.manifest.signature.output_shapes({})
    outputs = [np.zeros(s, np.float32) for s in shapes]
    files = {"model.c": bytes(built.package.library).decode(),
             "model.h": bytes(built.package.parts["model.h"]).decode()}  # fmt: skip
    inputs = {built.inputs[0].name: given}
    function = f"{memory['prefix']}_run"
    calls: dict[str, Call] = {
        "c": _in_c(files, "model.c", function, [given, *outputs]),
        "native": lambda: native.run(inputs),
    }
    sizes = f"code {memory['code']} and weights {memory['weights']}: {memory['flash']}"
    sizes += f", image {_image(files, 'model.c', function)}, RAM {memory['ram']}"
    if emx is not None:
        with tempfile.TemporaryDirectory() as folder:
            source = _emx(emx, model, x, Path(folder))
        if source is None:
            sizes += "; refused by emx"
        else:
            other = [np.zeros_like(a) for a in outputs]
            calls["emx"] = _in_c({"emx.c": source}, "emx.c", "emx", [given, *other])
            with tempfile.TemporaryDirectory() as folder:
                flags = (*CORTEX_M4, "-I", ".")
                unit = compile_c({"emx.c": source, **_HEADERS}, "emx.c", flags, Path(folder))
            image = _image({"emx.c": source, **_HEADERS}, "emx.c", "emx")
            sizes += f"; emx: code and weights {code_bytes(unit)}, image {image}"
    found = _least(calls, seconds)
    times = ", ".join(f"{key} {value * 1e6:.1f} us" for key, value in found.items())
    ratios = ", ".join(f"{k} / c {v / found['c']:.2f}" for k, v in found.items() if k != "c")
    yield f"{name}: {times}; {ratios}"
    yield f"  bytes: {sizes}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MODELS)}")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--emx", default=None, metavar="PROGRAM")
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in MODELS]
    if unknown:
        parser.error(f"there is no model {unknown[0]!r}; there are {', '.join(MODELS)}")
    for name in args.names or MODELS:
        for line in row(name, args.seconds, args.emx):
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
