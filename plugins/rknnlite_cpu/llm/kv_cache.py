"""The KV cache of a session: which token lies in which slot, what a query may see, and at which distance.

The first ``keep`` slots hold the first ``keep`` tokens for good. The other slots are a ring (RECURRENT) in which
a new token overwrites the oldest; with NORMAL everything is kept and the cache gets full. Keys are stored turned
by the token's own number ("absolute"), so distances inside the ring are right for ever. Once tokens have been
dropped, what is left counts as positions 0, 1, 2, ... without gaps: for the ring this changes nothing, for the
kept tokens it is enough to turn the query by its position among the tokens that are left.
"""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_llm.container.architecture import Mixer
from rknnlite_llm.container.description import Architecture, KvFormat

from rknnlite.tensor import KvDtype

from .kv_cache_storage import Store, make_store
from .lora import Enabled
from .running_state import RunningStates

__all__ = ["KvCache"]

Array = NDArray[Any]


class KvCache:
    """Keys and values of every layer. ``total`` counts all tokens ever stored since the last clearing.

    ``reach``: tokens that are known to come, which rotary embeddings that go by their number need to know beforehand.
    ``stepwise``: tokens of one piece see each other as they are stored, as they would one by one (``StepBatcher.verify``).
    ``adapters``: what belongs to the weights for all tokens here.
    ``states``: of layers that have no keys, where there are any.
    """

    def __init__(self, arch: Architecture, form: KvFormat, size: int) -> None:
        """``size`` in tokens, a multiple of the group of ``form``."""
        self.size = size
        self.keep = size
        self.total = 0
        self.reach = 0
        self._marks: list[
            tuple[int, int]
        ] = []  # tokens stored, position of a text behind them: where the two differ
        self.stepwise = False
        self.adapters: Enabled = ()
        self._group = form.group
        self._rope, self._moving, self._border = arch.rope, arch.rope.moving, arch.rope.original_max_position
        self.layers = {
            layer: _store(arch, form, size, layer)
            for layer in range(arch.layers)
            if not (arch.kind(layer).mixer.recurrent or arch.kind(layer).reuses)
        }
        running = any(arch.kind(layer).mixer.recurrent for layer in range(arch.layers))
        self.states = RunningStates(arch) if running else None

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

    def guesses(self) -> int:
        """Tokens behind the next one that may be stored and forgotten again without a trace.

        None where something would be dropped, a group of keys be quantised, or a rotary embedding move.
        """
        room = self.size - self.total - 1
        if self._group:
            room = min(room, self._group - 2 - self.total % self._group)
        if self._moving:
            room = min(room, self._border - self.total - 1)
        return max(0, room)

    def truncate(self, total: int) -> None:
        """Forget all but the first ``total`` tokens; only before anything was dropped, or within ``keep``.

        Running states may stand before that then: see ``usable``.
        """
        self.total = self.reach = min(self.total, total)
        if self.states is not None:
            self.states.back(self.total)
        self._marks = [mark for mark in self._marks if mark[0] <= self.total]

    def reach_of(self, count: int) -> int:
        """Tokens that there are, or will be, with ``count`` more."""
        return min(max(self.reach, self.total + count), self.size)

    @property
    def stretched(self) -> bool:
        """Keys are turned as those of a text longer than the original context are."""
        return self._moving and self.reach > self._border

    def usable(self, count: int, turn: bool = False) -> int:
        """How many tokens that are here need not be computed again before ``count`` more, or a whole ``turn``, are."""
        if self._outgrown(count, turn):
            return 0
        return self.nearest(self.total)

    def nearest(self, total: int) -> int:
        """Up to ``total`` tokens that can stay when those behind them are dropped.

        In the middle of a group of quantised keys the others of the group would have had a say, so groups stay whole.
        """
        group = max(1, self._group)
        total = total if total == self.total else total // group * group
        return total if self.states is None else self.states.nearest(total, group)

    def _outgrown(self, count: int, turn: bool) -> bool:
        """Keys that are here have to be turned anew."""
        if not self._moving or not self.total or self.reach_of(count) <= self._border:
            return False
        if self._rope.scaling == "longrope":
            return self.reach <= self._border
        return turn and self.total + count <= self.size  # dynamic: with every turn, not with every token

    def positions(self, more: int = 0) -> Array:
        """Absolute token number of each used slot, int64, as it is when ``more`` tokens have been stored."""
        total = self.total + more
        slots = np.arange(min(total, self.size))
        if total <= self.size:
            return slots
        laps = (total - 1 - slots) // self.ring  # turns of the ring between the slot and the last token
        return np.where(slots < self.keep, slots, slots + laps * self.ring)

    def latest(self, count: int) -> Array:
        """Slots of the last ``count`` tokens, or of all, in their order."""
        return np.argsort(self.positions())[max(0, self.used - count) :]

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

    def advance(self, count: int, position: Optional[int] = None) -> None:
        """All layers have stored ``count`` tokens; ``position`` is that of a text behind them, where it is not their number."""
        self.reach = self.reach_of(count)
        self.total += count
        if self.states is not None:
            self.states.advance(count)
        if position is not None:
            self._marks.append((self.total, position))

    @property
    def position(self) -> int:
        """Where the next token of a text stands: its number, unless images, whose rows and columns count, came before."""
        if not self._marks:
            return self.total
        tokens, position = self._marks[-1]
        return position + self.total - tokens

    def resume(self, position: int) -> None:
        """What is stored came from a file, and the next token stands there."""
        self._marks = [(self.total, position)]


def _store(arch: Architecture, form: KvFormat, size: int, layer: int) -> Store:
    """Of attention as ``form`` says; what a convolution looks back at lies half in the keys, half in the values, ungrouped."""
    if arch.kind(layer).mixer is Mixer.CONV:
        plain = KvFormat(KvDtype.FLOAT16, 0) if form.group else form
        return make_store(plain, 1, size, arch.hidden // 2)
    own = arch.of_layer(layer)
    return make_store(form, own.kv_heads, size, own.head_dim)
