"""Plain values as the structures of one version; what a version has no member for is refused, never left out."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid, ParamInvalid
from rknnlite.spi.llm import InputKind, LlmParams, SamplingParams

from .abi.revisions import Revision, versions_with
from .requests import NO_MIROSTAT, CrossAttention, Media, Mirostat, Mode, Run, RunInput, Start

__all__ = [
    "Kept",
    "check_role",
    "cross_struct",
    "fill_param",
    "infer_struct",
    "input_structs",
    "sampling_values",
]

Array = NDArray[Any]
Kept = list[Any]
"""What C points to and Python has to keep until the call has returned."""
_NO_SAMPLING = ("seed", "min_p", "logit_bias")


def sampling_values(sampling: SamplingParams, mirostat: Mirostat = NO_MIROSTAT) -> dict[str, Any]:
    """Members of ``RKLLMParam`` and ``RKLLMSamplingParam``; raises ParamInvalid for what the library cannot do."""
    usual = SamplingParams()
    foreign = [name for name in _NO_SAMPLING if getattr(sampling, name) != getattr(usual, name)]
    if foreign:
        raise ParamInvalid(
            f"librkllmrt has no {', '.join(foreign)} (it draws with a seed of its own); leave it out, or take another backend"
        )
    if sampling.top_k < 1:
        raise ParamInvalid(
            f"top_k is {sampling.top_k}; what librkllmrt does below 1 is not documented: give 1 (greedy) or more"
        )
    values = {
        field.name: getattr(sampling, field.name)
        for field in fields(sampling)
        if field.name not in _NO_SAMPLING
    }
    names = ("mirostat", "mirostat_tau", "mirostat_eta")
    return {**values, **dict(zip(names, mirostat))}


def one_of(params: LlmParams | Sequence[LlmParams]) -> LlmParams:
    """The one set of parameters; raises ParamInvalid for several, or for what is none."""
    given = [params] if isinstance(params, LlmParams) else list(params)
    if len(given) != 1 or not isinstance(given[0], LlmParams) or given[0].logits_name not in ("", "logits"):
        raise ParamInvalid("librkllmrt has one logits output; give one LlmParams, without logits_name")
    if given[0].max_context_len < 0:
        raise ParamInvalid(f"max_context_len is {given[0].max_context_len}, must be 0 (the model's) or more")
    return given[0]


def fill_param(param: Any, abi: Revision, start: Start, kept: Kept) -> None:
    """Write what a model is opened with over the library's defaults; raises ParamInvalid."""
    _text(param, "modelPath" if hasattr(param, "modelPath") else "model_path", start.model, kept)
    values = {
        "max_context_len": start.max_context_len,
        "max_new_tokens": start.max_new_tokens,
        **sampling_values(start.sampling, start.mirostat),
    }
    for name, value in values.items():
        setattr(param, name, value)
    _set(param, abi, "n_keep", start.n_keep, start.n_keep is not None)
    _set(param, abi, "ignore_eos_token", start.ignore_eos_token, start.ignore_eos_token)
    _set(param, abi, "num_npu_core", start.npu_cores, start.npu_cores is not None)
    if hasattr(param, "skip_special_token"):
        param.skip_special_token = start.skip_special_token
    if hasattr(param, "is_async"):
        param.is_async = False
    if hasattr(param, "img_start") and any(start.image_tags):  # else the library's own
        for name, tag in zip(("img_start", "img_end", "img_content"), start.image_tags):
            _text(param, name, tag, kept)
    if abi.RKLLMExtendParam is not None:
        _fill_extend(param.extend_param, abi, start)
    else:
        _set(param, abi, "base_domain_id", start.base_domain_id, start.base_domain_id != 0)
        _set(param, abi, "n_batch", start.n_batch, start.n_batch != 1)
        _set(param, abi, "use_cross_attn", start.cross_attention, start.cross_attention)


def _fill_extend(extend: Any, abi: Revision, start: Start) -> None:
    extend.base_domain_id = start.base_domain_id
    if hasattr(extend, "embed_flash"):
        extend.embed_flash = start.embed_flash
    if start.cpus and hasattr(extend, "enabled_cpus_mask"):
        extend.enabled_cpus_mask = start.cpus
        extend.enabled_cpus_num = bin(start.cpus).count("1")
    _set(extend, abi, "n_batch", start.n_batch, start.n_batch != 1)
    _set(extend, abi, "use_cross_attn", start.cross_attention, start.cross_attention)


def _set(struct: Any, abi: Revision, name: str, value: Any, wanted: bool) -> None:
    """Set a member that not all versions have; one that is wanted and is not there is refused."""
    if hasattr(struct, name):
        if value is not None:
            setattr(struct, name, value)
    elif wanted:
        raise ParamInvalid(f"librkllmrt {abi.known_as} has no {name}; it needs {_versions(name)}")


def _versions(member: str) -> str:
    """Which versions have a member of the parameters."""
    places = ("RKLLMParam", "RKLLMExtendParam", "RKLLMInferParam")
    return versions_with(lambda abi: any(abi.has_field(place, member) for place in places))


def input_structs(abi: Revision, inputs: tuple[RunInput, ...], kept: Kept) -> Any:
    """An array of ``RKLLMInput``; raises InputInvalid for what the version has no place for."""
    array = (abi.RKLLMInput * len(inputs))()
    for struct, entry in zip(array, inputs):
        struct.input_type = int(entry.kind)
        if abi.has_field("RKLLMInput", "role"):
            _text(struct, "role", entry.role, kept)
            struct.enable_thinking = entry.thinking
        else:
            check_role(abi, entry)
        _fill_input(struct.u, abi, entry, kept)
    kept.append(array)
    return array


def check_role(abi: Revision, entry: RunInput) -> None:
    """Raise InputInvalid for a role or thinking in a version that has neither."""
    if entry.role != "user" or entry.thinking:
        raise InputInvalid(
            f"librkllmrt {abi.known_as} has no roles and no thinking; use 1.2.1 or later, or open the model with chat_template"
        )


def _fill_input(union: Any, abi: Revision, entry: RunInput, kept: Kept) -> None:
    if entry.kind is InputKind.PROMPT:
        _text(union, "prompt_input", entry.text, kept)
    elif entry.kind is InputKind.TOKEN:
        ids = _array(entry.array, np.int32, kept)
        union.token_input.input_ids = ids.ctypes.data_as(ct.POINTER(ct.c_int32))
        union.token_input.n_tokens = len(ids)
    elif entry.kind is InputKind.EMBED:
        embeds = _array(entry.array, np.float32, kept)
        union.embed_input.embed = embeds.ctypes.data_as(ct.POINTER(ct.c_float))
        union.embed_input.n_tokens = len(embeds)
    elif entry.kind is InputKind.MULTIMODAL:
        _fill_multimodal(union.multimodal_input, abi, entry, kept)
    else:
        raise InputInvalid(f"librkllmrt takes no inputs of kind {entry.kind.name}")


def _fill_multimodal(struct: Any, abi: Revision, entry: RunInput, kept: Kept) -> None:
    _text(struct, "prompt", entry.text, kept)
    image, video = entry.image, entry.video
    if abi.RKLLMMultiModalInput_image is not None:
        if image is not None:
            _fill_media(struct.image, "image", image, kept)
            struct.image.n_image, struct.image.n_image_tokens = image.count, image.tokens
            struct.image.image_width, struct.image.image_height = image.width, image.height
        if video is not None:
            _fill_media(struct.video, "video", video, kept)
            struct.video.n_video, struct.video.n_frame_per_video = video.count, video.frames
            struct.video.n_frame_tokens = video.tokens
            struct.video.frame_width, struct.video.frame_height = video.width, video.height
        return
    if video is not None or image is None:
        raise InputInvalid(f"librkllmrt {abi.known_as} takes images only; video needs 1.3.0")
    struct.image_embed = _array(image.embeds, np.float32, kept).ctypes.data_as(ct.POINTER(ct.c_float))
    struct.n_image_tokens = image.tokens
    if hasattr(struct, "n_image"):
        struct.n_image, struct.image_width, struct.image_height = image.count, image.width, image.height
    elif image.count != 1:
        raise InputInvalid(
            f"librkllmrt {abi.known_as} takes one image, not {image.count}; several need 1.2.1b1"
        )


def _fill_media(struct: Any, word: str, media: Media, kept: Kept) -> None:
    embeds = _array(media.embeds, np.float32, kept)
    setattr(struct, f"{word}_embed", embeds.ctypes.data_as(ct.POINTER(ct.c_float)))
    for place in ("start", "end", "content"):
        _text(struct, f"{word}_{place}", getattr(media, place), kept)


def infer_struct(abi: Revision, run: Run, kept: Kept) -> Any:
    """``RKLLMInferParam``; raises ParamInvalid for what the version has no place for."""
    struct = abi.RKLLMInferParam()
    modes = {Mode.GENERATE: "GENERATE", Mode.HIDDEN: "GET_LAST_HIDDEN_LAYER", Mode.LOGITS: "GET_LOGITS"}
    if modes[run.mode] not in abi.RKLLMInferMode.__members__:
        raise ParamInvalid(f"librkllmrt {abi.known_as} gives no logits; they need 1.2.0 or later")
    struct.mode = abi.RKLLMInferMode[modes[run.mode]]
    if run.lora:
        lora = abi.RKLLMLoraParam()
        _text(lora, "lora_adapter_name", run.lora, kept)
        struct.lora_params = ct.pointer(lora)
    if run.save:
        cache = abi.RKLLMPromptCacheParam(save_prompt_cache=1)
        _text(cache, "prompt_cache_path", run.save, kept)
        struct.prompt_cache_params = ct.pointer(cache)
    _set(struct, abi, "keep_history", int(run.keep_history), run.keep_history)
    if abi.RKLLMSamplingParam is not None:
        struct.max_new_tokens = run.max_new_tokens
        if run.sampling is not None:
            values = sampling_values(run.sampling, run.mirostat)
            struct.sampling_params = ct.pointer(abi.RKLLMSamplingParam(**values))
    kept.append(struct)
    return struct


def cross_struct(abi: Revision, cross: CrossAttention, kept: Kept) -> Any:
    """``RKLLMCrossAttnParam``, of a version that has it."""
    struct = abi.RKLLMCrossAttnParam(num_tokens=cross.tokens)
    for name, array in (
        ("encoder_k_cache", cross.keys),
        ("encoder_v_cache", cross.values),
        ("encoder_mask", cross.mask),
    ):
        setattr(struct, name, _array(array, np.float32, kept).ctypes.data_as(ct.POINTER(ct.c_float)))
    struct.encoder_pos = _array(cross.positions, np.int32, kept).ctypes.data_as(ct.POINTER(ct.c_int32))
    kept.append(struct)
    return struct


def _array(array: Optional[Array], dtype: Any, kept: Kept) -> Array:
    made = np.ascontiguousarray(array, dtype)
    kept.append(made)
    return made


def _text(struct: Any, name: str, text: str, kept: Kept) -> None:
    """Set a ``const char *``; what C keeps pointing to lives as long as ``kept``."""
    data = text.encode("utf-8", "replace")
    if b"\0" in data:
        raise InputInvalid(f"{name} holds a zero character, where C would end the text; take it out")
    kept.append(data)
    setattr(struct, name, data)
