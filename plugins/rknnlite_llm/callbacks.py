"""Calling a session's callbacks: every answer is checked, so that a wrong one is an error with a name."""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid, ParamInvalid
from rknnlite.spi.llm import CallState, LlmCallbacks, LlmOutput, LlmResult, OutputState

from .plain_text import PlainText

__all__ = ["CheckedCallbacks"]

_NOTHING = PlainText(())

Array = NDArray[Any]


class CheckedCallbacks:
    """The callbacks of a session; errors name the callback, exceptions pass through untouched.

    ``generated`` are the tokens that were reported in this run.
    """

    def __init__(self, callbacks: LlmCallbacks, vocab_size: int, hidden: int) -> None:
        """Sizes of 0 are not known and not checked. Raises ParamInvalid for anything that cannot be called."""
        self.unchecked = callbacks
        self.generated: list[int] = []
        self._ended = False
        self._vocab_size, self._hidden = vocab_size, hidden
        for name in ("result", "tokenizer", "embed", "sampling", "output"):
            callback = getattr(callbacks, name)
            if callback is not None and not callable(callback):
                raise ParamInvalid(f"the {name} callback is {callback!r}, which cannot be called")

    def fresh(self) -> CheckedCallbacks:
        """The same callbacks for another run."""
        return CheckedCallbacks(self.unchecked, self._vocab_size, self._hidden)

    @property
    def plain_text(self) -> PlainText:
        """Marks control tokens in what users say; none where the tokenizer callback is not one of ours, which knows them."""
        found = getattr(self.unchecked.tokenizer, "plain_text", _NOTHING)
        return found if isinstance(found, PlainText) else _NOTHING

    def result(self, result: LlmResult, state: CallState) -> None:
        """Report tokens or a state; one that fails is not called again in this run."""
        self.generated += result.token_ids
        if self.unchecked.result is None:
            return
        before, self._ended = self._ended, True
        _check_status("result", self.unchecked.result(result, state))
        self._ended = before or state not in (CallState.NORMAL, CallState.WAITING)

    def error(self) -> None:
        """Report ERROR, unless the end of the run was told or the result callback itself is what failed."""
        if self.unchecked.result is not None and not self._ended:
            self._ended = True
            with contextlib.suppress(Exception):  # the first error is the one that counts
                self.unchecked.result(LlmResult(), CallState.ERROR)

    def output(self, outputs: Sequence[LlmOutput], state: OutputState) -> None:
        """Show model outputs."""
        if self.unchecked.output is not None:
            _check_status("output", self.unchecked.output(outputs, state))

    def tokens(self, text: str) -> Array:
        """Token ids of a text, int32."""
        if self.unchecked.tokenizer is None:
            raise ParamInvalid("text needs a tokenizer callback; set one, or run with tokens or embeddings")
        answer = self.unchecked.tokenizer(text)
        try:
            ids = [operator.index(token) for token in answer]
        except TypeError:
            raise ParamInvalid(f"the tokenizer callback returned {_short(answer)}, not token ids") from None
        return self.checked_ids(ids, "the tokenizer callback")

    def checked_ids(self, ids: Any, whose: str) -> Array:
        """Ids as int32 (n,); raises InputInvalid for one outside the vocabulary or for none at all."""
        array = _array(ids, whose)
        if array.ndim == 2 and len(array) == 1:
            array = array[0]
        if array.ndim != 1 or array.dtype.kind not in "iu" or array.size == 0:
            raise InputInvalid(f"{whose} gave {_short(ids)}; needed is a list of one or more token ids")
        if array.min() < 0 or array.max() >= self._vocab_size > 0:
            bad = array.min() if array.min() < 0 else array.max()
            raise InputInvalid(f"{whose} gave token id {bad}, the vocabulary is 0..{self._vocab_size - 1}")
        return array.astype(np.int32)

    def embeddings(self, tokens: Array) -> Array:
        """Embeddings of some tokens, float32 (n, hidden)."""
        if self.unchecked.embed is None:
            raise ParamInvalid(
                "tokens need an embed callback (the embedding table lies on the host); set one"
            )
        return self.checked_embeddings(self.unchecked.embed(tokens), len(tokens), "the embed callback")

    def checked_embeddings(self, values: Any, count: int | None, whose: str) -> Array:
        """float16 or float32 values as float32 (n, hidden); ``count`` None: one sequence of any length.

        Raises InputInvalid for another shape or type, and for values that are not finite.
        """
        array = _array(values, whose)
        hidden = self._hidden or (array.shape[-1] if array.ndim > 1 else 0)
        if array.dtype.kind != "f" or array.size == 0 or array.shape[-1:] != (hidden,):
            raise InputInvalid(
                f"{whose} gave {array.dtype} {list(array.shape)}; needed is float16 [n_tokens, {hidden or 'hidden'}]"
            )
        if count is None and array.size != math.prod(array.shape[-2:]):
            raise InputInvalid(
                f"{whose} gave {list(array.shape)}; a run takes one sequence, [1, n_tokens, hidden]"
            )
        array = array.reshape(-1, hidden).astype(np.float32)
        if count is not None and len(array) != count:
            raise InputInvalid(f"{whose} gave {len(array)} rows for {count} tokens")
        if not np.isfinite(array).all():
            raise InputInvalid(f"{whose} gave values that are not finite")
        return array

    def sample(self, logits: Array, name: str) -> int | None:
        """The token that the sampling callback chooses; None without such a callback."""
        if self.unchecked.sampling is None:
            return None
        answer = self.unchecked.sampling(logits, name)
        try:
            token = operator.index(answer)
        except TypeError:
            raise ParamInvalid(f"the sampling callback returned {_short(answer)}, not a token id") from None
        if not 0 <= token < self._vocab_size:
            raise ParamInvalid(
                f"the sampling callback chose token {token}, the vocabulary is 0..{self._vocab_size - 1}"
            )
        return token


def _array(values: Any, whose: str) -> Array:
    try:
        return np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise InputInvalid(f"{whose} gave {_short(values)}: {error}") from None


def _check_status(name: str, answer: Any) -> None:
    """None or 0 is well, another number an error, anything else a mistake."""
    if answer is None or (isinstance(answer, (int, np.integer)) and answer == 0):
        return
    raise ParamInvalid(f"the {name} callback returned {_short(answer)}; None or 0 lets the run go on")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 80 else f"{text[:60]}... ({type(value).__name__})"
