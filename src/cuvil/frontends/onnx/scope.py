"""What names mean while a graph is translated: tensors made so far, and constants on demand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnx import ModelProto

from cuvil.errors import InvalidModelError, UnsupportedNode
from cuvil.frontends.emitter import Emitter
from cuvil.frontends.onnx.choices import Choices
from cuvil.frontends.onnx.knowledge import Knowledge
from cuvil.frontends.onnx.node import Item
from cuvil.frontends.onnx.texts import TextPart, Texts
from cuvil.frontends.onnx.types import sparse_array, string_list, tensor_array

MAX_NODES = 1_000_000


class Context:
    """What the translation of one model shares: the emitter, functions, findings."""

    def __init__(
        self, emitter: Emitter, folder: str | None, model: ModelProto, choices: Choices
    ) -> None:
        self.e = emitter
        self.folder = folder
        self.knowledge = Knowledge(emitter)
        self.functions: Mapping[tuple[str, str], Any] = {
            (domain_of(f.domain), f.name): f for f in model.functions
        }
        self.problems: list[UnsupportedNode] = []
        self.notes: list[str] = []
        self.words = TextPart()
        self.choices = choices
        self.translated = 0

    def count_node(self) -> None:
        """Loops and functions are written out: what that comes to is bounded."""
        self.translated += 1
        if self.translated > MAX_NODES:
            raise InvalidModelError(
                f"the model has more than {MAX_NODES} nodes once its functions are written out"
            )

    def constant_texts(self, tensor: Any) -> Texts | None:
        """A constant of strings, None for one of numbers."""
        words = string_list(tensor)
        if words is None:
            return None
        numbers = self.words.numbers(words).reshape([int(d) for d in tensor.dims])
        return Texts(self.e.weight(numbers, tensor.name))


def domain_of(domain: str) -> str:
    """The default domain has two names; the empty one is ours."""
    return "" if domain == "ai.onnx" else domain


class Scope:
    """Names of one graph over those of the graphs around it.

    A name whose value is None stands for a tensor that could not be translated.
    """

    def __init__(
        self,
        context: Context,
        graph: Any,
        values: dict[str, Item | None],
        parent: Scope | None,
    ) -> None:
        self.context = context
        self.values = values
        self.parent = parent
        self._arrays: dict[str, Any] = {}
        self.stored = {t.name: t for t in graph.initializer} if graph is not None else {}
        self.sparse = (
            {t.values.name: t for t in graph.sparse_initializer} if graph is not None else {}
        )

    def names(self) -> set[str]:
        """This graph's own inputs and constants."""
        return {*self.values, *self.stored, *self.sparse}

    def __contains__(self, name: str) -> bool:
        if name in self.values or name in self.stored or name in self.sparse:
            return True
        return self.parent is not None and name in self.parent

    def __getitem__(self, name: str) -> Item | None:
        """The value of a name; a stored constant is emitted where it is first read, in each region
        anew.

        Raises KeyError for an unknown name, UnsupportedType for a constant of such a type.
        """
        if name in self.values:
            return self.values[name]
        array = self._arrays.get(name)
        if array is not None:
            return self.context.e.weight(array, name)
        if name in self.stored:
            texts = self.context.constant_texts(self.stored[name])
            if texts is not None:
                self.values[name] = texts
                return texts
            array = tensor_array(self.stored[name], self.context.folder)
        elif name in self.sparse:
            array = sparse_array(self.sparse[name], self.context.folder)
        elif self.parent is not None:
            return self.parent[name]
        else:
            raise KeyError(name)
        self._arrays[name] = array
        return self.context.e.weight(array, name)
