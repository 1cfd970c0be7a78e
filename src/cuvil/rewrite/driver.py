"""Applies rules until none fires: a worklist over the ops of a function."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from cuvil.errors import CuvilError
from cuvil.ir.control import region_views
from cuvil.ir.core import Block, Function, Op, walk
from cuvil.ir.late import binders, mentioned
from cuvil.rewrite.rewriter import Rewriter
from cuvil.rewrite.rule import Context, Refusal, Rule

# A rule set that keeps firing this many times per op is circular.
_CHANGES_PER_OP = 64


def apply_rules(rewriter: Rewriter, rules: Sequence[Rule], options: object = None) -> int:
    """Rewrite to a fixed point, dead ops removed; returns the number of changes. Regions inside
    are left alone.

    Raises CuvilError naming the rule when the rules don't come to rest.
    """
    by_root: dict[str, list[Rule]] = {}
    for rule in rules:
        for root in rule.roots:
            by_root.setdefault(root, []).append(rule)
    context = Context(rewriter.context.facts, options)
    work = deque(rewriter.function.body.ops)
    queued = {id(op) for op in work}
    changes = swept = 0
    limit = _CHANGES_PER_OP * (len(work) + 64)
    while work or changes > swept:
        if not work:  # a pattern may be deeper than the neighbours that were looked at again
            swept = changes
            work.extend(rewriter.function.body.ops)
            queued.update(map(id, work))
            continue
        op = work.popleft()
        queued.discard(id(op))
        if op.block is None:
            continue
        if is_dead(op):
            operands = list(op.operands)
            rewriter.erase(op)
            # One whose other user is gone may be taken into the user that is left.
            _requeue([x for v in operands for x in (v.op, v.only_user)], work, queued)
            continue
        fired = _try(op, by_root.get(op.short, ()), context, rewriter)
        if fired is None:
            continue
        changes += 1
        if changes > limit:
            raise CuvilError(f"the rewrite rules do not come to rest; last: {fired.name}")
        touched: list[Op | None] = list(rewriter.created)
        for made in rewriter.created:
            touched += [v.op for v in made.operands]
            for result in made.results:
                touched += result.users
        _requeue(touched, work, queued)
    return changes


def _try(
    op: Op, rules: Sequence[Rule], context: Context, rewriter: Rewriter
) -> Rule | None:
    for rule in rules:
        outcome = rule.apply(op, context)
        if isinstance(outcome, Refusal):
            rewriter.trace.refuse(rule.name, op, outcome.reason)
            continue
        if not rewriter.begin(rule.name, op, rule.required):
            continue
        rewriter.created.clear()
        operands = list(op.operands)
        replacement = outcome(rewriter)
        rewriter.replace(op, replacement)
        context.memo.clear()
        for value in replacement:
            if value.op is not None and value.op not in rewriter.created:
                rewriter.created.append(value.op)
        rewriter.created.extend(v.op for v in operands if v.op is not None)
        return rule
    return None


def _requeue(ops: Sequence[Op | None], work: deque[Op], queued: set[int]) -> None:
    for op in ops:
        if op is not None and op.block is not None and id(op) not in queued:
            queued.add(id(op))
            work.append(op)


def is_dead(op: Op) -> bool:
    """No result is used and it isn't a terminator."""
    return bool(op.results) and not any(r.uses for r in op.results)


def remove_dead(block: Block, rewriter: Rewriter) -> None:
    """Erase dead ops, last first, and those that bind late symbols which nothing mentions."""
    unused = _unused_binders(block, rewriter)
    op = block.last
    while op is not None:
        before = op.prev
        if is_dead(op) or id(op) in unused:
            rewriter.erase(op)
        op = before


def prune(function: Function) -> None:
    """Erase what is dead in the body and in every region, until nothing is."""
    for part in (*reversed(list(region_views(function))), function):
        count = -1
        while count != (count := sum(1 for _ in part.body.ops)):
            remove_dead(part.body, Rewriter(part))


def _unused_binders(block: Block, rewriter: Rewriter) -> set[int]:
    """Binders without results none of whose symbols is used; a constraint is a use."""
    late = {name: op for name, op in binders(block).items() if not op.results}
    if not late:
        return set()
    used = set[str]().union(*(mentioned(op) for op in walk(rewriter.function.body)))
    used = used.union(*(c.symbols() for c in rewriter.function.constraints))
    kept = {id(op) for name, op in late.items() if name in used}
    return {id(op) for op in late.values()} - kept
