"""The attention mask of the tokens of one chunk: what they see in the cache and in the chunk, and by how much they turn."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_llm.container.architecture import Architecture, Turn

from .kv_cache import KvCache
from .rope import by_pair, frequencies, turns

__all__ = ["Chunk"]

Array = NDArray[Any]
_MASKED = np.float32(-1e30)


class Chunk:
    """``count`` tokens behind what ``cache`` holds; layers of a kind share what is computed here.

    ``positions`` as ``DecoderInput`` has them, int64 (axes, count).
    """

    def __init__(
        self, arch: Architecture, cache: KvCache, count: int, positions: Optional[Array] = None
    ) -> None:
        self._arch, self.cache, self.count = arch, cache, count
        self._numbers = cache.total + np.arange(count)
        self.positions = (cache.position + np.arange(count))[None] if positions is None else positions
        self._dropping = cache.total + count > cache.size  # then the cache is full, see KvCache.room
        self._reach = cache.reach_of(count)
        self._turns: dict[Turn, tuple[Array, Array]] = {}
        self._kept: dict[Turn, tuple[Array, Array]] = {}
        self._masks: dict[tuple[int, int, int], Optional[Array]] = {}
        self.lent: dict[int, tuple[Array, Array]] = {}
        """Keys and values that a layer saw, for those behind it that have none of their own."""

    @property
    def keep(self) -> int:
        """First slots whose keys are seen at another distance than their numbers tell; 0: none."""
        return self.cache.keep if self._dropping else 0

    def turn(self, which: Turn) -> tuple[Array, Array]:
        """Cosine and sine of the tokens."""
        if which not in self._turns:
            self._turns[which] = self._turned(which, self.positions)
        return self._turns[which]

    @property
    def growth(self) -> Optional[Array]:
        """What queries are multiplied by, float32 (count, 1); None: nothing."""
        rope = self._arch.rope
        if not rope.growth:
            return None
        rounds = np.log1p(np.floor(self.positions[0] / rope.original_max_position))
        return (1 + rope.growth * rounds).astype(np.float32)[:, None]

    def kept_turn(self, which: Turn) -> tuple[Array, Array]:
        """The same for products with the first ``keep`` slots."""
        if which not in self._kept:
            dropped = self._numbers - np.minimum(self._numbers, self.cache.size - 1)
            self._kept[which] = self._turned(which, np.maximum(self.positions - dropped, self.cache.keep))
        return self._kept[which]

    def _turned(self, which: Turn, positions: Array) -> tuple[Array, Array]:
        rope = self._arch.local_rope if which is Turn.LOCAL else self._arch.rope
        assert rope is not None
        reach = self._reach if rope.moving else 0
        frequency = frequencies(rope, self._arch.head_dim, reach)
        return turns(frequency, by_pair(rope, positions, len(frequency)), rope.magnitude)

    def first(self, window: int) -> int:
        """Keys before this one are seen by no token of the chunk."""
        if not window or self._dropping or not self._arch.causal:
            return 0
        return max(0, self.cache.total + 1 - window)

    def mask(self, window: int, rows: slice) -> Optional[Array]:
        """What is added to scores (tokens of ``rows``, keys from ``first``), float32; None: all is seen."""
        key = window, rows.start, rows.stop
        if key not in self._masks:
            if rows.stop - rows.start < self.count:  # pieces of a long text, which need much room
                return self._mask(window, rows)
            self._masks[key] = self._mask(window, rows)
        return self._masks[key]

    def _mask(self, window: int, rows: slice) -> Optional[Array]:
        cache, queries = self.cache, self._numbers[rows, None]
        if not self._arch.causal:
            return _hide(np.abs(queries - self._numbers) >= window) if window else None
        if self.count == 1 and not (window and self._dropping):
            return None
        keys = cache.positions(1) if self.count == 1 else np.concatenate([cache.positions(), self._numbers])
        distance = queries - keys
        hidden = distance < 0
        if self._dropping:
            ring = np.arange(len(keys)) >= cache.keep
            hidden |= (distance >= cache.ring) & ring
            distance = np.where(ring, distance, np.minimum(queries, cache.size - 1) - keys)
        if window:
            hidden |= distance >= window
        return _hide(hidden[:, self.first(window) :])


def _hide(hidden: Array) -> Array:
    return np.where(hidden, _MASKED, np.float32(0))
