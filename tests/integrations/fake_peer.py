"""A runtime that multiplies by what its file says, and that fails on request."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cuvil.integrations.bench.peers import Peer, Unavailable

HERE = "tests.integrations.fake_peer"
FAKE = Peer("fake", HERE, "numpy", "onnx", ("numpy",), apart=True)
BUILT = Peer("built", HERE, "numpy", "onnx", ("numpy",), HERE, ".built", apart=True)


class _Session:
    def __init__(self, text: str) -> None:
        self.text = text

    def bind(self, inputs: Mapping[str, Any]) -> Callable[[], Any]:
        def run() -> Any:
            if self.text == "dies":
                os._exit(3)
            if self.text == "hangs":
                time.sleep(60)
            if self.text == "raises":
                raise ValueError("no such operator\nand more lines")
            print("chatter on standard output")
            return [x * np.float32(self.text) for x in inputs.values()]

        return run

    def arrays(self, outputs: Any) -> Sequence[Any]:
        return list(outputs)


def open(path: str, threads: int) -> _Session:
    """Any file whose text is a number or a way to fail."""
    text = Path(path).read_text(encoding="utf-8")
    if text == "refuses":
        raise Unavailable("it is of no mind to")
    return _Session(text)


def build(path: str, threads: int, to: str) -> None:
    """Twice the number."""
    text = Path(path).read_text(encoding="utf-8")
    Path(to).write_text(str(2 * float(text)), encoding="utf-8")
