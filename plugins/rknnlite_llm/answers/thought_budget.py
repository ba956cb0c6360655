"""A thought that may take so many tokens: then its closing marker is all that may come next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional, Protocol

import numpy as np
from numpy.typing import NDArray

from ..host_sampling import Constraint
from .formats import THINK, AnswerFormat

__all__ = ["ThoughtBudget"]

_LOOKED_AT = 16  # tokens behind each other in which a marker is looked for


class _Vocabulary(Protocol):
    def encode(self, text: str) -> list[int]: ...

    def decode(self, ids: Sequence[int], skip_special: bool = True) -> str: ...


class ThoughtBudget:
    """A ``Constraint``; what ``inner`` allows counts too, and must allow a thought to end."""

    def __init__(
        self,
        form: AnswerFormat,
        tokenizer: _Vocabulary,
        budget: int,
        thinking: bool,
        inner: Optional[Constraint] = None,
    ) -> None:
        """``thinking``: the prompt ends inside of a thought; else the answer may open one."""
        pairs = form.thoughts or (THINK,)
        self._openings = tuple(opening for opening, _ in pairs)
        self._closings = tuple(closing for _, closing in pairs)
        self._closing, self._tokenizer = pairs[0][1], tokenizer
        self._left, self._inside, self._inner = budget, thinking, inner
        self._said: list[int] = []
        self._forced: list[int] = []
        self._done = False

    def restrict(self, logits: NDArray[Any]) -> None:
        """See ``Constraint``."""
        if self._forced:
            token = self._forced[0]
            value = logits[token] if np.isfinite(logits[token]) else 0
            logits[:] = -np.inf
            logits[token] = value
        elif self._inner is not None:
            self._inner.restrict(logits)

    def accept(self, token: int) -> None:
        """See ``Constraint``."""
        if self._inner is not None:
            self._inner.accept(token)
        if self._done:
            return
        if self._forced:
            self._forced.pop(0)
            self._done = not self._forced
            return
        self._said = [*self._said, token][-_LOOKED_AT:]
        said = self._tokenizer.decode(self._said, skip_special=False)
        if self._inside:
            self._left -= 1
            self._done = any(closing in said for closing in self._closings)
            if self._left <= 0 and not self._done:
                self._forced = self._tokenizer.encode(self._closing)
        elif said.lstrip().startswith(self._openings):
            opening = next(opening for opening in self._openings if said.lstrip().startswith(opening))
            self._closing = self._closings[self._openings.index(opening)]
            self._inside, self._said = True, []
        else:  # what begins otherwise is no thought
            self._done = not any(opening.startswith(said.lstrip()) for opening in self._openings)
