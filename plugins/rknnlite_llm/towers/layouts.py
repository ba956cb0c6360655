"""Vision towers by model: where their tensors lie, and in what they differ. One row each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rknnlite.errors import ModelInvalid, ModelUnsupported, shown

from ..multimodal_config import thinker_of

__all__ = ["LAYOUTS", "Layout", "Tower", "tower_of"]


@dataclass(frozen=True)
class Layout:
    """Names of tensors without ``.weight``, and what is done with them.

    Attributes:
        prefixes: what may stand before the names of the tower; the first one that fits.
        patch: the convolution over patches.
        layer: before the names of a layer.
        norms: before attention, before the feed-forward network.
        attention: one name of query, key and value together, or three; and that behind them.
        feed: two names, or three where the first is a gate.
        merger: norm (may be empty) and linear layers.
        merger_prefixes: what may stand before those, where it is not that of the tower.
        rms: norms are RMS norms.
        scales: of what attention and feed-forward network add.
        positions: a table of positions, resampled to the grid that is asked for.
        resample: how that is done: ``bilinear`` with the corners in place, ``bicubic``, or the ``nearest`` one
            (``nearest64``: its borders counted in float64 first).
        first: a row before the patches, which has the first position; it is left out behind the layers.
        last: the norm behind all layers.
        rotary: positions turn queries and keys.
        act, epsilon, size: what the model has where ``config.json`` does not say; ``size`` in pixels.
        deepstack: merger behind single layers.
        two_frames: patches are of two pictures.
        resampler: what stands before the names of rows that ask the patches, so that any picture has as many tokens as there are.
    """

    prefixes: tuple[str, ...]
    patch: str
    layer: str
    norms: tuple[str, str]
    attention: tuple[tuple[str, ...], str]
    feed: tuple[str, ...]
    merger: tuple[str, ...]
    merger_prefixes: tuple[str, ...] = ()
    rms: bool = False
    scales: tuple[str, ...] = ()
    positions: str = ""
    resample: str = "bilinear"
    first: str = ""
    last: str = ""
    rotary: bool = False
    act: str = "gelu"
    epsilon: float = 1e-6
    size: int = 0
    deepstack: str = ""
    two_frames: bool = False
    resampler: str = ""
    markers: tuple[str, str, str, str] = ("", "", "", "")
    """Tokens before and behind a picture, in the place of its rows, and of those of a video, where ``config.json`` says no ids."""
    mean: tuple[float, float, float] = (0.5, 0.5, 0.5)
    std: tuple[float, float, float] = (0.5, 0.5, 0.5)


_CLIP: dict[str, Any] = {
    "mean": (0.48145466, 0.4578275, 0.40821073),
    "std": (0.26862954, 0.26130258, 0.27577711),
}
_IMAGENET: dict[str, Any] = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
_QWEN_MARKS = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
_QWEN: dict[str, Any] = {
    "prefixes": ("visual.", "model.visual.", "thinker.visual."),
    "patch": "patch_embed.proj",
    "layer": "blocks.{}.",
    "norms": ("norm1", "norm2"),
    "attention": (("attn.qkv",), "attn.proj"),
    "rotary": True,
    "two_frames": True,
    "markers": _QWEN_MARKS,
}
_SMOL: dict[str, Any] = {
    "prefixes": ("model.vision_model.", "vision_model."),
    "patch": "embeddings.patch_embedding",
    "layer": "encoder.layers.{}.",
    "norms": ("layer_norm1", "layer_norm2"),
    "attention": (("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), "self_attn.out_proj"),
    "feed": ("mlp.fc1", "mlp.fc2"),
    "merger": ("", "modality_projection.proj"),
    "merger_prefixes": ("model.connector.", "connector."),
    "positions": "embeddings.position_embedding",
    "resample": "nearest",
    "last": "post_layernorm",
    "act": "gelu_pytorch_tanh",
    "markers": ("<fake_token_around_image><global-img>", "<fake_token_around_image>", "<image>", ""),
}
_QWEN_2_5 = Layout(
    **_QWEN, **_CLIP, feed=("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"),
    merger=("merger.ln_q", "merger.mlp.0", "merger.mlp.2"), rms=True, act="silu", size=392,
)  # fmt: skip
_QWEN_3 = Layout(
    **_QWEN, feed=("mlp.linear_fc1", "mlp.linear_fc2"), merger=("merger.norm", "merger.linear_fc1", "merger.linear_fc2"),
    positions="pos_embed", act="gelu_pytorch_tanh", size=384,
)  # fmt: skip
LAYOUTS = {
    "qwen2_vl": Layout(
        **_QWEN, **_CLIP, feed=("mlp.fc1", "mlp.fc2"), merger=("merger.ln_q", "merger.mlp.0", "merger.mlp.2"),
        act="quick_gelu", size=392,
    ),
    "qwen2_5_vl": _QWEN_2_5,
    "qwen3_vl": replace(_QWEN_3, deepstack="deepstack_merger_list.{}."),
    "qwen3_5": _QWEN_3,
    "qwen3_5_moe": _QWEN_3,
    "internvl": Layout(
        **_IMAGENET, prefixes=("vision_tower.", "model.vision_tower."), patch="embeddings.patch_embeddings.projection",
        layer="encoder.layer.{}.", norms=("layernorm_before", "layernorm_after"),
        attention=(("attention.q_proj", "attention.k_proj", "attention.v_proj"), "attention.projection_layer"),
        feed=("mlp.fc1", "mlp.fc2"), scales=("lambda_1", "lambda_2"), positions="embeddings.position_embeddings",
        resample="bicubic", first="embeddings.cls_token", merger=("layer_norm", "linear_1", "linear_2"),
        merger_prefixes=("multi_modal_projector.", "model.multi_modal_projector."),
        markers=("<img>", "</img>", "<IMG_CONTEXT>", ""),
    ),
    "internvl_chat": Layout(
        **_IMAGENET, prefixes=("vision_model.",), patch="embeddings.patch_embedding", layer="encoder.layers.{}.",
        norms=("norm1", "norm2"), attention=(("attn.qkv",), "attn.proj"), feed=("mlp.fc1", "mlp.fc2"), scales=("ls1", "ls2"),
        positions="embeddings.position_embedding", resample="bicubic", first="embeddings.class_embedding", merger=("0", "1", "3"),
        merger_prefixes=("mlp1.",), markers=("<img>", "</img>", "<IMG_CONTEXT>", ""),
    ),
    "smolvlm": Layout(**_SMOL),
    "idefics3": Layout(**_SMOL),
    "minicpmv": Layout(
        prefixes=("vpm.",), patch="embeddings.patch_embedding", layer="encoder.layers.{}.", norms=("layer_norm1", "layer_norm2"),
        attention=_SMOL["attention"], feed=("mlp.fc1", "mlp.fc2"), merger=(), positions="embeddings.position_embedding",
        resample="nearest64", last="post_layernorm", act="gelu_pytorch_tanh", size=448, resampler="resampler.",
        markers=("<image>", "</image>", "<unk>", ""),
    ),
    "qwen2_5_omni": _QWEN_2_5,
    "qwen2_5_omni_thinker": _QWEN_2_5,
}  # fmt: skip
"""All towers by the model's ``model_type``. Qwen2.5-Omni's has three matrices for query, key and value; see ``tensors``."""


@dataclass(frozen=True)
class Tower:
    """A tower as ``config.json`` describes it; ``full``: layers whose attention is not cut into windows."""

    kind: str
    layout: Layout
    layers: int
    heads: int
    patch: int
    frames: int
    merge: int
    act: str
    epsilon: float
    size: int
    theta: float
    window: int = 0
    full: frozenset[int] = frozenset()
    deepstack: tuple[int, ...] = ()

    @property
    def cell(self) -> int:
        """Pixels of an edge of what becomes one token."""
        return self.patch * self.merge


def tower_of(config: Mapping[str, Any]) -> Tower | None:
    """The tower of a model, or None where it has none that is known here. Raises ModelInvalid or ModelUnsupported."""
    kind = str(config.get("model_type"))
    layout = LAYOUTS.get(kind)
    config = thinker_of(config)
    vision = config.get("vision_config")
    if layout is None or vision is None:
        return None
    if not isinstance(vision, Mapping):
        raise ModelInvalid(f"config.json is damaged: vision_config is {shown(vision)}, no object")
    merge = 1 if layout.resampler else _merge(config, vision)
    return Tower(
        kind=kind,
        layout=layout,
        layers=_whole(vision, ("depth", "num_hidden_layers"), 0)
        - (config.get("drop_vision_last_layer") is True),
        heads=_whole(vision, ("num_heads", "num_attention_heads"), 0),
        patch=_whole(vision, ("patch_size",), 14),
        frames=_whole(vision, ("temporal_patch_size",), 2) if layout.two_frames else 1,
        merge=merge,
        act=str(vision.get("hidden_act", layout.act)),
        epsilon=_real(vision, "layer_norm_eps", layout.epsilon),
        size=layout.size or _whole(vision, ("image_size",), 0),
        theta=_real(_inner(vision, "rope_parameters"), "rope_theta", 1e4),
        window=_whole(vision, ("window_size",), 112) if layout.rms else 0,
        full=frozenset(_numbers(vision, "fullatt_block_indexes")),
        deepstack=_numbers(vision, "deepstack_visual_indexes") if layout.deepstack else (),
    )


def _merge(config: Mapping[str, Any], vision: Mapping[str, Any]) -> int:
    """Patches of an edge of what becomes one token."""
    ratio = config.get("downsample_ratio")
    if ratio is not None:
        if type(ratio) is not float or not 0 < ratio <= 1 or (1 / ratio) % 1:
            raise ModelUnsupported(
                f"config.json: downsample_ratio is {shown(ratio)}, must be 1, 0.5, 0.25, ..."
            )
        return int(1 / ratio)
    return _whole(config, ("scale_factor",), _whole(vision, ("spatial_merge_size",), 2))


def _inner(vision: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = vision.get(key)
    return value if isinstance(value, Mapping) else {}


def _whole(config: Mapping[str, Any], keys: tuple[str, ...], usual: int) -> int:
    """A count under one of its names; a list has one for each direction, which must be the same."""
    found = next(((key, config[key]) for key in keys if config.get(key) is not None), (keys[0], usual))
    key, value = found
    if isinstance(value, (list, tuple)) and len(value) == 2 and value[0] == value[1]:
        value = value[0]
    if type(value) is not int or not 0 < value < 1 << 16:
        raise ModelInvalid(f"config.json: {key} of the vision tower is {shown(value)}")
    return value


def _real(config: Mapping[str, Any], key: str, usual: float) -> float:
    value = config.get(key, usual)
    if type(value) not in (int, float) or not 0 < value < 1e12:
        raise ModelInvalid(f"config.json: {key} of the vision tower is {shown(value)}")
    return float(value)


def _numbers(vision: Mapping[str, Any], key: str) -> tuple[int, ...]:
    value = vision.get(key, [])
    if not isinstance(value, list) or len(value) > 1 << 10 or any(type(one) is not int for one in value):
        raise ModelInvalid(f"config.json: {key} of the vision tower is {shown(value)}")
    return tuple(value)
