"""A wrong kernel is named, wherever its error shows at the end; a right one isn't."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import cuvil
from cuvil.errors import InputError
from cuvil.ir.clone import clone_module
from cuvil.ir.core import Module, Weight
from cuvil.passes import pipeline
from cuvil.passes.pipeline import lower
from cuvil.reference.interpreter import run_module
from cuvil.rewrite.rewriter import Rewriter
from cuvil.runtime.artifact import Artifact
from cuvil.verify.layerwise import expose
from tests.frontends.onnx_models import FLOAT, floats, model, node
from tests.verify.models import compiled, inputs
from tests.verify.test_bisect import _Off, broken


@pytest.fixture(scope="module")
def right() -> Artifact:
    return compiled()


def _perturbed(module: Module, shape: tuple[int, ...], by: float) -> Module:
    """A copy in which one element of the weight of that shape is off by ``by``."""
    copy = clone_module(module)
    rewriter = Rewriter(copy.main)
    (found,) = [
        op for op in copy.main.body.ops if op.short == "constant" and op.type.shape == shape
    ]
    array = found.attrs["value"].array.copy()
    array.flat[0] += by
    rewriter.set_attrs(found, value=Weight(array, "perturbed"))
    return copy


def test_a_right_artifact_passes_with_every_kernel_listed(right: Artifact) -> None:
    report = cuvil.verify(right, layerwise=True)
    assert report.passed and report.first_layer is None
    assert [layer.kernel for layer in report.layers] == list(range(len(report.layers)))
    assert len(report.layers) == len(right.manifest.extra["kernels"])
    assert {"matmul", "tanh"} <= {op for layer in report.layers for op in layer.ops}
    assert all(layer.error.scaled < 1e-5 for layer in report.layers)
    assert report.verdict == "every kernel agrees with the reference"


@pytest.mark.parametrize(
    ("shape", "kernel", "place"), [((6, 5), 0, "first"), ((5, 3), -1, "second")]
)
def test_a_perturbed_weight_names_its_kernel_alone(
    right: Artifact, shape: tuple[int, ...], kernel: int, place: str
) -> None:
    source = right.source
    right.source = replace(source, build=lambda fused: source.build(_perturbed(fused, shape, 0.05)))
    try:
        report = cuvil.verify(right, layerwise=True)
    finally:
        right.source = source
    wrong = [layer for layer in report.layers if not layer.passed]
    assert wrong == [report.layers[kernel]]  # later kernels are right on the inputs they get
    assert report.first_layer is wrong[0] and place in wrong[0].place
    assert "matmul" in wrong[0].ops and wrong[0].error.excess > 0
    assert not report.passed and "first: kernel" in str(report)
    assert report.verdict == "a kernel computes something else than its operators mean"
    assert report.as_dict()["layers"][kernel]["passed"] is False


def test_a_wrong_rewrite_is_told_from_a_wrong_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "_CLEAN", [*pipeline._CLEAN, broken])
    report = cuvil.verify(compiled(verify=False), layerwise=True)
    assert not report.passed and report.first_layer is None
    assert report.verdict.startswith("every kernel is right; a rewrite changes the program")


def test_exposing_keeps_the_program_and_its_kernels(right: Artifact) -> None:
    fused = lower(clone_module(right.source.module), "fused")
    exposed = expose(fused)
    before = [op.attrs.get("name") for op in fused.main.body.ops if op.short == "fused"]
    after = [op.attrs.get("name") for op in exposed.module.main.body.ops if op.short == "fused"]
    assert before == after and len(exposed.results) >= len(before)
    (expected,) = run_module(fused, inputs())
    found = run_module(exposed.module, inputs())
    np.testing.assert_array_equal(found[0], expected)
    assert exposed.module.main.output_names[1:] == [name for *_, name in exposed.results]


def test_without_its_source_an_artifact_is_not_verified(right: Artifact) -> None:
    source, right.source = right.source, None
    try:
        with pytest.raises(InputError, match="loaded without its source"):
            cuvil.verify(right, layerwise=True)
    finally:
        right.source = source


def test_memory_that_kernels_share_is_told_from_kernels(right: Artifact) -> None:
    """Kernel by kernel all is right, but what a plain build gives is not."""
    source = right.source

    def build(fused: Module) -> object:
        built = source.build(fused)
        return built if len(fused.main.outputs) > 1 else _Off(built)

    right.source = replace(source, build=build, run=source.run)
    run = right.run
    try:
        right.run = lambda given: {k: v + 1 for k, v in run(given).items()}  # type: ignore
        report = cuvil.verify(right, layerwise=True)
    finally:
        right.source = source
        del right.run
    assert not report.passed and report.first_layer is None
    assert report.verdict.endswith("kernels overwrite each other's memory")


def test_a_kernel_that_leaves_elements_out_is_seen(right: Artifact) -> None:
    source = right.source

    class Lazy:
        """Writes nothing to its second output."""

        def __init__(self, built: Artifact) -> None:
            self.built = built
            self.manifest, self.outputs = built.manifest, built.outputs
            self.symbols_for = built.symbols_for

        def run(self, given: object, out: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            return {**self.built.run(given), "0.0": out["0.0"]}  # type: ignore[dict-item]

    right.source = replace(source, build=lambda fused: Lazy(source.build(fused)))
    try:
        report = cuvil.verify(right, layerwise=True)
    finally:
        right.source = source
    assert report.first_layer is not None and report.first_layer.kernel == 0


def test_rounding_that_grows_is_no_kernels_fault() -> None:
    """sin(1e6 * x @ w): an error of one rounding in the product is one of order 1 in the sine."""
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("Mul", ["a", "large"], ["b"]),
        node("Sin", ["b"], ["y"]),
    ]
    constants = {"w": floats(64, 16), "large": np.float32(1e6)}
    proto = model(nodes, {"x": (FLOAT, [8, 64])}, ["y"], constants)
    artifact = cuvil.compile(proto, verify=False, cache=False, enable_fusion=False, threads=1)
    report = cuvil.verify(artifact, atol=1e-5, layerwise=True)
    assert not report.passed and report.first_layer is None
    assert "ill-conditioned" in report.verdict
