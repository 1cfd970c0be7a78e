"""How flat inputs and outputs form the user's nested structures; kept as JSON in the module."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

from cuvil.errors import InvalidModelError
from cuvil.errors.words import kind_of

Json = dict[str, Any]
_RETURN_TYPES = "torch.return_types"  # tuples with names, such as that of topk


def real_view(tensor: torch.Tensor) -> torch.Tensor:
    """A complex tensor with its parts along a new last axis; others as they are."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


class TreeBuilder:
    """Flattens values; ``leaves`` are the tensors in order (complex ones as real views, their
    nodes marked so), ``notes`` what was left out."""

    def __init__(self) -> None:
        self.leaves: list[torch.Tensor] = []
        self.paths: list[tuple[str, ...]] = []
        self.notes: list[str] = []
        self.call_tree: Json = {}

    def flatten(self, value: Any, path: tuple[str, ...] = ()) -> Json:
        """The JSON tree of a value. Raises InvalidModelError for what has no form."""
        if isinstance(value, torch.Tensor):
            self.leaves.append(real_view(value))
            self.paths.append(path)
            leaf: Json = {"kind": "leaf", "index": len(self.leaves) - 1}
            return leaf | {"complex": True} if value.is_complex() else leaf
        if value is None:
            return {"kind": "none"}
        if isinstance(value, (bool, int, float, str)):
            return {"kind": "const", "value": value}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return self._fields("namedtuple", value, value._fields, path)
        if isinstance(value, tuple) and type(value).__module__ == _RETURN_TYPES:
            return self._fields("object", value, type(value).__match_args__, path)
        if isinstance(value, (tuple, list)):
            kind = "tuple" if isinstance(value, tuple) else "list"
            items = [self.flatten(v, (*path, str(i))) for i, v in enumerate(value)]
            return {"kind": kind, "items": items}
        if dataclasses.is_dataclass(value):
            return self._dataclass(value, path)
        if isinstance(value, Mapping):
            items = [self.flatten(v, (*path, str(k))) for k, v in value.items()]
            return {"kind": "dict", "keys": list(value), "items": items}
        return self._other(value, path)

    def _fields(self, kind: str, value: Any, names: Any, path: tuple[str, ...]) -> Json:
        read: Callable[[str], Any] = lambda n: getattr(value, n)  # noqa: E731
        cls = type(value)
        return {
            "kind": kind,
            "module": cls.__module__,
            "name": cls.__qualname__,
            "fields": list(names),
            "items": [self.flatten(read(n), (*path, n)) for n in names],
        }

    def _dataclass(self, value: Any, path: tuple[str, ...]) -> Json:
        """All fields; of one that is a mapping too (such as a ModelOutput), those it holds."""
        if isinstance(value, Mapping):
            return self._fields("dataclass", value, list(value), path)
        return self._fields("dataclass", value, [f.name for f in dataclasses.fields(value)], path)

    def _other(self, value: Any, path: tuple[str, ...]) -> Json:
        place = ".".join(path) or "the value"
        if type(value).__name__.endswith("Cache"):
            self.notes.append(f"{place}: {kind_of(value)} is not returned")
            return {"kind": "none"}
        if type(value) in pytree.SUPPORTED_NODES:
            children, _ = pytree.SUPPORTED_NODES[type(value)].flatten_fn(value)
            fields = [str(i) for i in range(len(children))]
            items = [self.flatten(c, (*path, f)) for c, f in zip(children, fields, strict=True)]
            cls = type(value)
            return {
                "kind": "object", "module": cls.__module__, "name": cls.__qualname__,
                "fields": fields, "items": items,
            }  # fmt: skip
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            of = "values" if free_unbacked_symbols(value.node.expr) else "sizes"
            which = f"output {place}" if path else "the output"
            raise InvalidModelError(
                f"{which} is a number that depends on the {of} of the inputs",
                hint="return it as a tensor"
                if of == "values"
                else "return it as a tensor, torch.scalar_tensor(x.shape[0], dtype=torch.int64), "
                "or take it from the shapes of inputs outside the model",
            )
        raise InvalidModelError(
            f"{place} is {kind_of(value)}, which has no form outside Python",
            hint="return tensors in tuples, lists, dicts or dataclasses",
        )


def rebuild(tree: Json, original: Any, leaves: list[torch.Tensor]) -> Any:
    """``original`` with its tensors replaced by ``leaves``, following the tree made from it."""
    kind = tree["kind"]
    if kind == "leaf":
        leaf = leaves[tree["index"]]
        return torch.view_as_complex(leaf) if tree.get("complex") else leaf
    if kind in ("none", "const"):
        return original
    if kind == "namedtuple":
        pairs = zip(tree["items"], original, strict=True)
        return type(original)(*(rebuild(t, v, leaves) for t, v in pairs))
    if kind in ("tuple", "list"):
        pairs = zip(tree["items"], original, strict=True)
        return type(original)(rebuild(t, v, leaves) for t, v in pairs)
    if kind == "dict":
        made = {k: rebuild(t, original[k], leaves) for k, t in zip(tree["keys"], tree["items"])}
        return made if type(original) is dict else type(original)(made)
    if kind == "dataclass":
        pairs = zip(tree["fields"], tree["items"], strict=True)
        return type(original)(**{n: rebuild(t, getattr(original, n), leaves) for n, t in pairs})
    children, context = pytree.SUPPORTED_NODES[type(original)].flatten_fn(original)
    fresh = [rebuild(t, v, leaves) for t, v in zip(tree["items"], children, strict=True)]
    return pytree.SUPPORTED_NODES[type(original)].unflatten_fn(fresh, context)


def tree_of_spec(spec: Any, leaf: Callable[[], Json]) -> Json:
    """The tree of a torch TreeSpec (of an exported program); ``leaf`` gives its leaves in order."""
    if spec.type is None:
        return leaf()
    items = [tree_of_spec(child, leaf) for child in _children(spec)]
    if spec.type in (tuple, list):
        return {"kind": spec.type.__name__, "items": items}
    if spec.type is type(None):
        return {"kind": "none"}
    context = spec.context
    if isinstance(context, (list, tuple)) and len(context) == len(items):
        if issubclass(spec.type, Mapping) and not dataclasses.is_dataclass(spec.type):
            return {"kind": "dict", "keys": list(context), "items": items}
        fields = [str(c) for c in context]
    else:
        names = "__match_args__" if spec.type.__module__ == _RETURN_TYPES else "_fields"
        fields = list(getattr(spec.type, names, map(str, range(len(items)))))
    kind = "namedtuple" if hasattr(spec.type, "_fields") else "object"
    if dataclasses.is_dataclass(spec.type):
        kind = "dataclass"
        flat = context[0] if context and isinstance(context[0], (list, tuple)) else None
        fields = list(flat) if flat is not None and len(flat) == len(items) else fields
    return {
        "kind": kind, "module": spec.type.__module__, "name": spec.type.__qualname__,
        "fields": fields, "items": items,
    }  # fmt: skip


def _children(spec: Any) -> list[Any]:
    children = getattr(spec, "children", None)  # children_specs before torch 2.9
    if callable(children):
        return list(children())
    return list(getattr(spec, "children_specs", None) or ())
