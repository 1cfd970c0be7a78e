"""Models as WebAssembly beside onnxruntime-web, in headless Chromium.

``python bench/wasm.py --ort FOLDER [--models NAME ...] [--threads N] [--seconds S] [--json FILE]``

FOLDER is ``node_modules/onnxruntime-web`` of ``npm install onnxruntime-web``. Start is from a
page's script to the first output, each in a fresh browser that has nothing cached; calls take turns
in one page after both have warmed up. Errors are against the PyTorch model in float64.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import onnx
import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import cuvil  # noqa: E402
from examples import minilm  # noqa: E402
from tools.browser import run_page  # noqa: E402

PEERS = ("cuvil", "onnxruntime")
PAGE = ROOT / "bench" / "web" / "wasm.html"


@dataclass(frozen=True)
class Case:
    """A model, what it is called with, and its dynamic dimensions."""

    module: torch.nn.Module
    inputs: Mapping[str, torch.Tensor]
    dynamic: Any = None


class _Logits(torch.nn.Module):
    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.model(pixel_values=image).logits
        return logits


def _mobilenet() -> Case:
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    torch.manual_seed(0)
    model = MobileNetV2ForImageClassification(MobileNetV2Config(num_labels=1001)).eval()
    return Case(_Logits(model).eval(), {"image": torch.randn(1, 3, 224, 224)})


def _minilm() -> Case:
    tokens = minilm.made_up_tokens(1, 32)
    inputs = {name: torch.from_numpy(array) for name, array in tokens.items()}
    dynamic = {name: {0: "batch", 1: "seq"} for name in inputs}
    return Case(minilm.load_encoder(), inputs, dynamic)


class _Lstm(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(512, 512, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.lstm(x)[0]
        return found


def _lstm() -> Case:
    torch.manual_seed(0)
    return Case(_Lstm().eval(), {"x": torch.randn(1, 20, 512)})


CASES: Mapping[str, Callable[[], Case]] = {
    "mobilenet-v2": _mobilenet,
    "minilm": _minilm,
    "lstm": _lstm,
}


def prepare(name: str, folder: Path, peers: tuple[str, ...]) -> dict[str, Any]:
    """Write a model's files into ``folder``; returns what the page is told of it."""
    case = CASES[name]()
    made = cuvil.compile(
        case.module, tuple(case.inputs.values()), dynamic_dims=case.dynamic, target="wasm"
    )
    made.save(folder / f"{name}.wasm")
    if "onnxruntime" in peers:
        _export(case, folder / f"{name}.onnx")
    described: dict[str, Any] = {"name": name, "output": made.outputs[0].name, "inputs": []}
    for spec, tensor in zip(made.inputs, case.inputs.values()):
        file = f"{name}.{spec.name}.bin"
        (folder / file).write_bytes(tensor.numpy().tobytes())
        shape = list(tensor.shape)
        described["inputs"].append(
            {"name": spec.name, "dtype": spec.dtype, "shape": shape, "file": file}
        )
    with torch.no_grad():
        wide = [t.double() if t.is_floating_point() else t for t in case.inputs.values()]
        expected = case.module.double()(*wide).numpy().astype(np.float32)
    described["expected"] = f"{name}.expected.bin"
    (folder / described["expected"]).write_bytes(expected.tobytes())
    return described


def _export(case: Case, path: Path) -> None:
    """One ONNX file with the weights in it."""
    axes = case.dynamic and {name: dict(dims) for name, dims in case.dynamic.items()}
    torch.onnx.export(
        case.module, tuple(case.inputs.values()), str(path), input_names=list(case.inputs),
        dynamic_axes=axes, opset_version=17, dynamo=False,
    )  # fmt: skip
    onnx.save(onnx.load(str(path)), str(path))


def measure(model: Mapping[str, Any], folder: Path, arguments: argparse.Namespace) -> Any:
    """Starts and calls of one model, milliseconds."""
    page = "wasm.html#{}"
    job = {"model": model, "threads": arguments.threads}

    def ask(**more: Any) -> Any:
        return run_page(folder, page.format(quote(json.dumps({**job, **more}))), seconds=300)

    starts: dict[str, list[Any]] = {peer: [] for peer in arguments.peers}
    for _ in range(arguments.starts):
        for peer in arguments.peers:
            starts[peer].append(ask(kind="start", peer=peer))
    times = ask(kind="calls", peers=arguments.peers, seconds=arguments.seconds)
    return {
        peer: {
            "start_ms": {"min": min(s["ms"] for s in starts[peer]),
                         "median": statistics.median(s["ms"] for s in starts[peer])},
            "call_ms": {"min": min(times[peer]), "median": statistics.median(times[peer]),
                        "calls": len(times[peer])},
            "error": max(s["error"] for s in starts[peer]),
            "bytes": starts[peer][0]["bytes"],
        }
        for peer in arguments.peers
    }  # fmt: skip


def main() -> None:
    """Print a line a model and peer; write all of it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--ort", type=Path, help="node_modules/onnxruntime-web")
    parser.add_argument("--models", nargs="*", default=["mobilenet-v2", "minilm"], choices=CASES)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    arguments.peers = PEERS if arguments.ort else PEERS[:1]
    found = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / PAGE.name).write_bytes(PAGE.read_bytes())
        if arguments.ort:
            (folder / "ort").symlink_to((arguments.ort / "dist").resolve())
        for name in arguments.models:
            found[name] = measure(prepare(name, folder, arguments.peers), folder, arguments)
            for peer, row in found[name].items():
                code = sum(n for path, n in row["bytes"].items() if path.endswith((".wasm", "mjs")))
                print(
                    f"{name:14s} {peer:12s} start {row['start_ms']['median']:8.1f} ms  call "
                    f"{row['call_ms']['median']:8.2f} (min {row['call_ms']['min']:8.2f}) ms  "
                    f"code {code / 1000:8.0f} KB  error {row['error']:.1e}",
                    flush=True,
                )
    if arguments.json:
        arguments.json.write_text(json.dumps({"threads": arguments.threads, **found}, indent=1))


if __name__ == "__main__":
    main()
