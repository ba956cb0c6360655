"""The KV cache of a session: which token lies in which slot, what a query may see, and at which distance.

The first ``keep`` slots hold the first ``keep`` tokens for good. The other slots are a ring (RECURRENT) in which
a new token overwrites the oldest; with NORMAL everything is kept and the cache gets full. Keys are stored turned
by the token's own number ("absolute"), so distances inside the ring are right for ever. Once tokens have been
dropped, what is left counts as positions 0, 1, 2, ... without gaps: for the ring this changes nothing, for the
kept tokens it is enough to turn the query by its position among the tokens that are left.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.formats.llm import Architecture, KvFormat

from .stores import make_store

__all__ = ["KvCache"]

Array = NDArray[Any]


class KvCache:
    """Keys and values of every layer. ``total`` counts all tokens ever stored since the last clearing."""

    def __init__(self, arch: Architecture, form: KvFormat, size: int) -> None:
        """``size`` in tokens, a multiple of the group of ``form``."""
        self.size = size
        self.keep = size
        self.total = 0
        self.layers = [make_store(form, arch.kv_heads, size, arch.head_dim) for _ in range(arch.layers)]

    @property
    def used(self) -> int:
        """Slots that hold a token."""
        return min(self.total, self.size)

    @property
    def ring(self) -> int:
        """Slots of the ring; 0 when nothing may be dropped."""
        return self.size - self.keep

    @property
    def wrapped(self) -> bool:
        """Whether tokens have been dropped."""
        return self.total > self.size

    def room(self) -> int:
        """Tokens that can be added in one piece."""
        return self.ring if self.ring and self.total >= self.size else self.size - self.total

    def truncate(self, total: int) -> None:
        """Forget all but the first ``total`` tokens; only before anything was dropped, or within ``keep``."""
        self.total = min(self.total, total)

    def positions(self) -> Array:
        """Absolute token number of each used slot, int64."""
        slots = np.arange(self.used)
        if not self.wrapped:
            return slots
        laps = (self.total - 1 - slots) // self.ring  # turns of the ring between the slot and the last token
        return np.where(slots < self.keep, slots, slots + laps * self.ring)

    def store(self, layer: int, keys: Array, values: Array) -> None:
        """Put tokens ``total`` .. of one layer into their slots, (kv_heads, n, head_dim); see ``advance``."""
        done, count = 0, keys.shape[1]
        while done < count:
            slot = self._slot(self.total + done)
            step = min(count - done, self.size - slot)
            self.layers[layer].put(slot, keys[:, done : done + step], values[:, done : done + step])
            done += step

    def _slot(self, token: int) -> int:
        if token < self.size:
            return token
        return self.keep + (token - self.keep) % self.ring

    def advance(self, count: int) -> None:
        """All layers have stored ``count`` tokens."""
        self.total += count
