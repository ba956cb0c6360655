"""The running states of a session's recurrent layers: what they are now, and what they were where one may come back to.

Keys and values of a token lie in a slot of their own, so a cache is cut by counting. A running state has all tokens in it and
cannot go back; so some are kept as they were. Every pass makes new arrays, hence keeping one is remembering it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_llm.container.architecture import Architecture

from rknnlite.errors import ContextInvalid

__all__ = ["RunningStates", "State"]

Array = NDArray[Any]
State = tuple[Array, Array]
"""Of one layer, float32: the last inputs of its convolution (taps - 1, channels), its matrices (heads, key, value)."""
_KEPT = 4


class RunningStates:
    """States of all recurrent layers behind ``position`` tokens.

    A layer hands in what its state is behind some tokens of a pass (``ends``, ``put``); that counts when the pass is through
    (``advance``). ``wanted``: numbers of tokens behind which states are kept.
    """

    def __init__(self, arch: Architecture) -> None:
        assert arch.recurrence is not None
        self._shapes = arch.recurrence.shapes
        self._layers = [layer for layer in range(arch.layers) if arch.kind(layer).mixer.recurrent]
        self._coming: dict[int, Sequence[State]] = {}
        self._ends: list[int] = []
        self.wanted: set[int] = set()
        self._clear()

    def _clear(self) -> None:
        self.position = 0
        first, second = self._shapes
        nothing = np.zeros(first, np.float32), np.zeros(second, np.float32)
        self._now: dict[int, State] = dict.fromkeys(self._layers, nothing)
        self._kept: dict[int, dict[int, State]] = {}
        self._before: Optional[tuple[int, dict[int, State]]] = None
        self._ahead: dict[int, dict[int, State]] = {}
        self._coming.clear()

    def of(self, layer: int, total: int) -> State:
        """The state of a layer behind ``total`` tokens; raises ContextInvalid where it is not there."""
        self._check(total)
        return self._now[layer]

    def _check(self, total: int) -> None:
        if total != self.position:
            raise ContextInvalid(
                f"the model's running state is that behind {self.position} tokens, and {total} are in the cache; clear it, and "
                "hand in the whole conversation"
            )

    def ends(self, count: int, each: bool) -> list[int]:
        """Behind how many of the ``count`` tokens of a pass the state is asked for; behind ``each``, where they are guesses."""
        wanted = {place - self.position for place in self.wanted}
        self._ends = [end for end in range(1, count + 1) if each or end == count or end in wanted]
        return self._ends

    def put(self, layer: int, states: Sequence[State]) -> None:
        """Behind each of ``ends``."""
        self._coming[layer] = states

    def advance(self, count: int) -> None:
        """The pass is through, or ``count`` tokens count whose states it had put one by one."""
        target = self.position + count
        if self._coming:
            self._ahead = {
                self.position + end: {layer: states[number] for layer, states in self._coming.items()}
                for number, end in enumerate(self._ends)
            }
            self._coming.clear()
            self._keep()
        self._before = self.position, self._now
        if target not in self._ahead:
            self._check(target)
        self.position, self._now = target, self._ahead[target]

    def _keep(self) -> None:
        """Remember the first of the wanted places, and the last ones."""
        self._kept.update({place: self._ahead[place] for place in self.wanted if place in self._ahead})
        places = sorted(self._kept)
        for place in places[1 : max(1, len(places) - _KEPT + 1)]:
            del self._kept[place]

    def nearest(self, total: int, group: int) -> int:
        """The last place up to ``total`` that it can go back to; in a cache of groups the first one of a group."""
        places = [place for place in self._kept if place <= total and place % group == 0]
        return self.position if self.position == total else max(places, default=0)

    def back(self, total: int) -> None:
        """As it was behind ``total`` tokens, or behind as many of them as are known; nothing is known behind that any more."""
        self._coming.clear()
        known = {0: None, **self._kept, self.position: self._now}
        if self._before is not None:
            known[self._before[0]] = self._before[1]
        place = max(place for place in known if place <= total)
        state = known[place]
        if state is None:
            self._clear()
            return
        self.position, self._now, self._before = place, state, None
        self._kept = {kept: state for kept, state in self._kept.items() if kept <= total}

    def arrays(self) -> list[Array]:
        """All that it consists of now, for saving."""
        return [array for layer in self._layers for array in self._now[layer]]

    def load(self, position: int, arrays: Sequence[Array]) -> None:
        """Replace it by what ``arrays`` gave behind ``position`` tokens."""
        self._clear()
        pairs = zip(arrays[::2], arrays[1::2])
        self._now = {layer: (first, second) for layer, (first, second) in zip(self._layers, pairs)}
        self.position = position
