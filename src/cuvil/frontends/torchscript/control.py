"""prim::If and prim::Loop: taken while tracing where numbers decide, else torch's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._higher_order_ops.while_loop import while_loop_op
from torch._ops import HigherOrderOperator
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from cuvil.errors import InvalidModelError
from cuvil.frontends.torchscript.scalars import UNSET, is_tensor

if TYPE_CHECKING:
    from cuvil.frontends.torchscript.replay import Env, Node, Replay

MAX_TRIPS = 1 << 16
_DECIDES = "in a branch or loop that a tensor decides"


def _cond() -> HigherOrderOperator:
    return torch.ops.higher_order.cond  # type: ignore[no-any-return]


def decided(condition: Any) -> bool | None:
    """What a condition is; None for a tensor while a program is traced: only a call will tell."""
    tracing = is_tensor(condition) and bool(_get_current_dispatch_mode_stack())
    return None if tracing else bool(condition)


def branch(replay: Replay, node: Node, condition: Any, env: Env) -> Sequence[Any]:
    """The outputs of prim::If."""
    blocks = list(node.blocks())
    known = decided(condition)
    if known is not None:
        return replay.block(blocks[0 if known else 1], env)
    _refuse_outer_changes(node)
    names, held = _outer_tensors(node, env), replay.held(node, env)
    shapes: list[list[Any]] = [[], []]

    def side(index: int) -> Callable[..., tuple[torch.Tensor, ...]]:
        def run(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
            inner = {**env, **dict(zip(names, tensors))}
            with replay.undecided(dict(zip(held, tensors[len(names) :], strict=True))):
                found = [_as_tensor(x) for x in replay.block(blocks[index], inner)]
                if any(x is UNSET for x in found):
                    found = _filled(found, lambda: replay.block(blocks[1 - index], inner))
            shapes[index] = found
            if index:
                _check_alike(node, shapes)
            return tuple(x.clone() for x in shapes[index] if is_tensor(x))

        return run

    results = _cond()(condition, side(0), side(1), (*(env[n] for n in names), *held.values()))
    return _merged(node, shapes, list(results))


def _merged(node: Node, sides: list[list[Any]], tensors: list[Any]) -> list[Any]:
    """Outputs in order: tensors from the branch, others as both branches have them."""
    out = []
    for yes, no in zip(*sides, strict=True):
        if is_tensor(yes) and is_tensor(no):
            out.append(tensors.pop(0))
        else:
            out.append(yes)
    return out


def _filled(found: list[Any], other: Callable[[], list[Any]]) -> list[Any]:
    """Zeros for what is never read, of the shapes that the ``other`` branch gives; it is run
    without being recorded."""
    with disable_proxy_modes_tracing():
        like = [_as_tensor(x) for x in other()]
    return [
        torch.zeros(y.shape, dtype=y.dtype) if x is UNSET and is_tensor(y) else x
        for x, y in zip(found, like, strict=True)
    ]


def _check_alike(node: Node, sides: list[list[Any]]) -> None:
    """Raise InvalidModelError unless both branches give tensors, or the same for what is none."""
    for yes, no in zip(*sides, strict=True):
        if is_tensor(yes) != is_tensor(no) or (not is_tensor(yes) and yes != no):
            raise InvalidModelError(
                "a branch that a tensor decides gives something else than tensors: "
                f"{_kind(yes)} here and {_kind(no)} in the other",
                where=place_of(node),
                hint="let both branches give tensors",
            )


def _kind(value: Any) -> str:
    if isinstance(value, (list, tuple, dict)):
        return f"a {type(value).__name__} of {len(value)}"
    return "a tensor" if is_tensor(value) else repr(value)


def loop(replay: Replay, node: Node, inputs: Sequence[Any], env: Env) -> Sequence[Any]:
    """The outputs of prim::Loop: trips are made while tracing as long as numbers decide."""
    (block,) = node.blocks()
    names = [value.debugName() for value in block.inputs()]
    limit, going, *carried = inputs
    step = 0
    while True:
        known = decided(going)
        if known is None:
            return _while(replay, node, step, (limit, going, carried), env)
        if not known or step >= limit:
            return carried
        if step == MAX_TRIPS:
            raise InvalidModelError(f"a loop makes more than {MAX_TRIPS} trips while it is traced")
        env.update(zip(names, [step, *carried], strict=True))
        going, *carried = replay.block(block, env)
        step += 1


def _while(
    replay: Replay, node: Node, step: int, state: tuple[Any, Any, list[Any]], env: Env
) -> Sequence[Any]:
    _refuse_outer_changes(node)
    (block,) = node.blocks()
    names = [value.debugName() for value in block.inputs()]
    limit, going, carried = state
    carried = [_as_tensor(x) for x in carried]
    if any(x is UNSET for x in carried):
        raise InvalidModelError(
            "a return stands in a loop that a tensor ends",
            where=place_of(node),
            hint="keep the value in a variable, break, and return it behind the loop",
        )
    if not all(is_tensor(x) for x in carried):
        raise InvalidModelError(
            "a loop that a tensor ends carries something else than tensors",
            where=place_of(node),
            hint="carry tensors from trip to trip",
        )
    captured, held = _outer_tensors(node, env), replay.held(node, env)
    last = _number(min(int(limit), (1 << 63) - 1))

    def test(at: torch.Tensor, more: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        return torch.logical_and(more, at < rest[-1])

    def body(at: torch.Tensor, more: torch.Tensor, *rest: torch.Tensor) -> tuple[Any, ...]:
        values, outer = rest[: len(carried)], rest[len(carried) : -1]
        inner = {**env, **dict(zip(captured, outer))}
        inner.update(zip(names, [at, *values], strict=True))
        with replay.undecided(dict(zip(held, outer[len(captured) :], strict=True))):
            again, *results = replay.block(block, inner)
        again = again if is_tensor(again) else torch.full((), bool(again))
        return (at + 1, again.clone(), *(_as_tensor(x).clone() for x in results))

    start = (_number(step), going, *carried)
    around = (*(env[n] for n in captured), *held.values(), last)
    results = while_loop_op(test, body, start, around)
    return list(results[2:])


def _refuse_outer_changes(node: Node) -> None:
    """Raise InvalidModelError where a block changes something from around it: a list or dict, as
    only a call would tell what is in it afterwards, or a tensor in place, which torch refuses."""
    made: set[str] = set()

    def visit(block: Any) -> None:
        for inner in block.nodes():
            operands = list(zip(inner.inputs(), _arguments(inner)))
            for value, argument in operands:
                change = argument.alias_info is not None and argument.alias_info.is_write
                if change and value.debugName() not in made:
                    raise _change(inner, value.type().kind() == "TensorType")
            shared = (v for v, a in operands if a.alias_info is not None)  # of which it is a view
            kept = inner.kind() == "prim::GetAttr"  # by the module, as long as the call lasts
            if not kept and all(value.debugName() in made for value in shared):
                made.update(value.debugName() for value in inner.outputs())
            for nested in inner.blocks():
                visit(nested)

    for block in node.blocks():
        visit(block)


def _refusal(node: Node, what: str, hint: str) -> InvalidModelError:
    """The refusal of what only a call would decide, at the node's line."""
    return InvalidModelError(f"{what} {_DECIDES}", where=place_of(node), hint=hint)


def _change(node: Node, in_place: bool) -> InvalidModelError:
    name = node.kind().partition("::")[2]
    if in_place:
        return _refusal(
            node,
            f"a tensor from outside is written to in place ({name})",
            "make a new tensor instead (x = x * 2 for x *= 2, torch.where or scatter for "
            "x[i] = y), or write behind the branch",
        )
    set_item = name == "_set_item"
    what = "an item of a list or dict is set" if set_item else f"a list or dict is changed ({name})"
    hint = "write to a tensor of a fixed size instead, or decide by numbers"
    return _refusal(node, what, hint)


def _arguments(node: Node) -> Sequence[Any]:
    """The arguments of an operator's schema, which say what it writes to."""
    if not node.kind().startswith("aten::"):
        return ()
    schema: Any = torch._C.parse_schema(node.schema())
    return list(schema.arguments)


def refuse_write(node: Node, path: str) -> InvalidModelError:
    """The refusal of a write to an attribute that only a call would decide."""
    hint = "keep the value in a variable, and write it to the attribute behind the branch or loop"
    return _refusal(node, f"the attribute {path!r} is written", hint)


def refuse_raise(node: Node, text: object) -> InvalidModelError:
    """The refusal of an error that only a call would decide to raise."""
    hint = "take the check out, or make it of sizes and numbers"
    return _refusal(node, f"the model raises an error ({text})", hint)


def refuse_number(node: Node, argument: str) -> InvalidModelError:
    """The refusal of a number that only a call would tell, where torch asks for it beforehand."""
    name = node.kind().partition("::")[2]
    return _refusal(
        node,
        f"{name} is given a number ({argument}) that is made",
        "take the number from shapes, or write the operation with tensors (gather, "
        "index_select, torch.where)",
    )


def place_of(node: Node) -> str:
    """``file:line`` of the source, as far as it was kept: a write to an attribute has that of what
    it writes."""
    makers = [node, *(value.node() for value in reversed(list(node.inputs())))]
    for line in (line for maker in makers for line in str(maker.sourceRange()).splitlines()):
        if 'File "' in line:
            path, _, rest = line.partition('File "')[2].partition('"')
            return f"{path.rsplit('/', 1)[-1]}:{rest.partition('line ')[2].split(',')[0].strip()}"
    return str(node.kind())


def _as_tensor(value: Any) -> Any:
    """A number as a tensor: what a branch or a trip gives is known when the program runs."""
    kinds = {bool: torch.bool, int: torch.int64, float: torch.float64}
    kind = kinds.get(type(value))
    return value if kind is None else torch.full((), value, dtype=kind)


def _number(value: int) -> torch.Tensor:
    """A tensor that is made while the program runs: torch.tensor would be a constant of it."""
    return torch.full((), value, dtype=torch.int64)


def _outer_tensors(node: Node, env: Env) -> list[str]:
    """Names of the tensors that the blocks of a node read from outside, in order of first use."""
    found: dict[str, None] = {}

    def visit(block: Any) -> None:
        for inner in block.nodes():
            for value in inner.inputs():
                found.setdefault(value.debugName())
            for nested in inner.blocks():
                visit(nested)
        for value in block.outputs():
            found.setdefault(value.debugName())

    for block in node.blocks():
        visit(block)
    return [name for name in found if is_tensor(env.get(name))]
