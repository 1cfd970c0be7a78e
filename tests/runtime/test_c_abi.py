"""The C entry points: what they accept, and what each refusal says."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cuvil.build.driver import compiler_path
from cuvil.build.library import NATIVE_DIR, build_library
from cuvil.codegen.abi import emit_abi
from cuvil.ir.signature import Signature, TensorSpec
from cuvil.ir.types import DTYPES
from cuvil.options import Options
from cuvil.package.hash64 import hash64
from tests.runtime import sample as samples
from tests.runtime.dltensor import CModel, DataType, DLTensor, pointers, tensor

(OK, ARGUMENT, DEVICE, DTYPE, RANK, SHAPE, CONSTRAINT, LAYOUT, DATA, OVERLAP, WORKSPACE, WEIGHTS,
 CPU) = range(13)  # fmt: skip
W = samples.WEIGHTS[:8]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("libraries")


@pytest.fixture(scope="module")
def scale(folder: Path) -> CModel:
    made = CModel(samples.library(samples.scale()), folder, samples.WEIGHTS)
    assert made.create() == OK
    return made


@pytest.fixture(scope="module")
def pair(folder: Path) -> CModel:
    made = CModel(samples.library(samples.pair()), folder)
    assert made.create() == OK, made.status.text
    return made


def arrays(batch: int = 3) -> tuple[np.ndarray, np.ndarray]:
    x = np.arange(batch * 8, dtype=np.float32).reshape(batch, 8)
    return x, np.full_like(x, -1)


def test_runs_and_describes_itself(scale: CModel) -> None:
    x, y = arrays()
    assert scale.run([tensor(x)], [tensor(y)]) == OK
    np.testing.assert_array_equal(y, 2 * x + W)
    assert scale.c.cuvil_abi_version() == 2
    assert scale.c.cuvil_weights_size() == 64
    told = json.loads(scale.c.cuvil_describe())
    assert told["inputs"] == [{"dtype": "f32", "name": "x", "shape": ["batch", 8]}]
    data = bytes(range(100))
    assert scale.c.cuvil_hash64(data, ctypes.c_uint64(100), ctypes.c_uint64(5)) == hash64(data, 5)


def test_sizes_and_output_shapes(pair: CModel) -> None:
    inputs = [tensor(np.zeros((3, 9), np.float32)), tensor(np.zeros(4, np.int64))]
    assert pair.workspace_size(inputs) == (OK, 128)
    assert pair.output_shape(inputs, 0) == (OK, [3] + [-7] * 15)
    assert pair.output_shape(inputs, 1) == (OK, [4] + [-7] * 15)
    for index in (-1, 2):
        code, _ = pair.output_shape(inputs, index)
        assert code == ARGUMENT and f"there is no output {index}" in pair.status.text


def altered(change: Callable[[DLTensor], None]) -> DLTensor:
    made = tensor(arrays()[0])
    change(made)
    return made


def _null_shape(t: DLTensor) -> None:
    t.shape = None


def _null_data(t: DLTensor) -> None:
    t.data = None


def _misaligned(t: DLTensor) -> None:
    t.byte_offset = 2


def _gpu(t: DLTensor) -> None:
    t.device.device_type = 2


def _lanes(t: DLTensor) -> None:
    t.dtype = DataType(2, 32, 4)


BAD_INPUTS: dict[str, tuple[Callable[[], DLTensor | None], int, int, str]] = {
    "null tensor": (lambda: None, ARGUMENT, -1, "input 'x': the tensor pointer is null"),
    "null shape": (lambda: altered(_null_shape), ARGUMENT, -1, "'x': the shape pointer is null"),
    "device": (lambda: altered(_gpu), DEVICE, -1, "input 'x' is on device type 2"),
    "f64": (
        lambda: tensor(np.zeros((3, 8))), DTYPE, -1,
        "input 'x' has DLPack type code 2, 64 bits, 1 lanes; expected f32 (code 2, 32 bits",
    ),
    "i32": (lambda: tensor(np.zeros((3, 8), np.int32)), DTYPE, -1, "type code 0, 32 bits"),
    "lanes": (lambda: altered(_lanes), DTYPE, -1, "4 lanes; expected f32"),
    "rank": (lambda: tensor(np.zeros(8, np.float32)), RANK, -1, "has rank 1; expected 2"),
    "fixed dim": (
        lambda: tensor(np.zeros((3, 9), np.float32)), SHAPE, 1,
        "input 'x', axis 1 is 9; expected 8",
    ),
    "over the bound": (
        lambda: tensor(np.zeros((65, 8), np.float32)), SHAPE, 0,
        "input 'x', axis 0 (batch) is 65; allowed is 0 <= batch <= 64",
    ),
    "negative dim": (
        lambda: tensor(arrays()[0], shape=(-1, 8)), SHAPE, 0, "axis 0 (batch) is -1; allowed",
    ),
    "huge dim": (
        lambda: tensor(arrays()[0], shape=(-(1 << 63), 8)), SHAPE, 0, "is -9223372036854775808;",
    ),
    "strides": (
        lambda: tensor(arrays()[0], strides=(1, 3)), LAYOUT, 1,
        "input 'x', axis 1 has stride 3; expected 1 (row major)",
    ),
    "padded rows": (lambda: tensor(arrays()[0], strides=(16, 1)), LAYOUT, 0, "has stride 16"),
    "null data": (lambda: altered(_null_data), DATA, -1, "'x': the data pointer is null"),
    "misaligned": (lambda: altered(_misaligned), DATA, -1, "'x': data is not aligned to 4 bytes"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_INPUTS)
def test_bad_inputs(scale: CModel, case: str) -> None:
    make, code, axis, message = BAD_INPUTS[case]
    _, y = arrays()
    before = y.copy()
    assert scale.run([make()], [tensor(y)]) == code
    status = scale.status
    assert (status.code, status.index, status.axis) == (code, 0, axis)
    assert message in status.text
    np.testing.assert_array_equal(y, before)


def test_bad_outputs(scale: CModel) -> None:
    x, y = arrays()
    cases: list[tuple[DLTensor | None, int, str]] = [
        (None, ARGUMENT, "output 'y': the tensor pointer is null"),
        (tensor(np.zeros((3, 8))), DTYPE, "output 'y' has DLPack type code 2, 64 bits"),
        (tensor(np.zeros((4, 8), np.float32)), SHAPE, "axis 0 is 4; expected batch = 3"),
        (tensor(np.zeros((3, 8, 1), np.float32)), RANK, "has rank 3; expected 2"),
        (tensor(y, strides=(1, 3)), LAYOUT, "output 'y', axis 1 has stride 3"),
        (tensor(x), OVERLAP, "output 'y' shares memory with input 'x'"),
        (tensor(np.zeros((2, 8), np.float32), shape=(3, 7)), SHAPE, "axis 1 is 7; expected 8"),
    ]
    for output, code, message in cases:
        assert scale.run([tensor(x)], [output]) == code
        assert scale.status.index == 1 and message in scale.status.text


def test_what_is_allowed(scale: CModel) -> None:
    x, y = arrays(1)
    free = tensor(x, strides=(12345, 1))  # the stride of an axis of size 1 says nothing
    assert scale.run([free], [tensor(y)]) == OK, scale.status.text
    np.testing.assert_array_equal(y, 2 * x + W)
    block = np.zeros(4 + 8, np.float32)
    block[4:] = 7
    shifted = tensor(block, shape=(1, 8))
    shifted.byte_offset = 16
    assert scale.run([shifted], [tensor(y)]) == OK
    np.testing.assert_array_equal(y[0], 14 + W)
    empty, nothing = (tensor(np.zeros((0, 8), np.float32), strides=(3, 3)) for _ in range(2))
    empty.data = nothing.data = None
    assert scale.run([empty], [nothing]) == OK, scale.status.text


def test_counts_nulls_and_workspace(pair: CModel) -> None:
    a, b = tensor(np.ones((2, 3), np.float32)), tensor(np.ones(1, np.int64))
    rows, b2 = tensor(np.zeros(2, np.float32)), tensor(np.zeros(1, np.int64))
    assert pair.run([a, b], [rows, b2], workspace=64) == OK
    assert rows.keep.tolist() == [3, 3] and b2.keep.tolist() == [10]
    cases = [
        (lambda: pair.run([a], [rows, b2]), ARGUMENT, "has 2 inputs; 1 were given"),
        (lambda: pair.run([a, b], [rows]), ARGUMENT, "has 2 outputs; 1 were given"),
        (lambda: pair.run([a, b], [rows, b2], 63), WORKSPACE, "has 63 bytes; 64 are needed"),
        (lambda: pair.run([a, b], [rows, b2], 64, 8), WORKSPACE, "not aligned to 64 bytes"),
        (lambda: pair.run([a, b], [rows, rows]), DTYPE, "output 'b2' has DLPack type code 2"),
    ]
    for call, code, message in cases:
        assert call() == code and message in pair.status.text
    status = ctypes.byref(pair.status)
    assert pair.c.cuvil_run(None, None, 0, None, 0, None, ctypes.c_uint64(0), status) == ARGUMENT
    assert pair.status.text == "the model is null"
    none = ctypes.c_uint64(0)
    assert pair.c.cuvil_run(pair.model, None, 2, None, 2, None, none, status) == ARGUMENT
    assert pair.status.text == "the model has 2 inputs; the array of inputs is null"
    assert pair.c.cuvil_run(pair.model, None, 3, None, 2, None, none, status) == ARGUMENT
    assert pair.status.text == "the model has 2 inputs; 3 were given"
    given = pointers([a, b])
    assert pair.c.cuvil_run(pair.model, given, 2, None, 2, None, none, status) == ARGUMENT
    assert pair.status.text == "the model has 2 outputs; the array of outputs is null"
    assert pair.c.cuvil_workspace_size(pair.model, None, 2, None, status) == ARGUMENT
    assert pair.c.cuvil_create(None, ctypes.c_uint64(0), None, None, status) == ARGUMENT
    pair.c.cuvil_destroy(None)


def test_constraints(pair: CModel) -> None:
    def given(n: int, s: int, width: int | None = None) -> list[DLTensor | None]:
        width = 2 * s + 1 if width is None else width
        return [tensor(np.ones((n, width), np.float32)), tensor(np.ones(s, np.int64))]

    assert pair.workspace_size(given(1, 6))[0] == OK
    for inputs, code, message in (
        (given(13, 6), CONSTRAINT, "n * s <= 64 (from the user) does not hold: n = 13, s = 6"),
        (given(1, 5), CONSTRAINT, "s != 5 (from slice at model.py:12)"),
        (given(0, 1), SHAPE, "axis 0 (n) is 0; allowed is 1 <= n"),
        (given(2, 3, 5), SHAPE, "input 'a', axis 1 is 5; expected 2 * s + 1 = 7"),
    ):
        assert pair.workspace_size(inputs)[0] == code and message in pair.status.text
    large = [tensor(np.ones(1, np.float32), shape=(1 << 31, 3)), tensor(np.ones(1, np.int64))]
    assert pair.workspace_size(large)[0] == SHAPE and "2147483648" in pair.status.text


def test_an_index_outside(folder: Path) -> None:
    model = CModel(samples.library(samples.lookup()), folder, W)
    assert model.create() == OK
    y = tensor(np.zeros(2, np.float32))
    assert model.run([tensor(np.array([2, 7]))], [y]) == OK and list(y.keep) == [W[2], W[7]]
    assert model.run([tensor(np.array([2, -9]))], [y]) == 14
    assert model.status.text == "the model looked up index -9 in a dimension of size 8"
    assert model.run([tensor(np.array([0, 1]))], [y]) == OK and model.status.text == ""


# (type code, bits) of dlpack.h 1.1; elements of less than 8 bits are padded to a byte each.
_DLPACK = {
    "f64": (2, 64), "f32": (2, 32), "f16": (2, 16), "bf16": (4, 16), "i64": (0, 64), "i32": (0, 32),
    "i16": (0, 16), "i8": (0, 8), "u64": (1, 64), "u32": (1, 32), "u16": (1, 16), "u8": (1, 8),
    "bool": (6, 8), "f8e4m3fn": (10, 8), "f8e4m3fnuz": (11, 8), "f8e5m2": (12, 8),
    "f8e5m2fnuz": (13, 8), "f8e8m0fnu": (14, 8), "f6e2m3fn": (15, 6), "f6e3m2fn": (16, 6),
    "f4e2m1fn": (17, 4), "i4": (0, 4), "u4": (1, 4), "i2": (0, 2), "u2": (1, 2),
}  # fmt: skip


def test_every_dtype_has_its_dlpack_code(folder: Path) -> None:
    model = CModel(samples.library(samples.copies()), folder)
    assert model.create() == OK

    def typed(data: np.ndarray, dtype: str) -> DLTensor:
        made = tensor(data, shape=(3,))
        made.dtype = DataType(*_DLPACK[dtype], 1)
        return made

    blocks = [np.arange(24, dtype=np.uint8) for _ in _DLPACK]
    results = [np.zeros(24, np.uint8) for _ in _DLPACK]
    assert list(_DLPACK) == list(DTYPES)
    inputs = [typed(b, d) for b, d in zip(blocks, _DLPACK, strict=True)]
    outputs = [typed(b, d) for b, d in zip(results, _DLPACK, strict=True)]
    assert model.run(inputs, outputs) == OK, model.status.text
    for given, found, dtype in zip(blocks, results, DTYPES.values(), strict=True):
        size = 3 * dtype.size
        assert found[:size].tolist() == given[:size].tolist() and not found[size:].any()
    inputs[-1].dtype = DataType(1, 8, 1)
    assert model.run(inputs, outputs) == DTYPE
    assert "expected u2 (code 1, 2 bits, 1 lane)" in model.status.text


def test_weights_are_checked(folder: Path) -> None:
    made = CModel(samples.library(samples.scale()), folder, samples.WEIGHTS)
    for size, offset, message in (
        (32, 0, "the weights have 32 bytes; 64 are needed"),
        (64, 4, "the weights are not aligned to 64 bytes"),
    ):
        assert made.create(size, offset) == WEIGHTS
        assert message in made.status.text and not made.model.value


def test_a_cpu_without_a_feature_is_refused(folder: Path) -> None:
    made = samples.scale()
    tables = emit_abi(made.manifest)
    head = "constexpr CpuBit cpu_bits[] = {\n"
    rows = tables.index(head) + len(head)
    end = tables.index("\n", rows)
    # CPUID leaf 0x7fff exists nowhere.
    fake = '    {"made_up", 0x7fffu, 0, 0, 0},'
    library = build_library(
        {"tables": tables[:rows] + fake + tables[end:], "model": made.code},
        samples.native_target(), Options(samples.cache_dir()),
    )  # fmt: skip
    model = CModel(library, folder, samples.WEIGHTS)
    assert model.create() == CPU
    assert model.status.text == "this CPU lacks made_up, which the model was compiled for"


def test_messages_are_cut_between_characters(folder: Path) -> None:
    for pad in range(4):
        name = "x" * pad + "é漢" * 60
        made = samples.sample(
            f"long{pad}", Signature((TensorSpec(name, "f32", (2,)),), ()), "  (void)rc;"
        )
        model = CModel(samples.library(made), folder)
        assert model.create() == OK
        assert model.run([tensor(np.zeros(3, np.float32))], []) == SHAPE
        text = model.status.text  # raises if a character was cut in two
        assert 230 < len(text.encode()) < 240 and ("input '" + name).startswith(text)


PROGRAM = r"""
#include <dlfcn.h>
#include <stdio.h>
#include "abi.h"

int main(int argc, char** argv) {
  static _Alignas(64) float weights[16];
  float x[2][8], y[2][8];
  int64_t shape[2] = {2, 8};
  for (int i = 0; i < 16; ++i) weights[i] = (float)i, x[i / 8][i % 8] = (float)(100 * i);
  void* library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : 0;
  if (!library) return fprintf(stderr, "%s\n", dlerror()), 1;
  __typeof__(cuvil_create)* create = (__typeof__(cuvil_create)*)dlsym(library, "cuvil_create");
  __typeof__(cuvil_run)* run = (__typeof__(cuvil_run)*)dlsym(library, "cuvil_run");
  __typeof__(cuvil_destroy)* destroy = (__typeof__(cuvil_destroy)*)dlsym(library, "cuvil_destroy");
  cuvil_model* model;
  cuvil_status status;
  if (create(weights, sizeof weights, 0, &model, &status)) return puts(status.message), 2;
  DLTensor in = {x, {1, 0}, 2, {2, 32, 1}, shape, 0, 0}, out = in;
  out.data = y;
  const DLTensor *inputs[] = {&in};
  DLTensor *outputs[] = {&out};
  if (run(model, inputs, 1, outputs, 1, 0, 0, &status)) return puts(status.message), 3;
  for (int i = 0; i < 16; ++i) printf("%g ", y[i / 8][i % 8]);
  in.dtype.bits = 64;
  printf("| %d %s\n", run(model, inputs, 1, outputs, 1, 0, 0, &status), status.message);
  destroy(model);
  return dlclose(library);
}
"""


def test_a_c_program(folder: Path) -> None:
    library = folder / "scale.so"
    library.write_bytes(samples.library(samples.scale()))
    (folder / "program.c").write_text(PROGRAM)
    environment = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(folder / "zig"),
                   "ZIG_LOCAL_CACHE_DIR": str(folder / "zig")}  # fmt: skip
    subprocess.run(
        [str(compiler_path()), "cc", "-std=gnu11", "-O1", "-Wall", "-Werror", "-I",
         str(NATIVE_DIR), "program.c", "-o", "program"],
        cwd=folder, env=environment, check=True,
    )  # fmt: skip
    done = subprocess.run(
        [str(folder / "program"), str(library)], capture_output=True, text=True, check=True
    )
    numbers, _, refusal = done.stdout.partition(" | ")
    assert [float(n) for n in numbers.split()] == [200 * i + i % 8 for i in range(16)]
    assert refusal.startswith("3 input 'x' has DLPack type code 2, 64 bits")
