"""Compile a small C++ file together with the native core and call it through ctypes.

The test's file exports plain C functions; everything in it may include the native headers by name.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / "src" / "cuvil" / "native"
FLAGS = (
    *("-std=c++17", "-O3", "-g0", "-Wall", "-Wextra", "-Wno-unused-command-line-argument"),
    *("-fno-exceptions", "-fno-rtti", "-fPIC", "-fvisibility=hidden", "-ffp-contract=fast"),
    *("-fno-math-errno", "-fno-trapping-math", "-fno-stack-protector", "-fno-sanitize=all"),
    *("-fomit-frame-pointer", "-nostdlib", "-nostdinc++"),
)

# The machine need not have a thread pool (or memory functions) of ours for a kernel to be tested:
# the weak definitions step aside when the core brings its own.
SUPPORT = r"""
#include <stddef.h>
#include "threads.hpp"
#define EXPORT extern "C" __attribute__((visibility("default")))
#define WEAK extern "C" __attribute__((weak))
WEAK void* memset(void* p, int c, size_t n) {
  volatile char* q = static_cast<volatile char*>(p);
  for (size_t i = 0; i < n; ++i) q[i] = char(c);
  return p;
}
WEAK void* memcpy(void* p, const void* s, size_t n) {
  volatile char* q = static_cast<volatile char*>(p);
  for (size_t i = 0; i < n; ++i) q[i] = static_cast<const char*>(s)[i];
  return p;
}
"""
INLINE_POOL = r"""
namespace cuvil {
// Cuts a range in pieces of `grain` for alternating thread numbers, all on one real thread.
void parallel_for(Pool* pool, int64_t n, int64_t grain, RangeFn fn, void* ctx) {
  if (!pool || n < 2 * grain) { if (n > 0) fn(ctx, 0, n, 0); return; }
  for (int64_t i = 0; i < n; i += grain)
    fn(ctx, i, i + grain < n ? i + grain : n, int32_t(i / grain % pool->threads));
}
Pool two_threads = {nullptr, nullptr, 2};
}
EXPORT void* test_pool() { return &cuvil::two_threads; }
"""


@dataclass(frozen=True)
class Machine:
    """What the kernels are compiled for: compiler arguments and tile sizes."""

    name: str
    vec_bytes: int
    mr: int
    nr: int
    arguments: tuple[str, ...]

    def defines(self) -> list[str]:
        sizes = {"CUVIL_VEC_BYTES": self.vec_bytes, "CUVIL_MR": self.mr, "CUVIL_NR": self.nr}
        return [f"-D{name}={value}" for name, value in sizes.items()]


def _cpu_flags() -> set[str]:
    info = Path("/proc/cpuinfo")
    if not info.exists():
        return set()
    for line in info.read_text().splitlines():
        if line.startswith("flags"):
            return set(line.split())
    return set()


AVX512 = Machine("avx512", 64, 14, 32, ("-mcpu=x86_64_v4-prefer_256_bit",))
AVX512_BF16 = Machine(
    "avx512bf16", 64, 14, 32, ("-mcpu=x86_64_v4+avx512vnni+avx512bf16-prefer_256_bit",)
)
AVX2 = Machine("avx2", 32, 6, 16, ("-mcpu=x86_64_v3",))
SSE = Machine("sse", 16, 4, 8, ("-mcpu=x86_64",))
NEON = Machine("neon", 16, 8, 8, ("-target", "aarch64-linux-gnu", "-mcpu=cortex_a76"))
WASM = Machine("wasm", 16, 4, 8, ("-target", "wasm32-freestanding", "-mcpu=generic+simd128"))


def runnable() -> list[Machine]:
    """The machines whose code this computer can run."""
    flags = _cpu_flags()
    machines = [AVX512] if {"avx512f", "avx512bw", "avx512vl", "avx512dq"} <= flags else []
    return machines + ([AVX2] if {"avx2", "fma"} <= flags else [])


def runnable_pairs() -> list[Machine]:
    """The same, and the one with a dot product of pairs of bf16."""
    pairs = {"avx512f", "avx512bw", "avx512_bf16"} <= _cpu_flags()
    return runnable() + ([AVX512_BF16] if pairs else [])


def compile_object(source: Path, out: Path, machine: Machine) -> None:
    """One object file; raises RuntimeError with the compiler's words when it fails or warns."""
    command = [sys.executable, "-m", "ziglang", "c++", *FLAGS, *machine.arguments]
    command += [*machine.defines(), f"-I{NATIVE}", "-c", str(source), "-o", str(out)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode or "warning:" in result.stderr:
        raise RuntimeError(f"{source.name} for {machine.name}:\n{result.stderr[:4000]}")


def build(
    folder: Path, machine: Machine, code: str, core: Sequence[str], pool: str = INLINE_POOL
) -> ctypes.CDLL:
    """Compile `code` with the core files named in `core` into a library in `folder`; load it."""
    folder.mkdir(parents=True, exist_ok=True)
    test = folder / "wrappers.cpp"
    test.write_text(SUPPORT + pool + code)
    sources = [test, *(NATIVE / name for name in core)]
    objects = [folder / f"{source.stem}.o" for source in sources]
    for source, target in zip(sources, objects, strict=True):
        compile_object(source, target, machine)
    library = folder / f"lib_{machine.name}.so"
    link = [sys.executable, "-m", "ziglang", "c++", "-shared", "-nostdlib", *machine.arguments]
    link += ["-Wl,--gc-sections", "-s", *map(str, objects), "-o", str(library)]
    subprocess.run(link, check=True, capture_output=True, text=True)
    return ctypes.CDLL(str(library))


def address(array: np.ndarray | None) -> ctypes.c_void_p:
    """The array's data as a C pointer; null for None."""
    return ctypes.c_void_p(None if array is None else array.ctypes.data)


def aligned_zeros(count: int) -> np.ndarray:
    """f32 zeros [count] whose first element lies on a 64-byte line."""
    raw = np.zeros(count + 16, np.float32)
    skip = (-raw.ctypes.data % 64) // 4
    return raw[skip : skip + count]


def integers(*values: int) -> np.ndarray:
    """The values as an i64 array, to hand many numbers over at once."""
    return np.array(values, np.int64)
