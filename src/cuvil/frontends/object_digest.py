"""A digest of Python objects by what they hold, for knowing a model again in another process.

Two objects with the same digest behave the same as far as Python can tell; what can't be told
(state in C, open files, locks) raises Unknown. Better refused than mistaken: a digest that misses
something would hand out the artifact of another model.
"""

from __future__ import annotations

import collections
import enum
import functools
import hashlib
import logging
import re
import types
import typing
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import numpy as np

_CONSTANTS = (type(None), bool, int, float, complex, str, type(Ellipsis), type(NotImplemented))
_MAPPINGS = (dict, collections.OrderedDict, collections.defaultdict, types.MappingProxyType)
_ARGUMENTS = (slice, range)
# Types without a name of their own; a class of the user's may be called the same.
_FIELD = type(collections.namedtuple("_Field", ["field"]).field)
_CACHED = type(functools.lru_cache(repr))


class Unknown(Exception):
    """Something whose behaviour can't be told from outside; the message says what and where."""


class CodeDigest(Protocol):
    """How functions, classes and modules enter a digest (see code_digest.py)."""

    def add_function(self, digest: ObjectDigest, function: types.FunctionType) -> None: ...
    def add_class(self, digest: ObjectDigest, cls: type) -> None: ...
    def add_module(self, digest: ObjectDigest, module: types.ModuleType) -> None: ...
    def check_pure(self, digest: ObjectDigest, module: str, name: str) -> None: ...


Handler = Callable[["ObjectDigest", Any], bool]


class ObjectDigest:
    """Collects values; :meth:`hexdigest` is the digest of all of them in order.

    ``handler`` sees every value first and says whether it dealt with it. Shared and cyclic
    references are recorded as such.
    """

    def __init__(self, code: CodeDigest, handler: Handler | None = None) -> None:
        self._hash = hashlib.sha256()
        self._code = code
        self._handler = handler
        self._seen: dict[int, int] = {}
        self._places: dict[int, int] = {}
        self._alive: list[Any] = []
        self._path: list[str] = []

    def hexdigest(self) -> str:
        """64 hex digits."""
        return self._hash.hexdigest()

    def token(self, *parts: str | bytes) -> None:
        """Texts as they are; no two different sequences of calls feed the same bytes."""
        feed = [len(parts).to_bytes(4, "little")]
        for part in parts:
            data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
            feed += (len(data).to_bytes(8, "little"), data)
        self._hash.update(b"".join(feed))

    def refuse(self, what: str) -> Unknown:
        """The error to raise for something here."""
        return Unknown(f"{'.'.join(self._path) or 'the model'}: {what}")

    def same(self, address: int, label: str) -> None:
        """Something known by an address: which of those seen before it is, if any."""
        number = self._places.setdefault(address, len(self._places))
        self.token(label, str(number if address else 0))

    def add(self, value: Any, place: str = "") -> None:
        """Any value. Raises Unknown, saying where, for one that can't be told."""
        kind = type(value)
        if kind in _CONSTANTS:
            self.token(kind.__name__, repr(value))
            return
        if kind is bytes:
            self.token("bytes", value)
            return
        number = self._seen.get(id(value))
        if number is not None:
            self.token("again", str(number))
            return
        self._seen[id(value)] = len(self._seen)
        self._alive.append(value)  # an id is only good while its object lives
        self._path.append(place)
        try:
            if self._handler is None or not self._handler(self, value):
                self._add_new(value, kind)
        except RecursionError:
            raise self.refuse("nested too deeply") from None
        self._path.pop()

    def add_items(self, label: str, items: Iterable[tuple[Any, Any]]) -> None:
        """Pairs in order."""
        pairs = list(items)
        self.token(label, str(len(pairs)))
        for key, value in pairs:
            self.add(key, "key")
            self.add(value, str(key)[:40])

    def _add_new(self, value: Any, kind: type) -> None:
        if kind in (list, tuple, collections.deque):
            self.token(kind.__name__, str(len(value)))
            for index, item in enumerate(value):
                self.add(item, str(index))
        elif kind in _MAPPINGS:
            self.add_items(kind.__name__, value.items())
            if kind is collections.defaultdict:
                self.add(value.default_factory, "default_factory")
        elif kind in (set, frozenset):
            self.token(kind.__name__, *sorted(self._plain(item) for item in value))
        elif isinstance(value, types.FunctionType):
            self._code.add_function(self, value)
        elif isinstance(value, type):
            self._code.add_class(self, value)
        elif kind is types.ModuleType:
            self._code.add_module(self, value)
        elif isinstance(value, (np.ndarray, np.generic, np.dtype)):
            self._add_numpy(value)
        elif not self._add_callable(value, kind):
            self._add_instance(value, kind)

    def _plain(self, item: Any) -> str:
        if type(item) in _CONSTANTS:
            return f"{type(item).__name__} {item!r}"
        if type(item) is tuple:
            return f"({', '.join(self._plain(part) for part in item)})"
        raise self.refuse(f"a set holds a {type(item).__qualname__}")

    def _add_numpy(self, value: Any) -> None:
        if isinstance(value, np.dtype):
            self.token("dtype", repr(value))
            return
        if type(value) is not np.ndarray and not isinstance(value, np.generic):
            raise self.refuse(f"a {type(value).__qualname__} is no plain array")
        array = np.asarray(value)
        if array.dtype.hasobject:
            raise self.refuse("an array of Python objects")
        self.token(type(value).__name__, repr(array.dtype), repr(array.shape), array.tobytes())

    def _add_callable(self, value: Any, kind: type) -> bool:
        """Methods, descriptors, partials, builtins and other small things of Python's own."""
        if kind is types.MethodType:
            self._parts("method", value.__func__, value.__self__)
        elif kind is functools.partial:
            self._parts("partial", value.func, value.args, value.keywords, value.__dict__)
        elif kind in (staticmethod, classmethod):
            self._parts(kind.__name__, value.__func__)
        elif kind is property:
            self._parts("property", value.fget, value.fset, value.fdel)
        elif kind is functools.cached_property:
            self._parts("cached_property", value.func, value.attrname)
        elif kind is weakref.ref:
            self._parts("weakref", value())
        elif kind is types.CellType:
            try:
                self._parts("cell", value.cell_contents)
            except ValueError:
                self.token("empty cell")
        elif kind in (types.BuiltinFunctionType, types.BuiltinMethodType):
            owner = value.__self__
            if owner is not None and not isinstance(owner, (types.ModuleType, type)):
                raise self.refuse(f"{value.__qualname__} bound to a {type(owner).__qualname__}")
            self._code.check_pure(self, str(value.__module__), value.__qualname__)
            self.token("builtin", str(value.__module__), value.__qualname__)
        elif kind in (
            types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType,
            types.MemberDescriptorType, types.ClassMethodDescriptorType,
        ):  # fmt: skip
            owner = value.__objclass__
            self.token("slot", owner.__module__, owner.__qualname__, value.__name__)
        elif kind is re.Pattern:
            self._parts("pattern", value.pattern, value.flags)
        elif kind in _ARGUMENTS:
            self._parts(kind.__name__, value.start, value.stop, value.step)
        elif isinstance(value, enum.Enum):
            self._parts("enum", kind, value.name, value._value_)
        elif kind is _FIELD:
            self._parts("field", value.__reduce__()[1])
        elif isinstance(value, logging.Logger):
            self.token("logger")
        elif isinstance(value, types.GenericAlias):
            self._parts("alias", value.__origin__, value.__args__)
        elif kind is _CACHED:
            self._parts("cached", value.__wrapped__)
        elif getattr(typing, kind.__name__, None) is kind or isinstance(value, types.UnionType):
            self.token("typing", repr(value))
        else:
            return False
        return True

    def _parts(self, label: str, *parts: Any) -> None:
        self.token(label, str(len(parts)))
        for part in parts:
            self.add(part, label)

    def _add_instance(self, value: Any, kind: type) -> None:
        """An object of a class written in Python: its class, and all the state it has."""
        slots = [
            name for cls in kind.__mro__ for name, item in vars(cls).items()
            if isinstance(item, types.MemberDescriptorType)
        ]  # fmt: skip
        known = (list, tuple, *_MAPPINGS, *_CONSTANTS)
        base: Any = next((c for c in kind.__mro__ if c in known), object)
        if not _holds_no_more(kind, base, len(slots)):
            raise self.refuse(f"a {kind.__module__}.{kind.__qualname__} has state of its own")
        self.token("object", str(len(slots)))
        self.add(kind, "class")
        for name in slots:
            if hasattr(value, name):
                self.add(getattr(value, name), name)
            else:
                self.token("unset", name)
        if base in _MAPPINGS:
            self.add_items("items", base.items(value))
        elif base in (list, tuple):
            self._parts("items", *base.__iter__(value))
        elif base is not object:
            self.token(base.__name__, base.__repr__(value))
        state: Mapping[str, Any] = getattr(value, "__dict__", {})
        self.add_items("state", state.items())


def _holds_no_more(kind: type, base: type, slots: int) -> bool:
    """Whether instances are as large as Python's own class statement makes them: no C state."""
    names = [f"s{i}" for i in range(slots)]
    names += ["__dict__"] if kind.__dictoffset__ != base.__dictoffset__ else []
    names += ["__weakref__"] if kind.__weakrefoffset__ != base.__weakrefoffset__ else []
    try:
        plain = type("plain", (base,), {"__slots__": tuple(names)})
    except TypeError:  # slots on a base of variable size
        plain = type("plain", (base,), {})
    same = (plain.__basicsize__, plain.__itemsize__) == (kind.__basicsize__, kind.__itemsize__)
    return same and bool(kind.__flags__ & (1 << 9))  # Py_TPFLAGS_HEAPTYPE
