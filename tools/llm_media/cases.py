"""The small random models with an encoder that are compared, and what is said to them. Plain data, for any Python."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

VOCAB, IMAGE, VIDEO, AUDIO = 160, 150, 151, 152
"""Tokens of the vocabulary, and those in whose places embeddings go; text has smaller ones."""
ANSWER = 4
"""Tokens of an answer."""
HIDDEN = 64


@dataclass(frozen=True)
class Turn:
    """What is said in one turn: lengths of texts, and media by name (``image``, ``video``, ``frames``, ``audio``)."""

    name: str
    parts: tuple[Any, ...]
    seconds: float = 1.0


@dataclass(frozen=True)
class Case:
    """One model. ``size``: height and width in pixels of an image, of a frame; ``tokens``: embeddings of one image or audio.

    ``talks``: conversations of turns that follow each other. ``stands_in``: transformers has no class for the model; its language
    part is one of this kind, and its encoder is not there: random rows stand in for what it gives. ``apart``: by how much logits of
    the whole model and of its parts may differ in transformers.
    """

    name: str
    models: str
    kind: str
    config: dict[str, Any]
    size: tuple[int, int] = (0, 0)
    tokens: int = 0
    talks: tuple[tuple[Turn, ...], ...] = ()
    deepstack: int = 0
    stands_in: str = ""
    extra: dict[str, Any] = field(default_factory=dict)
    apart: float = 1e-4


_TEXT: dict[str, Any] = {
    "vocab_size": VOCAB, "hidden_size": HIDDEN, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 1024, "pad_token_id": None, "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip
_ROPE = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}
_IDS = {
    "image_token_id": IMAGE,
    "video_token_id": VIDEO,
    "vision_start_token_id": 153,
    "vision_end_token_id": 154,
}
_PATCHES: dict[str, Any] = {"patch_size": 4, "spatial_merge_size": 2, "temporal_patch_size": 2}
_IMAGE = (Turn("text and image", (5, "image", 7)),)
_IMAGES = (Turn("two images", (3, "image", 4, "image", 6)),)
_MIXED = (Turn("an image and a video in one run", (3, "image", 4, "frames", 5)),)
_OTHER = (Turn("a video and an image in one run", (4, "frames", 2, "image", 3)),)
_VIDEO = (Turn("video of three steps", (4, "video", 9)),)
_LONG = (Turn("video, half a second between steps", (4, "video", 9), 0.5),)
_TURNS = (
    Turn("first turn", (5, "image", 7)),
    Turn("second turn", (11,)),
    Turn("third turn, another image", (2, "image", 3)),
)
_AUDIO = (Turn("text and audio", (6, "audio", 8)),)
_AUDIOS = (Turn("first turn", (6, "audio", 8)), Turn("second turn, another audio", (3, "audio", 5)))
_WHISPER: dict[str, Any] = {
    "d_model": 32, "encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 64, "num_mel_bins": 16,
    "max_source_positions": 40,
}  # fmt: skip

EXAMPLE = Case("example", "of tests of programs", "qwen3_vl", {
    "text_config": {**_TEXT, "head_dim": 16, "rope_parameters": {**_ROPE, "mrope_section": [4, 2, 2]}, "vocab_size": 648,
        "hidden_size": 32, "intermediate_size": 32}, "image_token_id": 642, "video_token_id": 643, "vision_start_token_id": 640,
        "vision_end_token_id": 641, "vision_config": {**_PATCHES, "depth": 3, "hidden_size": 16, "out_hidden_size": 32, "num_heads": 1,
        "intermediate_size": 16, "num_position_embeddings": 16, "deepstack_visual_indexes": [0, 1, 2]},
}, (16, 16), 4, deepstack=3)  # fmt: skip
"""Smallest of all, and only made by name: the programs that tests run have its files."""
CASES = (
    Case("qwen2-vl", "Qwen2-VL", "qwen2_vl", {
        "text_config": {**_TEXT, "rope_parameters": _ROPE}, **_IDS,
        "vision_config": {**_PATCHES, "depth": 2, "embed_dim": 32, "hidden_size": HIDDEN, "num_heads": 2, "mlp_ratio": 2},
    }, (48, 32), 24, (_IMAGE, _IMAGES, _VIDEO, _TURNS)),
    Case("qwen2.5-vl", "Qwen2.5-VL", "qwen2_5_vl", {
        "text_config": {**_TEXT, "rope_parameters": _ROPE}, **_IDS,
        "vision_config": {**_PATCHES, "depth": 2, "hidden_size": 32, "out_hidden_size": HIDDEN, "num_heads": 2,
            "intermediate_size": 64, "window_size": 16, "fullatt_block_indexes": [1], "tokens_per_second": 2},
    }, (48, 32), 24, (_IMAGE, _IMAGES, _VIDEO, _LONG, _TURNS)),
    Case("qwen3-vl", "Qwen3-VL", "qwen3_vl", {
        "text_config": {**_TEXT, "head_dim": 16, "rope_parameters": {**_ROPE, "mrope_section": [4, 2, 2]}},
        **_IDS, "vision_config": {**_PATCHES, "depth": 4, "hidden_size": 32, "out_hidden_size": HIDDEN, "num_heads": 2,
            "intermediate_size": 64, "num_position_embeddings": 64, "deepstack_visual_indexes": [0, 1, 2]},
    }, (48, 32), 24, (_IMAGE, _IMAGES, (Turn("video, a time before each step", (4, "frames", 9)),), _MIXED, _OTHER, _TURNS), deepstack=3),
    Case("qwen3.5-vl", "Qwen3.5", "qwen3_5", {
        "text_config": {**_TEXT, "head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8,
            "linear_value_head_dim": 12, "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"],
            "rope_parameters": {**_ROPE, "partial_rotary_factor": 0.5, "mrope_section": [2, 1, 1], "mrope_interleaved": True}},
        **_IDS, "vision_config": {**_PATCHES, "depth": 2, "hidden_size": 32, "out_hidden_size": HIDDEN, "num_heads": 2,
            "intermediate_size": 64, "num_position_embeddings": 64},
    }, (48, 32), 24, (_IMAGE, _IMAGES, (Turn("video, a time before each step", (4, "frames", 9)),), _TURNS), apart=1e-3),
    Case("internvl3", "InternVL3, InternVL2.5", "internvl", {
        "text_config": {**_TEXT, "model_type": "qwen2"}, "image_token_id": IMAGE, "downsample_ratio": 0.5,
        "vision_config": {"model_type": "internvl_vision", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
            "intermediate_size": 64, "image_size": [32, 32], "patch_size": [4, 4]},
    }, (32, 32), 16, (_IMAGE, _IMAGES, _TURNS)),
    Case("smolvlm", "SmolVLM, SmolVLM2, Idefics3", "smolvlm", {
        "text_config": {**_TEXT, "model_type": "llama"}, "image_token_id": IMAGE, "scale_factor": 2,
        "vision_config": {"model_type": "smolvlm_vision", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
            "intermediate_size": 64, "image_size": 32, "patch_size": 4},
    }, (32, 32), 16, (_IMAGE, _IMAGES, _TURNS)),
    Case("minicpm-v", "MiniCPM-V 2.6 (language part)", "minicpmv", _TEXT, (32, 32), 16, (_IMAGE, _IMAGES, _TURNS), stands_in="qwen2"),
    Case("minicpm-v-4.5", "MiniCPM-V 4.5 (language part)", "minicpmv", {**_TEXT, "head_dim": 24}, (32, 32), 16,
        (_IMAGE, _IMAGES, _TURNS), stands_in="qwen3"),
    Case("qwen2-audio", "Qwen2-Audio", "qwen2_audio", {
        "text_config": {**_TEXT, "model_type": "qwen2"}, "audio_token_index": AUDIO,
        "audio_config": {"model_type": "qwen2_audio_encoder", **_WHISPER},
    }, tokens=20, talks=(_AUDIO, _AUDIOS)),
    Case("qwen2.5-omni", "Qwen2.5-Omni (thinker)", "qwen2_5_omni_thinker", {
        "text_config": {**_TEXT, "rope_parameters": _ROPE}, "image_token_index": IMAGE, "video_token_index": VIDEO,
        "audio_token_index": AUDIO, "audio_start_token_id": 155, "audio_end_token_id": 156, "vision_start_token_id": 153,
        "vision_end_token_id": 154, "position_id_per_seconds": 2,
        "vision_config": {**_PATCHES, "depth": 2, "hidden_size": 32, "out_hidden_size": HIDDEN, "num_heads": 2,
            "intermediate_size": 64, "window_size": 16, "fullatt_block_indexes": [1]},
        "audio_config": {**_WHISPER, "output_dim": HIDDEN, "n_window": 20},
    }, (48, 32), 24, (_IMAGE, _IMAGES, _LONG, _TURNS, _AUDIO), extra={"audio": 10}),
)  # fmt: skip
"""All cases. Of MiniCPM-V 2.6 and 4.5, which transformers has no class for, only the language part is compared."""


_MARKS = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
_QWENS: dict[str, Any] = {"marks": _MARKS, "markers": _MARKS[:3]}
_CLIP = {"image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}
_HALF = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
_CUT = {"patch_size": 4, "merge_size": 2, "temporal_patch_size": 2}
_EXTRA: dict[str, dict[str, Any]] = {
    "qwen2-vl": {**_QWENS, "processor": {**_CUT, **_CLIP}},
    "qwen2.5-vl": {**_QWENS, "processor": {**_CUT, **_CLIP}},
    "qwen3-vl": {**_QWENS, "processor": {**_CUT, **_HALF}},
    "internvl3": {"marks": ("<img>", "</img>", "<IMG_CONTEXT>"), "markers": ("<img>", "</img>", "<IMG_CONTEXT>"),
        "processor": {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}},
    "smolvlm": {"marks": ("<fake_token_around_image>", "<global-img>", "<image>"),
        "markers": ("<fake_token_around_image><global-img>", "<fake_token_around_image>", "<image>"), "processor": _HALF},
}  # fmt: skip


def _with_words(case: Case) -> Case:
    """The same with the tokens of a tokenizer, which markers come behind."""
    text = {**case.config["text_config"], "vocab_size": 648}
    ids: dict[str, Any] = {"image_token_id": 642}
    if "merge_size" in _EXTRA[case.name]["processor"]:
        ids.update(video_token_id=643, vision_start_token_id=640, vision_end_token_id=641)
    return Case(case.name, case.models, case.kind, {**case.config, "text_config": text, **ids}, case.size, case.tokens,
        deepstack=case.deepstack, extra=_EXTRA[case.name])  # fmt: skip


_TINY = {"hidden_size": 16, "num_heads": 1, "intermediate_size": 16}


def _tiny(case: Case, **vision: Any) -> Case:
    """A tower of a few kilobytes: tests have it as a ``.rknn`` file, too."""
    config = {**case.config, "vision_config": {**case.config["vision_config"], **_TINY, **vision}}
    return Case(
        f"tiny-{case.name}",
        case.models,
        case.kind,
        config,
        (16, 16),
        4,
        deepstack=case.deepstack,
        extra=case.extra,
    )


_WORDS = {case.name: _with_words(case) for case in CASES if case.name in _EXTRA}
WHOLE = (
    *_WORDS.values(),
    _tiny(_WORDS["qwen2.5-vl"], depth=2, window_size=8),
    _tiny(_WORDS["qwen3-vl"], depth=3, num_position_embeddings=16),
)
"""Those that are tried from a picture to text (``whole.py``). ``marks`` are the texts of the tokens from 640 on, ``markers`` those
before and behind a picture and in the place of its rows."""
