"""How long each id of a text sounds: what lies between the encoder and the decoder of an MMS-TTS pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Alignment", "aligned"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Alignment:
    """``attention`` float32 (1, 1, frames, ids): 1 where an id sounds in a frame; ``mask`` (1, 1, frames): 1 for those in use.

    ``length``: frames that the text needs, more than there are where it does not fit.
    """

    attention: Array
    mask: Array
    length: int


def aligned(log_duration: Array, ids_mask: Array, frames: int, speed: float = 1.0) -> Alignment:
    """Each id of ``log_duration`` (ids,), logarithms of frames, sounds ceil(duration / ``speed``) frames, one after another.

    ``ids_mask`` (ids,) is 0 for ids that only fill.
    """
    durations = np.ceil(np.exp(log_duration.astype(np.float32)) * ids_mask * np.float32(1 / speed))
    ends = np.cumsum(durations)
    length = max(1, int(ends[-1]))
    frame = np.arange(frames)
    mask = (frame < length).astype(np.float32)
    inside = (frame[:, None] < ends) & (frame[:, None] >= ends - durations)
    attention = inside * ids_mask.astype(np.float32) * mask[:, None]
    return Alignment(attention[None, None].astype(np.float32), mask[None, None], length)
