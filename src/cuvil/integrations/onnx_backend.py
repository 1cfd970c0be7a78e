"""Cuvil through the interface that the onnx package defines for backends.

``prepare(model)`` gives something that runs, ``run_model`` and ``run_node`` do both at once. The
standard's tests run through it: ``onnx.backend.test.BackendTest(CuvilBackend, __name__)``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TypeProto, ValueInfoProto, helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from cuvil.api import compile as compile_model
from cuvil.api import debug_trace
from cuvil.errors import CuvilError, InputError, ShapeConstraintError, UnsupportedOpError
from cuvil.errors.words import counted, were_given
from cuvil.frontends.onnx.load import NEWEST_OPSET
from cuvil.frontends.onnx.node import FIXED, UNCOUNTED
from cuvil.frontends.onnx.table_control import CONTROL
from cuvil.frontends.onnx.tables import HANDLERS
from cuvil.runtime.artifact import Artifact

Array = np.ndarray[Any, Any]
_MOST_ARTIFACTS = 16


class CuvilRep(BackendRep):
    """A model that runs on inputs in the order of its graph.

    It is compiled at once where that needs no inputs. Where values of inputs decide shapes or
    branches, where inputs are sequences or optional, or have no declared shape, it is compiled for
    the inputs of a run, and again for inputs of another kind.
    """

    def __init__(self, model: ModelProto, arguments: Mapping[str, Any]) -> None:
        """Raises UnsupportedOpError for a model that no inputs could make possible."""
        self._model = model
        self._arguments = dict(arguments)
        stored = {t.name for t in model.graph.initializer}
        stored |= {t.values.name for t in model.graph.sparse_initializer}
        self._inputs = [v for v in model.graph.input if v.name not in stored]
        self._outputs = [v.name for v in model.graph.output]
        self._artifacts: dict[Any, Artifact] = {}
        self._level = 0  # of _choices: those before it were refused
        if all(_is_complete(v.type) for v in self._inputs):
            try:
                self._compiled({}, {}, {})
            except (UnsupportedOpError, ShapeConstraintError) as error:
                if not _may_be_fixed(error):
                    raise
                self._level = 1

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs, a named tuple; a sequence is a list of arrays.

        ``inputs``: arrays in order, a dict of them by name, or the only one.
        """
        values = self._named(inputs)
        artifact, fixed = self._artifact(values)
        given: dict[str, Any] = {}
        for name, value in values.items():
            if isinstance(value, list):
                given.update((f"{name}_{i}", item) for i, item in enumerate(value))
            elif name not in fixed and value is not None:
                given[name] = value
        found = artifact.run(given)
        counts = artifact.manifest.source.get("contents", {})
        results = [_regrouped(found, name, counts.get(name, -1)) for name in self._outputs]
        return namedtupledict("Outputs", self._outputs)(*results)  # type: ignore[no-any-return]

    def _named(self, inputs: Any) -> dict[str, Any]:
        names = [v.name for v in self._inputs]
        if isinstance(inputs, Mapping):
            unknown = sorted({*inputs} ^ {*names})
            if unknown:
                raise InputError(f"the inputs are {names}; {unknown} is missing or unknown")
            return {name: _value(inputs[name]) for name in names}
        given = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        if len(given) != len(names):
            raise InputError(
                f"the model has {counted(len(names), 'input')}; {were_given(len(given))}"
            )
        return {name: _value(value) for name, value in zip(names, given)}

    def _artifact(self, values: Mapping[str, Any]) -> tuple[Artifact, Mapping[str, Array]]:
        """What runs these inputs, and those of them that are constants of it."""
        contents = {v.name: _content(values[v.name]) for v in self._inputs if _is_open(v.type)}
        shapes = {
            v.name: values[v.name].shape
            for v in self._inputs
            if v.name not in contents and not _is_complete(v.type)
        }
        failure: CuvilError | None = None
        choices = list(_choices(values))
        for level in range(self._level, len(choices)):
            try:
                artifact = self._compiled(choices[level], contents, shapes)
            except (UnsupportedOpError, ShapeConstraintError) as error:
                failure = failure or error
                continue
            self._level = level
            return artifact, choices[level]
        assert failure is not None
        raise failure

    def _compiled(
        self,
        fixed: Mapping[str, Array],
        contents: Mapping[str, Any],
        shapes: Mapping[str, tuple[int, ...]],
    ) -> Artifact:
        key = (_digest(fixed), repr(sorted(contents.items())), repr(sorted(shapes.items())))
        found = self._artifacts.get(key)
        if found is None:
            options = {**(self._arguments.get("options") or {})}
            options.update({"fixed_inputs": dict(fixed)} if fixed else {})
            options.update({"input_contents": dict(contents)} if contents else {})
            arguments: dict[str, Any] = {**self._arguments, "options": options}
            sizes = {name: shape for name, shape in shapes.items() if name not in fixed}
            if sizes:
                arguments["input_spec"] = [(n, None, shape) for n, shape in sizes.items()]
            if len(self._artifacts) >= _MOST_ARTIFACTS:
                self._artifacts.clear()
            found = self._artifacts[key] = compile_model(self._model, **arguments)
        return found


class CuvilBackend(Backend):
    """The standard's face of :func:`cuvil.compile`; keyword arguments are passed on to it."""

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether every operator can be compiled, with the values of some inputs if need be."""
        if not cls.supports_device(device):
            return False
        table = debug_trace(model, path=None)
        return all(_is_open_node(node["op"], node["hint"]) for node in table["unsupported"])

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> CuvilRep:
        """Compile a model. Raises as :func:`cuvil.compile`, InputError for another device."""
        if not cls.supports_device(device):
            raise InputError(f"there is no device {device!r}", hint="use CPU")
        # The checker refuses models that leave shapes open.
        if all(_is_complete(v.type) for v in (*model.graph.input, *model.graph.output)):
            super().prepare(model, device)
        return CuvilRep(model, kwargs)

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Compile and run one node, of the newest opset or of ``opset_version``."""
        newest = min(onnx.defs.onnx_opset_version(), NEWEST_OPSET)
        version = kwargs.pop("opset_version", newest)
        super().run_node(node, inputs, device, outputs_info, opset_version=version)
        names = [name for name in node.input if name]
        given = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        if len(given) != len(names):
            raise InputError(
                f"the node has {counted(len(names), 'input')}; {were_given(len(given))}"
            )
        opsets = {"": version} | ({node.domain: 1} if node.domain else {})
        graph = helper.make_graph(
            [node],
            node.op_type or "node",
            [_declared(name, _value(value)) for name, value in zip(names, given)],
            [ValueInfoProto(name=name) for name in node.output if name],
        )
        imports = [helper.make_opsetid(domain, number) for domain, number in opsets.items()]
        rep = CuvilRep(helper.make_model(graph, opset_imports=imports), kwargs)
        return rep.run(given)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Artifacts for this machine run on its CPU."""
        return device.split(":")[0] == "CPU"


is_compatible = CuvilBackend.is_compatible
prepare = CuvilBackend.prepare
run_model = CuvilBackend.run_model
run_node = CuvilBackend.run_node
supports_device = CuvilBackend.supports_device


def _is_complete(kind: TypeProto) -> bool:
    """Whether an input's declaration is all that compiling needs."""
    return kind.HasField("tensor_type") and kind.tensor_type.HasField("shape")


def _is_open(kind: TypeProto) -> bool:
    """Whether an input may hold any number of tensors."""
    return kind.HasField("sequence_type") or kind.HasField("optional_type")


def _content(value: Any) -> list[tuple[int, ...]] | None:
    """The shapes of the tensors that a value holds."""
    if value is None:
        return None
    return [x.shape for x in value] if isinstance(value, list) else [value.shape]


def _regrouped(found: Mapping[str, Any], name: str, count: int | None) -> Any:
    """An output of ``count`` tensors, of one if that is negative."""
    if count is None:
        return None
    return found[name] if count < 0 else [found[f"{name}_{i}"] for i in range(count)]


def _may_be_fixed(error: CuvilError) -> bool:
    """Whether values of inputs could remove the reason of a refusal."""
    if isinstance(error, UnsupportedOpError):
        return all(_is_open_node(node.op, node.hint) for node in error.nodes)
    return True


def _is_open_node(op: str, hint: str) -> bool:
    """Whether a node that is refused may be taken with values: one that asks for them, or one of an
    operator that is known."""
    domain, _, name = op.split(" ")[0].rpartition(".")
    key = ("" if domain == "ai.onnx" else domain, name)
    return hint in (FIXED, UNCOUNTED) or key in HANDLERS or key in CONTROL


def _value(value: Any) -> Any:
    """An array, a list of arrays for a sequence, None for nothing."""
    if value is None:
        return None
    return [np.asarray(x) for x in value] if isinstance(value, (list, tuple)) else np.asarray(value)


def _choices(values: Mapping[str, Any]) -> Iterator[dict[str, Array]]:
    """Inputs to make constants: none, those that may be shapes or conditions, all but the first,
    all."""
    arrays = {
        k: v
        for k, v in values.items()
        if isinstance(v, np.ndarray) and v.dtype.kind not in "OUST"
    }
    yield {}
    yield {k: v for k, v in arrays.items() if v.dtype.kind in "ib"}
    yield {k: v for k, v in arrays.items() if k != next(iter(values))}
    yield arrays


def _digest(arrays: Mapping[str, Array]) -> str:
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _declared(name: str, value: Any) -> ValueInfoProto:
    if isinstance(value, list):
        element = _tensor_type(value[0]) if value else TypeProto()
        return helper.make_value_info(name, helper.make_sequence_type_proto(element))
    return helper.make_value_info(name, _tensor_type(value))


def _tensor_type(array: Array) -> TypeProto:
    code = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_type_proto(code, array.shape)
