"""Reading a run as a stream of text pieces, for any backend: the run goes on in a thread, pieces come by queue."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Optional

from rknnlite.errors import ParamInvalid
from rknnlite.spi.llm import CallState, InferParams, LlmResult, LlmSession, RunSummary

__all__ = ["AnswerText", "TextPieces", "astream", "stream"]

Decode = Callable[[Sequence[int]], str]
Inputs = Any  # LlmInput or a sequence of them
_INFER = InferParams()
_LOST = "\ufffd"


class TextPieces:
    """Token ids in, text out that is complete characters only; put together it is the text of all tokens.

    ``decode`` turns ids into text. An incomplete character decodes to U+FFFD at the end; what ends so is held back
    until more tokens come, or until the end. Where many tokens in a row end so, only the last U+FFFD can become
    something else, and the others go out.
    """

    _PATIENCE = 8  # no character has more bytes than this many tokens
    _MOST = 64  # tokens that are decoded again at most

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._ids: list[int] = []  # the last complete characters, as context, and what came since
        self._read = 0  # where in them the context ends
        self._shown = 0  # characters of their text that are out

    def push(self, ids: Sequence[int], last: bool = False) -> str:
        """The text that these tokens add."""
        out = [self._step(token) for token in ids]
        if last:
            text = self._decode(self._ids)
            out.append(text[self._shown :])
            self._shown = max(self._shown, len(text))
        return "".join(out)

    def _step(self, token: int) -> str:
        self._ids.append(token)
        text = self._decode(self._ids)
        lost = len(text) - len(text.rstrip(_LOST))
        waiting = len(self._ids) - self._read
        end = len(text) - (lost if waiting <= self._PATIENCE else min(lost, 1))
        new = text[self._shown : end]
        self._shown = max(self._shown, end)
        if not lost:
            self._boundary(len(text))
        elif len(self._ids) > self._MOST:
            held = len(text) - self._shown
            self._ids = self._ids[-self._MOST // 2 :]
            self._read, self._shown = 0, len(self._decode(self._ids)) - held
        return new

    def _boundary(self, size: int) -> None:
        """Characters are complete: the latest of them are the context of what comes, for decoders look at neighbours.

        Tokens without a text of their own are none, or the blank before the next word would be lost.
        """
        latest = self._ids[self._read :]
        alone = len(self._decode(latest))
        if alone or len(self._ids) > self._MOST:
            self._ids, size = latest, alone
        self._read, self._shown = len(self._ids), size


class AnswerText:
    """Results in, text out: the text that they bring (``LlmTraits.own_text``), else that of their tokens."""

    def __init__(self, decode: Optional[Decode]) -> None:
        """``decode`` None: the results must bring their text."""
        self._pieces = TextPieces(decode) if decode is not None else None

    def push(self, result: Optional[LlmResult]) -> str:
        """The text that a result adds, or with None what was held back at the end. Raises ParamInvalid without any text."""
        if result is not None and result.text is not None:
            return result.text
        if self._pieces is not None:
            return self._pieces.push(result.token_ids if result else (), last=result is None)
        if result is None or not result.token_ids:
            return ""
        raise ParamInvalid("the backend gives tokens without their text; give a tokenizer that decodes them")


def stream(
    session: LlmSession, inputs: Inputs, decode: Optional[Decode], params: InferParams = _INFER
) -> Generator[str, None, RunSummary]:
    """Run and yield text as it comes; leaving the loop early stops the run. Errors of the run are raised here.

    ``decode`` turns tokens into text where the runtime does not bring it; None where it does. The session's own result
    callback is called too. The generator ends when the run has ended and returns its summary:
    ``summary = yield from stream(...)``.
    """
    pieces: queue.SimpleQueue[Optional[LlmResult]] = queue.SimpleQueue()
    run = _start(session, inputs, params, pieces.put)
    text = AnswerText(decode)
    try:
        while True:
            result = pieces.get()
            piece = text.push(result)
            if piece:
                yield piece
            if result is None:
                break
        return run.result()
    finally:
        session.stop()
        _wait(run)
        del run  # or the error that it holds would keep this frame, and the frame the run


async def astream(
    session: LlmSession, inputs: Inputs, decode: Optional[Decode], params: InferParams = _INFER
) -> AsyncGenerator[str, None]:
    """``stream`` for asyncio: waiting does not block the event loop."""
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[Optional[LlmResult]] = asyncio.Queue()

    def put(result: LlmResult | None) -> None:
        loop.call_soon_threadsafe(pieces.put_nowait, result)

    run = _start(session, inputs, params, put)
    text = AnswerText(decode)
    try:
        while True:
            result = await pieces.get()
            piece = text.push(result)
            if piece:
                yield piece
            if result is None:
                break
        run.result()
    finally:
        session.stop()
        await loop.run_in_executor(None, _wait, run)
        del run  # as above


def _start(
    session: LlmSession, inputs: Inputs, params: InferParams, put: Callable[[LlmResult | None], None]
) -> Future[RunSummary]:
    """Begin a run whose tokens go to ``put``, None at its end; the callbacks are restored when it is over."""
    before = session.callbacks

    def result(tokens: LlmResult, state: CallState) -> int | None:
        answer = before.result(tokens, state) if before.result else None
        if tokens.token_ids or tokens.text:
            put(tokens)
        return answer

    def over(_: Future[RunSummary]) -> None:
        put(None)

    session.set_callbacks(replace(before, result=result))
    try:
        run = session.run_async(inputs, params)
    finally:
        session.set_callbacks(before)
    run.add_done_callback(over)
    return run


def _wait(run: Future[RunSummary]) -> None:
    run.exception()
