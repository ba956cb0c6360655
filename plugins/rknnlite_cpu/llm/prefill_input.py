"""What a run prefills: tokens and media as embeddings, with their positions and the rows that join them on the way."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_llm.callbacks import CheckedCallbacks
from rknnlite_llm.container.description import LlmModel
from rknnlite_llm.inputs import place_media

from rknnlite.errors import InputInvalid
from rknnlite.spi.llm import AudioBlock, AuxInput, MediaBlock

from .decoder_input import DecoderInput
from .positions import positions_of

__all__ = ["FIRST_AUX", "UNKNOWN", "PrefillInput", "check_aux", "media_input"]

Array = NDArray[Any]
UNKNOWN = -1
"""Key of a place in the cache whose content cannot be compared with anything."""
FIRST_AUX = 2
"""Input of the model that is added behind its first layer; embeddings and positions come before it."""


@dataclass
class PrefillInput:
    """What a run prefills: embeddings float32 (n, hidden) and what they stand for.

    ``tokens`` are the token ids, where there are any. ``keys`` tell the places of the KV cache apart: token ids, and numbers
    below 0 for embeddings that came from elsewhere. ``cached`` places before these are in the cache already. The others as in
    ``DecoderInput``.
    """

    embeds: Array
    tokens: Array = field(default_factory=lambda: np.empty(0, np.int32))
    keys: list[int] = field(default_factory=list)
    cached: int = 0
    positions: Optional[Array] = None
    behind: Optional[Array] = None
    extra: Optional[Array] = None

    def __post_init__(self) -> None:
        if not self.keys:
            known = self.tokens.tolist()
            self.keys = known + [UNKNOWN] * (len(self.embeds) - len(known))

    @property
    def rows(self) -> DecoderInput:
        """What goes through the decoder."""
        return DecoderInput(self.embeds, self.positions, self.behind, self.extra)

    def behind_text(self, tokens: Array, embeds: Array, cached: int, position: int) -> PrefillInput:
        """With these tokens before it, which stand from ``position`` on, behind ``cached`` places."""
        more: dict[str, Any] = {}
        if self.positions is not None and self.behind is not None:
            line = position + np.arange(len(tokens))
            axes = np.broadcast_to(line, (len(self.positions), len(line)))
            more["positions"] = np.concatenate([axes, self.positions], axis=1)
            more["behind"] = np.concatenate([line + 1, self.behind])
        if self.extra is not None:
            nothing = np.zeros((len(self.extra), *embeds.shape), np.float32)
            more["extra"] = np.concatenate([nothing, self.extra], axis=1)
        whole, known = np.concatenate([embeds, self.embeds]), np.concatenate([tokens, self.tokens])
        return PrefillInput(whole, known, tokens.tolist() + self.keys, cached, **more)

    def without(self, cached: int) -> PrefillInput:
        """What is left when the first ``cached`` places are in the cache already."""
        left = self.rows[cached:]
        tokens, keys = self.tokens[cached:], self.keys[cached:]
        return PrefillInput(left.embeds, tokens, keys, cached, left.positions, left.behind, left.extra)


def check_aux(model: LlmModel, blocks: Sequence[MediaBlock], aux: Sequence[AuxInput]) -> None:
    """Raise InputInvalid unless these are the auxiliary inputs that the model has for these media."""
    count = model.arch.media.deepstack if model.arch.media else 0
    wanted = list(range(FIRST_AUX, FIRST_AUX + count))
    given = sorted(one.index for one in aux)
    unknown = [index for index in given if index not in wanted]
    if unknown:
        has = f"it has {wanted[0]} to {wanted[-1]}" if wanted else "it has none"
        raise InputInvalid(f"model {model.name} has no auxiliary input {unknown[0]}; {has}")
    pictures = [block for block in blocks if not isinstance(block, AudioBlock)]
    if given and not pictures:
        raise InputInvalid(
            f"the auxiliary input {given[0]} belongs to images or a video, and the run has none; hand them in together"
        )
    if count and pictures and given != wanted:
        raise InputInvalid(
            f"model {model.name} adds rows to images behind its first {count} layers: it needs the auxiliary inputs {wanted}, each "
            f"once, given are {given}; the encoder's further outputs belong there"
        )


def media_input(
    model: LlmModel,
    tokens: Array,
    blocks: Sequence[MediaBlock],
    aux: Sequence[AuxInput],
    start: int,
    calls: CheckedCallbacks,
    answered: int = 0,
) -> PrefillInput:
    """Tokens with media in the places of their markers; ``start``: position of the first token. The first ``answered``
    tokens are the model's own.

    Raises InputInvalid or ModelUnsupported.
    """
    feed = PrefillInput(calls.embeddings(tokens), tokens)
    media = place_media(blocks, tokens, feed.embeds, calls, answered)
    if not media:
        return feed
    if model.arch.rope.sections:
        positions, behind = positions_of(model, len(tokens), media, start)
        feed = replace(feed, positions=positions, behind=behind)
    if aux:
        pictures = [places for block, places in media if not isinstance(block, AudioBlock)]
        places = np.sort(np.concatenate(pictures))  # of images and a video: as they stand in the text
        feed = replace(feed, extra=_extra(feed.embeds, aux, places, calls))
    for _, places in media:
        for place in places.tolist():
            feed.keys[place] = _content_key(feed, place)
    return feed


def _extra(embeds: Array, aux: Sequence[AuxInput], places: Array, calls: CheckedCallbacks) -> Array:
    """Rows to add behind the first layers, float32 (layers, n, hidden)."""
    extra = np.zeros((len(aux), *embeds.shape), np.float32)
    for one in aux:
        values = np.asarray(one.data)
        if values.size == len(places) * embeds.shape[1]:
            values = values.reshape(len(places), embeds.shape[1])
        whose = f"the auxiliary input {one.index}"
        extra[one.index - FIRST_AUX, places] = calls.checked_embeddings(values, len(places), whose)
    return extra


def _content_key(feed: PrefillInput, place: int) -> int:
    """A number below ``UNKNOWN`` that tells what stands at a place from anything else: its values, and where it stands."""
    digest = hashlib.blake2b(feed.embeds[place].tobytes(), digest_size=7)
    if feed.positions is not None:
        digest.update(feed.positions[:, place].tobytes())
    if feed.extra is not None:
        digest.update(feed.extra[:, place].tobytes())
    return UNKNOWN - 1 - int.from_bytes(digest.digest(), "little")
