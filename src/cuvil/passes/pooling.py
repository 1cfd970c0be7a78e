"""Large windows of a maximum are walked one axis after the other."""

from __future__ import annotations

from cuvil.ir.core import Op, Value
from cuvil.rewrite.rewriter import Rewriter
from cuvil.rewrite.rule import Context, Outcome, Refusal, Rule, rule
from cuvil.sym.expr import mul

# Taps of the window over taps of the two passes, from where two passes pay for the memory between.
_GAIN = 3


@rule("separate-max-pool", "max_pool")
def separate_max_pool(op: Op, context: Context) -> Outcome:
    """max_pool(x, [kh, kw]) -> max_pool(max_pool(x, [kh]), [kw]), over h with w among the
    channels, then over w"""
    kernel = op.attrs["kernel"]
    if not op.attrs.get("channels_last") or len(kernel) != 2:
        return Refusal("it is no channels-last pooling over two axes")
    if kernel[0] * kernel[1] < _GAIN * (kernel[0] + kernel[1]):
        return Refusal("the window is small")
    n, h, w, c = op.operands[0].type.shape
    _, oh, ow, _ = op.type.shape

    def one_axis(rw: Rewriter, x: Value, axis: int) -> Value:
        attrs = {k: v[axis : axis + 1] if isinstance(v, tuple) else v for k, v in op.attrs.items()}
        return rw.op("max_pool", [x], attrs).result

    def action(rw: Rewriter) -> list[Value]:
        columns = rw.value("reshape", op.operands, shape=(n, h, mul(w, c)))
        tall = one_axis(rw, columns, 0)
        rows = rw.value("reshape", [tall], shape=(mul(n, oh), w, c))
        wide = one_axis(rw, rows, 1)
        return [rw.value("reshape", [wide], shape=(n, oh, ow, c))]

    return action


RULES: list[Rule] = [separate_max_pool]
