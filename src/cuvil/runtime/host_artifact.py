"""An artifact with inputs and outputs that its native library has no type for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cuvil.errors import InputError, ShapeConstraintError
from cuvil.ir.signature import TensorSpec
from cuvil.runtime.arrays import shape_of
from cuvil.runtime.artifact import Artifact
from cuvil.runtime.host import MAP, STRING, HostPlan, string_input
from cuvil.runtime.late_artifact import make_artifact
from cuvil.runtime.native import Model
from cuvil.runtime.tree import CallTree


class HostArtifact(Artifact):
    """A compiled model some steps of which run in Python (see runtime/host.py).

    Strings come in as NumPy arrays of str, and come out as object arrays of str. A map comes in as
    a dict; a sequence of maps comes out as a list of dicts.
    """

    def __init__(self, model: Model, tree: CallTree | None, plan: HostPlan) -> None:
        super().__init__(model, tree)
        self._native = make_artifact(model, tree)
        self._host = plan
        self._parameters = [spec.name for spec in plan.inputs]
        self._count = len(plan.inputs)

    @property
    def native(self) -> Artifact:
        """The numeric part, which is what the library computes."""
        return self._native

    @property
    def plan(self) -> HostPlan:
        """What runs in Python."""
        return self._host

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Names, dtypes and symbolic shapes of the inputs; a string's dtype is "str"."""
        return self._host.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Names, dtypes and symbolic shapes of the outputs; a string's dtype is "str"."""
        return self._host.outputs

    def run(
        self, inputs: Mapping[str, Any], out: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Run on inputs by name; returns the outputs by name.

        ``out`` as for other artifacts; a string output can't be given.
        """
        for spec in self._host.outputs:
            if spec.dtype in (STRING, MAP) and spec.name in (out or ()):
                kind = "string" if spec.dtype == STRING else "map"
                raise InputError(f"out has the {kind} output {spec.name!r}, which is always new")
        return self._compute(self._by_name(inputs), out)

    def close(self) -> None:
        """Let go of library and weights; calls that are running finish first."""
        self._native.close()
        super().close()

    def _execute(self, args: Sequence[Any]) -> list[Any]:
        return list(self._compute(args, None).values())

    def _compute(self, args: Sequence[Any], out: Mapping[str, Any] | None) -> dict[str, Any]:
        """Outputs by name in order, for one value an input."""
        self._open()
        plan = self._host
        given = {
            spec.name: string_input(value, spec) if spec.dtype == STRING else value
            for spec, value in zip(plan.inputs, args, strict=True)
        }
        self._check_names(given)
        codes = plan.codes()
        found: dict[str, Any] = dict(plan.run(given))
        # A model of strings alone leaves the library nothing to compute.
        if self._signature.inputs or self._signature.outputs or out:
            made = self._native.run(plan.numbers(given, codes), out)
            found.update(made)
            found.update(plan.decoded(made, codes))
        return {spec.name: found[spec.name] for spec in plan.outputs}

    def library_inputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The library's inputs for inputs by name (or for those themselves): strings and maps as
        its numbers."""
        if set(inputs) == {spec.name for spec in self._signature.inputs}:
            return dict(inputs)
        specs = {spec.name: spec for spec in self._host.inputs}
        given = {
            name: string_input(value, specs[name]) if specs[name].dtype == STRING else value
            for name, value in zip(specs, self._by_name(inputs), strict=True)
        }
        return self._host.numbers(given, self._host.codes())

    def _check_names(self, values: Mapping[str, Any]) -> None:
        """A dim's name stands for one size in a call, among strings and numbers alike.

        Sizes that only numbers share are the signature's to check.
        """
        sizes: dict[str, tuple[int, str]] = {}
        for spec in sorted(self._host.inputs, key=lambda s: s.dtype != STRING):
            shape = getattr(values[spec.name], "shape", ())
            for dim, size in zip(spec.shape, shape):
                if not isinstance(dim, str) or not dim.isidentifier():
                    continue
                known, where = (
                    sizes.setdefault(dim, (size, spec.name))
                    if spec.dtype == STRING
                    else sizes.get(dim, (size, spec.name))
                )
                if known != size:
                    raise ShapeConstraintError(
                        f"the dimension {dim!r} is {size} in input {spec.name!r}; it is {known} "
                        f"in input {where!r}"
                    )

    def _by_name(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        if not isinstance(values, Mapping):
            raise InputError(
                f"inputs are {type(values).__name__}; expected a dict of arrays by name"
            )
        return self._ordered(values, self._parameters)

    def _shapes(self, inputs: Mapping[str, Any]) -> list[tuple[int, ...]]:
        """Of the library's inputs: only they decide symbols and memory."""
        plan, given = self._host, dict(zip(self._parameters, self._by_name(inputs), strict=True))
        shapes = {plan.coded.get(n, n): getattr(v, "shape", v) for n, v in given.items()}
        shapes.update(plan.made_shapes(given))
        for spec in plan.maps.values():
            shapes.update((column, (1, len(keys))) for column, keys in spec.columns)
        return [shape_of(shapes[spec.name], spec.name) for spec in self._signature.inputs]
