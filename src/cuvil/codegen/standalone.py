"""Kernels that fuse with nothing: pooling, recurrent layers, resize, sorting, scattering."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cuvil.codegen import standalone_linalg as linalg
from cuvil.codegen.kernel import Kernel
from cuvil.codegen.standalone_coupling import couple_pairs
from cuvil.codegen.standalone_custom import custom
from cuvil.codegen.standalone_pool import pool
from cuvil.codegen.standalone_recurrent import recurrent
from cuvil.codegen.standalone_region import roi_align, roi_max_pool
from cuvil.codegen.standalone_resize import resize
from cuvil.codegen.standalone_scan import cumsum, extreme, logcumsumexp
from cuvil.codegen.standalone_scatter import scatter_elements, scatter_nd
from cuvil.codegen.standalone_select import nms, positions, row_order
from cuvil.codegen.standalone_sort import topk
from cuvil.codegen.standalone_trees import tree_ensemble
from cuvil.errors import UnsupportedNode, UnsupportedOpError
from cuvil.ir.core import Op
from cuvil.ops.custom import CUSTOM
from cuvil.sym.facts import Facts
from cuvil.target.base import Target

Builder = Callable[[Op, Facts, Target], Kernel]

BUILDERS: Mapping[str, Builder] = {
    "max_pool": pool,
    "avg_pool": pool,
    "max_pool_indices": pool,
    "lstm": recurrent,
    "gru": recurrent,
    "rnn": recurrent,
    "resize": resize,
    "cumsum": cumsum,
    "cumprod": cumsum,
    "cummax": extreme,
    "cummin": extreme,
    "logcumsumexp": logcumsumexp,
    "topk": topk,
    "scatter_elements": scatter_elements,
    "scatter_nd": scatter_nd,
    "lu_factor": linalg.lu_factor,
    "exchanges_to_order": linalg.exchanges_to_order,
    "cholesky": linalg.cholesky,
    "triangular_solve": linalg.triangular_solve,
    "qr_factor": linalg.qr_factor,
    "householder_product": linalg.householder_product,
    "eigh": linalg.eigh,
    "svd": linalg.svd,
    "matrix_exp": linalg.matrix_exp,
    "ldl_factor": linalg.ldl_factor,
    "ldl_solve": linalg.ldl_solve,
    "tree_ensemble": tree_ensemble,
    "couple_pairs": couple_pairs,
    "positions": positions,
    "row_order": row_order,
    "nms": nms,
    "roi_align": roi_align,
    "roi_max_pool": roi_max_pool,
}


def builder_of(op: Op) -> Builder | None:
    """What makes the kernel of an op that stands alone; None if there is none."""
    found = BUILDERS.get(op.short)
    return custom if found is None and CUSTOM.of(op.name) is not None else found


def standalone_kernel(op: Op, facts: Facts, target: Target) -> Kernel:
    """The kernel of an op that stands alone. Raises UnsupportedOpError if it has none."""
    builder = builder_of(op)
    if builder is None:
        node = UnsupportedNode(op.name, str(op.results[0].type.dtype), str(op.loc), "no kernel")
        raise UnsupportedOpError([node], stage="codegen")
    return builder(op, facts, target)
