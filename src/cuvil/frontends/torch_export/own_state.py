"""What a module keeps in its attributes: put back after a run, and refused where it makes a
difference to the next call, because an artifact's calls are independent of each other."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch

from cuvil.errors import InvalidModelError
from cuvil.frontends.alone import ALONE

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_CONTAINERS = (dict, list, set, deque)
_NO_HOLDERS = (torch.Tensor, torch.nn.Module, type, FunctionType, MethodType, ModuleType)
_OWN_TABLES = ("_parameters", "_buffers", "_modules")  # of torch.nn.Module, by attributes' names
_SAME = 1e-6  # of an output's scale
_FAR = 1000  # calls

Call = Callable[[bool], Any]
Numbers = dict[tuple[int, Any], tuple[dict[Any, Any], int | float]]


def state_refused(name: str) -> InvalidModelError:
    """The refusal of a model that keeps something in ``name`` from one call for the next."""
    return InvalidModelError(
        f"the model changes its own state {name!r} in a call",
        hint="make the state an input and an output of forward",
    )


class State:
    """The attributes of a model's modules as they are now, with what is in their lists, dicts
    and sets and in the attributes of other plain objects; with ``values``, the elements of their
    tensors too, but for parameters'."""

    def __init__(self, model: torch.nn.Module, values: bool = False) -> None:
        self._model = model
        self._kept: list[tuple[str, bool, Any, Any]] = []  # path, named inside, holder, a copy
        self._values: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        seen: set[int] = set()
        for path, holder, named in _holders(model):
            if id(holder) not in seen:
                seen.add(id(holder))
                copy = _copied(holder)
                self._kept.append((path, named, holder, copy))
                if values:
                    self._keep_values(copy.values() if isinstance(copy, dict) else copy)

    def _keep_values(self, items: Any) -> None:
        for item in items:
            if isinstance(item, torch.Tensor) and not isinstance(item, torch.nn.Parameter):
                self._values.setdefault(id(item), (item, item.detach().clone()))

    def changed(self) -> list[str]:
        """The names of the attributes that are something else by now, in order."""
        found: dict[str, None] = {}
        for path, named, holder, copy in self._kept:
            for key in _differing(holder, copy):
                found.setdefault(f"{path}{key}" if named else path)
        return list(found)

    def numbers(self) -> Numbers:
        """The attributes that hold a number by now, each with what holds it."""
        return {
            (id(holder), key): (holder, value)
            for _, named, holder, _ in self._kept if named
            for key, value in holder.items() if type(value) in (int, float)
        }  # fmt: skip

    def step(self, before: Numbers, times: int) -> bool:
        """Let numbers change many times as much as they did since ``before``; whether any did."""
        found = False
        for place, (holder, value) in self.numbers().items():
            if place in before and value != before[place][1]:
                holder[place[1]] = value + times * (value - before[place][1])
                found = True
        return found

    def restore(self) -> None:
        """Make everything what it was."""
        for _, _, holder, copy in self._kept:
            if isinstance(holder, dict):
                _restore_dict(holder, copy)
            elif _differing(holder, copy):
                holder.clear()
                (holder.update if isinstance(holder, set) else holder.extend)(copy)
        with torch.no_grad():
            for tensor, value in self._values.values():
                if not _alike(tensor, value, 0.0):
                    tensor.copy_(value)


@contextmanager
def kept(model: Any) -> Iterator[State]:
    """Inside, the model may change its attributes; after, they are what they were."""
    state = State(model)
    try:
        yield state
    finally:
        state.restore()


def _holders(model: torch.nn.Module) -> Iterator[tuple[str, Any, bool]]:
    """What holds a model's state, each with its path, and whether its keys are attributes."""
    for name, module in model.named_modules():
        path = f"{name}." if name else ""
        yield path, vars(module), True
        for key, value in list(vars(module).items()):
            if key in _OWN_TABLES:
                yield path, value, True
            else:
                yield from _inside(f"{path}{key}", value, True)


def _inside(path: str, value: Any, objects: bool) -> Iterator[tuple[str, Any, bool]]:
    if isinstance(value, _CONTAINERS):
        yield path, value, False
        for item in list(value.values() if isinstance(value, dict) else value):
            if isinstance(item, _CONTAINERS):
                yield from _inside(path, item, False)
    elif objects and not isinstance(value, _NO_HOLDERS):
        own = getattr(value, "__dict__", None)
        if isinstance(own, dict):
            yield f"{path}.", own, True
            for key, item in list(own.items()):
                yield from _inside(f"{path}.{key}", item, False)


def _differing(now: Any, before: Any) -> list[Any]:
    """The keys or places at which a container holds something else."""
    if isinstance(now, dict):
        return [
            key for key in {**before, **now}
            if key not in now or key not in before or not _same(now[key], before[key])
        ]  # fmt: skip
    if isinstance(now, set):
        return [] if now == before else [0]
    same = len(now) == len(before) and all(map(_same, now, before))
    return [] if same else [0]


def _same(a: Any, b: Any) -> bool:
    """Whether two are one object, or equal as far as that is certain: a size is a symbol."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return a is b or (type(a) is type(b) and type(a) in _PLAIN and a == b)


def _copied(holder: Any) -> Any:
    if isinstance(holder, dict):
        return dict(holder)
    return set(holder) if isinstance(holder, set) else list(holder)


def _restore_dict(holder: dict[Any, Any], copy: dict[Any, Any]) -> None:
    for key in [k for k in holder if k not in copy]:
        del holder[key]
    for key, value in copy.items():
        if key not in holder or holder[key] is not value:
            holder[key] = value


def refuse_state(model: torch.nn.Module, names: Sequence[str], call: Call) -> None:
    """Raise InvalidModelError if what a call leaves in the attributes ``names`` makes a difference
    to the next: a cache, or a record that nothing reads, makes none.

    ``call`` runs the model on its example, or on inputs a little off it, and gives all that it
    returns, flat.
    """
    state = State(model, values=True)
    try:
        for moved in (False, True):
            if not _independent(state, call, moved):
                raise state_refused(", ".join(names))
    finally:
        state.restore()


def _independent(state: State, call: Call, moved: bool) -> bool:
    """Whether the model gives the same on these inputs a second time, after very many calls, and
    after the other inputs; so it is where it doesn't take them at all."""
    state.restore()
    first = _tried(call, moved)
    if first is None:
        return True
    one = state.numbers()
    again = _tried(call, moved)
    if again is None or not _repeats(first, again):
        return False
    if state.step(one, _FAR):
        later = _tried(call, moved)
        if later is not None and not _repeats(first, later):
            return False
    state.restore()
    if _tried(call, not moved) is None:
        return True
    again = _tried(call, moved)
    return again is not None and _repeats(first, again)


@ALONE.held()
def _tried(call: Call, moved: bool) -> Sequence[Any] | None:
    """What a call gives, of the same random numbers each time; None where it raises."""
    python, arrays = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            found: Sequence[Any] = call(moved)
            return found
    except Exception:  # whatever a model's own code raises
        return None
    finally:
        random.setstate(python)
        np.random.set_state(arrays)


def _repeats(first: Sequence[Any], again: Sequence[Any]) -> bool:
    return len(first) == len(again) and all(
        _alike(a, b, _SAME) if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)
        else _same(a, b)
        for a, b in zip(first, again, strict=True)
    )  # fmt: skip


def _alike(a: torch.Tensor, b: torch.Tensor, part: float) -> bool:
    """Whether tensors are equal, or nowhere further apart than ``part`` of their scale."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not (a.is_floating_point() or a.is_complex()) or not part or not a.numel():
        return torch.equal(a, b)
    scale = float(torch.nan_to_num(b.abs(), 0.0, 0.0, 0.0).max())
    return torch.allclose(a, b, rtol=0.0, atol=part * scale, equal_nan=True)
