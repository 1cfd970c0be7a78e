"""Loops that run as the data says: what their values are, and what they carry."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from cuvil.errors import InvalidModelError
from cuvil.frontends.branches import stacked
from cuvil.frontends.carried import Carried
from cuvil.frontends.onnx.bodies import (
    LATE,
    Form,
    Inline,
    attempt,
    flatten,
    inlined,
    rebuild,
    unlike,
)
from cuvil.frontends.onnx.late_lists import item_type, stacked_list
from cuvil.frontends.onnx.node import Item, ItemList, LateList, Node, Refused
from cuvil.ir.control import FOR, STEP, WHILE
from cuvil.ir.core import Value
from cuvil.ir.late import binders
from cuvil.ir.types import BOOL, I64, TensorType
from cuvil.sym.expr import Dim, Expr, add, maximum, mul, symbols_of

ENDLESS = (1 << 63) - 1
CHANGES = "let it keep its shape, or give the number of trips at compile time"
# How often a loop is begun anew because a value turns out to change.
_MOST_TRIES = 16


class NeverEnds(Refused):
    """No other translation would end it either."""

    def __init__(self) -> None:
        super().__init__("nothing ends it", "give it a number of trips or a condition")


@dataclass(frozen=True)
class _State:
    """What a loop begins with. ``axes``: along which the tensors it carries, numbered as
    ``flatten`` has them, may have another size in each trip."""

    items: tuple[Item, ...]
    axes: Mapping[int, frozenset[int]] = field(default_factory=dict)


class _Changed(Exception):
    """A trip gives something that this state can't carry, but another can: one with these axes, or
    one where the sequence ``item`` has its length at run time, and tensors of the type ``like``.
    ``late`` are symbols that only the trip has."""

    def __init__(
        self, axes: Mapping[int, frozenset[int]], item: int | None = None,
        like: TensorType | None = None, late: Collection[str] = (),
    ) -> None:  # fmt: skip
        super().__init__()
        self.axes = axes
        self.item = item
        self.like = like
        self.late = late

    def after(self, n: Node, state: _State) -> _State:
        """The other state."""
        if self.item is None:
            return _State(state.items, self.axes)
        items = list(state.items)
        found = items[self.item]
        assert isinstance(found, ItemList)
        items[self.item] = stacked_list(n, found, self.like, self.late)
        return _State(tuple(items))


def at_run_time(
    n: Node, inline: Inline, trips: Dim | None, start: bool | None
) -> list[Item]:
    """One ``scf.for``, where nothing but the number of trips ends it, or ``scf.while``.

    Values that a trip makes larger or smaller are put aside between trips. Where that has no
    translation, sizes that may be equal are required to be. Raises Refused if neither has one.
    """
    if any(item is None for item in n.inputs[2:]):
        raise InvalidModelError(f"{n.op}: an initial value is left out")
    begin = _State(tuple(item for item in n.inputs[2:] if item is not None))
    try:
        with attempt(n, inline):
            return _with_changes(n, inline, trips, start, begin)
    except NeverEnds:
        raise
    except Refused as refusal:
        try:
            with attempt(n, inline):
                return _Run(n, inline, begin, True).loop(trips, start)
        except (Refused, _Changed):
            raise refusal from None


def _with_changes(
    n: Node, inline: Inline, trips: Dim | None, start: bool | None, state: _State
) -> list[Item]:
    for _ in range(_MOST_TRIES):
        constraints = list(n.e.context.constraints)
        try:
            return _Run(n, inline, state, False).loop(trips, start)
        except _Changed as changed:
            n.e.discarded = True
            n.e.context.constraints = constraints
            state = changed.after(n, state)
    raise Refused("what goes from trip to trip changes again and again", CHANGES)


class _Run:
    """One attempt at a loop. ``strict``: values keep their shapes."""

    def __init__(self, n: Node, inline: Inline, state: _State, strict: bool) -> None:
        self.n = n
        self.inline = inline
        self.state = state
        self.strict = strict
        self.inits, self.forms = flatten(state.items)
        self.late: set[str] = set()

    def loop(self, trips: Dim | None, start: bool | None) -> list[Item]:
        """The values after the loop, then the stacked rows."""
        n, carried = self.n, Carried(self.n.e, self.inits, self.state.axes)
        with n.e.region([STEP, *carried.types]) as region:
            going, values, rows = self._trip(region.own, carried)
            endless = truth(n, going) is True
            counted = trips is not None and endless and start is True
            if counted and trips == ENDLESS:
                raise NeverEnds
            count = n.e.simplify(maximum(trips, 0)) if counted and trips is not None else 0
            stacks = stack_types(n, rows, count)
            n.e.close([*([] if counted else [going]), *values, *rows])
        if not counted and not rows:
            found = n.e.loop(WHILE, lead(n), carried.inits, region, carried.types)
            return rebuild(carried.after(found, None, self.late), self.forms)
        if not counted:
            count = self._counted(endless)
            carried = Carried(n.e, self.inits, self.state.axes)
            with n.e.region([STEP, *carried.types]) as region:
                _, values, rows = self._trip(region.own, carried)
                stacks = stack_types(n, rows, count)
                n.e.close([*values, *rows])
        types = [*carried.types, *stacks]
        found = n.e.loop(FOR, [], carried.inits, region, types, trips=count)
        own = len(carried.types)
        last = carried.after(found[:own], count, self.late)
        return [*rebuild(last, self.forms), *found[own:]]

    def _trip(
        self, own: Sequence[Value], carried: Carried
    ) -> tuple[Value, list[Value], list[Value]]:
        """One trip, given its number and what it carries: whether to go on, what the next one is
        given, the rows."""
        n, body = self.n, self.n.attrs["body"]
        names = [value.name for value in body.input]
        before = carried.entered(own[1:])
        given = {names[0]: own[0], names[1]: n.e.scalar(True, BOOL)}
        given |= dict(zip(names[2:], rebuild(before, self.forms), strict=True))
        condition, *rest = inlined(self.inline, body, given)
        if not n.has(1):  # then what the body says of it is ignored
            condition = n.e.scalar(True, BOOL)
        self.late = set(binders(n.e.block))
        count = len(self.forms)
        values = self._next(before, rest[:count])
        rows = [tensor(n, item) for item in rest[count:]]
        going = n.e.reshape(n.e.cast(tensor(n, condition), BOOL), ())
        return going, carried.left(values), rows

    def _counted(self, endless: bool) -> Dim:
        """A late symbol for the number of trips."""
        n = self.n
        limit, flag = lead(n)
        none = n.e.scalar(0, I64)
        if endless:
            total = n.e.op("select", flag, n.e.op("max", limit, none), none)
        else:
            carried = Carried(n.e, self.inits, self.state.axes)
            with n.e.region([STEP, *carried.types, STEP]) as region:
                going, values, _ = self._trip(region.own[:-1], carried)
                n.e.close([going, *values, n.e.with_scalar("add", region.own[0], 1)])
            types = [*carried.types, STEP]
            total = n.e.loop(WHILE, [limit, flag], [*carried.inits, none], region, types)[-1]
        return n.e.bind(total, ["trips"], "the number of trips of a loop")[0]

    def _next(self, before: Sequence[Value], items: Sequence[Item]) -> list[Value]:
        """What a trip gives, as tensors of the types that are carried."""
        given = list(items)
        for i, form in enumerate(self.forms):
            item = given[i]
            if not form.listed or not isinstance(item, (ItemList, LateList)):
                continue
            if form == LATE:
                known = self.state.items[i]
                assert isinstance(known, LateList)
                given[i] = stacked_list(self.n, item, known.item)
            elif isinstance(item, LateList) or len(item.items) != form.count:
                self._as_late_list(i, item)
        values, forms = flatten(given)
        if forms != self.forms:
            raise Refused("a sequence or optional that goes from trip to trip changes", CHANGES)
        self._compare(before, values)
        return values

    def _as_late_list(self, i: int, after: ItemList | LateList) -> None:
        """Begin anew with a sequence of run-time length."""
        if self.strict:
            raise Refused("a sequence that goes from trip to trip changes its length", CHANGES)
        raise _Changed({}, i, item_type(after), self.late)

    def _compare(self, before: Sequence[Value], after: Sequence[Value]) -> None:
        if self.strict:
            return check_carried(self.n, before, self.forms, after)
        fault = unlike(self.forms, self.forms, list(before), list(after))
        if fault is not None:
            raise Refused(f"a value that goes from trip to trip changes: {fault}", CHANGES)
        axes = dict(self.state.axes)
        for i, (a, b) in enumerate(zip(before, after, strict=True)):
            have = axes.get(i, frozenset())
            more = {
                axis for axis, (x, y) in enumerate(zip(a.type.shape, b.type.shape, strict=True))
                if axis not in have and self._differ(x, y)
            }  # fmt: skip
            if more:
                axes[i] = have | more
        if axes != self.state.axes:
            raise _Changed(axes)
        self._require_same([v.type for v in before], after)

    def _differ(self, x: Dim, y: Dim) -> bool:
        """Whether a size is another one after a trip, or is found in each trip. Two sizes of which
        neither is known to be the larger are taken to be equal, which is checked."""
        if x == y:
            return False
        gap = self.n.e.simplify(add(y, mul(x, -1)))
        if isinstance(gap, int):
            return gap != 0
        facts = self.n.e.context.facts
        grows = facts.nonnegative(gap) or facts.nonnegative(mul(gap, -1))
        return grows or bool(symbols_of(y) & self.late)

    def _require_same(self, types: Sequence[TensorType], after: Sequence[Value]) -> None:
        for i, (a, b) in enumerate(zip(types, after, strict=True)):
            loose = self.state.axes.get(i, frozenset())
            for axis, (have, want) in enumerate(zip(b.type.shape, a.shape, strict=True)):
                if axis not in loose and have != want:
                    keeps_shape(self.n, i, have, want)


def keeps_shape(n: Node, i: int, have: Dim, want: Dim) -> None:
    """A size of a carried value that is checked in each trip."""
    n.e.context.require(have, "==", want, f"{n.op}: value {i} keeps its shape")


def stack_types(n: Node, rows: Sequence[Value], trips: Dim) -> list[TensorType]:
    """The types of stacked rows, asked for inside the loop's region."""
    found = stacked(n.e, rows, trips)
    if found is None:
        raise Refused("the size of its rows changes from trip to trip", CHANGES)
    return found


def lead(n: Node) -> list[Value]:
    """The limit and the first condition, one element each."""
    limit = n[0] if n.has(0) else n.e.scalar(ENDLESS, I64)
    flag = n[1] if n.has(1) else n.e.scalar(True, BOOL)
    return [n.e.reshape(n.e.cast(limit, I64), ()), n.e.reshape(n.e.cast(flag, BOOL), ())]


def check_carried(
    n: Node, inits: Sequence[Value], forms: list[Form], values: Sequence[Value]
) -> None:
    """A value that goes from trip to trip keeps its type: sizes that may be others are checked in
    each trip. Raises Refused where they are others."""
    fault = unlike(forms, forms, list(inits), list(values))
    if fault is not None:
        raise Refused(f"a value that goes from trip to trip changes: {fault}", CHANGES)
    for i, (a, b) in enumerate(zip(inits, values, strict=True)):
        if n.e.same_type(a.type, b.type):
            continue
        for have, want in zip(b.type.shape, a.type.shape, strict=True):
            if isinstance(n.e.simplify(add(have, mul(want, -1))), int) and have != want:
                raise Refused(
                    f"the value {i} that goes from trip to trip begins as {a.type}, and becomes "
                    f"{b.type}", CHANGES,
                )  # fmt: skip
            keeps_shape(n, i, have, want)


def truth(n: Node, condition: Value) -> bool | None:
    """A condition that is known at compile time."""
    known = n.knowledge.dims(condition)
    if known is None or len(known) != 1 or isinstance(known[0], Expr):
        return None
    return bool(known[0])


def tensor(n: Node, item: Item | None) -> Value:
    """The item, which must be one tensor."""
    if not isinstance(item, Value):
        raise InvalidModelError(f"{n.op}: its body gives a sequence where a tensor is needed")
    return item
