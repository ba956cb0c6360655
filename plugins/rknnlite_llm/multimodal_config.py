"""``config.json`` of models of several parts (vision or audio encoders before a language model): where the language part is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from rknnlite.errors import ModelInvalid, ModelUnsupported, shown

from .container.architecture import Media

__all__ = ["COMPOSED", "LanguagePart", "language_part", "thinker_of"]


@dataclass(frozen=True)
class LanguagePart:
    """``config``: what ``config.json`` would be if the language part were alone; ``where`` it stands, for errors.

    ``composed``: there are other parts, and whether head and embeddings are one matrix is told by the tensors.
    """

    config: Mapping[str, Any]
    where: str = "config.json"
    composed: bool = False
    media: Optional[Media] = None


@dataclass(frozen=True)
class _Composed:
    """One kind of model.

    Attributes:
        family: of the language part; empty: as its ``model_type`` says.
        path: members on the way to the language part.
        usual: what the language part has where nothing is said.
        outer: fields beside those of the language part in files that have no object for it.
        media: what the model says of images, from ``config.json`` or the member before the last of ``path``.
    """

    family: str = ""
    path: tuple[str, ...] = ("text_config",)
    usual: Mapping[str, Any] = field(default_factory=dict)
    outer: frozenset[str] = frozenset()
    media: Optional[Callable[[Mapping[str, Any]], Media]] = None


def _number(config: Mapping[str, Any], key: str, default: float) -> Any:
    value = config.get(key)
    value = default if value is None else value
    if type(value) not in (int, float) or not 0 < value < 1 << 12:
        raise ModelInvalid(f"config.json: {key} is {shown(value)}")
    return value


def _pictures(patch: int, step: float = 0.0, deepstack: int = 0) -> Callable[[Mapping[str, Any]], Media]:
    """``patch``, ``step`` and ``deepstack`` where ``config.json`` does not say."""

    def media(config: Mapping[str, Any]) -> Media:
        vision = _object(config, "vision_config")
        layers = vision.get("deepstack_visual_indexes", [0] * deepstack)
        if not isinstance(layers, list) or (layers and not deepstack):
            raise ModelUnsupported(
                f"config.json: vision_config.deepstack_visual_indexes is {shown(layers)}, which is not computed here"
            )
        if step:  # the omni models say it outside
            inside = _number(vision, "tokens_per_second", step)
            seconds = _number(config, "position_id_per_seconds", inside)
        cell = _number(vision, "patch_size", patch) * _number(vision, "spatial_merge_size", 2)
        return Media(cell, float(seconds) if step else 0.0, len(layers))

    return media


def _object(config: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = config.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ModelInvalid(f"config.json is damaged: {key} is {shown(value)}, no object")
    return value


_VISION = frozenset(
    (
        "vision_config",
        "image_token_id",
        "video_token_id",
        "vision_start_token_id",
        "vision_end_token_id",
        "vision_token_id",
    )
)
_MINICPM = _VISION | {
    "version", "batch_vision_input", "batch_3d_resampler", "drop_vision_last_layer", "image_size", "patch_size", "query_num",
    "slice_config", "slice_mode", "use_image_id", "vision_batch_size", "mm_use_im_start_end", "scale_resolution",
    "audio_config", "audio_pool_step", "audio_chunk_length", "stream_input",
}  # fmt: skip
_MINICPM_VERSIONS = {"2.6": "qwen2", "4.5": "qwen3"}
_QWEN2_7B = {
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "intermediate_size": 22016,
    "max_position_embeddings": 32768,
    "vocab_size": 151936,
}
"""What transformers takes for a Qwen2 whose configuration says nothing, as the published Qwen2-Audio does."""
COMPOSED = {
    "qwen2_vl": _Composed("qwen2_vl_text", outer=_VISION, media=_pictures(14)),
    "qwen2_5_vl": _Composed("qwen2_5_vl_text", outer=_VISION, media=_pictures(14, step=4.0)),
    "qwen3_vl": _Composed("qwen3_vl_text", media=_pictures(16, deepstack=3)),
    "qwen3_5": _Composed("qwen3_5_text", media=_pictures(16)),
    "qwen3_5_moe": _Composed("qwen3_5_moe_text", media=_pictures(16)),
    "qwen2_5_omni": _Composed(
        "qwen2_5_omni_text", ("thinker_config", "text_config"), media=_pictures(14, step=25.0)
    ),
    "qwen2_5_omni_thinker": _Composed("qwen2_5_omni_text", media=_pictures(14, step=25.0)),
    "internvl": _Composed(),
    "internvl_chat": _Composed(path=("llm_config",)),
    "smolvlm": _Composed(usual={"model_type": "llama"}),
    "idefics3": _Composed(usual={"model_type": "llama"}),
    "minicpmv": _Composed("by version", outer=_MINICPM),
    "qwen2_audio": _Composed(usual={"model_type": "qwen2", **_QWEN2_7B}),
}
"""All kinds by ``model_type``."""


def language_part(config: Mapping[str, Any]) -> LanguagePart:
    """The language part of a model, or all of it. Raises ModelInvalid or ModelUnsupported."""
    kind = str(config.get("model_type"))
    if kind.endswith("_talker"):
        raise ModelUnsupported(
            f"config.json: {kind} is the part of an omni model that speaks; computed here is the part that writes, its thinker"
        )
    if kind not in COMPOSED:
        return LanguagePart(config)
    row, outside, inside = COMPOSED[kind], config, config
    nested = row.path[0] in config
    if not nested and not row.outer:
        raise ModelInvalid(f"config.json: a {kind} model without {row.path[0]}")
    for key in row.path if nested else ():
        outside, inside = inside, _object(inside, key)
    left = row.outer if not nested else frozenset()
    text = {**row.usual, **{key: value for key, value in inside.items() if key not in left}}
    text.pop("tie_word_embeddings", None)
    if row.family:
        text["model_type"] = _minicpm(config) if kind == "minicpmv" else row.family
    where = ".".join(row.path) if nested else ""
    return LanguagePart(
        text,
        f"config.json: {where}" if where else "config.json",
        True,
        row.media(outside) if row.media else None,
    )


def thinker_of(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """What stands for a whole model where one part of it only is computed: the thinker of an omni model, else all of it."""
    return _object(config, "thinker_config") or config


def _minicpm(config: Mapping[str, Any]) -> str:
    version = str(config.get("version"))
    if version not in _MINICPM_VERSIONS:
        raise ModelUnsupported(
            f"config.json: version is {shown(config.get('version'))}; computed here are MiniCPM-V {' and '.join(_MINICPM_VERSIONS)}"
        )
    return _MINICPM_VERSIONS[version]
