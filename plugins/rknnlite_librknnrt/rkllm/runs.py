"""Runs: each prompt of a batch is generated in a thread of its session, and all go token by token together."""

from __future__ import annotations

import queue
import resource
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Optional, Union

import numpy as np
from numpy.typing import NDArray
from rknnlite_llm.streaming import AnswerText

from rknnlite.spi.llm import (
    CallState,
    InferParams,
    LlmInput,
    LlmOutput,
    LlmResult,
    LlmSession,
    OutputState,
    RunSummary,
)

from .callbacks import Answer, Perf, ProgramCallbacks, State, Told

__all__ = ["Outcome", "Run", "Stream"]

Array = NDArray[Any]
Decode = Callable[[Sequence[int]], str]


@dataclass(frozen=True)
class _Token:
    id: int
    text: Optional[str]
    whole: bool  # no part of a character


@dataclass(frozen=True)
class _End:
    pass


_Event = Union[_Token, _End, Array]


class Stream:
    """One session's run, which goes on by one token whenever it is asked for the next event."""

    def __init__(self, session: LlmSession, decode: Optional[Decode], hidden: Optional[int] = None) -> None:
        """``hidden``: the output whose rows of the prompt are wanted."""
        self._session, self._decode = session, decode
        self._text = AnswerText(decode)
        self._events: queue.SimpleQueue[_Event] = queue.SimpleQueue()
        self._go: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._free = False  # it goes on without being asked
        self._hidden = hidden
        self._rows: list[Array] = []
        self._last = -1
        self.ids: list[int] = []
        self._future: Optional[Future[RunSummary]] = None
        self._summary: Optional[RunSummary] = None

    def start(self, given: Union[LlmInput, Sequence[LlmInput]], params: InferParams) -> None:
        """Begin. Raises RknnError."""
        callbacks = replace(self._session.callbacks, result=self._result, output=None, outputs=())
        if self._hidden is not None:
            callbacks = replace(callbacks, output=self._output, outputs=(self._hidden,))
        self._session.set_callbacks(callbacks)
        self._future = self._session.run_async(given, params)
        self._future.add_done_callback(lambda _: self._events.put(_End()))

    def next(self, first: bool) -> _Event:
        """The next event; ``first``: nothing waits to go on. Raises what the run raised."""
        if not first:
            self._go.put(None)
        event = self._events.get()
        if isinstance(event, _End):
            self.summary  # noqa: B018  # raises
        return event

    @property
    def summary(self) -> RunSummary:
        """How it went, at its end; raises what it raised."""
        future, self._future = self._future, None  # it refers to this object
        if future is not None:
            self._summary = future.result()
        assert self._summary is not None
        return self._summary

    def rest(self) -> Optional[_Token]:
        """The text that is left at the end."""
        text = self._text.push(None) if self._decode is not None else ""
        return _Token(self._last, text, True) if text else None

    def stop(self) -> None:
        """End it and wait for its end; what it has generated stays in the cache."""
        self._free = True
        self._session.stop()
        self._go.put(None)
        if self._future is not None:
            self._future.exception()

    # -- in the thread of the run -------------------------------------------------------------------------

    def _put(self, event: _Event) -> None:
        if not self._free:
            self._events.put(event)
            self._go.get()

    def _result(self, result: LlmResult, state: CallState) -> int:
        ids = result.token_ids or ((-1,) if result.text else ())
        for number, token in enumerate(ids):
            last = number == len(ids) - 1
            one = LlmResult((token,), result.text if last else None if result.text is None else "")
            known = self._decode is not None or result.text is not None
            text = self._text.push(one) if known else None
            if self._free:
                break
            self.ids.append(token)
            self._last = token
            self._put(_Token(token, text or None, bool(text) or not known))
        return 0

    def _output(self, outputs: Sequence[LlmOutput], state: OutputState) -> int:
        if state in (OutputState.PREFILL_PROCESSING, OutputState.PREFILL_FINISHED):
            width = outputs[0].attr.dims[-1]
            self._rows.append(np.array(outputs[0].data, np.float32).reshape(-1, width))
        if state is OutputState.PREFILL_FINISHED:
            self._put(np.concatenate(self._rows))
            self._rows.clear()
        return 0


@dataclass(frozen=True)
class Outcome:
    """How a call of ``rkllm_run`` ended."""

    paused: bool
    stopped: bool = False


class Run:
    """All prompts of a batch; a pause keeps them where they are."""

    def __init__(self, streams: Sequence[Stream], program: ProgramCallbacks, version: int) -> None:
        self.streams = list(streams)
        self._program = program
        self._rows_state = State.HIDDEN if version < 10200 else State.NORMAL
        self._waiting = [False] * len(self.streams)  # for being asked on
        self._over = [False] * len(self.streams)

    def go(self, logits: Optional[Array] = None) -> Outcome:
        """Until the end or a pause; ``logits`` (n, vocab) are told first. Raises what a run raises; then none goes on."""
        try:
            return self._go(logits)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all that go on."""
        for stream in self.streams:
            stream.stop()
        self._over = [True] * len(self.streams)

    def _go(self, logits: Optional[Array]) -> Outcome:
        if logits is not None:
            answer = self._tell(State.NORMAL, [None], logits=logits)
            if answer in (Answer.PAUSE, Answer.STOP):
                return self._halted(answer)
        while not all(self._over):
            events = [self._event(number) for number in range(len(self.streams))]
            if all(event is None for event in events):
                break
            answer = self._tell_events(events)
            if answer in (Answer.PAUSE, Answer.STOP):
                return self._halted(answer)
        rest = [stream.rest() for stream in self.streams]
        if any(rest):
            self._tell_events(rest)
        self._finish([stream.summary for stream in self.streams])
        return Outcome(False)

    def _event(self, number: int) -> Union[_Token, Array, None]:
        if self._over[number]:
            return None
        event = self.streams[number].next(not self._waiting[number])
        self._waiting[number] = True
        if isinstance(event, _End):
            self._over[number] = True
            return None
        return event

    def _halted(self, answer: Answer) -> Outcome:
        if answer is Answer.PAUSE:
            return Outcome(True)
        self.stop()
        self._finish([stream.summary for stream in self.streams])
        return Outcome(False, True)

    def _tell_events(self, events: Sequence[Union[_Token, Array, None]]) -> Answer:
        rows = events[0] if isinstance(events[0], np.ndarray) else None
        if rows is not None:  # as the vendor's runtime: first a call without them
            answer = self._tell(State.NORMAL, [None])
            return (
                answer
                if answer in (Answer.PAUSE, Answer.STOP)
                else self._tell(self._rows_state, [None], hidden=rows)
            )
        tokens = [event if isinstance(event, _Token) else None for event in events]
        whole = any(token.whole for token in tokens if token is not None)
        return self._tell(State.NORMAL if whole else State.WAITING, tokens)

    def _tell(self, state: State, tokens: Sequence[Optional[_Token]], **more: Any) -> Answer:
        told = [(-1, None) if token is None else (token.id, token.text) for token in tokens]
        return self._program.result(Told(state, told, **more))

    def _finish(self, summaries: Sequence[RunSummary]) -> None:
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        perf = [
            Perf(
                (one.first_token - one.start) * 1e3, one.n_prefill_tokens,
                (one.end - one.first_token) * 1e3, one.n_decode_tokens, memory,
            )
            for one in summaries
        ]  # fmt: skip
        self._program.result(Told(State.FINISH, [(-1, None)] * len(summaries), perf=perf))
