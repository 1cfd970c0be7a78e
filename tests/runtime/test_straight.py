"""The straight way of a call: it is taken when it may be, and whatever it leaves is handled."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cuvil.errors import ArtifactError, InputError, ShapeConstraintError
from cuvil.runtime import Artifact, load
from cuvil.runtime.straight import untaken
from tests.runtime import sample as samples

torch = pytest.importorskip("torch")
W = samples.WEIGHTS[:8]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return samples.package(samples.scale(), tmp_path_factory.mktemp("straight"))


@pytest.fixture
def scale(package: Path) -> Iterator[Artifact]:
    """An artifact that was called with arrays and with tensors."""
    with load(package) as artifact:
        for _ in range(2):
            artifact(values(3))
            artifact(torch.from_numpy(values(3)))
        yield artifact


@pytest.fixture
def checked(scale: Artifact, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the way that handles all was given."""
    given: list[Any] = []
    handle = scale._execute_checked

    def recorded(model: Any, args: Any, out: Any) -> Any:
        given.append(args)
        return handle(model, args, out)

    monkeypatch.setattr(scale, "_execute_checked", recorded)
    return given


def values(batch: int) -> np.ndarray:
    return np.random.default_rng(batch).standard_normal((batch, 8)).astype(np.float32)


@pytest.mark.parametrize("made", [lambda x: x, torch.from_numpy], ids=["arrays", "tensors"])
def test_the_ordinary_case_goes_straight(
    scale: Artifact, checked: list[Any], made: Callable[[np.ndarray], Any]
) -> None:
    x = values(3)
    y, by_name = scale(made(x)), scale.run({"x": made(x)})["y"]
    assert checked == [] and type(y) is type(by_name) is type(made(x)) and y is not by_name
    np.testing.assert_array_equal(np.asarray(y), 2 * x + W)
    np.testing.assert_array_equal(np.asarray(by_name), 2 * x + W)


def test_the_first_call_of_a_shape_is_planned_and_the_next_goes_straight(
    scale: Artifact, checked: list[Any]
) -> None:
    for batch, planned in ((5, 1), (5, 1), (6, 2), (5, 2)):
        np.testing.assert_array_equal(scale(values(batch)), 2 * values(batch) + W)
        assert len(checked) == planned


def negated(x: np.ndarray) -> Any:
    """A tensor whose sign is only noted."""
    return torch.from_numpy(np.stack([x, -x], -1)).view(torch.complex64)[..., 0].conj().imag


def misaligned(x: np.ndarray) -> np.ndarray:
    raw = np.zeros(x.nbytes + 1, np.uint8)
    raw[1:] = x.view(np.uint8).reshape(-1)
    return raw[1:].view(np.float32).reshape(x.shape)


class Derived(np.ndarray):
    pass


LEFT: dict[str, Callable[[np.ndarray], Any]] = {
    "strided": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "misaligned": misaligned,
    "byte-swapped": lambda x: x.astype(">f4"),
    "of a derived class": lambda x: x.view(Derived),
    "a transposed tensor": lambda x: torch.from_numpy(np.ascontiguousarray(x.T)).T,
    "a negated tensor": negated,
    "a parameter": lambda x: torch.nn.Parameter(torch.from_numpy(x)),
}


@pytest.mark.parametrize("kind", LEFT)
def test_what_is_out_of_the_ordinary_is_handled(
    scale: Artifact, checked: list[Any], kind: str
) -> None:
    x = values(3)
    y = scale(LEFT[kind](x))
    assert len(checked) == 1
    np.testing.assert_array_equal(np.asarray(y), 2 * x + W)


def sparse(x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is a beta
        return x.to_sparse_csr()


REFUSED: dict[str, tuple[Callable[[np.ndarray], Any], type[Exception], str]] = {
    "an array's dtype": (lambda x: x.astype(float), InputError, "dtype float64; expected f32"),
    "a tensor's": (lambda x: torch.from_numpy(x).double(), InputError, "torch.float64; expected"),
    "an array's shape": (lambda x: x[:, :7].copy(), ShapeConstraintError, "is 7"),
    "a tensor's shape": (lambda x: torch.zeros(3, 7), ShapeConstraintError, "is 7"),
    "columns": (lambda x: torch.from_numpy(x).to_sparse(), InputError, "layout torch.sparse_coo"),
    "rows": (lambda x: sparse(torch.from_numpy(x)), InputError, "layout torch.sparse_csr"),
    "opaque": (lambda x: torch.from_numpy(x).to_mkldnn(), InputError, "layout torch._mkldnn"),
    "unstored": (lambda x: torch._efficientzerotensor(x.shape), InputError, "has no memory"),
    "a list": (lambda x: x.tolist(), InputError, "not an array"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refusals_are_those_of_the_first_call(scale: Artifact, package: Path, kind: str) -> None:
    make, error, text = REFUSED[kind]
    with load(package) as fresh, pytest.raises(error, match=text) as first:
        fresh(make(values(3)))
    with pytest.raises(error) as later:
        scale(make(values(3)))
    assert str(later.value) == str(first.value)


def test_a_look_alike_of_an_array_is_no_array(scale: Artifact) -> None:
    class LookAlike:
        __class__ = np.ndarray  # type: ignore[assignment]
        dtype, shape, flags = np.dtype(np.float32), (3, 8), values(3).flags

    with pytest.raises((InputError, TypeError, ValueError)):
        scale(LookAlike())


def test_outputs_lie_in_cpu_memory_whatever_the_default_device(
    scale: Artifact, package: Path
) -> None:
    x = torch.from_numpy(values(3))
    with load(package) as fresh, torch.device("meta"):
        for artifact in (fresh, scale, scale):
            y = artifact(x)
            assert y.is_cpu
            np.testing.assert_array_equal(y.numpy(), 2 * values(3) + W)


def test_several_inputs_and_outputs(tmp_path: Path) -> None:
    with load(samples.package(samples.pair(), tmp_path)) as artifact:
        for n, s in ((3, 2), (3, 2), (3, 2), (4, 0), (4, 0), (4, 0)):
            a = np.random.default_rng(n).standard_normal((n, 2 * s + 1)).astype(np.float32)
            b = np.arange(s, dtype=np.int64)
            for made in (lambda x: x, torch.from_numpy):
                rows, tens = artifact(made(a), made(b))
                assert type(rows) is type(tens) is type(made(a))
                np.testing.assert_allclose(np.asarray(rows), a.sum(1), rtol=1e-5, atol=1e-5)
                np.testing.assert_array_equal(np.asarray(tens), b * 10)
            mixed, _ = artifact(a, torch.from_numpy(b))
            np.testing.assert_allclose(np.asarray(mixed), a.sum(1), rtol=1e-5, atol=1e-5)


def test_a_closed_artifact_goes_no_way(scale: Artifact) -> None:
    scale.close()
    assert scale._on_arrays is untaken and scale._on_tensors is untaken
    for value in (values(3), torch.from_numpy(values(3))):
        with pytest.raises(ArtifactError, match="this artifact was closed"):
            scale(value)
