"""Text into sound, by an MMS-TTS pair as the model zoo cuts it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from rknnlite.errors import InputInvalid, ModelInvalid

from .alignment import aligned
from .characters import BLANK, parts, read_characters
from .pair import Pair, by_name, infer
from .sound import Array, Sound

__all__ = ["RATE", "Speaker"]

RATE = 16_000
"""Hz, of all MMS-TTS models."""
_IN = ("input_ids", "attention_mask")
_BETWEEN = ("log_duration", "input_padding_mask", "prior_means", "prior_log_variances")
_OUT = ("attn", "output_padding_mask", "prior_means", "prior_log_variances")


class Speaker:
    """An encoder of text and a decoder of sound.

    Raises ModelInvalid for a pair or a vocabulary that is none.
    """

    def __init__(self, pair: Pair, vocabulary: Path) -> None:
        self._pair = pair
        counts = (len(pair.encoder.inputs), len(pair.encoder.outputs), len(pair.decoder.inputs))
        if counts != (2, 4, 4):
            raise ModelInvalid(
                "no MMS-TTS pair: the encoder takes ids and a mask and gives durations, a mask, means and variances, the "
                "decoder takes the alignment instead of the durations"
            )
        self.characters = read_characters(vocabulary)
        self._given = by_name(pair.encoder.inputs, _IN)
        self._found = by_name(pair.encoder.outputs, _BETWEEN)
        self._taken = by_name(pair.decoder.inputs, _OUT)
        self._ids = int(np.prod(pair.encoder.inputs[self._given[0]].dims))
        self._frames = int(np.prod(pair.decoder.inputs[self._taken[1]].dims))

    def say(self, text: str, speed: float = 1.0) -> Iterator[Sound]:
        """Sound, sentence by sentence. Raises InputInvalid for a text of which the model knows no character."""
        known = [self.characters.known(part) for part in parts(text, max(1, (self._ids - 1) // 2))]
        if not any(known):
            raise InputInvalid("the text has no character that the model knows")
        for part in filter(None, known):
            yield from self._said(part, speed)

    def close(self) -> None:
        """Release the networks; may be called again."""
        self._pair.close()

    def _said(self, text: str, speed: float) -> Iterator[Sound]:
        ids = self.characters.encoded(text)
        filled = len(ids), self._ids - len(ids)
        between = infer(
            self._pair.encoder,
            [
                (self._given[0], np.array([*ids, *[BLANK] * filled[1]], np.int64)),
                (self._given[1], np.repeat(np.array([1, 0], np.int64), filled)),
            ],
        )
        durations, mask, means, variances = (between[number] for number in self._found)
        if not np.isfinite(durations).all():
            raise ModelInvalid("the encoder computed durations that are no finite numbers")
        alignment = aligned(durations.reshape(-1), mask.reshape(-1), self._frames, speed)
        if alignment.length > self._frames and len(text) > 1:
            for half in parts(
                text, (len(text) + 1) // 2
            ):  # it sounds longer than the decoder can say at once
                yield from self._said(half, speed)
            return
        given = (alignment.attention, alignment.mask, means, variances)
        wave: Array = infer(self._pair.decoder, list(zip(self._taken, given)))[0].reshape(-1)
        used = min(alignment.length, self._frames) * (wave.size // self._frames)
        samples = wave[:used].astype(np.float32)
        if not np.isfinite(samples).all():
            raise ModelInvalid("the decoder computed samples that are no finite numbers")
        yield Sound(samples, RATE)
