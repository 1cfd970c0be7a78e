"""The stack of a model in C: along calls, through pointers, without what was inlined."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from cuvil.build.c_source import CORTEX_M4, compile_c
from cuvil.build.c_stack import STACK_FLAGS, frames_of, stack_bytes
from cuvil.errors import TargetError

SOURCE = """
static inline float relu(float x) { return x < 0 ? 0 : x; }

static inline __attribute__((always_inline)) void leaf(
    const int count, float *x) {
  x[count] = 0;
}

static void step(const struct layer *a,
                 float *x) {
  leaf(1, x);
  *x = a->functions[0](*x);
}

static void layer(const struct layer *a, void (*step)(const struct layer *, float *)) {
  step(a, 0);
}

static void k_layer(float *x) {
  struct layer a;
  a.functions[0] = relu;
  layer(&a, step);
}

static void k_other(float *x) {
  leaf(3, x);
}

int net_run(float *x) {
  k_layer(x);
  k_other(x);
  return 0;
}
"""


def test_the_deepest_path_counts() -> None:
    frames = {"relu": 8, "leaf": 16, "step": 100, "layer": 40, "k_layer": 24, "net_run": 4}
    assert stack_bytes(SOURCE, frames, "net_run") == 4 + 24 + 40 + 100 + 16
    frames["relu"] = 32  # a step may call it
    assert stack_bytes(SOURCE, frames, "net_run") == 4 + 24 + 40 + 100 + 32
    frames["k_other"] = 1000
    assert stack_bytes(SOURCE, frames, "net_run") == 4 + 1000 + 16
    assert stack_bytes(SOURCE, {"net_run": 12}, "net_run") == 12  # all is inlined


def test_frames_are_those_of_the_compiler(tmp_path: Path) -> None:
    text = """
void use(char *);
void large(void) { char x[1000]; use(x); }
void small(void) { char x[8]; use(x); }
int none(int x) { return x + 1; }
"""
    unit = compile_c({"a.c": text}, "a.c", (*CORTEX_M4, *STACK_FLAGS), tmp_path)
    frames = frames_of(unit)
    assert set(frames) == {"large", "small", "none"} and frames["none"] == 0
    assert 1000 <= frames["large"] <= 1032 and 8 <= frames["small"] <= 40


def test_another_file_is_refused() -> None:
    with pytest.raises(TargetError, match="no 32-bit object"):
        frames_of(struct.pack("<5s", b"\x7fELF\x02"))
