"""Losses that ONNX defines by functions, which leave open what sizes go together."""

from __future__ import annotations

from cuvil.errors import InvalidModelError
from cuvil.frontends.onnx.node import Handler, Node
from cuvil.ir.core import Value


def _sizes(n: Node) -> None:
    """Scores [N, C, d1, ...], targets [N, d1, ...] and weights [C]; the function does the rest.

    The function picks scores by an index of any smaller size, and weights by any number.
    """
    scores, targets, require = n[0].type, n[1].type, n.e.context.require
    if scores.rank < 2 or targets.rank != scores.rank - 1:
        raise InvalidModelError(
            f"{n.op}: targets of rank {targets.rank} for scores of rank {scores.rank}",
            hint="scores are [N, C, d1, ...], targets [N, d1, ...]",
        )
    for i, size in enumerate(targets.shape):
        have = scores.shape[i + (i > 0)]
        require(size, "==", have, f"{n.op}: dimension {i} of the targets is that of the scores")
    weights = n.inputs[2] if len(n.inputs) > 2 else None
    if isinstance(weights, Value):
        if weights.type.rank != 1:
            raise InvalidModelError(f"{n.op}: weights {weights.type} are not [C]")
        require(weights.type.shape[0], "==", scores.shape[1], f"{n.op}: one weight a class")


TABLE: dict[str, Handler] = {
    "NegativeLogLikelihoodLoss": _sizes,
    "SoftmaxCrossEntropyLoss": _sizes,
}
