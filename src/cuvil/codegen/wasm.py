"""What a WebAssembly module has besides the model's kernels and tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

_WORDS_A_LINE = 8


def emit_wasm(weights: bytes | None) -> str:
    """C++ text that defines ``cuvil_weights_inside``, which gives ``weights`` if these are to lie
    in the module's data, else null."""
    head = '#include "wasm.hpp"\n\n'
    function = "const void* cuvil_weights_inside(void) {{ return {}; }}\n"
    if not weights:
        return head + function.format("nullptr")
    words = np.frombuffer(weights.ljust(-(-len(weights) // 8) * 8, b"\0"), "<u8")
    texts = [f"0x{int(word):x}u" for word in words]
    lines = (
        ", ".join(texts[i : i + _WORDS_A_LINE]) for i in range(0, len(texts), _WORDS_A_LINE)
    )
    table = ",\n    ".join(lines)
    return (
        f"{head}alignas(CUVIL_ALIGNMENT) static const uint64_t weights[] = {{\n    {table}}};\n\n"
        + function.format("weights")
    )


def weights_image(parts: Iterable[tuple[int, Any]], size: int) -> bytes:
    """Weights as they lie in a file: arrays at their offsets, and zeros between them."""
    image = bytearray(size)
    for offset, array in parts:
        data = np.ascontiguousarray(array).tobytes()
        image[offset : offset + len(data)] = data
    return bytes(image)
