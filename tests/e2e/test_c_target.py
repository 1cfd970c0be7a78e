"""The target c: verified against the source model, without warnings, within a budget."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cuvil
from cuvil.api.c_backend import bytes_of
from cuvil.errors import InputError, ShapeConstraintError, TargetError, UnsupportedOpError
from cuvil.runners.built import Built
from tests.e2e.c_models import Convolutions, Encoder, keyword_spotting, mlp, small_lstm

ARM = ("-target", "thumb-freestanding-eabihf")
ZIG = (sys.executable, "-m", "ziglang", "cc")
COMPILERS: dict[str, tuple[str, ...]] = {
    "gcc": ("gcc", "-O2"),
    "gcc, this CPU": ("gcc", "-O3", "-march=native"),
    "clang": (*ZIG, "-O1"),
    "cortex_m4": (*ZIG, "-Os", *ARM, "-mcpu=cortex_m4+vfp4d16sp"),
    "cortex_m7": (*ZIG, "-O2", *ARM, "-mcpu=cortex_m7+fp_armv8d16"),
    "cortex_m0": (*ZIG, "-Os", "-target", "thumb-freestanding-eabi", "-mcpu=cortex_m0"),
}
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-c")


def _built(model: torch.nn.Module, *inputs: torch.Tensor, **options: Any) -> Built:
    made = cuvil.compile(model.eval(), inputs, target="c", cache=False, **options)
    assert isinstance(made, Built)
    return made


def _compile(compiler: Sequence[str], source: Path) -> None:
    made = source.with_suffix(".o")
    command = [*compiler, *STRICT, str(source), "-o", str(made)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]


@pytest.mark.parametrize(
    "make", [mlp, keyword_spotting, small_lstm], ids=["mlp", "keyword_spotting", "lstm"]
)
def test_small_models_compile_without_warnings(make: Any, tmp_path: Path) -> None:
    model, x = make()
    built = _built(model, x)  # verified
    with torch.no_grad():
        expected = model.double()(x.double()).numpy()
    np.testing.assert_allclose(built(x.numpy()), expected, rtol=1e-5, atol=1e-6)
    source, header = built.save(tmp_path / "net.c")
    assert header == tmp_path / "net.h"
    assert '#include "net.h"' in source.read_text()
    for name, compiler in COMPILERS.items():
        if not name.startswith("gcc") or shutil.which("gcc"):
            _compile(compiler, source)


def test_layers_of_many_kinds_agree(tmp_path: Path) -> None:
    built = _built(Convolutions(), torch.randn(2, 3, 20, 20))
    _compile(COMPILERS["clang"], built.save(tmp_path / "net.c")[0])
    built = _built(Encoder(), torch.randint(0, 50, (2, 9)))
    _compile(COMPILERS["clang"], built.save(tmp_path / "net.c")[0])


def test_symbolic_sizes_are_arguments() -> None:
    model, x = mlp()
    built = _built(model, x, dynamic_dims={"input": {0: cuvil.Dim("batch", min=1, max=8)}})
    text = bytes(built.package.parts["model.h"]).decode()
    assert "int sequential_run(ptrdiff_t batch, const float *input, float *output);" in text
    assert "#define SEQUENTIAL_OUTPUT_SIZE(batch) ((batch) * 10)" in text
    for batch in (1, 5, 8):
        given = torch.randn(batch, 16)
        with torch.no_grad():
            expected = model(given).numpy()
        np.testing.assert_allclose(built(given.numpy()), expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(ShapeConstraintError):
        built(np.ones((9, 16), np.float32))


def test_a_symbolic_size_needs_a_maximum() -> None:
    model, x = mlp()
    with pytest.raises(ShapeConstraintError, match="'batch' has no maximum") as caught:
        _built(model, x, dynamic_dims=["batch"])
    assert "max=" in caught.value.hint


def test_an_index_outside_its_table_gives_a_status() -> None:
    built = _built(Encoder(), torch.randint(0, 50, (1, 4)))
    with pytest.raises(InputError, match="an index in the data"):
        built(np.full((1, 4), 50))


def test_over_a_budget_the_largest_parts_are_named() -> None:
    model, x = mlp()
    with pytest.raises(TargetError, match="bytes of ram; the budget is 256") as caught:
        _built(model, x, options={"ram": 256})
    assert "matmul_add_max" in str(caught.value)
    with pytest.raises(TargetError, match=r"bytes of flash .*; the budget is 1024") as caught:
        _built(model, x, options={"flash": "1k"})
    assert "weight_0" in str(caught.value)
    memory = _built(model, x, options={"ram": "1k", "flash": "16k"}).manifest.extra["memory"]
    assert 0 < memory["ram"] <= 1024 and memory["weights"] < memory["flash"] <= 16384
    with pytest.raises(InputError, match="ram is 'big'"):
        _built(model, x, options={"ram": "big"})
    with pytest.raises(InputError, match="no budget of memory"):
        cuvil.compile(model, (x,), options={"ram": 1024})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("0", "ram is '0', and no model fits into 0 bytes"), (0, "ram is 0, and no model fits"),
        ("-4k", "no model fits into -4096 bytes"), ("1.5", "ram is '1.5', which is 1.5 bytes"),
        ("0.3k", "which is 307.2 bytes"), ("inf", "ram is 'inf'"), ("nan", "ram is 'nan'"),
        ("1e400", "ram is '1e400'"), ("", "ram is ''"), ("k", "ram is 'k'"),
    ],
)  # fmt: skip
def test_a_budget_is_a_whole_number_of_bytes(given: object, words: str) -> None:
    with pytest.raises(InputError) as caught:
        bytes_of(given, "ram")
    assert words in str(caught.value) and "64k" in caught.value.hint


def test_units_of_a_budget() -> None:
    sizes = {"1.5k": 1536, "64KB": 65536, " 2 MiB ": 2 << 20, "0.5g": 1 << 29, 1024: 1024, 2.0: 2}
    assert [bytes_of(text, "flash") for text in sizes] == list(sizes.values())


def test_an_arena_beyond_all_addresses_is_refused_with_its_largest_parts() -> None:
    model, x = mlp()
    with pytest.raises(TargetError, match="budget is 2147483647, what one object") as caught:
        _built(model, x, dynamic_dims={"input": {0: cuvil.Dim("batch", max=10**8)}})
    assert "matmul_add_max" in str(caught.value)


def test_all_that_c_has_no_kernel_for_is_listed() -> None:
    class Both(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.svd(x)[1] + torch.lgamma(x[0])

    with pytest.raises(UnsupportedOpError) as caught:
        _built(Both(), torch.eye(4))
    assert {n.op for n in caught.value.nodes} >= {"cuvil.svd"}
    assert "lgamma" in str(caught.value)


def test_the_same_model_gives_the_same_bytes() -> None:
    first, second = (_built(*keyword_spotting(), verify=False) for _ in range(2))
    assert bytes(first.package.library) == bytes(second.package.library)
    assert dict(first.package.parts) == dict(second.package.parts)


TWO = """#include <stdio.h>
#include "first.h"
#include "second.h"
int main(void) {
  static float x[FIRST_INPUT_SIZE], y[FIRST_OUTPUT_SIZE], z[SECOND_OUTPUT_SIZE];
  for (int i = 0; i < FIRST_INPUT_SIZE; ++i) x[i] = (float)i / 8;
  if (first_run(x, y) != FIRST_OK || second_run(x, z) != SECOND_OK) return 1;
  for (int i = 0; i < FIRST_OUTPUT_SIZE; ++i) printf("%.9g %.9g\\n", y[i], z[i]);
  return 0;
}
"""


def test_two_models_of_one_class_are_linked_under_names_of_their_own(tmp_path: Path) -> None:
    expected, sources = [], []
    for seed, name in enumerate(("first", "second")):
        model, x = mlp()
        with torch.no_grad():
            for weight in model.parameters():
                weight.mul_(1 + seed)
            given = torch.arange(x.numel()).reshape(x.shape) / 8
            expected.append(model.double()(given.double()).numpy().ravel())
        # The cache may be used: it tells names apart.
        built = cuvil.compile(
            model.float().eval(), (x,), target="c", verify=False, options={"name": name}
        )
        assert built.manifest.name == name
        sources.append(built.save(tmp_path / f"{name}.c")[0])
        assert "sequential" not in "".join(f.read_text() for f in tmp_path.glob("*.[ch]")).lower()
    again = cuvil.compile(model, (x,), target="c", verify=False, options={"name": "third"})
    assert again.manifest.name == "third"
    (tmp_path / "main.c").write_text(TWO)
    program = tmp_path / "two"
    command = [*ZIG, "-O1", *map(str, sources), str(tmp_path / "main.c"), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    said = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    found = np.array([line.split() for line in said.splitlines()], np.float64)
    np.testing.assert_allclose(found, np.stack(expected, 1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["", "9lives", "key words", "_kws", "kws_", "größe", "a-b", 7])
def test_a_name_is_a_c_identifier(name: object) -> None:
    with pytest.raises(InputError, match="the option name is .*\n.*give an identifier as C"):
        cuvil.compile(*mlp(), target="c", options={"name": name})


def test_a_native_artifact_is_saved_as_c(tmp_path: Path) -> None:
    model, x = mlp()
    files = cuvil.compile(model, (x,)).save(tmp_path / "net.c")
    assert [f.name for f in files] == ["net.c", "net.h"]
    assert "sequential_run" in files[0].read_text()


def test_steps_in_python_are_refused(tmp_path: Path) -> None:
    import onnx

    helper = onnx.helper
    text = helper.make_tensor_value_info("s", onnx.TensorProto.STRING, [2])
    kept = helper.make_tensor_value_info("k", onnx.TensorProto.BOOL, [2])
    one = helper.make_tensor("one", onnx.TensorProto.STRING, [1], [b"a"])
    graph = helper.make_graph([helper.make_node("Equal", ["s", "one"], ["k"])], "g", [text], [kept])
    graph.initializer.append(one)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])
    with pytest.raises(TargetError, match="steps that run in Python"):
        cuvil.compile(model, target="c", cache=False, verify=False)
