"""How the flat inputs and outputs of a model lie in the user's call and result.

``manifest.call`` is an object with the keys, each optional:

- ``args``: a "tuple" node, one item a positional parameter; ``parameters``: their names
- ``kwargs``: a "dict" node, one item a keyword parameter
- ``defaults``: a "dict" node of "none" and "const" ones: parameters that the model was compiled
  without, each of which a call may still give its default; ``more``: the names of the positional
  ones after ``parameters``
- ``outputs``: the node of the result

A node is ``{"kind": ...}`` with kind "leaf" (``index`` of the input or output), "none", "const"
(``value``), "tuple" or "list" (``items``), "dict" (``keys``, ``items``), or "namedtuple",
"dataclass", "object" (``module``, ``name``, ``fields``, ``items``). A leaf with ``complex`` set is
a complex tensor to the user, whose real and imaginary parts are the last dimension here.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cuvil.errors import ArtifactError, InputError
from cuvil.errors.words import counted, were_given
from cuvil.package.manifest import Manifest
from cuvil.runtime.arrays import complex_of, parts_of

_MAX_DEPTH = 64
_RECORDS = ("namedtuple", "dataclass", "object")
_MISSING: Any = object()


class Record:
    """A read-only stand-in for a class that this process has not imported.

    Values are reached as attributes, by field name in brackets, or by position.
    """

    __slots__ = ("_fields", "_name", "_values")

    def __init__(self, name: str, fields: Sequence[str], values: Sequence[Any]) -> None:
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_fields", tuple(fields))
        object.__setattr__(self, "_values", tuple(values))

    def __getattr__(self, name: str) -> Any:
        fields = object.__getattribute__(self, "_fields")
        if name in fields:
            return object.__getattribute__(self, "_values")[fields.index(name)]
        raise AttributeError(f"{self._name} has no field {name!r}; it has {', '.join(fields)}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{self._name} is read-only")

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            if key not in self._fields:
                raise KeyError(key)
            return self._values[self._fields.index(key)]
        return self._values[key]

    def keys(self) -> tuple[str, ...]:
        """The fields' names."""
        return tuple(self._fields)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        pairs = ", ".join(f"{f}={v!r}" for f, v in zip(self._fields, self._values))
        return f"{self._name}({pairs})"


class CallTree:
    """The nodes of a manifest's ``call``, checked; a part that says nothing special is None."""

    def __init__(
        self, args: Any, kwargs: Any, outputs: Any, parameters: tuple[str, ...], inputs: int,
        defaults: Mapping[str, Any], more: tuple[str, ...],
    ) -> None:  # fmt: skip
        self.args = args
        self.kwargs = kwargs
        self.outputs = outputs
        self.parameters = parameters
        self.defaults = defaults
        self._inputs = inputs
        self._more = more

    @staticmethod
    def read(manifest: Manifest) -> CallTree | None:
        """The manifest's tree, None if it has none. Raises ArtifactError on a malformed one."""
        call = manifest.call
        if call is None:
            return None
        inputs, outputs = len(manifest.inputs), len(manifest.outputs)
        args = call.get("args")
        kwargs = call.get("kwargs")
        result = call.get("outputs")
        names = call.get("parameters") or []
        defaults, more = _defaults_of(call)
        seen: list[int] = []
        for node, kind in ((args, "tuple"), (kwargs, "dict")):
            if node is not None:
                _check(node, inputs, seen, 0)
                if node["kind"] != kind:
                    raise _malformed(f"{kind} expected, not {node['kind']}")
        if (args is not None or kwargs is not None) and sorted(set(seen)) != list(range(inputs)):
            raise _malformed("it does not cover every input")
        if result is not None:
            _check(result, outputs, [], 0)
        if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
            raise _malformed("parameters are not names")
        if kwargs is None and args is not None and _is_flat(args, inputs):
            args = None
            if len(names) != inputs:
                names = []
        if result is not None and _is_plain_result(result, outputs):
            result = None
        return CallTree(args, kwargs, result, tuple(names), inputs, defaults, more)

    @property
    def nested(self) -> bool:
        """Whether inputs must be flattened; otherwise positional arguments are the inputs."""
        return self.args is not None or self.kwargs is not None

    def without_defaults(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], count: int
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """The arguments that the model was compiled with, of which ``count`` are positional.

        Raises InputError where another one isn't the default that the model was compiled with.
        """
        further = dict(zip(self._more, args[count:]))
        if len(args) > count + len(further) or not further.keys() <= self.defaults.keys():
            return args, kwargs
        twice = further.keys() & kwargs.keys()
        if twice:
            raise InputError(f"argument {min(twice)!r} was given twice")
        further |= {name: kwargs[name] for name in kwargs if name in self.defaults}
        for name, value in further.items():
            _flatten(self.defaults[name], value, name, [])
        return args[:count], {name: kwargs[name] for name in kwargs if name not in further}

    def flatten(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The model's inputs in order. Raises InputError where the call doesn't fit."""
        flat: list[Any] = [_MISSING] * self._inputs
        left = dict(kwargs)
        items = self.args["items"] if self.args is not None else []
        if len(args) > len(items):
            raise InputError(
                f"the model takes {counted(len(items), 'positional argument')}; "
                f"{were_given(len(args))}"
            )
        for position, node in enumerate(items):
            name = self.parameters[position] if position < len(self.parameters) else ""
            place = name or f"argument {position}"
            if position < len(args):
                if name and name in left:
                    raise InputError(f"argument {name!r} was given twice")
                _flatten(node, args[position], place, flat)
            elif name and name in left:
                _flatten(node, left.pop(name), place, flat)
            elif _has_leaf(node):
                raise InputError(f"{place} is missing")
        node = self.kwargs or {"keys": [], "items": []}
        for key, item in zip(node["keys"], node["items"]):
            if key in left:
                _flatten(item, left.pop(key), str(key), flat)
            elif _has_leaf(item):
                raise InputError(f"argument {key!r} is missing")
        if left:
            raise InputError(f"there is no argument {sorted(left)[0]!r}")
        return flat

    def rebuild(self, outputs: Sequence[Any]) -> Any:
        """The user's result from the model's outputs in order."""
        if self.outputs is None:
            return outputs[0] if len(outputs) == 1 else tuple(outputs)
        return _rebuild(self.outputs, outputs)


def _defaults_of(call: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The nodes of ``defaults`` by name, and ``more``. Raises ArtifactError if malformed."""
    node, more = call.get("defaults"), call.get("more") or []
    if node is None:
        return {}, ()
    _check(node, 0, [], 0)
    if node["kind"] != "dict" or not isinstance(more, list):
        raise _malformed("the defaults are no dict, or more no list")
    return dict(zip(node["keys"], node["items"])), tuple(more)


def _malformed(why: str) -> ArtifactError:
    return ArtifactError(f"the manifest's call tree is malformed: {why}")


def _check(node: Any, count: int, seen: list[int], depth: int) -> None:
    if not isinstance(node, dict) or depth > _MAX_DEPTH:
        raise _malformed("a node is not an object, or too deep")
    kind = node.get("kind")
    if kind == "leaf":
        index = node.get("index")
        if type(index) is not int or not 0 <= index < count:
            raise _malformed(f"there is no tensor {index!r}")
        seen.append(index)
        return
    if kind in ("none", "const"):
        return
    items = node.get("items")
    if not isinstance(items, list):
        raise _malformed(f"a {kind!r} node has no items")
    if kind == "dict" or kind in _RECORDS:
        keys = node.get("keys" if kind == "dict" else "fields")
        allowed = (str, int) if kind == "dict" else (str,)
        if not isinstance(keys, list) or len(keys) != len(items):
            raise _malformed(f"a {kind!r} node has not one name an item")
        if not all(type(key) in allowed for key in keys) or len(set(keys)) != len(keys):
            raise _malformed(f"a {kind!r} node has bad names")
        if kind in _RECORDS and not all(isinstance(node.get(k), str) for k in ("module", "name")):
            raise _malformed(f"a {kind!r} node does not say its class")
    elif kind not in ("tuple", "list"):
        raise _malformed(f"unknown kind {kind!r}")
    for item in items:
        _check(item, count, seen, depth + 1)


def _is_flat(node: Mapping[str, Any], count: int) -> bool:
    leaves = [{"kind": "leaf", "index": i} for i in range(count)]
    return bool(node["items"] == leaves)


def _is_plain_result(node: Mapping[str, Any], count: int) -> bool:
    if count == 1:
        return node == {"kind": "leaf", "index": 0}
    return node["kind"] == "tuple" and _is_flat(node, count)


def _has_leaf(node: Mapping[str, Any]) -> bool:
    return node["kind"] == "leaf" or any(_has_leaf(item) for item in node.get("items", ()))


def _flatten(node: Mapping[str, Any], value: Any, place: str, flat: list[Any]) -> None:
    kind = node["kind"]
    if kind == "leaf":
        index = node["index"]
        value = parts_of(value) if node.get("complex") else value
        if flat[index] is not _MISSING and flat[index] is not value:
            raise InputError(f"{place} must be the same object as where it was used before")
        flat[index] = value
    elif kind == "none":
        if value is not None:
            raise InputError(f"{place} was None when the model was compiled; it must be None")
    elif kind == "const":
        fixed = node["value"]
        if type(value) is not type(fixed) or value != fixed:
            raise InputError(
                f"{place} was {fixed!r} when the model was compiled; other values need "
                "another compilation"
            )
    elif kind in ("tuple", "list"):
        _flatten_sequence(node, value, place, flat)
    elif kind == "dict":
        _flatten_dict(node, value, place, flat)
    else:
        for name, item in zip(node["fields"], node["items"]):
            part = getattr(value, name, _MISSING)
            if part is _MISSING and isinstance(value, Mapping):
                part = value.get(name, _MISSING)
            if part is _MISSING:
                raise InputError(f"{place} ({type(value).__name__}) has no field {name!r}")
            _flatten(item, part, f"{place}.{name}", flat)


def _flatten_sequence(node: Mapping[str, Any], value: Any, place: str, flat: list[Any]) -> None:
    items = node["items"]
    if not isinstance(value, (tuple, list)):
        raise InputError(
            f"{place} is {type(value).__name__}; expected a {node['kind']} of {len(items)}"
        )
    if len(value) != len(items):
        raise InputError(f"{place} has {counted(len(value), 'item')}; expected {len(items)}")
    for index, (item, part) in enumerate(zip(items, value)):
        _flatten(item, part, f"{place}[{index}]", flat)


def _flatten_dict(node: Mapping[str, Any], value: Any, place: str, flat: list[Any]) -> None:
    if not isinstance(value, Mapping):
        raise InputError(f"{place} is {type(value).__name__}; expected a dict")
    extra = [key for key in value if key not in node["keys"]]
    if extra:
        raise InputError(f"{place} has the unknown key {extra[0]!r}")
    for key, item in zip(node["keys"], node["items"]):
        if key not in value:
            raise InputError(f"{place} has no key {key!r}")
        _flatten(item, value[key], f"{place}[{key!r}]", flat)


def _rebuild(node: Mapping[str, Any], outputs: Sequence[Any]) -> Any:
    kind = node["kind"]
    if kind == "leaf":
        found = outputs[node["index"]]
        return complex_of(found) if node.get("complex") else found
    if kind == "none":
        return None
    if kind == "const":
        return node["value"]
    values = [_rebuild(item, outputs) for item in node["items"]]
    if kind == "tuple":
        return tuple(values)
    if kind == "list":
        return values
    if kind == "dict":
        return dict(zip(node["keys"], values))
    found = _known_class(node)
    if found is None:
        return Record(node["name"].rpartition(".")[2], node["fields"], values)
    if hasattr(found, "n_sequence_fields"):
        return found(values)
    return found(**dict(zip(node["fields"], values)))


def _known_class(node: Mapping[str, Any]) -> Any:
    """The class a node names if it is imported already and plainly holds these fields.

    A file never makes anything be imported, and never calls anything but the constructor of a
    dataclass or of a tuple with fields of these names.
    """
    found: Any = sys.modules.get(node["module"])
    for part in node["name"].split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type):
        return None
    if dataclasses.is_dataclass(found):
        known = {f.name for f in dataclasses.fields(found) if f.init}
        needed = {
            f.name for f in dataclasses.fields(found)
            if f.init and f.default is f.default_factory is dataclasses.MISSING
        }  # fmt: skip
        fits = needed <= set(node["fields"]) <= known
    else:
        # Names of a class of typing or collections; of one that an extension made.
        names = "__match_args__" if hasattr(found, "n_sequence_fields") else "_fields"
        fits = issubclass(found, tuple) and getattr(found, names, None) == tuple(node["fields"])
    return found if fits else None
