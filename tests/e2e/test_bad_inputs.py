"""Odd inputs of compiled models: the right answer or a clear error, from Python and from C."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cuvil
from cuvil.errors import InputError, ShapeConstraintError
from cuvil.package.format import open_package
from tests.e2e.models import (
    MAX_SEQ,
    VOCABULARY,
    convnet,
    images,
    transformer,
    transformer_inputs,
)
from tests.runtime.dltensor import CModel, DataType, DLTensor, tensor

Array = np.ndarray[Any, Any]
(OK, ARGUMENT, DEVICE, DTYPE, RANK, SHAPE, CONSTRAINT, LAYOUT, DATA) = range(9)
INDEX = 14


@pytest.fixture(scope="module")
def encoder(packages: dict[str, Path]) -> Iterator[Any]:
    with cuvil.load(packages["transformer"], 1) as artifact:
        yield artifact


@pytest.fixture(scope="module")
def net(packages: dict[str, Path]) -> Iterator[Any]:
    with cuvil.load(packages["convnet"], 1) as artifact:
        yield artifact


def _c_model(path: Path, folder: Path) -> CModel:
    package = open_package(path)
    made = CModel(package.library, folder, np.array(package.weights))
    assert made.create() == OK, made.status.text
    return made


@pytest.fixture(scope="module")
def c_encoder(packages: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> CModel:
    return _c_model(packages["transformer"], tmp_path_factory.mktemp("c"))


@pytest.fixture(scope="module")
def c_net(packages: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> CModel:
    return _c_model(packages["convnet"], tmp_path_factory.mktemp("c"))


def _texts(batch: int = 3, seq: int = 7) -> tuple[Array, Array]:
    ids, mask = transformer_inputs(batch, seq)
    return ids.numpy(), mask.numpy()


def _encoded(ids: Array, mask: Array) -> dict[str, Array]:
    with torch.no_grad():
        out = transformer()(torch.tensor(ids), torch.tensor(mask))
    return {name: value.numpy() for name, value in out.items()}


def _classified(x: Array) -> Array:
    with torch.no_grad():
        return convnet()(torch.tensor(x)).numpy()


def _close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(found), expected, atol=2e-5)


def _strided(a: Array) -> Array:
    wide = np.zeros((*a.shape[:-1], a.shape[-1] * 2), a.dtype)
    wide[..., ::2] = a
    return wide[..., ::2]


def _misaligned(a: Array) -> Array:
    raw = np.zeros(a.nbytes + 1, np.uint8)[1:]
    raw[:] = np.frombuffer(a.tobytes(), np.uint8)
    return raw.view(a.dtype).reshape(a.shape)


def _read_only(a: Array) -> Array:
    out = a.copy()
    out.flags.writeable = False
    return out


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "as it is": lambda a: a,
    "strided": _strided,
    "negative strides": lambda a: a[::-1, ..., ::-1].copy()[::-1, ..., ::-1],
    "Fortran order": np.asfortranarray,
    "misaligned": _misaligned,
    "byte-swapped": lambda a: a.astype(a.dtype.newbyteorder()),
    "read-only": _read_only,
    "a subclass": lambda a: a.view(np.recarray),
}


@pytest.mark.parametrize("kind", LAYOUTS)
def test_any_layout_gives_the_right_answer(encoder: Any, net: Any, kind: str) -> None:
    change = LAYOUTS[kind]
    ids, mask = _texts()
    for arguments in ((change(ids), mask), (ids, change(mask)), (change(ids), change(mask))):
        for name, value in _encoded(ids, mask).items():
            _close(encoder(*arguments)[name], value)
    x = images(3).numpy()
    _close(net(change(x)), _classified(x))


def test_a_repeated_row_gives_the_right_answer(net: Any) -> None:
    x = np.broadcast_to(images(1).numpy(), (4, 3, 16, 16))
    _close(net(x), _classified(x))


def test_tensors_of_any_kind_give_tensors(encoder: Any, net: Any) -> None:
    x = images(3)
    grad = x.clone().requires_grad_()
    for value in (
        grad, torch.nn.Parameter(x), x.transpose(2, 3).contiguous().transpose(2, 3),
        x.to(memory_format=torch.channels_last), torch.zeros(5, 3, 16, 16)[2:].copy_(x),
        torch._neg_view(-x), x.expand(3, 3, 16, 16),
    ):  # fmt: skip
        found = net(value)
        assert type(found) is torch.Tensor and not found.requires_grad
        _close(found, _classified(x.numpy()))
    found = net(x[:1].expand(4, 3, 16, 16))
    _close(found, _classified(np.repeat(x[:1].numpy(), 4, 0)))
    ids, mask = transformer_inputs(2, 5)
    _close(encoder(ids, mask.numpy())["pooled"], _encoded(ids.numpy(), mask.numpy())["pooled"])


def test_an_empty_batch_gives_empty_outputs(encoder: Any, net: Any) -> None:
    found = encoder(*_texts(0, 5))
    assert found["tokens"].shape == (0, 5, 32) and found["pooled"].shape == (0, 32)
    assert net(np.zeros((0, 3, 16, 16), np.float32)).shape == (0, 5)
    assert net(torch.zeros(0, 3, 16, 16)).shape == (0, 5)


def test_special_values_stay_where_they_are(net: Any, c_net: CModel) -> None:
    x = images(4).numpy()
    x[1, 0, 3, 3] = np.nan
    x[2, 1, 5, 5] = np.inf
    x[3, 2, 0, 0] = -np.inf
    expected = _classified(x)
    assert np.isnan(expected[1]).all() and not np.isnan(expected[0]).any()
    y = np.zeros((4, 5), np.float32)
    assert c_net.run([tensor(x)], [tensor(y)]) == OK
    for found in (net(x), y):
        np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
        _close(found, expected)


IDS, MASK = _texts()
BAD: dict[str, tuple[tuple[Any, ...], type[Exception], str]] = {
    "dtype": ((IDS.astype(np.int32), MASK), InputError, "'ids' has dtype int32.*expected i64"),
    "float": ((IDS, MASK.astype(np.float64)), InputError, "'mask' has dtype float64"),
    "bool": ((IDS, MASK > 0), InputError, "'mask' has dtype bool"),
    "objects": ((IDS.astype(object), MASK), InputError, "'ids' has dtype object"),
    "unsigned": ((IDS.astype(np.uint64), MASK), InputError, "'ids' has dtype uint64"),
    "rank 1": ((IDS[0], MASK), ShapeConstraintError, "ids"),
    "rank 3": ((IDS[None], MASK), ShapeConstraintError, "ids"),
    "rank 0": ((IDS[0, 0], MASK), ShapeConstraintError, "ids"),
    "a number": ((3, MASK), InputError, "'ids' is builtins.int"),
    "too long": (_texts(1, MAX_SEQ + 1), ShapeConstraintError, f"seq.*{MAX_SEQ}"),
    "too short": ((IDS[:, :0], MASK[:, :0]), ShapeConstraintError, "seq"),
    "batch differs": ((IDS, MASK[:2]), ShapeConstraintError, "batch|mask"),
    "seq differs": ((IDS, MASK[:, :5]), ShapeConstraintError, "seq|mask"),
    "missing": ((IDS,), InputError, "'mask' is missing"),
    "none": ((), InputError, "missing"),
    "extra": ((IDS, MASK, MASK), InputError, "2 inputs; 3 were given"),
    "None": ((IDS, None), InputError, "'mask' is None; it was an array when"),
    "lists": ((IDS.tolist(), MASK.tolist()), InputError, "'ids' is builtins.list"),
    "text": (("hello", MASK), InputError, "'ids' is builtins.str"),
    "masked": ((np.ma.masked_array(IDS), MASK), InputError, "masked"),
    "tensor dtype": ((torch.tensor(IDS).int(), torch.tensor(MASK)), InputError, "torch.int32"),
    "meta": ((torch.tensor(IDS).to("meta"), MASK), InputError, "on the meta device and has none"),
    "sparse": ((torch.tensor(IDS).to_sparse(), MASK), InputError, "layout"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_inputs_are_refused_by_name(encoder: Any, case: str) -> None:
    arguments, kind, text = BAD[case]
    with pytest.raises(kind, match=text):
        encoder(*arguments)
    _close(encoder(IDS, MASK)["pooled"], _encoded(IDS, MASK)["pooled"])


def test_names_are_checked(encoder: Any) -> None:
    _close(encoder(mask=MASK, ids=IDS)["pooled"], _encoded(IDS, MASK)["pooled"])
    _close(encoder.run({"mask": MASK, "ids": IDS})["pooled"], _encoded(IDS, MASK)["pooled"])
    with pytest.raises(InputError, match="no input 'idz'"):
        encoder(idz=IDS, mask=MASK)
    with pytest.raises(InputError, match="'ids' was given twice"):
        encoder(IDS, ids=IDS)
    with pytest.raises(InputError, match="'mask' is missing"):
        encoder.run({"ids": IDS})


@pytest.mark.parametrize("bad", [-1, VOCABULARY, 1 << 40, -(1 << 62)])
def test_a_token_outside_the_vocabulary(encoder: Any, c_encoder: CModel, bad: int) -> None:
    ids = IDS.copy()
    ids[1, 2] = bad
    with pytest.raises(InputError, match=f"index {bad} in a dimension of size {VOCABULARY}"):
        encoder(ids, MASK)
    with pytest.raises(InputError, match=f"index {bad}"):
        encoder(torch.tensor(ids), torch.tensor(MASK))
    assert _c_run(c_encoder, tensor(ids), tensor(MASK)) == INDEX
    assert str(bad) in c_encoder.status.text and str(VOCABULARY) in c_encoder.status.text
    _close(encoder(IDS, MASK)["pooled"], _encoded(IDS, MASK)["pooled"])
    assert _c_run(c_encoder, tensor(IDS), tensor(MASK)) == OK


def _c_run(model: CModel, *inputs: DLTensor | None) -> int:
    outputs = [np.zeros((3, 7, 32), np.float32), np.zeros((3, 32), np.float32)]
    code = model.run(inputs, [tensor(y) for y in outputs])
    if code == OK:
        for found, expected in zip(outputs, _encoded(IDS, MASK).values()):
            _close(found, expected)
    return code


def _with(array: Array, **fields: Any) -> DLTensor:
    made = tensor(array)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def _strides_of(array: Array) -> DLTensor:
    return tensor(array, strides=[s // array.itemsize for s in array.strides])


C_CASES: dict[str, tuple[Callable[[], tuple[DLTensor | None, ...]], int]] = {
    "right": (lambda: (tensor(IDS), tensor(MASK)), OK),
    "read-only": (lambda: (tensor(_read_only(IDS)), tensor(MASK)), OK),
    "explicit strides": (lambda: (_strides_of(IDS), _strides_of(MASK)), OK),
    "dtype": (lambda: (tensor(IDS.astype(np.int32)), tensor(MASK)), DTYPE),
    "float": (lambda: (tensor(IDS), tensor(MASK.astype(np.float64))), DTYPE),
    "lanes": (lambda: (_with(IDS, dtype=DataType(0, 64, 2)), tensor(MASK)), DTYPE),
    "rank 1": (lambda: (tensor(IDS[0]), tensor(MASK)), RANK),
    "rank 3": (lambda: (tensor(IDS[None]), tensor(MASK)), RANK),
    "rank -1": (lambda: (_with(IDS, ndim=-1), tensor(MASK)), RANK),
    "too long": (lambda: tuple(map(tensor, _texts(3, MAX_SEQ + 1))), SHAPE),
    "too short": (lambda: (tensor(IDS, shape=(3, 0)), tensor(MASK, shape=(3, 0))), SHAPE),
    "negative": (lambda: (tensor(IDS, shape=(-3, 7)), tensor(MASK)), SHAPE),
    "batch differs": (lambda: (tensor(IDS), tensor(MASK[:2])), SHAPE),
    "strided": (lambda: (_strides_of(_strided(IDS)), tensor(MASK)), LAYOUT),
    "Fortran order": (lambda: (_strides_of(np.asfortranarray(IDS)), tensor(MASK)), LAYOUT),
    "negative strides": (lambda: (_strides_of(IDS[::-1]), tensor(MASK)), LAYOUT),
    "misaligned": (lambda: (tensor(_misaligned(IDS)), tensor(MASK)), DATA),
    "null data": (lambda: (_with(IDS, data=None), tensor(MASK)), DATA),
    "null tensor": (lambda: (tensor(IDS), None), ARGUMENT),
    "missing": (lambda: (tensor(IDS),), ARGUMENT),
    "extra": (lambda: (tensor(IDS), tensor(MASK), tensor(MASK)), ARGUMENT),
    "device": (lambda: (_on_device(IDS), tensor(MASK)), DEVICE),
}


def _on_device(array: Array) -> DLTensor:
    made = tensor(array)
    made.device.device_type = 2
    return made


@pytest.mark.parametrize("case", C_CASES)
def test_the_c_entry_says_the_same(c_encoder: CModel, case: str) -> None:
    make, code = C_CASES[case]
    assert _c_run(c_encoder, *make()) == code, c_encoder.status.text
    if code != OK:
        assert c_encoder.status.code == code and c_encoder.status.text
    assert _c_run(c_encoder, tensor(IDS), tensor(MASK)) == OK


def test_the_c_entry_takes_an_empty_batch_and_an_offset(c_net: CModel) -> None:
    empty, none = np.zeros((0, 3, 16, 16), np.float32), np.zeros((0, 5), np.float32)
    assert c_net.run([tensor(empty)], [tensor(none)]) == OK, c_net.status.text
    null = _with(empty, data=None)
    assert c_net.run([null], [_with(none, data=None)]) == OK, c_net.status.text
    x, y = images(3).numpy(), np.zeros((3, 5), np.float32)
    shifted = tensor(x[1:], shape=(2, 3, 16, 16))
    shifted.data, shifted.byte_offset = x.ctypes.data, x[0].nbytes
    assert c_net.run([shifted], [tensor(y[:2])]) == OK
    _close(y[:2], _classified(x[1:]))
    assert (y[2] == 0).all()


def test_a_workspace_that_is_too_small_is_refused(c_encoder: CModel) -> None:
    inputs = [tensor(IDS), tensor(MASK)]
    code, size = c_encoder.workspace_size(inputs)
    assert code == OK and size > 0
    outputs = [np.zeros((3, 7, 32), np.float32), np.zeros((3, 32), np.float32)]
    targets = [tensor(y) for y in outputs]
    assert c_encoder.run(inputs, targets, workspace=size) == OK
    expected = [y.copy() for y in outputs]
    assert c_encoder.run(inputs, targets, workspace=size - 1) == 10
    assert str(size) in c_encoder.status.text
    assert c_encoder.run(inputs, targets, workspace=size, offset=8) == 10
    assert "aligned to 64 bytes" in c_encoder.status.text
    for found, value in zip(outputs, expected):
        np.testing.assert_array_equal(found, value)
