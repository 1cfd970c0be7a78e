"""Models in C on boards with a Cortex-M, as QEMU has them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cuvil.build.driver import compiler_path
from cuvil.runtime.save import save_package

Array = np.ndarray[Any, Any]
MCU = Path(__file__).resolve().parents[2] / "examples" / "mcu"
QEMU = "qemu-system-arm"
INSTRUCTIONS_A_TICK = 40  # one instruction is one nanosecond, the clock has 25 MHz


@dataclass(frozen=True)
class Board:
    """A board by QEMU's name, and the processor as zig spells it."""

    name: str
    cpu: str


M4 = Board("mps2-an386", "cortex_m4+vfp4d16sp")
M7 = Board("mps2-an500", "cortex_m7+fp_armv8d16")


def missing() -> str | None:
    """Why nothing can be run here; None if it can."""
    return None if shutil.which(QEMU) else f"{QEMU} is not installed"


def run_on(
    board: Board, built: Any, inputs: Mapping[str, Array], folder: Path, optimize: str = "-O2"
) -> tuple[list[Array], int]:
    """The outputs of a built model for f32 inputs, and how many instructions the call took."""
    outputs, instructions, _ = measured_on(board, built, inputs, folder, optimize)
    return outputs, instructions


def measured_on(
    board: Board, built: Any, inputs: Mapping[str, Array], folder: Path, optimize: str
) -> tuple[list[Array], int, int]:
    """The same, and how many bytes of the stack below its caller the call wrote to."""
    source, _ = save_package(built.package, folder / "net.c")
    shapes = built.manifest.signature.output_shapes(built.symbols_for(inputs))
    prefix = built.manifest.extra["memory"]["prefix"]
    main = folder / "main.c"
    main.write_text(_main(prefix, list(inputs.values()), shapes))
    program = _linked(board, [main, source, MCU / "board.c"], folder, optimize)
    done = subprocess.run(
        [QEMU, "-M", board.name, "-icount", "shift=0", "-nographic", "-monitor", "none",
         "-serial", "none", "-semihosting-config", "enable=on,target=native",
         "-kernel", str(program)],
        capture_output=True, text=True, check=True, timeout=200,
    )  # fmt: skip
    words = np.array([int(w, 16) for w in (done.stdout + done.stderr).split()], np.uint32)
    sizes = [int(np.prod(s)) for s in shapes]
    parts = np.split(words[:-2].view(np.float32), np.cumsum(sizes)[:-1])
    outputs = [p.reshape(s) for p, s in zip(parts, shapes, strict=True)]
    return outputs, int(words[-2]) * INSTRUCTIONS_A_TICK, int(words[-1])


# The stack is painted before the call, from some words below its pointer on.
_PAINTED = """\
  volatile uint32_t *top;
  __asm__ volatile("mov %0, sp" : "=r"(top));
  volatile uint32_t *const bottom = top - 16384;
  for (volatile uint32_t *p = bottom; p < top - 8; ++p) *p = 0x5a5a5a5au;"""
_FOUND = """\
  volatile uint32_t *lowest = bottom;
  while (*lowest == 0x5a5a5a5au) ++lowest;
  const uint32_t used = (uint32_t)(top - lowest) * 4;"""


def _main(prefix: str, inputs: Sequence[Array], shapes: Sequence[Sequence[int]]) -> str:
    names = [f"in{i}" for i in range(len(inputs))] + [f"out{i}" for i in range(len(shapes))]
    lines = ['#include "board.h"', '#include "net.h"']
    for i, array in enumerate(inputs):
        numbers = ", ".join(f"{float(x)!r}f" for x in array.reshape(-1))
        lines.append(f"static const float in{i}[] = {{{numbers}}};")
    lines += [f"static float out{i}[{int(np.prod(s))}];" for i, s in enumerate(shapes)]
    lines += ["int main(void) {", _PAINTED, "  board_start_clock();"]
    lines.append(f"  const int status = {prefix}_run({', '.join(names)});")
    lines += ["  const uint32_t ticks = board_ticks();", _FOUND]
    for i, shape in enumerate(shapes):
        lines.append(f"  for (int i = 0; i < {int(np.prod(shape))}; ++i) {{")
        lines.append(f"    uint32_t bits;\n    __builtin_memcpy(&bits, &out{i}[i], 4);")
        lines.append("    board_print_word(bits);\n  }")
    told = ["  board_print_word(ticks);", "  board_print_word(used);", "  return status;", "}", ""]
    return "\n".join([*lines, *told])


def _linked(board: Board, sources: Sequence[Path], folder: Path, optimize: str) -> Path:
    objects = []
    for source in sources:
        made = folder / f"{source.stem}.o"
        command = [
            sys.executable, "-m", "ziglang", "cc", "-target", "thumb-freestanding-eabihf",
            f"-mcpu={board.cpu}", optimize, "-g0", "-std=c99", "-ffreestanding", "-Wall",
            "-Wextra", "-Werror", "-I", str(folder), "-I", str(MCU), "-c", str(source),
            "-o", str(made),
        ]  # fmt: skip
        subprocess.run(command, check=True)
        objects.append(str(made))
    program = folder / "net.elf"
    link = [str(compiler_path()), "ld.lld", "-e", "reset", "-T", str(MCU / "mps2.ld")]
    subprocess.run([*link, *objects, "-o", str(program)], check=True)
    return program
