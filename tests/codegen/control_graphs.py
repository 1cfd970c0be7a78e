"""Random programs of branches and loops inside one another, over values of one shape."""

from __future__ import annotations

import random

import numpy as np

from cuvil.frontends.branches import filled, joined
from cuvil.frontends.emitter import Emitter
from cuvil.ir.control import FOR, STEP, WHILE
from cuvil.ir.core import Module, Value
from cuvil.ir.types import F32, I64, TensorType
from cuvil.sym.expr import Dim, symbol

N = symbol("n")
TYPE = TensorType((3, N), F32)
MAPS = ("add", "sub", "mul", "max", "min")


class Programs:
    """Values stay within (-1, 1): whatever is made ends with a tanh."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.e = Emitter({"n": (1, 40)})

    def module(self) -> Module:
        """A program of the inputs x, y, z [3, n] and k (i64)."""
        e = self.e
        pool = [e.input(name, TYPE) for name in "xyz"]
        self.count = e.input("k", STEP)
        pool += self.block(pool, 3, self.random.randint(3, 6))
        outputs = self.random.sample(pool, 3)
        outputs += [e.op("reduce_sum", pool[-1], axes=(1,), keepdims=False)]
        return e.finish(outputs, [f"out{i}" for i in range(len(outputs))])

    def block(self, pool: list[Value], depth: int, count: int) -> list[Value]:
        """``count`` steps that read what is there and what they make."""
        made: list[Value] = []
        for _ in range(count):
            kind = self.random.random()
            here = [*pool, *made]
            if depth and kind < 0.2:
                made += self.branch(here, depth - 1)
            elif depth and kind < 0.28:
                made.append(self.unequal(here, depth - 1))
            elif depth and kind < 0.5:
                made += self.loop(here, depth - 1)
            else:
                made.append(self.step(here))
        return made

    def step(self, pool: list[Value]) -> Value:
        e = self.e
        a, b = self.random.choice(pool), self.random.choice(pool)
        kind = self.random.randrange(6)
        if kind == 0:
            total = e.op("reduce_mean", a, axes=(1,), keepdims=True)
            return e.op("tanh", e.map("sub", b, total))
        if kind == 1:
            product = e.op("matmul", e.op("matmul", a, e.transpose(b, (1, 0))), b)
            return e.op("tanh", e.with_scalar("mul", product, 0.1))
        if kind == 2:
            turned = e.op("slice", a, start=(2, 0), size=(3, N), step=(-1, 1))
            return e.op("tanh", e.map("add", turned, b))
        if kind == 3:
            return e.op("cumsum", e.with_scalar("mul", a, 0.02), axis=1)
        if kind == 4:
            return self.fit(self.some(a))
        return e.op("tanh", e.map(self.random.choice(MAPS), a, b))

    def some(self, value: Value) -> Value:
        """The columns whose first element is positive: [3, late]."""
        e = self.e
        row = e.reshape(e.slice(value, 0, 0, 1), (N,))
        places = e.positions(e.with_scalar("gt", row, 0.0), "some", "positive columns")
        return e.op("gather", value, places, axis=1)

    def fit(self, value: Value) -> Value:
        """Columns of any number as [3, n]."""
        total = self.e.op("reduce_sum", value, axes=(1,), keepdims=True)
        scaled = self.e.with_scalar("mul", total, 0.1)
        return self.e.op("tanh", self.e.broadcast(scaled, TYPE.shape))

    def unequal(self, pool: list[Value], depth: int) -> Value:
        """A branch that gives some columns, and one that gives others; made of one size again."""
        flag = self.flag(pool)
        seeds = [self.random.random() for _ in range(2)]

        def body(number: int) -> list[Value]:
            again, self.random = self.random, random.Random(seeds[number])
            made = self.block(pool, depth, 2)
            found = self.some(made[-1]) if number else self.e.slice(made[-1], 1, 1, 1000)
            self.random = again
            return [found, made[0]]

        bodies = [lambda: body(0), lambda: body(1)]
        few, _ = joined(self.e, flag, bodies, [filled(self.e, b) for b in bodies])
        return self.fit(self.e.op("tanh", few))

    def flag(self, pool: list[Value]) -> Value:
        total = self.e.op(
            "reduce_sum", self.random.choice(pool), axes=(0, 1), keepdims=False
        )  # fmt: skip
        return self.e.with_scalar("gt", total, self.random.uniform(-0.5, 0.5))

    def picked(self, pool: list[Value], made: list[Value], count: int) -> list[Value]:
        """Results of a region: mostly new values, sometimes outer ones, sometimes one twice."""
        return [
            self.random.choice(made if self.random.random() < 0.8 else pool) for _ in range(count)
        ]

    def branch(self, pool: list[Value], depth: int) -> list[Value]:
        count = self.random.randint(1, 3)
        condition = self.flag(pool)
        regions = []
        for _ in range(2):
            with self.e.region() as region:
                made = self.block(pool, depth, self.random.randint(1, 3))
                self.e.close(self.picked(pool, made, count))
            regions.append(region)
        return self.e.branch(condition, regions, [TYPE] * count)

    def loop(self, pool: list[Value], depth: int) -> list[Value]:
        """A counted loop with rows that are summed up, or one that data ends."""
        e = self.e
        inits = [self.random.choice(pool) for _ in range(self.random.randint(1, 3))]
        rows = self.random.randint(0, 2)
        counted = self.random.random() < 0.6
        with e.region([STEP, *[TYPE] * len(inits)]) as region:
            step, *carried = region.own
            inside = [*pool, *carried, self.broadcast(step)]
            made = self.block(inside, depth, self.random.randint(1, 3))
            values = self.picked([*inside], made, len(inits))
            if counted:
                e.close([*values, *self.picked(inside, made, rows)])
            else:
                e.close([self.flag([*made, *carried]), *values])
        if not counted:
            limit = self.random.choice([e.scalar(self.random.randint(0, 4), I64), self.count])
            flag = self.flag(pool)
            types = [TYPE] * len(inits)
            return e.loop(WHILE, [limit, flag], inits, region, types)
        trips: Dim = self.random.choice([0, 1, 2, 5, N])
        stack = TYPE.with_shape((trips, *TYPE.shape))
        types = [TYPE] * len(inits) + [stack] * rows
        found = e.loop(FOR, [], inits, region, types, trips=trips)
        sums = [e.op("reduce_sum", v, axes=(0,), keepdims=False) for v in found[len(inits) :]]
        return [*found[: len(inits)], *(e.op("tanh", v) for v in sums)]

    def broadcast(self, step: Value) -> Value:
        small = self.e.with_scalar("mul", self.e.cast(step, F32), 0.01)
        return self.e.broadcast(small, TYPE.shape)


def inputs(n: int, seed: int) -> dict[str, np.ndarray]:
    """Inputs of a program."""
    rng = np.random.default_rng(seed)
    made = {name: rng.uniform(-1, 1, (3, n)).astype(np.float32) for name in "xyz"}
    return {**made, "k": np.array(rng.integers(-1, 5), np.int64)}
