"""Answers bound to rules: ``Grammars`` of a model compiles them, a ``Constraint`` of its own follows each answer."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ParamInvalid

from . import with_llguidance as lib
from .constraints import Rule
from .grammar_check import GrammarCheck
from .host_sampling import Constraint
from .tokenizer import Tokenizer

__all__ = ["Grammars"]

Array = NDArray[Any]
_KEPT = 32
"""Compiled grammars, a few megabytes at most each."""


class Grammars:
    """The rules of one model, for any number of threads. Nothing is loaded before the first rule."""

    def __init__(
        self, tokenizer: Tokenizer, vocab_size: int, eos_ids: Sequence[int], check: bool = True
    ) -> None:
        """``vocab_size``: that of the logits. ``eos_ids``: tokens that end an answer.

        ``check``: a rule is compiled in a process of its own first, where a hostile one runs out of time, memory or stack.
        """
        self._given, self._vocab_size = tokenizer, vocab_size
        self._eos = tuple(token for token in eos_ids if 0 <= token < vocab_size)
        self._check = GrammarCheck() if check else None
        self._lock, self._compiling = threading.Lock(), threading.Lock()
        self._view: Any = None
        self._compiled: OrderedDict[str, Any] = OrderedDict()

    def constraint(self, rule: Rule) -> Constraint:
        """A constraint for one answer.

        Raises:
            ParamInvalid: the rule is none, has no sentence, is too large; or the model has no token that ends an answer.
            BackendUnavailable: the extra ``constraints`` is not installed.
        """
        lib.library()
        if not self._eos:
            raise ParamInvalid(
                "the model has no token that ends an answer, so no answer can be bound to a rule"
            )
        try:
            matcher = self._matcher(lib.grammar_of(rule))
        except ParamInvalid as error:
            raise ParamInvalid(f"Failed to parse grammar: {error}") from None
        return _Following(matcher, self._eos)

    def close(self) -> None:
        """End the process that checks rules; may be called again."""
        if self._check is not None:
            self._check.close()

    def _matcher(self, grammar: str) -> Any:
        """A compiled grammar of the caller's own; those that are known do not wait for one that is compiled."""
        found = self._known(grammar)
        if found is None:
            with self._compiling:
                found = self._known(grammar) or self._made(grammar)
        return found

    def _known(self, grammar: str) -> Any:
        with self._lock:
            found = self._compiled.get(grammar)
            if found is None:
                return None
            self._compiled.move_to_end(grammar)
            return found.deep_copy()

    def _made(self, grammar: str) -> Any:
        if self._check is not None:
            self._check(grammar)
        if self._view is None:
            self._view = self._vocabulary()
        made = lib.matcher(self._view, grammar)
        with self._lock:
            self._compiled[grammar] = made
            if len(self._compiled) > _KEPT:
                self._compiled.popitem(last=False)
            return made.deep_copy()

    def _vocabulary(self) -> Any:
        tokens, special = self._given.token_table()
        tokens = [*tokens[: self._vocab_size], *[b""] * (self._vocab_size - len(tokens))]
        hidden = {number for number in special if number < self._vocab_size} | set(self._eos)
        return lib.tokenizer(tokens, sorted(hidden), self._eos[0], _Encode(self._given, tokens, hidden))


class _Encode:
    """Bytes to tokens, for text that a grammar leaves no choice about; never special ones."""

    def __init__(self, tokenizer: Tokenizer, tokens: Sequence[bytes], hidden: set[int]) -> None:
        self._tokenizer, self._tokens, self._hidden = tokenizer, tokens, hidden
        plain = (number for number in range(len(tokens) - 1, -1, -1) if number not in hidden)
        self._ids = {tokens[number]: number for number in plain if tokens[number]}
        self._longest = max(map(len, self._ids), default=0)

    def __call__(self, text: bytes) -> list[int]:
        try:
            ids = self._tokenizer.encode(text.decode())
        except Exception:  # the library cannot take any; what follows is as right
            return self._by_length(text)
        whole = all(number < len(self._tokens) and number not in self._hidden for number in ids)
        same = whole and b"".join(self._tokens[number] for number in ids) == text
        return ids if same else self._by_length(text)

    def _by_length(self, text: bytes) -> list[int]:
        """The longest token first; ends where no token begins."""
        ids, at = [], 0
        while at < len(text):
            sizes = range(min(self._longest, len(text) - at), 0, -1)
            size = next((size for size in sizes if text[at : at + size] in self._ids), 0)
            if not size:
                break
            ids.append(self._ids[text[at : at + size]])
            at += size
        return ids


class _Following:
    """See ``Constraint``; when the rule is fulfilled and nothing can follow, only the end of the answer can."""

    def __init__(self, matcher: Any, eos: tuple[int, ...]) -> None:
        self._matcher, self._eos = matcher, list(eos)
        self._ended = False
        self._tokens = 0
        self._allowed: Optional[Array] = None

    def restrict(self, logits: Array) -> None:
        allowed = self._mask(len(logits))
        logits[~allowed] = -np.inf
        if logits.max() == -np.inf:  # the model rules out all that the grammar allows
            logits[allowed] = 0

    def _mask(self, size: int) -> Array:
        """bool (size,): what may come next."""
        if self._allowed is not None and len(self._allowed) == size:
            return self._allowed
        bits = np.zeros(-(-size // 8), np.uint8)
        if not self._ended:
            found = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)[: len(bits)]
            bits[: len(found)] = found
        self._alive()
        allowed = np.unpackbits(bits, count=size, bitorder="little").astype(bool)
        if self._ended or allowed[self._eos[0]]:
            allowed[self._eos] = True
        if not allowed.any():
            raise ParamInvalid(
                f"after {self._tokens} tokens of the answer no token of the vocabulary fits the grammar"
            )
        self._allowed = allowed
        return allowed

    def accept(self, token: int) -> None:
        self._tokens += 1
        self._allowed = None
        if self._ended:
            return
        ends = token in self._eos
        self._matcher.consume_token(self._eos[0] if ends else token)
        self._alive()
        self._ended = ends

    def _alive(self) -> None:
        if self._matcher.is_error():
            raise ParamInvalid(
                f"the grammar came to an end after {self._tokens} tokens of the answer: {lib.reason(self._matcher.get_error())}"
            )
