"""GFLOP/s of the native contraction kernels on the layers of well-known networks.

    python bench/native_gemm.py [--threads 1] [--only bert,resnet] [--seconds 0.15] [--no-peer]

Beside onnxruntime when it is installed: both are timed in turns on the same shapes, and the least
time of each counts, since a shared machine only ever adds time. A multiply-add counts as 2. The
peer runs a model of one node, so its convolutions also pay for changing layouts.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from cuvil.codegen.packing import (  # noqa: E402
    pack_conv_transpose,
    pack_conv_weights,
    pack_depthwise,
    pack_gemm_b,
)
from tests.native.conv_harness import CORE, WRAPPERS, Shape  # noqa: E402
from tests.native.harness import (  # noqa: E402
    INLINE_POOL,
    NATIVE,
    address,
    aligned_zeros,
    build,
    runnable,
)
from tests.native.test_gemm import WRAPPERS as GEMM_WRAPPERS  # noqa: E402

REAL_POOL = r"""
EXPORT void* make_pool(int32_t threads) { return cuvil::pool_create(threads); }
"""
ONE_THREAD = INLINE_POOL + "EXPORT void* make_pool(int32_t) { return nullptr; }\n"


@dataclass(frozen=True)
class Case:
    """One layer: a matrix product (m, n, k) or a convolution of some kind."""

    net: str
    kind: str
    shape: Shape
    mnk: tuple[int, int, int] = (0, 0, 0)

    @property
    def title(self) -> str:
        if self.kind == "gemm":
            return "m {} n {} k {}".format(*self.mnk)
        s = self.shape
        return f"{self.kind} {s.h}x{s.w}x{s.c} -> {s.oc}, {s.kh}x{s.kw} / {s.sh}"

    @property
    def flops(self) -> float:
        if self.kind == "gemm":
            return 2.0 * self.mnk[0] * self.mnk[1] * self.mnk[2]
        s = self.shape
        if self.kind == "transposed":
            return 2.0 * s.n * s.h * s.w * s.c * s.oc // s.groups * s.kh * s.kw
        _, oh, ow = s.out()
        return 2.0 * s.n * oh * ow * s.oc * s.kh * s.kw * s.c // s.groups


def gemm_cases() -> Iterator[Case]:
    sizes = {
        "bert": [(128, 768, 768), (128, 3072, 768), (128, 768, 3072)],
        "minilm": [
            (m, n, k) for m in (16, 128, 512) for n, k in ((384, 384), (1536, 384), (384, 1536))
        ],
        "vit": [(197, 768, 768), (197, 3072, 768), (197, 768, 3072)],
        "thin": [(m, 768, 768) for m in (1, 2, 4, 7, 15)] + [(1, 4096, 4096), (1, 1000, 2048)],
        "few": [(m, n, k) for m in (7, 14, 16, 28, 42, 64) for n, k in ((3072, 768), (768, 3072))],
        "large": [(1024, 1024, 1024), (512, 512, 8192), (2000, 2000, 2000), (1000, 64, 16)],
    }
    for net, shapes in sizes.items():
        for mnk in shapes:
            yield Case(net, "gemm", Shape(1, 1, 1, 1, 1), mnk)


def square(net: str, size: int, c: int, oc: int, k: int = 1, stride: int = 1) -> Case:
    """A convolution with pads k // 2, depthwise when c == -oc."""
    pad, end = k // 2, max(0, k // 2)
    depthwise = oc < 0
    shape = Shape(
        1,
        size,
        size,
        c,
        abs(oc),
        k,
        k,
        stride,
        stride,
        ph=pad,
        pw=pad,
        end_h=end,
        end_w=end,
        groups=c if depthwise else 1,
    )
    return Case(net, "depthwise" if depthwise else "conv", shape)


def conv_cases() -> Iterator[Case]:
    yield square("resnet", 224, 3, 64, 7, 2)
    previous = 64
    for size, width, stride in [(56, 64, 1), (28, 128, 2), (14, 256, 2), (7, 512, 2)]:
        entry = size * stride
        yield square("resnet", entry, previous, width)
        yield square("resnet", entry, width, width, 3, stride)
        yield square("resnet", size, width, 4 * width)
        yield square("resnet", entry, previous, 4 * width, 1, stride)
        yield square("resnet", size, 4 * width, width)
        yield square("resnet", size, width, width, 3)
        previous = 4 * width
    yield square("mobilenet", 224, 3, 32, 3, 2)
    blocks = [
        (112, 32, 32, 16, 1),
        (112, 16, 96, 24, 2),
        (56, 24, 144, 24, 1),
        (56, 24, 144, 32, 2),
        (28, 32, 192, 32, 1),
        (28, 32, 192, 64, 2),
        (14, 64, 384, 64, 1),
        (14, 64, 384, 96, 1),
        (14, 96, 576, 96, 1),
        (14, 96, 576, 160, 2),
        (7, 160, 960, 160, 1),
    ]
    for size, c, hidden, oc, stride in blocks:
        if hidden != c:
            yield square("mobilenet", size, c, hidden)
        yield square("mobilenet", size, hidden, -hidden, 3, stride)
        yield square("mobilenet", size // stride, hidden, oc)
    yield square("mobilenet", 7, 320, 1280)
    for size, c, k, stride in [
        (56, 144, 5, 2),
        (28, 240, 5, 1),
        (14, 480, 5, 1),
        (14, 672, 5, 2),
        (7, 1152, 5, 1),
        (112, 96, 3, 2),
    ]:
        yield square("efficientnet", size, c, -c, k, stride)
    yield Case("other", "transposed", Shape(1, 64, 64, 64, 32, 4, 4, 2, 2, ph=1, pw=1))
    yield Case("other", "transposed", Shape(1, 28, 28, 128, 128, 2, 2, 2, 2))
    yield Case("other", "transposed", Shape(1, 1, 200, 256, 128, 1, 16, 1, 8, pw=4))
    yield Case("other", "conv", Shape(1, 1, 3000, 80, 384, 1, 3, pw=1, end_w=1))
    yield Case(
        "other", "conv", Shape(1, 56, 56, 128, 128, 3, 3, ph=1, pw=1, end_h=1, end_w=1, groups=8)
    )


def onnx_call(case: Case, w: np.ndarray, threads: int) -> Callable[[], object] | None:
    """Runs the layer once as a model of one node; None without onnxruntime."""
    try:
        import onnx
        import onnxruntime as ort
        from onnx import TensorProto, helper, numpy_helper
    except ImportError:
        return None
    s, rng = case.shape, np.random.default_rng(0)
    if case.kind == "gemm":
        m, _, k = case.mnk
        x = rng.random((m, k), np.float32)
        node = helper.make_node("MatMul", ["x", "w"], ["y"])
    else:
        x = rng.random((s.n, s.c, s.h, s.w), np.float32)
        w = w.reshape(*w.shape[:2], s.kh, s.kw)  # without the depth of Cuvil's kernels
        op = "ConvTranspose" if case.kind == "transposed" else "Conv"
        node = helper.make_node(
            op,
            ["x", "w"],
            ["y"],
            group=s.groups,
            strides=[s.sh, s.sw],
            dilations=[s.dh, s.dw],
            pads=[s.ph, s.pw, *((s.ph, s.pw) if case.kind == "transposed" else (s.end_h, s.end_w))],
            kernel_shape=[s.kh, s.kw],
        )
    graph = helper.make_graph(
        [node],
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = ort.InferenceSession(
        onnx.ModelProto.SerializeToString(model), options, providers=["CPUExecutionProvider"]
    )
    return lambda: session.run(None, {"x": x})


def native_call(
    case: Case, library: ctypes.CDLL, nr: int, threads: int, pool: ctypes.c_void_p
) -> tuple[Callable[[], object], np.ndarray]:
    """A function that runs the layer once, and the weights in the framework's layout."""
    rng, s = np.random.default_rng(0), case.shape
    if case.kind == "gemm":
        m, n, k = case.mnk
        w = rng.random((k, n), np.float32)
        x, y = rng.random((m, k), np.float32), np.zeros((m, n), np.float32)
        packed, sizes = pack_gemm_b(w, nr), np.array([1, m, n, k, 0, k, 1, 0, 0, n], np.int64)
        count = library.scratch_bytes(ctypes.c_int64(k), 1, threads) // 4
    else:
        out = s.transposed_out() if case.kind == "transposed" else s.out()
        per_group = s.c // s.groups
        w = rng.random((s.oc, per_group, *s.kernel), np.float32)
        if case.kind == "transposed":
            w = rng.random((s.c, s.oc // s.groups, s.kh, s.kw), np.float32)
            out = (out[0], out[1] - s.ph, out[2] - s.pw)
            packed = pack_conv_transpose(w, s.groups, nr, (s.sh, s.sw))
        elif case.kind == "depthwise":
            packed, per_group = pack_depthwise(w), s.c
        else:
            packed = pack_conv_weights(w, s.groups, nr)
        x, y = rng.random((s.n, s.h, s.w, s.c), np.float32), np.zeros((s.n, *out, s.oc), np.float32)
        sizes = s.numbers(out)
        size = getattr(library, f"{case.kind}_scratch")
        size.restype = ctypes.c_int64
        sizes_of = (s.kh * s.kw, s.kw, per_group)
        count = size(*map(ctypes.c_int64, sizes_of), ctypes.c_int32(threads)) // 4
    scratch = aligned_zeros(count)
    line = aligned_zeros(packed.size)
    line[:] = packed.reshape(-1)
    kept = (sizes, x, line, y, None, scratch)
    arguments = (*map(address, kept), pool)
    function = getattr(library, case.kind)
    return lambda kept=kept: function(*arguments), w


def least(runs: list[Callable[[], object]], seconds: float, pause: float) -> list[float]:
    """Least seconds of each, taken in turns of about 10 ms."""
    best, loops = [1e9] * len(runs), []
    for run in runs:
        run()
        start = time.perf_counter()
        run()
        loops.append(max(1, int(0.004 / (time.perf_counter() - start))))
    end = time.perf_counter() + seconds * len(runs)
    while time.perf_counter() < end:
        for i, run in enumerate(runs):
            time.sleep(pause)  # the other's worker threads may still spin
            run()  # its own data back into the caches
            for _ in range(loops[i]):
                start = time.perf_counter()
                run()
                best[i] = min(best[i], time.perf_counter() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=0.15)
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--machine", default="")
    args = parser.parse_args()
    machine = next(m for m in runnable() if args.machine in ("", m.name))
    wrappers = WRAPPERS + GEMM_WRAPPERS
    threaded = (NATIVE / "core_threads.cpp").exists() and args.threads > 1
    core = (*CORE, "core_threads.cpp") if threaded else CORE
    with tempfile.TemporaryDirectory() as folder:
        library = build(
            Path(folder), machine, wrappers, core, REAL_POOL if threaded else ONE_THREAD
        )
    library.make_pool.restype = ctypes.c_void_p
    pool = ctypes.c_void_p(library.make_pool(args.threads))
    pause = 0.02 if args.threads > 1 else 0.0
    only = {name for name in args.only.split(",") if name}
    print(f"{machine.name}, {args.threads} thread(s); GFLOP/s (microseconds)")
    for case in [*gemm_cases(), *conv_cases()]:
        if only and case.net not in only:
            continue
        mine, w = native_call(case, library, machine.nr, args.threads, pool)
        peer = None if args.no_peer else onnx_call(case, w, args.threads)
        times = least([mine, peer] if peer else [mine], args.seconds, pause)
        cells = [f"{case.flops / t / 1e9:7.1f} ({t * 1e6:8.1f})" for t in times]
        ratio = f"  {times[1] / times[0]:5.2f}x" if peer else ""
        print(f"{case.net:12} {case.title:38} {' ort '.join(cells)}{ratio}", flush=True)


if __name__ == "__main__":
    main()
