"""Models of further packages against onnxruntime; int8 ones by the error that it has itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import cuvil
from cuvil.frontends.onnx import capture_onnx
from cuvil.reference.interpreter import run_module
from tests.models.judge import assert_alive, assert_close, run, scaled_error
from tools import zoo

Array = np.ndarray[Any, Any]
QUICK = ("dnsmos-model_v8", "tashkeel-rawi_v2")
NAMES = [
    pytest.param(e.name, marks=() if e.name in QUICK else pytest.mark.slow) for e in zoo.MORE
]


def _session(model: Any) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def _loaded(name: str, folder: Path) -> Any:
    model = zoo.find(name).make(folder)
    return onnx.load(model) if isinstance(model, Path) else model


@pytest.mark.parametrize("name", NAMES)
def test_every_size_is_right(name: str, models_folder: Path) -> None:
    entry, proto = zoo.find(name), _loaded(name, models_folder)
    session, module = _session(proto), capture_onnx(proto)
    with cuvil.compile(proto, verify=False, threads=1) as artifact:
        for sizes in entry.sizes:
            inputs = entry.inputs(sizes)
            got, theirs = run(artifact, inputs), session.run(None, dict(inputs))
            if name.startswith("tashkeel"):
                _no_worse(got, theirs, run_module(module, inputs), f"{name} {sizes}")
            else:
                assert_alive(theirs, f"{name} {sizes}")
                assert_close(got, theirs, f"{name} {sizes}")


def _no_worse(got: list[Array], theirs: list[Array], exact: list[Array], what: str) -> None:
    """Where activations are rounded to bytes on the way, a last bit may turn into a step: then
    onnxruntime's own distance from the exact evaluation is what ours is held to."""
    for a, b, c in zip(got, theirs, exact, strict=True):
        if c.dtype.kind != "f":
            np.testing.assert_array_equal(a, b, err_msg=what)
            continue
        error, known = scaled_error(a, c), scaled_error(b, c)
        assert error <= max(known, 1e-5), f"{what}: {error:.1e}, onnxruntime's {known:.1e}"
        assert 1e-5 < known < 0.1, f"{what}: onnxruntime is {known:.1e} off"
        assert (a.argmax(-1) == b.argmax(-1)).mean() > 0.95, f"{what}: other labels"


def test_a_reading_is_chosen_from_words(models_folder: Path) -> None:
    """pyopenjtalk-plus: words become columns of ones, and trees choose."""
    folder = models_folder / "pyopenjtalk-plus/pyopenjtalk/yomi_model"
    encoder, trees = (onnx.load(folder / f"nani_{name}.onnx") for name in ("enc", "model"))
    known = [
        [word.decode() for word in attribute.strings]
        for node in encoder.graph.node
        if node.op_type == "OneHotEncoder"
        for attribute in node.attribute
        if attribute.name == "cats_strings"
    ]
    assert len(known) == 6
    rng = np.random.default_rng(0)
    for rows in (1, 7):
        words = [[str(rng.choice([*each, "unknown"])) for each in known] for _ in range(rows)]
        inputs = {"input": np.array(words, dtype=object)}
        with cuvil.compile(encoder, verify=False, threads=1) as artifact:
            (columns,) = run(artifact, inputs)
        np.testing.assert_array_equal(columns, _session(encoder).run(None, inputs)[0])
        inputs = {"input": columns}
        with cuvil.compile(trees, verify=False, threads=1) as artifact:
            assert_close(run(artifact, inputs), _session(trees).run(None, inputs), f"{rows} words")
