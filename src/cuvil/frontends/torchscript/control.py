"""prim::If and prim::Loop: taken while tracing where numbers decide, else torch's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._higher_order_ops.while_loop import while_loop_op
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from cuvil.errors import InvalidModelError
from cuvil.frontends.torchscript.scalars import is_tensor

if TYPE_CHECKING:
    from cuvil.frontends.torchscript.replay import Env, Node, Replay

MAX_TRIPS = 1 << 16
# They change the list or table that is their first operand.
_CHANGES = ("aten::append", "aten::insert", "aten::extend", "aten::pop", "aten::_set_item")


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
    names = _outer_tensors(node, env)
    shapes: list[list[Any]] = [[], []]

    def side(index: int) -> Callable[..., tuple[torch.Tensor, ...]]:
        def run(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
            inner = {**env, **dict(zip(names, tensors, strict=True))}
            found = replay.block(blocks[index], inner)
            shapes[index] = [_as_tensor(x) for x in found]
            return tuple(x.clone() for x in shapes[index] if is_tensor(x))

        return run

    results = _cond()(condition, side(0), side(1), tuple(env[n] for n in names))
    return _merged(node, shapes, list(results))


def _merged(node: Node, sides: list[list[Any]], tensors: list[Any]) -> list[Any]:
    """Outputs in order: tensors from the branch, others as both branches have them."""
    out = []
    for yes, no in zip(*sides, strict=True):
        if is_tensor(yes) and is_tensor(no):
            out.append(tensors.pop(0))
        elif not is_tensor(yes) and not is_tensor(no) and yes == no:
            out.append(yes)
        else:
            raise InvalidModelError(
                "a branch that a tensor decides gives something else than tensors",
                where=place_of(node),
                hint="let both branches give tensors",
            )
    return out


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
    if not all(is_tensor(x) for x in carried):
        raise InvalidModelError(
            "a loop that a tensor ends carries something else than tensors",
            where=place_of(node),
            hint="carry tensors from trip to trip",
        )
    captured = _outer_tensors(node, env)
    last = _number(min(int(limit), (1 << 63) - 1))

    def test(at: torch.Tensor, more: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        return torch.logical_and(more, at < rest[-1])

    def body(at: torch.Tensor, more: torch.Tensor, *rest: torch.Tensor) -> tuple[Any, ...]:
        values, outer = rest[: len(carried)], rest[len(carried) : -1]
        inner = {**env, **dict(zip(captured, outer, strict=True))}
        inner.update(zip(names, [at, *values], strict=True))
        again, *results = replay.block(block, inner)
        again = again if is_tensor(again) else torch.full((), bool(again))
        return (at + 1, again.clone(), *(_as_tensor(x).clone() for x in results))

    start = (_number(step), going, *carried)
    results = while_loop_op(test, body, start, (*(env[n] for n in captured), last))
    return list(results[2:])


def _refuse_outer_changes(node: Node) -> None:
    """Raise InvalidModelError where a block changes a list or table from around it: how long that
    is afterwards only a call would tell."""
    made: set[str] = set()

    def visit(block: Any) -> None:
        made.update(value.debugName() for value in block.inputs())
        for inner in block.nodes():
            made.update(value.debugName() for value in inner.outputs())
            first = next(iter(inner.inputs()), None)
            if inner.kind() in _CHANGES and first is not None and first.debugName() not in made:
                raise InvalidModelError(
                    f"a list or dict is changed ({inner.kind()}) in a branch or loop that a tensor "
                    "decides",
                    where=place_of(inner),
                    hint="write to a tensor of a fixed size instead, or decide by numbers",
                )
            for nested in inner.blocks():
                visit(nested)

    for block in node.blocks():
        visit(block)


def place_of(node: Node) -> str:
    """``file:line`` of the source, as far as it was kept."""
    first = str(node.sourceRange()).strip().splitlines()
    for line in first:
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
