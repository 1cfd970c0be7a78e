"""Factorisations of matrices (native/linalg.hpp, native/eigen.hpp)."""

from __future__ import annotations

from cuvil.codegen.kernel import THREADS, Kernel
from cuvil.codegen.native_call import NativeCall, flag
from cuvil.ir.core import Op
from cuvil.sym.expr import Dim, add, maximum, minimum, mul, product, symbol
from cuvil.sym.facts import Facts
from cuvil.target.base import Target

_DOUBLE = 8


class _Call(NativeCall):
    """The sizes of the first operand, and scratch of so many doubles a thread."""

    def __init__(self, op: Op, facts: Facts) -> None:
        super().__init__(op, facts)
        shape = op.operands[0].type.shape
        self.m, self.n = shape[-2], shape[-1]
        self.sizes = [self.text(product(shape[:-2])), self.text(self.m), self.text(self.n)]
        self.element = op.operands[0].type.dtype.cxx

    def doubles(self, count: Dim) -> str:
        return self.scratch(mul(mul(count, _DOUBLE), symbol(THREADS)))

    def pointers(self) -> str:
        inputs = [self.input(i) for i in range(len(self.op.operands))]
        return ", ".join([*inputs, *self.outputs])

    def call(self, include: str, *rest: str) -> Kernel:
        text = ", ".join([self.pointers(), *rest, "rc.pool"])
        return self.finish(include, f"cuvil::{self.op.short}<{self.element}>({text});")


def lu_factor(op: Op, facts: Facts, target: Target) -> Kernel:
    c = _Call(op, facts)
    work = c.doubles(mul(c.m, c.n))
    return c.call("linalg.hpp", *c.sizes, flag(op.attrs["pivot"]), work)


def exchanges_to_order(op: Op, facts: Facts, target: Target) -> Kernel:
    c = NativeCall(op, facts)
    shape = op.operands[0].type.shape
    batch, k = c.text(product(shape[:-1])), c.text(shape[-1])
    pointers = f"{c.input(0)}, {c.outputs[0]}"
    size = c.text(op.type.shape[-1])
    return c.finish(
        "linalg.hpp",
        f"cuvil::exchanges_to_order({pointers}, {batch}, {k}, {size}, {c.fault()}, rc.pool);",
    )


def cholesky(op: Op, facts: Facts, target: Target) -> Kernel:
    c = _Call(op, facts)
    return c.call("linalg.hpp", *c.sizes[:2], c.doubles(mul(c.m, c.m)))


def triangular_solve(op: Op, facts: Facts, target: Target) -> Kernel:
    c = _Call(op, facts)
    columns = op.operands[1].type.shape[-1]
    flags = (flag(op.attrs["upper"]), flag(op.attrs["unit"]))
    work = c.doubles(mul(c.m, columns))
    return c.call("linalg.hpp", *c.sizes[:2], c.text(columns), *flags, work)


def qr_factor(op: Op, facts: Facts, target: Target) -> Kernel:
    c = _Call(op, facts)
    return c.call("linalg.hpp", *c.sizes, c.doubles(mul(c.m, c.n)))


def householder_product(op: Op, facts: Facts, target: Target) -> Kernel:
    c = _Call(op, facts)
    factors = c.text(op.operands[1].type.shape[-1])
    return c.call("linalg.hpp", *c.sizes, factors, c.doubles(mul(mul(c.m, c.n), 2)))


def eigh(op: Op, facts: Facts, target: Target) -> Kernel:
    c = _Call(op, facts)
    work = c.doubles(add(mul(mul(c.m, c.m), 2), c.m))
    return c.call("eigen.hpp", *c.sizes[:2], work)


def svd(op: Op, facts: Facts, target: Target) -> Kernel:
    """Scratch as svd_doubles of native/eigen.hpp has it."""
    c = _Call(op, facts)
    full = bool(op.attrs["full"])
    tall, k = maximum(c.m, c.n), minimum(c.m, c.n)
    columns = tall if full else k
    square = mul(k, k)
    count = add(add(mul(tall, k), mul(square, 2)), add(mul(tall, columns), k))
    work = c.doubles(count)
    size = c.text(mul(count, _DOUBLE))
    return c.call("eigen.hpp", *c.sizes, flag(full), work, size)


def ldl_factor(op: Op, facts: Facts, target: Target) -> Kernel:
    c = _Call(op, facts)
    return c.call("ldl.hpp", *c.sizes[:2], c.doubles(mul(c.m, c.m)))


def ldl_solve(op: Op, facts: Facts, target: Target) -> Kernel:
    c = _Call(op, facts)
    columns = op.type.shape[-1]
    work = c.doubles(mul(c.m, columns))
    return c.call("ldl.hpp", *c.sizes[:2], c.text(columns), c.fault(), work)


def matrix_exp(op: Op, facts: Facts, target: Target) -> Kernel:
    c = _Call(op, facts)
    return c.call("linalg.hpp", *c.sizes[:2], c.doubles(mul(mul(c.m, c.m), 3)))
