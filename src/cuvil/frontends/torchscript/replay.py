"""Replays a ScriptModule's graph in Python, so that torch.export sees its operators.

Branches and loops over numbers are taken while tracing, as any Python program's are; a branch or
loop that a tensor decides becomes torch's own control flow. What the module writes to its
attributes lasts until the call ends.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from cuvil.errors import InvalidModelError, UnsupportedNode, UnsupportedOpError
from cuvil.frontends.torchscript.control import (
    branch,
    loop,
    place_of,
    refuse_number,
    refuse_raise,
    refuse_write,
)
from cuvil.frontends.torchscript.scalars import OVERLOADED, SCALARS, is_tensor

Graph = Any  # torch._C.Graph, which has no stubs
Node = Any
Env = dict[str, Any]
Key = str | tuple[str, str]  # a buffer's name, or a written attribute's holder and name
_STRUCTURE = (
    "prim::Constant", "prim::GetAttr", "prim::SetAttr", "prim::If", "prim::Loop",
    "prim::ListUnpack", "prim::TupleUnpack", "prim::RaiseException",
)  # fmt: skip
# Called as torch.nn does: while a program is traced, these keep the length of a sequence symbolic.
_RECURRENT = ("aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu")
# They read or write files: no model may.
_FORBIDDEN = ("aten::save", "aten::from_file", "aten::load")


class _Object:
    """A submodule, by the path to it."""

    def __init__(self, module: Any, path: str) -> None:
        self.module = module
        self.path = path


class Replay(torch.nn.Module):
    """Computes what ``script`` computes from the attributes it has now.

    Raises UnsupportedOpError with every node that can't be replayed.
    """

    def __init__(self, script: torch.jit.ScriptModule) -> None:
        super().__init__()
        self.script_name = getattr(script, "original_name", type(script).__name__)
        self.graph: Graph = _graph_of(script).copy()
        self.written: set[str] = set()
        self._root = _Object(script, "")
        self._constants: dict[str, str] = {}
        self._attributes: dict[tuple[str, str], Any] = {}
        self._lent: dict[Key, torch.Tensor] = {}  # operands that stand for this module's tensors
        self._depth = 0  # of branches and loops that a tensor decides
        problems = [p for node in _nodes(self.graph) if (p := _problem(node)) is not None]
        if problems:
            raise UnsupportedOpError(problems)
        self._keep_tensors()
        schema = script.forward.schema  # type: ignore[attr-defined]
        self.forward = _with_signature(self._run, schema)  # type: ignore[method-assign]
        self.eval()

    @property
    def labels(self) -> dict[str, str]:
        """The script's own names of this module's tensors."""
        return {key: name for name, key in self._constants.items()}

    def _keep_tensors(self) -> None:
        """Make every tensor that the graph reads a buffer before anything is traced."""
        first = next(iter(self.graph.inputs()))
        objects = {first.debugName(): self._root}
        for node in _nodes(self.graph):
            if node.kind() == "prim::Constant":
                self._constant(node)
            elif node.kind() == "prim::GetAttr":
                item = self._get(objects[node.input().debugName()], node.s("name"))
                if isinstance(item, _Object):
                    objects[node.output().debugName()] = item

    def _keep(self, name: str, tensor: torch.Tensor) -> str:
        """Make a tensor a buffer of this module; the buffer's name."""
        key = "w_" + "".join(c if c.isalnum() else "_" for c in name)
        if key not in self._buffers:
            self.register_buffer(key, tensor, persistent=True)
        self._constants[name] = key
        return key

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        names = list(inspect.signature(self.forward).parameters)
        given = dict(zip(names, args)) | kwargs
        for name, parameter in inspect.signature(self.forward).parameters.items():
            if name not in given and parameter.default is not parameter.empty:
                given[name] = parameter.default
        inputs = list(self.graph.inputs())
        env: Env = {inputs[0].debugName(): self._root}
        env |= {v.debugName(): given[n] for v, n in zip(inputs[1:], names, strict=True)}
        self._attributes, self._lent, self._depth = {}, {}, 0
        outputs = self.block(self.graph, env)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def block(self, block: Any, env: Env) -> list[Any]:
        """Run the nodes of a graph or block; its outputs. ``env`` gains what it defines."""
        for node in block.nodes():
            results = self._node(node, env)
            for value, result in zip(node.outputs(), results, strict=True):
                env[value.debugName()] = result
        return [env[value.debugName()] for value in block.outputs()]

    def _node(self, node: Node, env: Env) -> Sequence[Any]:
        kind = node.kind()
        if kind == "prim::Constant":
            return [self._constant(node)]
        inputs = [env[value.debugName()] for value in node.inputs()]
        if kind == "prim::GetAttr":
            return [self._get(inputs[0], node.s("name"))]
        if kind == "prim::SetAttr":
            if self._depth:
                raise refuse_write(node, f"{inputs[0].path}{node.s('name')}")
            self._attributes[inputs[0].path, node.s("name")] = inputs[1]
            self.written.add(f"{inputs[0].path}{node.s('name')}")
            return []
        if kind == "prim::If":
            return branch(self, node, inputs[0], env)
        if kind == "prim::Loop":
            return loop(self, node, inputs, env)
        if kind in ("prim::ListUnpack", "prim::TupleUnpack"):
            return list(inputs[0])
        if kind == "prim::RaiseException":
            if self._depth:
                raise refuse_raise(node, inputs[0])
            raise InvalidModelError(f"the model raises: {inputs[0]}", where=place_of(node))
        result = self._call(node, kind, inputs)
        count = len(list(node.outputs()))
        return [] if count == 0 else [result] if count == 1 else list(result)

    def _constant(self, node: Node) -> Any:
        value = node.output()
        item = value.toIValue()
        if not isinstance(item, torch.Tensor):
            return item
        name = f"constant.{value.debugName()}"
        return self._tensor(self._constants.get(name) or self._keep(name, item.detach()))

    def _tensor(self, key: str) -> torch.Tensor:
        kept: torch.Tensor = self._lent.get(key, getattr(self, key))
        return kept

    def _get(self, holder: _Object, name: str) -> Any:
        path = f"{holder.path}{name}"
        if (holder.path, name) in self._attributes:
            return self._lent.get((holder.path, name), self._attributes[holder.path, name])
        if name == "training":
            return False
        item = getattr(holder.module, name)
        if isinstance(item, torch.Tensor):
            return self._tensor(self._constants.get(path) or self._keep(path, item.detach()))
        if isinstance(item, torch.nn.Module):
            return _Object(item, f"{path}.")
        return item

    def held(self, node: Node, env: Env) -> dict[Key, torch.Tensor]:
        """This module's tensors, and those written to attributes, that the blocks of a node read:
        a branch or loop that a tensor decides needs them as operands."""
        objects = {k: v for k, v in env.items() if isinstance(v, _Object)}
        found: dict[Key, torch.Tensor] = {}
        for inner in (n for block in node.blocks() for n in _nodes(block)):
            if inner.kind() == "prim::Constant":
                key = self._constants.get(f"constant.{inner.output().debugName()}")
                if key is not None:
                    found[key] = self._tensor(key)
            elif inner.kind() == "prim::GetAttr" and inner.input().debugName() in objects:
                holder, name = objects[inner.input().debugName()], inner.s("name")
                item = self._get(holder, name)
                if isinstance(item, _Object):
                    objects[inner.output().debugName()] = item
                elif is_tensor(item):
                    written = (holder.path, name) in self._attributes
                    kept = (holder.path, name) if written else self._constants[holder.path + name]
                    found[kept] = item
        return found

    @contextlib.contextmanager
    def undecided(self, lent: Mapping[Key, torch.Tensor]) -> Iterator[None]:
        """Inside a branch or loop that a tensor decides, with operands for what it reads."""
        around, self._lent = self._lent, {**self._lent, **lent}
        self._depth += 1
        try:
            yield
        finally:
            self._lent = around
            self._depth -= 1

    def _call(self, node: Node, kind: str, inputs: list[Any]) -> Any:
        rule = SCALARS.get(kind)
        # By the declared types: a number that a call will tell is a tensor here.
        on_tensors = any(value.type().kind() == "TensorType" for value in node.inputs())
        if rule is not None and not (kind in OVERLOADED and on_tensors):
            return rule(*inputs)
        if kind in _RECURRENT:
            return getattr(torch._VF, kind.removeprefix("aten::"))(*inputs)
        if kind == "aten::select" and is_tensor(inputs[2]):
            return _selected(*inputs)
        operator, arguments = _operator(node)
        # A number that is a tensor here needs another overload, which may take less by position.
        other = any(is_tensor(x) and "Tensor" not in str(a.type) for x, a in zip(inputs, arguments))
        if other:
            operator = operator.overloadpacket
        args, kwargs = [], {}
        for index, (parameter, item) in enumerate(zip(arguments, inputs, strict=True)):
            if parameter.kwarg_only or (other and index >= 2):
                kwargs[parameter.name] = item
            else:
                args.append(item)
        if "device" in kwargs:
            kwargs["device"] = torch.device("cpu")
        try:
            return operator(*args, **kwargs)
        except (RuntimeError, TypeError) as error:
            if not other or "match any schema" not in str(error):
                raise
            names = [a.name for x, a in zip(inputs, arguments) if is_tensor(x)]
            raise refuse_number(node, names[-1]) from error


def _graph_of(script: torch.jit.ScriptModule) -> Graph:
    """What forward computes. Raises InvalidModelError where the module has no forward."""
    try:
        return script.inlined_graph  # type: ignore[attr-defined]
    except (AttributeError, RuntimeError):
        raise InvalidModelError(
            "this ScriptModule has no compiled forward: TorchScript leaves out that of torch.nn's "
            "recurrent layers, which has several forms",
            hint="script a module whose forward calls the layer, or pass the original module",
        ) from None


def _nodes(block: Any) -> Iterator[Node]:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _nodes(inner)


def _problem(node: Node) -> UnsupportedNode | None:
    kind = node.kind()
    if kind in _FORBIDDEN:
        return UnsupportedNode(kind, "", place_of(node), "it reads or writes files", "take it out")
    if kind in _STRUCTURE or kind in SCALARS:
        return None
    try:
        _operator(node)
    except (AttributeError, RuntimeError):
        return UnsupportedNode(
            kind, "", place_of(node), "TorchScript's operator is not known here",
            "export the original module instead",
        )  # fmt: skip
    return None


def _selected(x: torch.Tensor, axis: int, at: torch.Tensor) -> torch.Tensor:
    """The item at an index that only a call will tell."""
    at = torch.where(at < 0, at + x.shape[axis], at)
    return torch.index_select(x, axis, at.reshape(1)).squeeze(axis)


def _operator(node: Node) -> tuple[Any, Any]:
    """torch's operator of a node, and its schema's arguments."""
    schema = torch._C.parse_schema(node.schema())
    namespace, name = schema.name.split("::")
    packet = getattr(getattr(torch.ops, namespace), name)
    return getattr(packet, schema.overload_name or "default"), schema.arguments


def _with_signature(function: Callable[..., Any], schema: Any) -> Callable[..., Any]:
    """The function with the parameters of a TorchScript method, ``self`` left out."""

    def forward(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    parameters = [
        inspect.Parameter(
            a.name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=a.default_value if a.has_default_value() else inspect.Parameter.empty,
        )
        for a in schema.arguments[1:]
    ]
    forward.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return forward


def fresh(script: torch.jit.ScriptModule) -> torch.jit.ScriptModule:
    """The module, or where a call writes to its attributes a copy that a call may use up."""
    writes = any(node.kind() == "prim::SetAttr" for node in _nodes(_graph_of(script)))
    return copy.deepcopy(script) if writes else script
