"""How a call's arguments become the model's inputs in order, whatever computes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cuvil.errors import InputError
from cuvil.errors.words import counted, were_given
from cuvil.ir.signature import Signature
from cuvil.runtime.arrays import Slot, taker
from cuvil.runtime.described import Described
from cuvil.runtime.tree import CallTree


class Called(Described):
    """The arguments and the result of what is called as its source was: in order or by name, with
    its nesting."""

    _rebuild: Callable[[Sequence[Any]], Any] | None

    def _take_call(self, signature: Signature, tree: CallTree | None) -> None:
        """Set what the calls of a model need; ``tree`` is how its arguments were nested."""
        self._inputs = tuple(Slot.of(s, "input") for s in signature.inputs)
        self._outputs = tuple(Slot.of(s, "output") for s in signature.outputs)
        self._nested = tree if tree is not None and tree.nested else None
        self._optional = tree if tree is not None and tree.defaults else None
        self._rebuild = tree.rebuild if tree is not None and tree.outputs is not None else None
        names = [slot.name for slot in self._inputs]
        self._take = taker(names)
        self._parameters = list(tree.parameters) if tree and tree.parameters else names
        self._count = len(self._inputs)
        nested = self._nested
        items = nested.args["items"] if nested is not None and nested.args is not None else names
        self._positional = len(items)

    def _arrange(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        if self._optional is not None and (kwargs or len(args) > self._positional):
            args, kwargs = self._optional.without_defaults(args, kwargs, self._positional)
        if self._nested is not None:
            return tuple(self._nested.flatten(args, kwargs))
        if len(args) > self._count:
            raise InputError(
                f"the model has {counted(self._count, 'input')}; {were_given(len(args))}"
            )
        values = dict(zip(self._parameters, args))
        for name, value in kwargs.items():
            if name in values:
                raise InputError(f"input {name!r} was given twice")
            values[name] = value
        return self._ordered(values, self._parameters)

    def _by_name(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        if type(values) is dict and len(values) == self._count:
            try:
                return self._take(values)
            except KeyError:
                pass  # a wrong name, of which more is said below
        if not isinstance(values, Mapping):
            raise InputError(
                f"inputs are {type(values).__name__}; expected a dict of arrays by name"
            )
        return self._ordered(values, [slot.name for slot in self._inputs])

    def _ordered(self, values: Mapping[str, Any], names: Sequence[str]) -> tuple[Any, ...]:
        expected = f"; the inputs are {', '.join(names)}" if names else "; there are no inputs"
        for name in values:
            if name not in names:
                hint = "give outputs to write to as run({...}, out={...})" if name == "out" else ""
                raise InputError(f"there is no input {name!r}{expected}", hint=hint)
        for name in names:
            if name not in values:
                raise InputError(f"input {name!r} is missing{expected}")
        return tuple(values[name] for name in names)
