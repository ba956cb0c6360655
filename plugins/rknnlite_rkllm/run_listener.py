"""What a run gives, on its way to the callbacks: counted, put together to whole characters, checked."""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable
from typing import Optional

from rknnlite_llm.callbacks import CheckedCallbacks

from rknnlite.spi.llm import CallState, LlmOutput, LlmResult, OutputState, RunSummary
from rknnlite.tensor import TensorAttr

from .requests import CallbackResult, Mode, RunEnd

__all__ = ["RunListener", "TokenBuffer", "summarised"]

_MOST_WAITING = 8


class TokenBuffer:
    """Tokens of one input: handed on when they are whole characters, at most 8 of them held back."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._waiting: list[int] = []
        self._text: list[str] = []
        self.count = 0

    def push(self, result: CallbackResult) -> Optional[LlmResult]:
        """Take a token; what may be shown now, if anything."""
        self.count += 1
        text = self._decoder.decode(result.text)
        if result.token >= 0:
            self._waiting.append(result.token)
        waits = result.state is CallState.WAITING or bool(self._decoder.getstate()[0])
        if waits and not text and len(self._waiting) < _MOST_WAITING:
            return None
        return self._result(text)

    def rest(self) -> Optional[LlmResult]:
        """What was held back, at the end; bytes that are no character become U+FFFD."""
        text = self._decoder.decode(b"", final=True)
        return self._result(text) if text or self._waiting else None

    def _result(self, text: str) -> LlmResult:
        self._text.append(text)
        ids, self._waiting = tuple(self._waiting), []
        return LlmResult(ids, text)

    @property
    def text(self) -> str:
        """All that was handed on."""
        return "".join(self._text)


class RunListener:
    """``on_result`` of one run.

    Args:
        calls: the session's callbacks; tokens of batches go to ``batch`` instead.
        mode: outputs go to the output callback where they are asked for.
        limit: tokens after which ``stop`` is called, 0: the library counts.
        outputs: attributes of logits and hidden states.
        stop: ends the run.
        stopping: whether the caller has asked for the end.
    """

    def __init__(
        self,
        calls: CheckedCallbacks,
        mode: Mode,
        limit: int,
        outputs: list[TensorAttr],
        stop: Callable[[], None],
        stopping: Callable[[], bool],
        batch: Optional[Callable[[int, LlmResult], None]] = None,
        inputs: int = 1,
    ) -> None:
        self._calls, self._mode, self._limit, self._outputs = calls, mode, limit, outputs
        self._stop, self._stopping, self._batch = stop, stopping, batch
        self.answers = [TokenBuffer() for _ in range(inputs)]
        self.failure: Optional[BaseException] = None
        self.full = False
        self.first_token = 0.0
        self.shown = 0

    @property
    def count(self) -> int:
        """Tokens of the longest answer."""
        return max(answer.count for answer in self.answers)

    def on_result(self, result: CallbackResult) -> None:
        """See ``Model.run``."""
        if self.failure is not None or self.full:
            return
        if self._stopping():
            self._stop()
            return
        self.first_token = self.first_token or time.perf_counter()
        try:
            if self._mode is Mode.GENERATE:
                self._token(result)
            else:
                self._output(result)
        except BaseException as error:  # raised where the run was started
            self.failure = error
            self._stop()

    def _token(self, result: CallbackResult) -> None:
        answer = self.answers[result.index]
        if result.token < 0 and not result.text:
            return
        piece = answer.push(result)
        if self._limit and answer.count >= self._limit:
            self.full = len(self.answers) == 1
            if self.full:
                self._stop()
        if piece is not None:
            self._deliver(result.index, piece)

    def _deliver(self, index: int, result: LlmResult) -> None:
        if self._batch is not None:
            self._batch(index, result)
        else:
            self._calls.result(result, CallState.NORMAL)

    def _output(self, result: CallbackResult) -> None:
        values = result.logits if self._mode is Mode.LOGITS else result.hidden
        if values is None:
            return
        index = 0 if self._mode is Mode.LOGITS else 1
        attr = self._outputs[index]
        shaped = TensorAttr(attr.index, attr.name, values.shape, attr.dtype, attr.layout)
        state = OutputState.DECODE_PROCESSING if self.shown else OutputState.PREFILL_FINISHED
        self.shown += 1
        self._calls.output([LlmOutput(shaped, values)], state)

    def finish(self) -> None:
        """Hand on what was held back; raises what a callback raises."""
        for index, answer in enumerate(self.answers):
            result = answer.rest()
            if result is not None:
                self._deliver(index, result)


def summarised(
    state: CallState, ended: RunEnd, listener: RunListener, tokens: int, start: float, end: float
) -> RunSummary:
    """Figures of the library where it has them, else what was counted here; ``tokens`` went in, 0: as text."""
    perf = ended.perf
    prefill = perf.prefill_tokens if perf is not None else tokens
    counted = perf is not None and perf.generate_tokens > 0 and state is CallState.FINISH
    # what an abort cut off is no result
    decode = perf.generate_tokens if perf is not None and counted else listener.count
    cached = max(0, tokens - prefill)
    return RunSummary(state, prefill, decode, start, listener.first_token or end, end, cached)
