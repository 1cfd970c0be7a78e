"""Guards of a program that was exported elsewhere: torch keeps them as Python text.

Such a text compares sizes of the arguments, ``(L['x'].size()[1] % 4) == 0``. It is read as a tree,
never run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

from torch.export import ExportedProgram

from cuvil.errors import ShapeConstraintError
from cuvil.frontends.torch_export.symbols import Untranslatable, plain_bound
from cuvil.sym.constraint import Constraint
from cuvil.sym.expr import Dim, add, ceildiv, floordiv, maximum, minimum, mod, mul

Size = Callable[[str, int], Dim]
ORIGIN = "torch.export"
_OPERATORS: Mapping[type[ast.operator], Callable[[Dim, Dim], Dim]] = {
    ast.Add: add,
    ast.Sub: lambda a, b: add(a, mul(b, -1)),
    ast.Mult: mul,
    ast.FloorDiv: floordiv,
    ast.Mod: mod,
}
_FUNCTIONS: Mapping[str, Callable[[Dim, Dim], Dim]] = {
    "max": maximum, "min": minimum, "Max": maximum, "Min": minimum,
    "FloorDiv": floordiv, "CleanDiv": floordiv, "CeilDiv": ceildiv, "Mod": mod, "PythonMod": mod,
}  # fmt: skip
_COMPARISONS: Mapping[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.LtE: "<=", ast.Lt: "<", ast.GtE: ">=", ast.Gt: ">",
}  # fmt: skip


def saved_guards(program: ExportedProgram, size: Size) -> list[Constraint]:
    """The program's guards. ``size(name, axis)`` is a dim of the placeholder of that name; it
    raises KeyError where there is none.

    Raises ShapeConstraintError for a guard that can't be expressed: a program that may not run
    at some size must say so.
    """
    texts = getattr(program, "_guards_code", None) or ()
    return [constraint for text in texts for constraint in _read(text, size)]


def _read(text: str, size: Size) -> list[Constraint]:
    try:
        return _condition(ast.parse(text.strip(), mode="eval").body, size)
    except (KeyError, IndexError, RecursionError, SyntaxError, Untranslatable) as error:
        raise ShapeConstraintError(
            f"the program has the condition {text[:300]}, which can't be kept: {error}",
            hint="export it with fewer dynamic dims, or pass the module itself",
        ) from None


def _condition(node: ast.expr, size: Size) -> list[Constraint]:
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        return [c for value in node.values for c in _condition(value, size)]
    if not isinstance(node, ast.Compare):
        raise Untranslatable(ast.unparse(node))
    sides = [_dim(side, size) for side in (node.left, *node.comparators)]
    out = []
    for left, operator, right in zip(sides, node.ops, sides[1:]):
        relation = _COMPARISONS.get(type(operator))
        if relation is None:
            raise Untranslatable(ast.unparse(node))
        out.append(plain_bound(Constraint(left, relation, right, ORIGIN)))
    return out


def _dim(node: ast.expr, size: Size) -> Dim:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return mul(_dim(node.operand, size), -1)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_dim(node.left, size), _dim(node.right, size))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        function = _FUNCTIONS.get(node.func.id)
        if function is not None and len(node.args) >= 2 and not node.keywords:
            return reduce(function, [_dim(a, size) for a in node.args])
    if isinstance(node, ast.Subscript):
        axis, call = _constant(node.slice), node.value
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr == "size"
            and type(axis) is int
        ):
            return size(_placeholder(call.func.value), axis)
    raise Untranslatable(ast.unparse(node))


def _placeholder(node: ast.expr) -> str:
    """``L['d']['a'][0]`` as torch names its placeholder: ``d_a_0``."""
    parts: list[str] = []
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Subscript):
            parts.append(str(_constant(node.slice)))
        elif isinstance(node, ast.Attribute):
            parts.append(node.attr)
        else:
            raise Untranslatable(ast.unparse(node))
        node = node.value
    if node.id != "L" or not parts:
        raise Untranslatable(ast.unparse(node))
    return re.sub(r"\W", "_", "_".join(reversed(parts)))


def _constant(node: ast.expr) -> Any:
    return node.value if isinstance(node, ast.Constant) else None
