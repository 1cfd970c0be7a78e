"""A PyTorch model as an ONNX file, for the peers that read one."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from cuvil.integrations.bench.peers import Unavailable
from cuvil.integrations.bench.torch_file import Bundle


def export_onnx(
    bundle: Bundle, inputs: Mapping[str, Any], outputs: Sequence[str], path: Path
) -> None:
    """Export at the sizes of ``inputs``: with torch's new exporter if onnxscript is installed,
    else with the old one, which traces. Raises Unavailable with the exporter's reason.
    """
    args, kwargs = bundle.arguments(inputs)
    dynamo = find_spec("onnxscript") is not None
    options: dict[str, Any] = {"dynamo": dynamo, "output_names": list(outputs)}
    if not dynamo:
        options.update(opset_version=17, do_constant_folding=True)
    try:
        with _quiet_loggers(), warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            with torch.no_grad():
                torch.onnx.export(
                    bundle.module(),
                    tuple(args),
                    str(path),
                    kwargs=dict(kwargs),
                    input_names=list(bundle.names),
                    **options,
                )
    except Exception as error:
        exporter = "torch.onnx.export" + ("" if dynamo else " without onnxscript")
        reason = str(error).strip().split("\n", 1)[0]
        raise Unavailable(f"{exporter} failed: {type(error).__name__}: {reason}") from None


@contextlib.contextmanager
def _quiet_loggers() -> Iterator[None]:
    """They warn of operator libraries that aren't installed and of constants they don't fold."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels):
            logger.setLevel(level)
