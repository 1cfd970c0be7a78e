"""All ONNX files of silero-vad: branches three deep, and a rate of samples that is an input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import cuvil
from cuvil.errors import InputError, ShapeConstraintError
from tests.models.judge import assert_close

# Small probabilities are far off in onnxruntime itself, whose sigmoid is exact to 1e-7 or so.
PROBABILITY = 3e-7
FOLDER = Path("silero-vad", "silero_vad", "data")
BOTH_RATES = ("silero_vad.onnx", "silero_vad_op18_ifless.onnx")
ONE_RATE = ("silero_vad_16k_op15.onnx", "silero_vad_half.onnx", "silero_vad_16k_sequence.onnx")
CALLS = (
    (1, 576, 16000), (1, 288, 8000), (2, 576, 16000), (3, 256, 8000), (1, 512, 16000),
    (1, 1088, 16000), (1, 576, 8000), (2, 40, 16000),
)  # fmt: skip


def _inputs(session: Any, batch: int, length: int, rate: int) -> dict[str, Any]:
    rng = np.random.default_rng(batch + length)
    shapes = {"input": (batch, length), "state": (2, batch, 128)}
    shapes |= {"h": (1, 1, 128), "c": (1, 1, 128)}
    made = {
        name: (rng.standard_normal(shape) * 0.3).astype(np.float32)
        for name, shape in shapes.items()
    }
    made["sr"] = np.array(rate, np.int64)
    return {spec.name: made[spec.name] for spec in session.get_inputs()}


@pytest.mark.parametrize(
    "name", [BOTH_RATES[0], *(pytest.param(n, marks=pytest.mark.slow) for n in (
        *BOTH_RATES[1:], *ONE_RATE,
    ))],
)  # fmt: skip
def test_every_file_at_every_rate(name: str, models_folder: Path) -> None:
    path = models_folder / FOLDER / name
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options)
    right, refused = set(), 0
    with cuvil.compile(path, threads=1, verify=False) as artifact:
        report = cuvil.verify(artifact)  # finds inputs for both rates
        assert report.passed and len(report.cases) > (name in BOTH_RATES)
        for call in CALLS:
            inputs = _inputs(session, *call)
            try:
                want = session.run(None, inputs)
            except Exception:  # where onnxruntime fails in the middle of a branch, we do before
                with pytest.raises((ShapeConstraintError, InputError)):
                    artifact.run(inputs)
                refused += 1
                continue
            got = artifact.run(inputs)
            first, *rest = [got[spec.name] for spec in session.get_outputs()]
            np.testing.assert_allclose(first, want[0], rtol=1e-5, atol=PROBABILITY)
            assert_close(rest, want[1:], f"{name} {call}")
            right.add(call[2])
    assert refused and (right == {16000, 8000} or name == ONE_RATE[2])
