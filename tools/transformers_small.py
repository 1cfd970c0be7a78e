"""Small models of transformers' architectures, with inputs and the dims that may be symbolic."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any

import torch
from transformers import AutoConfig, AutoModel

from tools.lively import calibrate, enliven


def _words(text: str) -> list[str]:
    return text.split()


# By kind of input; the names are transformers' model types.
TEXT = _words(
    """
    albert apertus arcee bert bert-generation big_bird biogpt bitnet bloom camembert canine
    codegen cohere cohere2 convbert ctrl data2vec-text deberta deberta-v2 diffllama distilbert
    doge electra ernie ernie4_5 esm eurobert exaone4 falcon flaubert fnet gemma gemma2
    gemma3_text glm glm4 gpt2 gpt_bigcode gpt_neo gpt_neox gpt_neox_japanese gptj granite helium
    ibert layoutlm lilt llama longformer luke markuplm megatron-bert ministral mistral
    mobilebert modernbert modernbert-decoder mpnet mpt mra nanochat nemotron nomic_bert
    nystromformer olmo olmo2 olmo3 openai-gpt opt persimmon phi phi3 qwen2 qwen3 rembert roberta
    roberta-prelayernorm roc_bert roformer seed_oss smollm3 splinter squeezebert stablelm
    starcoder2 xglm xlm xlm-roberta xlm-roberta-xl xlnet xmod yoso mixtral qwen2_moe qwen3_moe
    olmoe granitemoe mamba mamba2 falcon_mamba jetmoe deepseek_v2 deepseek_v3 hunyuan_v1_dense
    lfm2
    """
)
ENCODERS = _words(
    """
    bart blenderbot blenderbot-small led m2m_100 marian mbart mt5 mvp pegasus plbart prophetnet
    t5 umt5 longt5 switch_transformers fsmt
    """
)
VISION = _words(
    """
    aimv2_vision_model beit bit clip_vision_model convnext convnextv2 cvt data2vec-vision deit
    dinov2 dinov2_with_registers dinov3_convnext dinov3_vit donut-swin dpt efficientnet focalnet
    glpn hgnet_v2 hiera ijepa levit mlcd_vision_model mobilenet_v1 mobilenet_v2 mobilevit
    mobilevitv2 pixio poolformer pvt pvt_v2 regnet resnet segformer siglip_vision_model
    siglip2_vision_model swiftformer swin swinv2 swin2sr textnet vit vit_mae vit_msn vitdet
    yolos timesformer videomae vivit
    """
)
AUDIO = _words(
    """
    audio-spectrogram-transformer data2vec-audio hubert sew sew-d unispeech unispeech-sat
    wav2vec2 wav2vec2-bert wav2vec2-conformer wavlm whisper moonshine encodec
    """
)
SERIES = ["patchtst", "patchtsmixer"]
ARCHITECTURES = tuple(sorted({*TEXT, *ENCODERS, *VISION, *AUDIO, *SERIES}))

# What makes a configuration small, by the usual names of its fields.
_SIZES: Mapping[str, int] = {
    "hidden_size": 32, "d_model": 32, "n_embd": 32, "dim": 32, "emb_dim": 32, "embed_dim": 32,
    "embedding_size": 32, "word_embed_proj_dim": 32, "decoder_hidden_size": 32,
    "intermediate_size": 64, "ffn_dim": 64, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
    "d_ff": 64, "n_inner": 64, "hidden_dim": 64, "dff": 64, "d_inner": 64, "ffn_hidden_size": 64,
    "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32,
    "num_hidden_layers": 2, "num_layers": 2, "n_layer": 2, "n_layers": 2, "encoder_layers": 2,
    "decoder_layers": 2, "num_encoder_layers": 2, "num_decoder_layers": 2,
    "decoder_num_hidden_layers": 1,
    "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4, "attention_heads": 4,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "decoder_num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "d_kv": 8, "kv_channels": 8,
    "num_encoder_attention_heads": 4, "num_decoder_attention_heads": 4,
    "vocab_size": 96, "max_position_embeddings": 64, "n_positions": 64, "n_ctx": 64,
    "type_vocab_size": 2, "image_size": 32, "patch_size": 8, "tubelet_size": 2, "num_frames": 2,
    "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2,
    "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 4, "max_source_positions": 64,
    "num_mel_bins": 16, "max_length": 64, "state_size": 8,
    "context_length": 32, "prediction_length": 8, "num_input_channels": 3, "patch_length": 8,
    "patch_stride": 8,
}  # fmt: skip
# What single architectures need besides.
_FIELDS: Mapping[str, Mapping[str, Any]] = {
    "audio-spectrogram-transformer": {"max_length": 64, "num_mel_bins": 16, "patch_size": 8},
    "big_bird": {"attention_type": "original_full"},
    "canine": {"num_hash_buckets": 64, "num_hash_functions": 4, "local_transformer_stride": 16},
    "deepseek_v2": {"kv_lora_rank": 8, "q_lora_rank": 8, "qk_rope_head_dim": 8,
                    "qk_nope_head_dim": 8, "v_head_dim": 8, "n_group": 1, "topk_group": 1,
                    "first_k_dense_replace": 1, "num_key_value_heads": 4},
    "deepseek_v3": {"kv_lora_rank": 8, "q_lora_rank": 8, "qk_rope_head_dim": 8,
                    "qk_nope_head_dim": 8, "v_head_dim": 8, "n_group": 1, "topk_group": 1,
                    "first_k_dense_replace": 1, "num_key_value_heads": 4},
    "codegen": {"rotary_dim": 4},
    "convnext": {"hidden_sizes": [8, 16, 24, 32], "patch_size": 4, "image_size": 64},
    "convnextv2": {"hidden_sizes": [8, 16, 24, 32], "patch_size": 4, "image_size": 64},
    "donut-swin": {"num_heads": [2, 2, 4, 4], "window_size": 2, "patch_size": 4, "image_size": 64},
    "efficientnet": {"hidden_dim": 2560},
    "esm": {"pad_token_id": 1, "mask_token_id": 2},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "gptj": {"rotary_dim": 4},
    "lilt": {"hidden_size": 48},
    "longformer": {"attention_window": [4, 4]},
    "mamba2": {"num_heads": 8, "head_dim": 8, "n_groups": 1, "expand": 2},
    "mobilevitv2": {"patch_size": 2, "image_size": 64},
    "phi3": {"pad_token_id": 0},
    "pvt": {"image_size": 64},
    "resnet": {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "embedding_size": 8},
    "sew-d": {"conv_dim": [16, 16], "conv_stride": [4, 2], "conv_kernel": [8, 3]},
    "swin": {"num_heads": [2, 2, 4, 4], "window_size": 2, "patch_size": 4, "image_size": 64},
    "swin2sr": {"num_heads": [2] * 6, "window_size": 4, "patch_size": 1},
    "swinv2": {"num_heads": [2, 2, 4, 4], "window_size": 2, "patch_size": 4, "image_size": 64},
    "t5": {"feed_forward_proj": "relu"},
    "xlm-roberta-xl": {"pad_token_id": 1},
    "xmod": {"default_language": "en_XX"},
}  # fmt: skip
# Fields that are not theirs to set.
_NOT: Mapping[str, tuple[str, ...]] = {
    "convnext": ("num_layers", "num_hidden_layers"),
    "convnextv2": ("num_layers", "num_hidden_layers"),
    "prophetnet": ("num_hidden_layers",),
}


def small_config(name: str) -> Any:
    """A configuration of a few thousand weights."""
    base = AutoConfig.for_model(name)
    fields: dict[str, Any] = {}
    for key, value in _SIZES.items():
        computed = isinstance(getattr(type(base), key, None), property)
        if not computed and isinstance(getattr(base, key, ()), (int, float, type(None))):
            fields[key] = value
    for key in ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"):
        number = getattr(base, key, None)
        if isinstance(number, int) and number >= 96:
            fields[key] = 1
    if isinstance(getattr(base, "depths", None), (list, tuple)):
        fields["depths"] = [1] * len(base.depths)
    for key in _NOT.get(name, ()):
        fields.pop(key, None)
    fields |= _FIELDS.get(name, {})
    config = AutoConfig.for_model(name, **fields)
    config._attn_implementation = "sdpa"
    return config


def build(name: str) -> tuple[Any, dict[str, Any], dict[str, Any] | None]:
    """A seeded model in evaluation mode, example inputs, and the dims that may be symbolic."""
    model, inputs, dims = _built(name)
    enliven(model)
    calibrate(model, inputs)
    return model, inputs, dims


def _built(name: str) -> tuple[Any, dict[str, Any], dict[str, Any] | None]:
    config = small_config(name)
    try:
        model = AutoModel.from_config(config)
    except ValueError:
        config._attn_implementation = "eager"
        model = AutoModel.from_config(config)
    model = model.eval()
    if name in ENCODERS or name in ("whisper", "moonshine"):
        model = model.get_encoder()
    accepted = inspect.signature(model.forward).parameters
    if name in TEXT or name in ENCODERS:
        return model, *_text(name, accepted)
    torch.manual_seed(1)
    if name in VISION:
        return model, *_vision(config, accepted, model)
    if name in AUDIO:
        return model, *_audio(name, config, model)
    past = torch.randn(2, config.context_length, config.num_input_channels)
    return model, {"past_values": past}, {"past_values": {0: "batch"}}


def _text(name: str, accepted: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    length = 32 if name in ("canine", "longformer", "mra", "nystromformer", "yoso") else 9
    ids = torch.randint(3, 90, (2, length), generator=torch.Generator().manual_seed(1))
    inputs = {"input_ids": ids}
    if "attention_mask" in accepted:
        mask = torch.ones_like(ids)
        mask[1, length - 3 :] = 0
        inputs["attention_mask"] = mask
    return inputs, {key: {0: "batch", 1: "seq"} for key in inputs}


def _vision(
    config: Any, accepted: Mapping[str, Any], model: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    size = getattr(config, "image_size", 32)
    high, wide = size if isinstance(size, (list, tuple)) else (size, size)
    if re.search("levit|glpn|dpt|mobilevit|segformer|pvt|focalnet|efficientnet", config.model_type):
        high, wide = max(high, 64), max(wide, 64)
    channels = getattr(config, "num_channels", 3)
    if "spatial_shapes" in accepted:
        patches = torch.randn(2, 16, channels * config.patch_size**2)
        shapes = torch.tensor([[4, 4], [2, 8]])
        given = {"pixel_values": patches, "pixel_attention_mask": torch.ones(2, 16).long()}
        return given | {"spatial_shapes": shapes}, {}
    shape: tuple[int, ...] = (2, channels, high, wide)
    if hasattr(config, "num_frames"):
        shape = (2, config.num_frames, channels, high, wide)
    given = {"pixel_values": torch.randn(shape)}
    if "noise" in accepted:  # else the model draws it: which patches are masked
        given["noise"] = torch.rand(2, (high // config.patch_size) * (wide // config.patch_size))
    return given, {key: {0: "batch"} for key in given}


def _audio(name: str, config: Any, model: Any) -> tuple[dict[str, Any], dict[str, Any] | None]:
    key = model.main_input_name
    if name == "whisper":
        return {key: torch.randn(1, config.num_mel_bins, 2 * config.max_source_positions)}, None
    if name == "audio-spectrogram-transformer":
        return {key: torch.randn(2, config.max_length, config.num_mel_bins)}, {key: {0: "batch"}}
    if name == "wav2vec2-bert":
        return {key: torch.randn(2, 12, config.feature_projection_input_dim)}, {key: {0: "batch"}}
    if name == "encodec":
        return {key: torch.randn(1, config.audio_channels, 1280)}, None
    return {key: torch.randn(2, 1600)}, {key: {0: "batch"}}
