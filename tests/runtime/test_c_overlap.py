"""What cuvil_run writes shares memory with nothing; what it only reads may."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cuvil.ir.signature import Signature, TensorSpec
from tests.runtime import sample as samples
from tests.runtime.dltensor import CModel, DLTensor, tensor

OK, OVERLAP = 0, 9
ROOM = 64  # bytes of workspace and weights
STEP = 2 * ROOM  # from one block of memory to the next
PLACES = ("weights", "x", "b", "y", "z", "workspace")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> CModel:
    """y[8] = x * b + w and z[8] = x - w, of x that was copied to the workspace."""
    row = ("x", "b"), ("y", "z")
    made = samples.sample(
        "overlap",
        Signature(*(tuple(TensorSpec(name, "f32", (8,)) for name in names) for names in row)),
        """  const float* x = static_cast<const float*>(rc.inputs[0]);
  const float* b = static_cast<const float*>(rc.inputs[1]);
  const float* w = reinterpret_cast<const float*>(rc.weights);
  float* scratch = reinterpret_cast<float*>(rc.workspace);
  for (int64_t i = 0; i < 8; ++i) scratch[i] = x[i];
  for (int64_t i = 0; i < 8; ++i) static_cast<float*>(rc.outputs[0])[i] = scratch[i] * b[i] + w[i];
  for (int64_t i = 0; i < 8; ++i) static_cast<float*>(rc.outputs[1])[i] = scratch[i] - w[i];""",
        workspace="64",
        weights=samples.WEIGHTS.nbytes,
    )
    folder: Path = tmp_path_factory.mktemp("overlap")
    return CModel(samples.library(made), folder, samples.WEIGHTS)


class Memory:
    """Blocks of memory by name, each at its place or ``moved`` to another one's plus an offset."""

    def __init__(self, model: CModel, **moved: tuple[str, int]) -> None:
        size = len(PLACES) * STEP
        raw = np.zeros(size + ROOM, np.uint8)
        start = -raw.__array_interface__["data"][0] % ROOM
        self.raw, self.model = raw[start : start + size], model
        self.at = {name: PLACES.index(name) * STEP for name in PLACES}
        home = dict(self.at)
        self.at |= {name: home[other] + offset for name, (other, offset) in moved.items()}
        self["weights"][:] = samples.WEIGHTS[:8]
        for name in ("x", "b"):
            if name not in moved:
                self[name][:] = np.arange(8) + len(name) + 0.5
        model.weights = self.raw[home["weights"] : home["weights"] + ROOM]
        assert model.create() == OK, model.status.text

    def __getitem__(self, name: str) -> np.ndarray:
        return self.raw[self.at[name] : self.at[name] + 32].view(np.float32)

    def run(self) -> int:
        def of(*names: str) -> list[DLTensor | None]:
            return [tensor(self[name]) for name in names]

        address = self["workspace"].__array_interface__["data"][0]
        return self.model.run(of("x", "b"), of("y", "z"), ROOM, at=address)


def _said(moved: str, other: str) -> str:
    kinds = {"x": "input 'x'", "b": "input 'b'", "y": "output 'y'", "z": "output 'z'"}
    first, second = (kinds.get(name, f"the {name}") for name in (moved, other))
    return f"{first} shares memory with {second}"


REFUSED = [
    *[("workspace", other, 0) for other in ("weights", "x", "b", "y", "z")],
    *[(out, "weights", offset) for out in ("y", "z") for offset in (0, 32, 60)],
    *[(out, other, 28) for out in ("y", "z") for other in ("x", "b")],
    ("z", "y", 4),
]


@pytest.mark.parametrize(("moved", "other", "offset"), REFUSED)
def test_what_is_written_is_alone(model: CModel, moved: str, other: str, offset: int) -> None:
    memory = Memory(model, **{moved: (other, offset)})
    before = memory.raw.copy()
    assert memory.run() == OVERLAP
    assert model.status.text == _said(moved, other)
    order = ["x", "b", "y", "z"]
    tensors = [name for name in (moved, other) if name in order]
    assert model.status.index == (order.index(tensors[0]) if tensors else -1)
    np.testing.assert_array_equal(memory.raw, before)


@pytest.mark.parametrize(
    "moved",
    [
        {},
        {"b": ("x", 0)},
        {"b": ("weights", 0)},
        {"x": ("weights", 0), "b": ("weights", 32)},
        {"y": ("x", 32)},  # beside it
        {"y": ("workspace", 64)},
    ],
)
def test_what_is_read_may_share(model: CModel, moved: dict[str, tuple[str, int]]) -> None:
    memory = Memory(model, **moved)
    x, b, w = memory["x"].copy(), memory["b"].copy(), memory["weights"].copy()
    assert memory.run() == OK, model.status.text
    np.testing.assert_array_equal(memory["y"], x * b + w)
    np.testing.assert_array_equal(memory["z"], x - w)
    np.testing.assert_array_equal(memory["weights"], w)
