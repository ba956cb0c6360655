"""The rotary embedding in ``config.json`` -> ``Rope``."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from rknnlite.errors import ModelInvalid, ModelUnsupported

from .config_fields import ConfigFields
from .container.architecture import ROPE_SCALINGS, Architecture, Rope
from .container.family import LlmFamily

__all__ = ["given_rope", "read_rope", "rope_of", "with_sections"]

_LAYERED = ("full_attention", "sliding_attention")


def rope_of(config: ConfigFields, arch: Architecture, family: LlmFamily) -> Rope:
    """The model's one rotary embedding. Old files have ``rope_theta`` and ``rope_scaling``, new ones ``rope_parameters``."""
    given = given_rope(config)
    if any(not given.missing(key) for key in _LAYERED):
        given = given.child("full_attention")
    theta = config.real("rope_theta", family.theta)
    share = config.real("partial_rotary_factor", family.turned)
    return read_rope(given, config, arch, theta, share)


def given_rope(config: ConfigFields) -> ConfigFields:
    """The object that tells of the rotary embedding."""
    old = config.get("rope_scaling")
    return config.child("rope_scaling" if old and not config.get("rope_parameters") else "rope_parameters")


def read_rope(
    given: ConfigFields, config: ConfigFields, arch: Architecture, theta: float, share: float = 1.0
) -> Rope:
    """What one object says, with the model's own ``theta`` and ``share`` of turning channels where it does not."""
    theta = given.real("rope_theta", theta)
    if arch.family == "gemma4_text" and given.get("rope_type") == "proportional":
        pairs = int(arch.head_dim * given.real("partial_rotary_factor", 1.0) // 2)
        if not 0 <= pairs <= arch.head_dim // 2:
            raise ModelInvalid(f"config.json: {pairs} of {arch.head_dim // 2} pairs of channels cannot turn")
        factor = given.real("factor", 1.0)
        scaling = "default" if factor == 1 else "linear"
        return Rope(theta=theta, scaling=scaling, factor=factor, still=arch.head_dim // 2 - pairs)
    dims = int(arch.head_dim * given.real("partial_rotary_factor", share))
    if not 2 <= dims <= arch.head_dim or dims % 2:
        raise ModelInvalid(f"config.json: {dims} of a head's {arch.head_dim} channels cannot turn in pairs")
    kind = str(given.get("rope_type", given.get("type", "default")))
    given.get("type")
    outside, inside = (where.get("original_max_position_embeddings") for where in (config, given))
    original = outside or inside
    if arch.family == "phi3" and kind in ("su", "yarn"):  # as early files of this family call it
        kind = "longrope"
    rope = Rope(theta=theta, dims=0 if dims == arch.head_dim else dims)
    alpha = given.get("alpha") if kind == "dynamic" else None
    if alpha:  # of Hunyuan: another base, whatever the length
        kind, rope = "default", replace(rope, theta=theta * given.positive("alpha") ** (dims / (dims - 2)))
        for unused in ("factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"):
            given.get(unused)
    if kind == "mrope":  # the default with three axes, see ``with_sections``
        kind = "default"
    if kind not in _READERS:
        raise ModelUnsupported(
            f"config.json: rotary scaling {kind!r} is not computed here; there are {', '.join(ROPE_SCALINGS)}"
        )
    if kind == "default":
        return rope
    if original is None and kind in ("yarn", "longrope"):
        raise ModelUnsupported(
            f"config.json: rotary scaling {kind!r} without original_max_position_embeddings is not computed here; say what "
            "the model was trained for"
        )
    parts = _READERS[kind](given, arch, dims, original)
    return Rope(**{**vars(rope), "scaling": kind, **parts})


def with_sections(config: ConfigFields, rope: Rope, usual: tuple[int, ...], interleaved: bool) -> Rope:
    """With the pairs that turn by time, height and width; ``usual`` where ``config.json`` does not say."""
    given = given_rope(config)
    sections = given.get("mrope_section", list(usual))
    if not isinstance(sections, list) or len(sections) != 3 or not all(type(n) is int for n in sections):
        raise given.refusal("mrope_section", "there are three numbers of pairs")
    given.only("mrope_interleaved", interleaved)
    return replace(rope, sections=tuple(sections), interleaved=interleaved)


def _linear(given: ConfigFields, arch: Architecture, dims: int, original: Any) -> dict[str, Any]:
    return {"factor": given.real("factor")}


def _dynamic(given: ConfigFields, arch: Architecture, dims: int, original: Any) -> dict[str, Any]:
    return {"factor": given.real("factor"), "original_max_position": arch.max_position}


def _llama3(given: ConfigFields, arch: Architecture, dims: int, original: Any) -> dict[str, Any]:
    return {
        "factor": given.real("factor"),
        "low_freq_factor": given.real("low_freq_factor"),
        "high_freq_factor": given.real("high_freq_factor"),
        "original_max_position": given.number("original_max_position_embeddings", original),
    }


def _yarn(given: ConfigFields, arch: Architecture, dims: int, original: Any) -> dict[str, Any]:
    factor = given.real("factor", arch.max_position / original)
    over, under = given.real("mscale", 0.0), given.real("mscale_all_dim", 0.0)
    usual = _magnitude(factor)
    if over and under:
        usual = _magnitude(factor, over) / _magnitude(factor, under)
    return {
        "factor": factor,
        "original_max_position": int(original),
        "beta_fast": given.real("beta_fast", 32.0),
        "beta_slow": given.real("beta_slow", 1.0),
        "truncate": given.flag("truncate", True),
        "magnitude": given.real("attention_factor", usual),
    }


def _magnitude(factor: float, scale: float = 1.0) -> float:
    return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0


def _longrope(given: ConfigFields, arch: Architecture, dims: int, original: Any) -> dict[str, Any]:
    factor = given.real("factor", arch.max_position / original)
    usual = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(original))
    return {
        "factor": factor,
        "original_max_position": int(original),
        "magnitude": given.real("attention_factor", usual),
        "short_factors": given.reals("short_factor", dims // 2),
        "long_factors": given.reals("long_factor", dims // 2),
    }


_READERS: dict[str, Any] = {
    "default": None,
    "linear": _linear,
    "llama3": _llama3,
    "yarn": _yarn,
    "dynamic": _dynamic,
    "longrope": _longrope,
}
