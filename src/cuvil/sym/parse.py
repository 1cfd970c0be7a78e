"""Text to expressions and constraints: the inverse of ``str``."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from cuvil.errors import InputError, InvalidModelError
from cuvil.sym.constraint import Constraint, given_as
from cuvil.sym.expr import Dim, add, floordiv, maximum, minimum, mod, mul, symbol

Read = TypeVar("Read")

_OPERATORS = {
    ast.Add: add,
    ast.Sub: lambda a, b: add(a, mul(b, -1)),
    ast.Mult: mul,
    ast.FloorDiv: floordiv,
    ast.Mod: mod,
}
_FUNCTIONS = {"max": maximum, "min": minimum, "floordiv": floordiv, "mod": mod}
_LARGEST = 2**63 - 1
_COMPARISONS = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.LtE: "<=",
    ast.Lt: "<",
    ast.GtE: ">=",
    ast.Gt: ">",
}


def _bad(text: str, why: str) -> InvalidModelError:
    return InvalidModelError(
        f"cannot read the dimension expression {text!r}: {why}",
        hint="write integers, names, + - * // %, max(a, b) and min(a, b)",
    )


def parse_dim(text: str | int) -> Dim:
    """``"2 * seq + 1"`` to an expression. Raises InvalidModelError on anything else."""
    if isinstance(text, int):
        return text
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _bad(text, "it is not an expression") from None
    return _dim(tree, text)


def _dim(node: ast.expr, text: str) -> Dim:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        return symbol(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return mul(_dim(node.operand, text), -1)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _applied(_OPERATORS[type(node.op)], (node.left, node.right), text)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        function = _FUNCTIONS.get(node.func.id)
        if function is not None and len(node.args) == 2 and not node.keywords:
            return _applied(function, node.args, text)
    raise _bad(text, f"{ast.unparse(node)!r} is not allowed in it")


def _applied(function: Callable[[Dim, Dim], Dim], args: Sequence[ast.expr], text: str) -> Dim:
    left, right = (_dim(arg, text) for arg in args)
    try:
        return function(left, right)
    except ZeroDivisionError:
        raise _bad(text, "it divides by zero") from None


def parse_constraint(text: str, origin: str | None = None) -> Constraint:
    """``"seq % 8 == 0"`` to a constraint, the user's unless an origin is named.

    Raises InvalidModelError on anything else."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _bad(text, "it is not a comparison") from None
    if not isinstance(tree, ast.Compare) or len(tree.ops) != 1:
        raise _bad(text, "a constraint is one comparison, such as 'seq % 8 == 0'")
    relation = _COMPARISONS.get(type(tree.ops[0]))
    if relation is None:
        raise _bad(text, "use one of == != <= < >= >")
    left, right = _dim(tree.left, text), _dim(tree.comparators[0], text)
    given = given_as(repr(text.strip())) if origin is None else origin
    return Constraint(left, relation, right, given)


def asked_dim(text: str | int) -> Dim:
    """What :func:`parse_dim` reads, of a text that the user gave. Raises InputError on anything
    else."""
    found = _asked(parse_dim, text)
    _check_numbers(found, text)
    return found


def asked_constraint(text: str) -> Constraint:
    """What :func:`parse_constraint` reads, of a text that the user gave. Raises InputError on
    anything else."""
    if not isinstance(text, str):
        raise InputError(f"{text!r} is no constraint", hint="write it as text: 'seq % 8 == 0'")
    found = _asked(parse_constraint, text)
    for side in (found.left, found.right):
        _check_numbers(side, text)
    return found


def _check_numbers(value: Dim, text: str | int) -> None:
    """Raise InputError for a number that no size can have: what is compiled counts in 64 bits."""
    if isinstance(value, int):
        if abs(value) > _LARGEST:
            raise InputError(
                f"{text!r} has the number {value}, which is beyond 64 bits",
                hint="leave it out, or give a smaller number: no size comes near it",
            )
        return
    for monomial, coefficient in value.terms:
        _check_numbers(coefficient, text)
        for atom, _ in monomial:
            for arg in atom.args:
                _check_numbers(arg, text)


def _asked(read: Callable[[Any], Read], text: object) -> Read:
    try:
        return read(text)
    except InvalidModelError as error:
        raise InputError(error.message, hint=error.hint) from None
