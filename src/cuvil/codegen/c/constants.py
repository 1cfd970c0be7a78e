"""Constants as C arrays, in the layout that their kernels read, each once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from cuvil.codegen.c.spelling import c_text
from cuvil.codegen.kernel import storage
from cuvil.codegen.literals import literal
from cuvil.ir.core import Weight
from cuvil.ir.types import DType, dtype_of

Array = np.ndarray[Any, Any]
PANEL = 16
"""Columns of a panel (CUVIL_PANEL of library/tile.c)."""
READABLE = 1 << 20
"""Elements in all beyond which arrays are written as bytes, which compilers read much faster."""
_LINE = 96
_ESCAPES = [f"\\{i:03o}" for i in range(256)]


def panels(matrix: Array) -> Array:
    """[K, N] in panels of columns, [K][width] one after the other; the last has as many columns as
    are left."""
    found = [matrix[:, at : at + PANEL].reshape(-1) for at in range(0, matrix.shape[1], PANEL)]
    return np.concatenate(found) if found else np.zeros(0, matrix.dtype)


def byte_squares(matrix: Array) -> Array:
    """An i8 matrix [K, N] in squares of four, [N / 4][K / 4][4][4]: four rows of a column are side
    by side. Zeros stand behind the last row and column."""
    k, n = matrix.shape
    whole = np.zeros((-(-k // 4) * 4, -(-n // 4) * 4), matrix.dtype)
    whole[:k, :n] = matrix
    apart = whole.reshape(len(whole) // 4, 4, whole.shape[1] // 4, 4)
    return np.ascontiguousarray(apart.transpose(2, 0, 3, 1)).reshape(-1)


def _matrices(array: Array, pack: Callable[[Array], Array] = panels) -> Array:
    matrices = array.reshape(prod(array.shape[:-2]), *array.shape[-2:])  # an empty one too
    empty = np.zeros(0, array.dtype)
    return np.concatenate([pack(m) for m in matrices]) if len(matrices) else empty


def _bytes(array: Array) -> Array:
    return _matrices(array, byte_squares)


def _turned(array: Array) -> Array:
    return _matrices(np.swapaxes(array, -1, -2))


def _conv_matrices(array: Array, groups: int) -> Array:
    """[O, C/groups, *kernel] to [groups, taps, C/groups, O/groups]."""
    outputs, channels, *kernel = array.shape
    apart = array.reshape(groups, outputs // groups, channels, prod(kernel))
    return apart.transpose(0, 3, 2, 1)


def _conv(array: Array, groups: int) -> Array:
    """[O, C/groups, *kernel]: a group's panels over (taps, channels)."""
    apart = _conv_matrices(array, groups)
    count, taps, channels, outputs = apart.shape
    return _matrices(apart.reshape(count, taps * channels, outputs))


def _conv_bytes(array: Array, groups: int, patched: int) -> Array:
    """The same of bytes: each tap's channels lie in fours, or those of all taps (``patched``)."""
    apart = _conv_matrices(array, groups)
    count, taps, channels, outputs = apart.shape
    if not patched:  # the channels of a tap start with a new four
        room = -channels % 4
        apart = np.pad(apart, ((0, 0), (0, 0), (0, room), (0, 0)))
        channels += room
    return _matrices(apart.reshape(count, taps * channels, outputs), byte_squares)


def _conv_transpose(array: Array, groups: int) -> Array:
    """[C, O/groups, *kernel]: the same."""
    channels, outputs, *kernel = array.shape
    each, taps = channels // groups, prod(kernel)
    apart = array.reshape(groups, each, outputs, taps).transpose(0, 3, 1, 2)
    return _matrices(apart.reshape(groups, taps * each, outputs))


def _depthwise(array: Array) -> Array:
    """[C, 1, *kernel] to [taps, C]."""
    return np.ascontiguousarray(array.reshape(array.shape[0], prod(array.shape[1:])).T)


def _gru(array: Array) -> Array:
    """Recurrent weights [D, 3 * H, H]: the panels of z and r, then those of h."""
    hidden = array.shape[-1]
    parts = [p for r in array for p in (r[: 2 * hidden], r[2 * hidden :])]
    return np.concatenate([panels(p.T) for p in parts])


def _biases(array: Array, apart: int) -> Array:
    """Two biases of a recurrent layer, [D, 2 * rows], summed; the last ``apart`` of the second are
    not added, but stand behind: [D, rows + apart]."""
    first, second = np.split(array.astype(np.float64), 2, axis=-1)
    rows = first.shape[-1]
    last = second[:, rows - apart :].copy()
    second[:, rows - apart :] = 0
    return np.concatenate([first + second, last], axis=-1).astype(array.dtype)


_PACKERS: Mapping[str, Callable[..., Array]] = {
    "": lambda array: array.reshape(-1),
    "panels": _matrices,
    "turned": _turned,
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "depthwise": _depthwise,
    "bytes": _bytes,
    "conv_bytes": _conv_bytes,
    "gru": _gru,
    "biases": _biases,
}


@dataclass
class Constants:
    """The arrays of a model by name, in the order in which they were asked for."""

    arrays: dict[str, Array] = field(default_factory=dict)
    _names: dict[tuple[str, str], str] = field(default_factory=dict)

    def name(self, weight: Weight, packing: str = "") -> str:
        """The C name of a constant, packed as ``packing[:arguments]`` says."""
        key = (weight.digest, packing)
        if key not in self._names:
            kind, *arguments = packing.split(":")
            array = _PACKERS[kind](weight.array, *map(int, arguments))
            self._names[key] = f"weight_{len(self.arrays)}"
            self.arrays[self._names[key]] = np.ascontiguousarray(array).reshape(-1)
        return self._names[key]

    @property
    def bytes(self) -> int:
        """Of all arrays."""
        return sum(a.nbytes for a in self.arrays.values())

    def declared(self) -> str:
        """Declarations alone, for code that is to be measured without the data."""
        return "".join(
            f"extern {_type(a)} {name}[{max(a.size, 1)}];\n" for name, a in self.arrays.items()
        )

    def defined(self) -> str:
        """The arrays with their data."""
        large = sum(a.size for a in self.arrays.values()) > READABLE
        write = _as_bytes if large else _as_numbers
        text = "".join(write(name, array) for name, array in self.arrays.items())
        if not large or not self.arrays:
            return text
        order = "\n".join((
            "#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__",
            '#error "the weights are written for little-endian machines"', "#endif", "",
        ))  # fmt: skip
        return order + text


def _type(array: Array) -> str:
    return f"const {storage(dtype_of(array.dtype))}"


def _numbers(array: Array, dtype: DType) -> Iterator[str]:
    if dtype.kind == "f" and dtype.size == 2:
        yield from (f"0x{int(x):04x}" for x in array.view(np.uint16))
        return
    for x in array.tolist():
        if isinstance(x, float) and np.isfinite(x):
            text = repr(x) if dtype.size == 8 else str(np.float32(x))
            dotted = text if any(c in text for c in ".e") else text + ".0"
            yield dotted + ("f" if dtype.size == 4 else "")
        elif isinstance(x, int) and not isinstance(x, bool) and x != -(1 << 63):
            suffix = "" if dtype.size < 8 else ("ull" if dtype.kind == "u" else "ll")
            yield f"{x}{'u' if dtype.name == 'u32' else suffix}"
        else:
            yield "1" if x is True else "0" if x is False else c_text(literal(x, dtype), dtype)


def _as_numbers(name: str, array: Array) -> str:
    if array.size == 0:
        return f"static {_type(array)} {name}[1] = {{0}};\n"
    lines, line = [], " "
    for text in _numbers(array, dtype_of(array.dtype)):
        if len(line) + len(text) + 2 > _LINE:
            lines.append(line)
            line = " "
        line += f" {text},"
    lines.append(line)
    body = "\n".join(lines)
    return f"static {_type(array)} {name}[{array.size}] = {{\n{body}\n}};\n"


def _as_bytes(name: str, array: Array) -> str:
    """A union whose first member is a string: it has the bytes, the second one the numbers."""
    if array.size < 64:
        return _as_numbers(name, array)
    data = array.tobytes()
    step = 64
    lines = "\n".join(
        '  "' + "".join(_ESCAPES[b] for b in data[i : i + step]) + '"'
        for i in range(0, len(data), step)
    )
    ctype = storage(dtype_of(array.dtype))
    return (
        f"static const union {{\n  char bytes[{len(data) + 1}];\n  {ctype} numbers[{array.size}];\n"
        f"}} {name}_data = {{\n{lines}\n}};\n#define {name} {name}_data.numbers\n"
    )
