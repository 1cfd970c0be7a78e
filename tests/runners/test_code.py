"""What is in a library with variants: no instruction of another's, no dependency."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import cuvil
from cuvil.build.driver import compile_flags, compile_object, compiler_path
from cuvil.build.library import NATIVE_DIR, native_sources
from cuvil.package.format import open_package
from cuvil.target.base import Variant
from cuvil.target.registry import TARGETS
from tests.build.elf import DT_NEEDED, Elf
from tests.runners.machines import needs

DT_VERNEED, DT_RELR, OS_ABI = 0x6FFFFFFE, 36, 7
# What each variant must not hold, and what it must, by the start of an instruction's bytes or of
# its operands: VEX begins with c4 or c5 and EVEX with 62 in 64-bit code.
X86_PREFIXES = {"sse2": (), "avx2": (0xC4, 0xC5), "avx512": (0xC4, 0xC5, 0x62)}
UNITS = ("core_tile.cpp", "core_rnn.cpp", "core_winograd.cpp")


def _object(target: str, variant: Variant, name: str, folder: Path) -> bytes:
    flags = compile_flags(TARGETS[target], variant=variant)
    return compile_object(native_sources()[name], name, flags, NATIVE_DIR, folder)


def _code(image: bytes) -> Iterator[bytes]:
    """The sections of an object that are executed (System V gABI, chapter 4)."""
    start = int.from_bytes(image[40:48], "little")
    count = int.from_bytes(image[60:62], "little")
    for at in range(start, start + 64 * count, 64):
        words = np.frombuffer(image, "<u8", 8, at)
        if int(words[1]) & 4:
            yield image[int(words[3]) : int(words[3]) + int(words[4])]


@pytest.mark.slow
@pytest.mark.parametrize("name", X86_PREFIXES)
def test_a_variant_holds_only_its_instructions(name: str, tmp_path: Path) -> None:
    capstone = pytest.importorskip("capstone")
    (variant,) = (v for v in TARGETS["x86_64-linux-gnu"].variants if v.name == name)
    decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    decoder.detail = True
    seen: set[int] = set()
    groups: set[str] = set()
    for unit in UNITS:
        for code in _code(_object("x86_64-linux-gnu", variant, unit, tmp_path)):
            for instruction in decoder.disasm(code, 0):
                seen.add(instruction.bytes[0] if instruction.bytes[0] in (0xC4, 0xC5, 0x62) else 0)
                groups |= {instruction.group_name(g) for g in instruction.groups}
    assert seen - {0} == set(X86_PREFIXES[name])
    later = {g for g in groups if g.startswith(("sse4", "ssse3", "sse3"))}
    assert not later or name != "sse2"
    assert not {g for g in groups if g in ("vnni", "bf16", "vbmi", "gfni")}


def test_a_library_needs_nothing_of_any_libc(tmp_path: Path) -> None:
    model = torch.nn.Linear(8, 4)
    x = torch.randn(2, 8)
    for target in ("x86_64-linux-gnu", "aarch64-linux-gnu"):
        made = cuvil.compile(model, (x,), target=target, verify=False)
        path = made.save(tmp_path / f"{target}.cuvilpkg")[0]
        elf = Elf(open_package(path).library)
        assert not elf.tags() & {DT_NEEDED, DT_VERNEED, DT_RELR}
        assert elf.data[OS_ABI] == 0
        undefined = {name for name, defined in elf.symbols().items() if not defined}
        assert undefined <= {"malloc", "free", "pthread_create", "pthread_join"}


PROGRAM = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include "abi.h"
#define FIND(name) __typeof__(name)* p_##name = (__typeof__(name)*)dlsym(library, #name)
int main(int argc, char** argv) {
  void* library = dlopen(argv[1], RTLD_NOW);
  if (!library) return puts(dlerror()), 1;
  FIND(cuvil_create); FIND(cuvil_run); FIND(cuvil_workspace_size); FIND(cuvil_pool_create);
  FIND(cuvil_variant);
  size_t size = strtoul(argv[3], 0, 10);
  void* weights = aligned_alloc(64, (size + 63) / 64 * 64);
  FILE* file = fopen(argv[2], "rb");
  if (fread(weights, 1, size, file) != size) return 2;
  cuvil_status status;
  cuvil_model* model;
  if (p_cuvil_create(weights, size, p_cuvil_pool_create(2), &model, &status))
    return puts(status.message), 3;
  int64_t in_shape[2] = {2, 8}, out_shape[2] = {2, 4};
  _Alignas(64) float x[16], y[8];
  for (int i = 0; i < 16; ++i) x[i] = (float)i / 8 - 1;
  DLTensor in = {x, {1, 0}, 2, {2, 32, 1}, in_shape, 0, 0};
  DLTensor out = {y, {1, 0}, 2, {2, 32, 1}, out_shape, 0, 0};
  const DLTensor* inputs[] = {&in};
  DLTensor* outputs[] = {&out};
  uint64_t bytes;
  if (p_cuvil_workspace_size(model, inputs, 1, &bytes, &status)) return puts(status.message), 4;
  void* room = aligned_alloc(64, bytes + 64);
  if (p_cuvil_run(model, inputs, 1, outputs, 1, room, bytes, &status))
    return puts(status.message), 5;
  printf("%s", p_cuvil_variant(model));
  for (int i = 0; i < 8; ++i) printf(" %.9g", (double)y[i]);
  return 0;
}
"""
# What crt1.o does, for a program that is linked to musl's own file alone.
START = r"""
int main(int, char**);
int __libc_start_main(int (*)(int, char**), int, char**, void*, void*, void*);
__attribute__((used)) void start(long* stack) {
  __libc_start_main(main, (int)stack[0], (char**)(stack + 1), 0, 0, 0);
}
__asm__(".globl _start\n_start: mov %rsp, %rdi\n and $-16, %rsp\n call start\n hlt\n");
"""
# Where the program is built for, what starts it, and a file that must be there.
LIBCS = {
    "glibc 2.17": ("x86_64-linux-gnu.2.17", (), "/lib64/ld-linux-x86-64.so.2"),
    "musl": ("x86_64-linux-musl", (), "/lib/ld-musl-x86_64.so.1"),
    "glibc 2.17 on ARM": (
        "aarch64-linux-gnu.2.17",
        ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"),
        "/usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1",
    ),
}


def _link(triple: str, loader: str, folder: Path) -> None:
    """Makes ``main`` of PROGRAM."""
    musl = triple.endswith("musl")
    (folder / "main.c").write_text(PROGRAM + (START if musl else ""))
    cache = {name: str(folder / "zig") for name in ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR")}
    compiler = str(compiler_path())
    build = [compiler, "cc", "-target", triple, f"-I{NATIVE_DIR}", "main.c"]
    if musl:  # else its whole libc would be compiled
        steps = [
            [*build, "-O1", "-fPIE", "-fno-sanitize=all", "-c", "-o", "main.o"],
            [compiler, "ld.lld", "-pie", "-dynamic-linker", loader, "main.o", loader, "-o", "main"],
        ]
    else:
        steps = [[*build, "-dynamic", "-o", "main", "-ldl"]]
    for step in steps:
        subprocess.run(step, cwd=folder, check=True, env={**os.environ, **cache})


@pytest.mark.slow
@needs("qemu-aarch64")
@pytest.mark.parametrize("name", LIBCS)
def test_programs_of_each_libc_load_it(name: str, tmp_path: Path) -> None:
    triple, starter, loader = LIBCS[name]
    if not os.path.exists(loader) or (starter and shutil.which(starter[0]) is None):
        pytest.skip(f"{loader} is not installed")
    model, target = torch.nn.Linear(8, 4), f"{triple.split('-')[0]}-linux-gnu"
    made = cuvil.compile(model, (torch.randn(2, 8),), target=target, verify=False)
    library = made.save(tmp_path / "net.so")[0]
    weights = tmp_path / "net.weights"
    _link(triple, loader, tmp_path)
    command = [*starter, "./main", str(library), str(weights), str(weights.stat().st_size)]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    variant, *numbers = ran.stdout.split()
    assert variant in {v.name for v in TARGETS[target].variants}
    x = torch.arange(16).reshape(2, 8) / 8 - 1
    want = model(x).detach().numpy().ravel()
    np.testing.assert_allclose(np.array(numbers, np.float32), want, rtol=1e-5, atol=1e-6)
