"""The rotary embedding of a language model, as a package describes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rknnlite.errors import ModelInvalid

from .fields import Fields

__all__ = ["ROPE_SCALINGS", "Rope", "read_rope"]

ROPE_SCALINGS = ("default", "linear", "llama3", "yarn", "dynamic", "longrope")


@dataclass(frozen=True)
class Rope:
    """Rotary embedding.

    Attributes:
        scaling: ``default``; ``linear`` (factor); ``llama3`` (factor, both frequency factors, original_max_position); ``yarn``
            (factor, both betas, truncate, original_max_position); ``dynamic`` (factor, original_max_position: beyond it frequencies
            follow the length); ``longrope`` (short_factors up to original_max_position, long_factors beyond).
        dims: channels of a head that turn, the first ones; 0: all.
        magnitude: what cosines and sines are multiplied by.
        sections: pairs that turn by time, by height and by width (M-RoPE); empty: one position for all.
        growth: queries are multiplied by ``1 + growth * log(1 + floor(position / original_max_position))``.
        still: pairs, the last ones, that do not turn.
        interleaved: those pairs take turns (time, height, width, time, ...) as far as there are of each, the others go by time.
    """

    theta: float = 10000.0
    scaling: str = "default"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position: int = 8192
    dims: int = 0
    magnitude: float = 1.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    short_factors: tuple[float, ...] = ()
    long_factors: tuple[float, ...] = ()
    sections: tuple[int, ...] = ()
    interleaved: bool = False
    growth: float = 0.0
    still: int = 0

    @property
    def moving(self) -> bool:
        """Frequencies depend on how many tokens there are."""
        return self.scaling in ("dynamic", "longrope")


def read_rope(given: Fields, head_dim: int) -> Rope:
    """The rotary embedding in a package's description. Raises ModelInvalid or ModelUnsupported."""
    scaling = given.choice("scaling", ROPE_SCALINGS)
    dims = given.number("dims", 0, head_dim) if given.has("dims") else 0
    pairs = (dims or head_dim) // 2 if scaling == "longrope" else 0
    later: dict[str, Any] = {
        name: given.real(name) for name in ("magnitude", "beta_fast", "beta_slow") if given.has(name)
    }
    if given.has("growth"):
        later["growth"] = given.real("growth", 0)
    if given.has("still"):
        later["still"] = given.number("still", 0, (dims or head_dim) // 2)
    if given.has("truncate"):
        later["truncate"] = given.flag("truncate")
    for name in ("short_factors", "long_factors"):
        if pairs or given.has(name):
            later[name] = given.reals(name, pairs)
    if dims % 2 or (scaling == "dynamic" and (dims or head_dim) < 4):
        raise ModelInvalid(
            f"damaged description: {dims or head_dim} channels of a head cannot turn, scaling {scaling}"
        )
    if given.has("sections") and given.length("sections"):
        later["sections"] = given.numbers("sections", 3, head_dim)
        later["interleaved"] = given.flag("interleaved")
        if sum(later["sections"]) != (dims or head_dim) // 2:
            raise ModelInvalid(
                f"damaged description: {later['sections']} pairs for time, height and width, a head has {(dims or head_dim) // 2}"
            )
    return Rope(
        theta=given.real("theta", 1.001 if scaling == "yarn" else 1, 1e12),
        scaling=scaling,
        factor=given.real("factor"),
        low_freq_factor=given.real("low_freq_factor"),
        high_freq_factor=given.real("high_freq_factor"),
        original_max_position=given.number("original_max_position", high=1 << 30),
        dims=dims,
        **later,
    )
