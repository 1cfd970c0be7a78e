"""What torch says while it exports, kept from users: it either is no news or is raised again."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from cuvil.frontends.alone import ALONE

_LOGGERS = (
    "torch._subclasses.fake_tensor",  # a traceback for each operator that refuses its arguments
    "torch.export",  # a traceback for a file that it can't read
    "torch.fx.experimental.symbolic_shapes",  # remarks about decisions on a tensor's values
)
_WARNINGS: tuple[tuple[str, type[Warning]], ...] = (
    # Of torch's pytree about torch's own specs, whenever an exported program is copied.
    (r"`isinstance\(treespec, LeafSpec\)` is deprecated", FutureWarning),
    # What recurrent layers do with their flat weights; the exported program keeps them.
    (r"(?s)The tensor attributes? .* assigned during export", UserWarning),
)


@contextmanager
def quiet() -> Iterator[None]:
    """Inside, these warnings and these loggers' messages don't appear; all is restored after.

    A logger that the user has set to debugging (with TORCH_LOGS, say) keeps its say.
    """
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    with ALONE.held(), warnings.catch_warnings():
        levels = [(x, x.level) for x in loggers if not 0 < x.level < logging.WARNING]
        for message, category in _WARNINGS:
            warnings.filterwarnings("ignore", message, category)
        try:
            for logger, _ in levels:
                logger.setLevel(logging.CRITICAL)
            yield
        finally:
            for logger, level in levels:
                logger.setLevel(level)
