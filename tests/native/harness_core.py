"""Compiles small C++ sources together with native core files and loads them by ctypes."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

NATIVE = Path(__file__).resolve().parents[2] / "src" / "cuvil" / "native"


def words(text: str) -> list[str]:
    """The words of a text: a list that reads like one line."""
    return text.split()


FLAGS = words(
    "-std=c++17 -O3 -fno-exceptions -fno-rtti -fPIC -fvisibility=hidden -ffp-contract=fast "
    "-fno-math-errno -fno-trapping-math -nostdlib -fno-stack-protector -fno-sanitize=all "
    "-Wall -Wextra -Werror"
)
EXPORT = 'extern "C" __attribute__((visibility("default")))'


def native_features() -> tuple[str, int]:
    """The -mcpu value for this machine and its vector width in bytes."""
    cpuinfo = Path("/proc/cpuinfo")
    flags = cpuinfo.read_text() if cpuinfo.exists() else ""
    if "avx512f" in flags:
        return "native-prefer_256_bit", 64
    return "native", 32 if "avx2" in flags else 16


def compile_object(source: Path, out: Path, flags: Sequence[str] = ()) -> None:
    """Compile one file for the flags' target; raises AssertionError with the diagnostics."""
    command = [sys.executable, "-m", "ziglang", "c++", *FLAGS, *flags, f"-I{NATIVE}"]
    done = subprocess.run(
        [*command, "-c", str(source), "-o", str(out)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def build(folder: Path, text: str, core: Sequence[str] = (), extra: Sequence[str] = ()) -> Path:
    """Compile `text` and the core files named into a shared library in `folder`.

    Args:
        folder: where the source and the library go.
        text: the C++ source; `EXPORT` is put before every `EXPORT` token in it.
        core: files of the native folder, such as "core_threads.cpp".
        extra: further compiler flags.
    """
    source = folder / "probe.cpp"
    source.write_text(text.replace("EXPORT", EXPORT))
    cpu, width = native_features()
    library = folder / "probe.so"
    command = [sys.executable, "-m", "ziglang", "c++", *FLAGS, f"-mcpu={cpu}"]
    command += [f"-DCUVIL_VEC_BYTES={width}", f"-I{NATIVE}", "-shared", "-Wl,--gc-sections", "-s"]
    files = [str(source), *(str(NATIVE / name) for name in core)]
    done = subprocess.run(
        [*command, *extra, *files, "-o", str(library)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return library


def load(library: Path) -> ctypes.CDLL:
    """Open a library without making its symbols global."""
    return ctypes.CDLL(str(library))


def address(array: npt.NDArray[Any] | None) -> ctypes.c_void_p:
    """The address of an array's first element, null for None."""
    return ctypes.c_void_p(None if array is None else array.ctypes.data)


def aligned(count: int, dtype: npt.DTypeLike = np.float32) -> npt.NDArray[Any]:
    """An uninitialised vector of `count` elements at a 64-byte boundary."""
    size = np.dtype(dtype).itemsize
    raw = np.empty(count * size + 64, dtype=np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + count * size].view(dtype)
