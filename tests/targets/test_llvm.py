"""LLVM IR text: what is promised of it, that LLVM's own tools take it, that it computes."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

import cuvil
from cuvil.build.llvm_text import fault_of
from cuvil.errors import TargetError

_TOOLS = "22"  # the LLVM of ziglang 0.17


class _Net(torch.nn.Module):
    """A convolution, a product, a map and a reduction."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = torch.nn.Conv2d(3, 8, 3)
        self.linear = torch.nn.Linear(288, 16)
        self.norm = torch.nn.LayerNorm(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.conv(x).relu().flatten(1)
        return torch.nn.functional.gelu(self.norm(self.linear(rows)))


EXAMPLE = (torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1)),)


@pytest.fixture(scope="module")
def net() -> _Net:
    return _Net().eval()


@pytest.fixture(scope="module")
def text(net: _Net) -> str:
    return cuvil.dump_ir(net, "llvm", example_inputs=EXAMPLE, target="x86_64_v3")


def _kernel(text: str, name: str) -> str:
    """The functions of a generated kernel."""
    found = re.findall(rf"^define [^\n]*{name}[^\n]*\{{\n.*?^\}}", text, re.DOTALL | re.MULTILINE)
    assert found, name
    return "\n".join(found)


def test_it_is_verified_and_called(net: _Net, tmp_path: Path) -> None:
    built = cuvil.compile(net, EXAMPLE, dynamic_dims=["batch"], target="llvm")
    x = torch.randn(5, 3, 8, 8)
    with torch.no_grad():
        expected = net(x).numpy()
    np.testing.assert_allclose(built(x.numpy()), expected, rtol=1e-4, atol=1e-5)
    files = built.save(tmp_path / "net.ll")
    assert [f.name for f in files] == ["net.ll", "net.weights", "net.h"]


def test_the_core_of_bf16_is_one_unit_too() -> None:
    """No two of its files may give one name to two things."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(4, 32, 1), torch.nn.ReLU6(), torch.nn.Conv2d(32, 32, 3, groups=32),
        torch.nn.Hardswish(), torch.nn.Conv2d(32, 64, 3), torch.nn.Conv2d(64, 64, 3),
        torch.nn.ConvTranspose2d(64, 16, 2, 2), torch.nn.Conv2d(16, 6, 1), torch.nn.Flatten(2),
        torch.nn.TransformerEncoderLayer(1024, 2, 32, batch_first=True), torch.nn.LSTM(1024, 8),
    ).eval()  # fmt: skip
    example = (torch.randn(1, 4, 22, 22),)
    built = cuvil.compile(net, example, target="llvm", precision="bf16")
    with torch.no_grad():
        expected = net(*example)[0].numpy()
    scale = np.abs(expected).max()
    np.testing.assert_allclose(built(example[0].numpy())[0], expected, rtol=0, atol=0.03 * scale)


def test_there_are_no_exceptions_and_no_places_of_this_machine(text: str) -> None:
    assert not re.search(r"\b(invoke|landingpad|resume|personality)\b", text)
    assert str(Path.home()) not in text and "/tmp" not in text and "site-packages" not in text
    assert 'target triple = "x86_64-unknown-linux-gnu"' in text


def test_loops_over_elements_move_vectors() -> None:
    wide = cuvil.dump_ir(
        torch.nn.SiLU(), "llvm", input_shape=("rows", 64), target="x86_64_v3"
    )
    loop = _kernel(wide, "k_silu")
    assert re.search(r"load <8 x float>", loop) and re.search(r"store <8 x float>", loop)


def test_tiles_of_contractions_move_vectors(text: str) -> None:
    tile = _kernel(text, "multiply_rows")
    assert re.search(r"load <8 x float>", tile)
    assert re.search(r"f(mul|add) contract <8 x float>|@llvm\.fm(a|uladd)\.v8f32", tile)


def test_the_text_is_the_same_wherever_it_is_made(
    net: _Net, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUVIL_CACHE_DIR", str(tmp_path / "another cache"))
    assert cuvil.dump_ir(net, "llvm", example_inputs=EXAMPLE, target="x86_64_v3") == text


@pytest.mark.parametrize("target", ["x86_64_v3", "aarch64"])
def test_the_tools_of_llvm_take_it(net: _Net, target: str, tmp_path: Path) -> None:
    tools = [shutil.which(f"{name}-{_TOOLS}") for name in ("opt", "llc")]
    if None in tools:
        pytest.skip(f"the Debian package llvm-{_TOOLS} is not installed")
    built = cuvil.compile(net, EXAMPLE, target=f"llvm-{target}", verify=False)
    source, better = tmp_path / "net.ll", tmp_path / "better.bc"
    built.save(source)
    opt, llc = map(str, tools)
    subprocess.run([opt, "-passes=verify,globaldce", str(source), "-o", str(better)], check=True)
    made = tmp_path / "net.o"
    subprocess.run([llc, "-O1", "--filetype=obj", str(better), "-o", str(made)], check=True)
    assert made.read_bytes()[:4] == b"\x7fELF"


@pytest.mark.parametrize(
    "line",
    [
        "  %3 = invoke i32 @f() to label %a unwind label %b",
        "  invoke void @f()\n          to label %a unwind label %b",
        "  %4 = landingpad { ptr, i32 }",
        "  resume { ptr, i32 } %4",
        "define void @f() personality ptr @g {",
    ],
)
def test_exceptions_are_seen(line: str) -> None:
    assert "has exceptions" in str(fault_of(f"; a comment on invoke\n{line}\n", False))


def test_scalar_tiles_are_seen() -> None:
    scalar = "  %1 = load float, ptr %p\n  %2 = fmul contract float %1, %1\n"
    assert fault_of(scalar, False) is None
    assert "without vectors" in str(fault_of(scalar, True))


def test_there_is_none_for_what_is_no_machine(net: _Net) -> None:
    with pytest.raises(TargetError, match="no LLVM IR for the target onnx"):
        cuvil.dump_ir(net, "llvm", example_inputs=EXAMPLE, target="onnx")


def test_a_library_is_no_text(net: _Net, tmp_path: Path) -> None:
    built = cuvil.compile(net, EXAMPLE, target="llvm-aarch64", verify=False)
    with pytest.raises(TargetError, match="not available for this artifact"):
        built.save(tmp_path / "net.so")


def test_a_library_is_saved_as_text_of_its_own_machine(net: _Net, tmp_path: Path) -> None:
    built = cuvil.compile(net, EXAMPLE, target="aarch64", verify=False)
    built.save(tmp_path / "net.ll")
    assert 'target triple = "aarch64' in (tmp_path / "net.ll").read_text()


def test_a_library_for_several_cpus_has_no_text(net: _Net, tmp_path: Path) -> None:
    built = cuvil.compile(net, EXAMPLE, target="x86_64-linux-gnu", verify=False)
    with pytest.raises(TargetError, match="for one CPU") as caught:
        built.save(tmp_path / "net.ll")
    assert "'llvm-x86_64_v3'" in caught.value.hint
