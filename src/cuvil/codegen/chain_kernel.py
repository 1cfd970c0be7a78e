"""Kernels of a depthwise convolution and the 1x1 convolutions around it (native/chain.hpp).

``passes.chains`` puts two or three convolutions into one fused op; what is done to a result on the
way to the next one is written as a function that works on it in place.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuvil.analysis.index_map import trace_view
from cuvil.codegen.contraction_call import Call
from cuvil.codegen.finish import Finish, finish_between, finish_of, set_finish
from cuvil.codegen.kernel import THREADS, Kernel
from cuvil.ir.core import Op, Value
from cuvil.sym.expr import Dim, add, mul, symbol
from cuvil.sym.facts import Facts
from cuvil.target.base import Target

CHAIN_STRIP = 28
"""Pixels that are projected together (native CHAIN_STRIP)."""


def chain_scratch(k: int, w: Dim, mid: int, expand: bool, project: bool) -> Dim:
    """Native chain_scratch_bytes."""
    step = 16 * ((mid + 15) // 16 | 1)
    pixels = add(mul(k, w) if expand else 0, CHAIN_STRIP if project else 0)
    per_thread = add(mul(pixels, 4 * step), 64)
    return add((mid + 15) // 16 * 64, mul(symbol(THREADS), per_thread))


def chain_kernel(op: Op, mains: Sequence[Op], facts: Facts, target: Target) -> Kernel:
    """The kernel of a fused op whose region holds the convolutions ``mains``, in order."""
    at = next(i for i, main in enumerate(mains) if main.attrs["groups"] > 1)
    depthwise, before, after = mains[at], mains[:at], mains[at + 1 :]
    call = Call(op, mains[-1], facts)
    view = trace_view(mains[0].operands[0], facts)
    assert view is not None and len(before) < 2 and len(after) < 2
    n, h, w, mid = depthwise.operands[0].type.shape
    k = depthwise.operands[1].type.shape[-1]
    assert isinstance(mid, int) and isinstance(k, int)
    sizes = {
        "n": n, "h": h, "w": w, "c": mains[0].operands[0].type.shape[-1], "mid": mid,
        "oh": depthwise.type.shape[1], "ow": depthwise.type.shape[2],
        "oc": mains[-1].type.shape[-1], "k": k, "s": depthwise.attrs["strides"][0],
        "ph": depthwise.attrs["pads_lo"][0], "pw": depthwise.attrs["pads_lo"][1],
    }  # fmt: skip
    for name, size in sizes.items():
        call.set(name, size)
    call.set("x", call.pointer(view))
    packing = f"conv:1:{target.nr}"
    for main in before:
        call.set("expand", call.constant(main.operands[1], packing))
        _on_the_way(call, "expand", main, depthwise.operands[0])
    call.set("filter", call.constant(depthwise.operands[1], "depthwise"))
    for main in after:
        _on_the_way(call, "depthwise", depthwise, main.operands[0])
        call.set("project", call.constant(main.operands[1], packing))
    call.set("scratch", call.scratch(chain_scratch(k, w, mid, bool(before), bool(after))))
    finish = finish_of(op, call.main)
    if finish is not None and finish.residual is not None and not after:
        finish = None
    if finish is not None or call.plain():
        call.set("y", call.names[0])
        set_finish(call, finish or Finish())
    else:
        call.epilogue(call.main.type.shape[:-1], call.main.type.shape[-1])
    return call.finish("ChainArgs", "chain_f32", "chain.hpp")


def _on_the_way(call: Call, stage: str, main: Op, value: Value) -> None:
    """Say what makes ``value``, which the next convolution reads, of the result of ``main``."""
    finish = finish_between(main, value)
    if finish is not None and finish.residual is None:
        set_finish(call, finish, f"finish_{stage}")
    else:
        call.in_place(f"after_{stage}", main, value)
