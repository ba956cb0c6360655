"""One run: prefill in chunks, then token after token until something ends it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_llm.callbacks import CheckedCallbacks
from rknnlite_llm.sampling import Sampler

from rknnlite.errors import RknnError
from rknnlite.spi.llm import (
    CallState,
    InferParams,
    KvPolicy,
    LlmOutput,
    LlmParams,
    LlmResult,
    OutputState,
    RunSummary,
)
from rknnlite.tensor import TensorAttr

from .continuous_batching import StepBatcher
from .conversation import Conversation, PrefillInput
from .speculation import Guesser, Speculation
from .utf8 import Utf8Gate

__all__ = ["Counters", "Generation"]

Array = NDArray[Any]


class Counters:
    """Tokens of the last run, readable from any thread."""

    def __init__(self) -> None:
        self.prefill = 0
        self.decode = 0


class Generation:
    """Generates for one session; ``stopping`` is asked before every step."""

    def __init__(
        self,
        steps: StepBatcher,
        talk: Conversation,
        params: LlmParams,
        sampler: Sampler,
        calls: CheckedCallbacks,
        outputs: list[TensorAttr],
        stopping: Callable[[], bool],
        chunk: int,
        guesser: Guesser | None = None,
    ) -> None:
        self._steps, self._talk, self._params, self._sampler = steps, talk, params, sampler
        self._calls, self._attrs, self._stopping, self._chunk = calls, outputs, stopping, chunk
        table = talk.model.tokens
        self._gate = Utf8Gate(table.__getitem__ if table is not None else None)
        self._eos = frozenset(i for i in params.vocab.special_eos_ids if i >= 0) or frozenset(
            talk.model.eos_ids
        )
        self._counts: Counter[int] = Counter()
        self._speculation = (
            Speculation(steps, talk, calls, guesser, params.speculate)
            if guesser and params.speculate
            else None
        )

    def run(self, feed: PrefillInput, infer: InferParams, counters: Counters) -> RunSummary:
        """Returns how it ended; the final state has been reported then."""
        start = time.perf_counter()
        counters.prefill = counters.decode = 0
        logits = self._prefill(feed, counters)
        first = time.perf_counter()
        if logits is None:
            state = CallState.STOP
        elif infer.prefill_only or infer.disable_sampling:
            state = CallState.FINISH
        else:
            state = self._decode(logits, infer.max_new_tokens, counters)
        self._flush()
        self._calls.result(LlmResult(), state)
        guessed, accepted = (
            (self._speculation.guessed, self._speculation.accepted) if self._speculation else (0, 0)
        )
        end = time.perf_counter()
        return RunSummary(
            state, counters.prefill, counters.decode, start, first, end, feed.cached, guessed, accepted
        )

    def _prefill(self, feed: PrefillInput, counters: Counters) -> Array | None:
        """Logits (vocab,) behind the last token; None when stopped before. Stopped in the middle, the tokens of
        finished chunks stay in the cache."""
        talk, total, done = self._talk, len(feed.embeds), 0
        talk.cache.reach = talk.cache.reach_of(total)
        talk.keep_states(total)
        while not self._stopping():
            step = min(self._chunk, total - done, talk.cache.room())
            last = done + step == total
            rows = feed.rows[done : done + step]
            hidden, logits = self._steps.forward(rows, talk.cache, last or self._wanted)
            talk.fed(feed.tokens[done : done + step], feed.keys[done : done + step])
            done += step
            counters.prefill = done
            self._show(
                hidden, logits, OutputState.PREFILL_FINISHED if last else OutputState.PREFILL_PROCESSING
            )
            if last:
                return logits
        return None

    def _decode(self, logits: Array | None, limit: int, counters: Counters) -> CallState:
        hidden: Array | None = None
        with self._steps.decoding():
            while True:
                state = self._step(logits, limit, counters)
                if state is not None:
                    break
                if self._speculation is None:
                    hidden, logits = self._one_more()
                else:
                    hidden, logits = self._speculation.step(limit - counters.decode, self._one_more)
                self._show(hidden, logits, OutputState.DECODE_PROCESSING)
        if hidden is not None:
            self._show(hidden, logits, OutputState.DECODE_FINISHED)
        return state

    def _one_more(self) -> tuple[Array, Array | None]:
        """The chosen token through the model, and again all before it where the rotary embedding changes there."""
        talk = self._talk
        ids = np.array(talk.unfed, np.int32)
        feed = talk.with_past(PrefillInput(self._calls.embeddings(ids), ids), self._calls)
        talk.cache.reach = talk.cache.reach_of(len(feed.embeds))
        for start in range(0, len(feed.embeds), self._chunk):
            part = slice(start, start + self._chunk)
            hidden, logits = self._steps.forward(feed.rows[part], talk.cache)
            talk.fed(feed.tokens[part], feed.keys[part])
        return hidden, logits

    def _step(self, logits: Array | None, limit: int, counters: Counters) -> CallState | None:
        """Choose and report one token; how the run ends, None when it goes on."""
        talk = self._talk
        if self._stopping():
            return CallState.STOP
        token = self._choose(logits)
        counters.decode += 1
        self._counts[token] += 1
        talk.unfed = [token]
        if token in self._eos and not self._params.vocab.ignore_eos_token:
            talk.ended = True
            return CallState.FINISH
        self._report(token)
        if self._stopping():
            return CallState.STOP
        full = talk.policy == KvPolicy.NORMAL and talk.cache.total >= talk.cache.size
        return CallState.MAX_NEW_TOKEN_REACHED if full or counters.decode >= limit else None

    def _choose(self, logits: Array | None) -> int:
        if logits is None or not np.isfinite(logits).all():
            raise RknnError(
                f"model {self._talk.model.name}: the logits are not finite; its weights are damaged"
            )
        token = self._calls.sample(logits, self._params.logits_name)
        if token is None:
            token = self._sampler.choose(logits, np.flatnonzero(self._talk.seen), self._counts)
        return token

    def _report(self, token: int) -> None:
        if self._params.vocab.skip_special_token and token in self._talk.model.special_ids:
            return
        ready = self._gate.push(token)
        self._calls.result(LlmResult(ready), CallState.NORMAL if ready else CallState.WAITING)

    def _flush(self) -> None:
        """What waits for the rest of a character goes out as it is."""
        left = self._gate.flush()
        if left:
            self._calls.result(LlmResult(left), CallState.NORMAL)

    @property
    def _wanted(self) -> bool:
        given = self._calls.unchecked
        return given.output is not None and bool(given.outputs)

    def _show(self, hidden: Array, logits: Array | None, state: OutputState) -> None:
        if not self._wanted or logits is None:
            return
        data = [logits[None], hidden]
        shown = [LlmOutput(self._attrs[i], data[i]) for i in self._calls.unchecked.outputs]
        self._calls.output(shown, state)
