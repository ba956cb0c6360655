"""One answer: a run of a session in its own thread, whose text comes to the event loop piece by piece."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Optional, Union

from rknnlite_llm.host_sampling import Constraint, HostSampling, TokenChance
from rknnlite_llm.streaming import TextPieces

from rknnlite.spi.llm import (
    CallState,
    InferParams,
    LlmResult,
    LlmSession,
    MultimodalInput,
    RunSummary,
    SamplingParams,
    TokenInput,
)

from .async_helpers import closing, settled, within
from .errors import ApiError
from .rate_limits import spend_tokens
from .served_model import ServedModel
from .stop_strings import StopStrings
from .traced import trace_run

__all__ = ["Ended", "Piece", "Work", "generate"]


@dataclass(frozen=True)
class Work:
    """What is to be generated: behind which tokens, how, and how much."""

    tokens: tuple[int, ...]
    sampling: SamplingParams
    max_tokens: int
    stop: tuple[str, ...] = ()
    constraint: Optional[Callable[[], Constraint]] = None
    top: Optional[int] = None
    media: Optional[MultimodalInput] = None
    decode: Optional[Callable[[Sequence[int]], str]] = None  # tokens as text; None: without special ones

    @property
    def input(self) -> Union[TokenInput, MultimodalInput]:
        """The input of the run."""
        return TokenInput(self.tokens, whole=True) if self.media is None else self.media

    def host_sampling(self) -> HostSampling:
        """The sampling callback; it works the same on every backend."""
        constraint = self.constraint() if self.constraint is not None else None
        return HostSampling(self.sampling, self.tokens, constraint, self.top)


@dataclass(frozen=True)
class Piece:
    """Text that may be shown, and the tokens that it came with."""

    text: str
    tokens: tuple[int, ...] = ()
    chances: tuple[TokenChance, ...] = ()


@dataclass(frozen=True)
class Ended:
    """The end of an answer; ``reason`` is OpenAI's word: stop or length."""

    reason: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    summary: RunSummary = field(repr=False, compare=False)
    stop: Optional[str] = None  # the stop string at which it ended


async def generate(
    model: ServedModel, work: Work, timeout: float
) -> AsyncGenerator[Union[Piece, Ended], None]:
    """Pieces, then ``Ended``; closing it ends the run within one token. Raises what the run raises."""
    arrived = time.perf_counter()
    async with model.turnstile.turn(timeout):
        spent = len(work.tokens)
        spend_tokens(spent)
        session = await _taken(model, work)
        try:
            async with closing(_run(model, session, work, timeout, arrived)) as items:
                async for item in items:
                    if isinstance(item, Piece):
                        count = len(item.tokens)
                    else:  # tokens of pictures, and those that are no text
                        count = max(0, item.prompt_tokens + item.completion_tokens - spent)
                    spent += count
                    spend_tokens(count)
                    yield item
        finally:
            model.pool.give(session)


async def _taken(model: ServedModel, work: Work) -> LlmSession:
    """A session; whoever is cancelled meanwhile gives it back."""
    taking = asyncio.ensure_future(asyncio.to_thread(model.pool.take, work.tokens))
    try:
        await settled(taking)
    except asyncio.CancelledError:
        if taking.exception() is None:
            model.pool.give(taking.result())
        raise
    return taking.result()


async def _run(
    model: ServedModel, session: LlmSession, work: Work, timeout: float, arrived: float
) -> AsyncGenerator[Union[Piece, Ended], None]:
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[Optional[Piece]] = asyncio.Queue()
    post = _Poster(loop, pieces)
    reader = _Reader(model, work, session, post)
    if reader.sampling is None:
        session.set_llm_param(model.params(work.sampling))
    session.set_callbacks(replace(model.callbacks, result=reader.result, sampling=reader.sampling))
    if work.media is not None:  # its tokens do not say what it shows, so it begins anew
        session.clear_kvcache()
    run = session.run_async(work.input, InferParams(max_new_tokens=work.max_tokens))
    run.add_done_callback(lambda _: post(None))
    run.add_done_callback(lambda done: model.ran(arrived, done))
    trace_run(model.name, work.sampling, work.max_tokens, arrived, run)
    deadline = loop.time() + timeout
    try:
        while True:
            piece = await _before(pieces, deadline - loop.time(), timeout)
            if piece is None:
                break
            yield piece
        summary = run.result()
        rest = reader.rest()
        if rest.text or rest.tokens:
            yield rest
        yield _ended(summary, reader, len(work.tokens))
    finally:
        session.stop()
        try:
            await _over(run)
        finally:
            session.set_callbacks(model.callbacks)  # nothing of this request is kept


async def _before(pieces: asyncio.Queue[Optional[Piece]], left: float, timeout: float) -> Optional[Piece]:
    try:
        return await within(pieces.get(), max(left, 0.001))
    except asyncio.TimeoutError:
        raise ApiError(504, "timeout_error", f"the answer was not complete within {timeout:g} s") from None


async def _over(run: Future[RunSummary]) -> None:
    """Wait for the end of the run, whoever wants to be gone."""
    waiting = asyncio.wrap_future(run)
    try:
        await settled(waiting)
    finally:
        with contextlib.suppress(BaseException):
            waiting.exception()


class _Poster:
    """Hands pieces to the event loop; a loop that is closed needs none."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pieces: asyncio.Queue[Optional[Piece]]) -> None:
        self._loop, self._pieces = loop, pieces

    def __call__(self, piece: Optional[Piece]) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._pieces.put_nowait, piece)


class _Reader:
    """What a run says, in its thread: tokens become text, text ends at a stop string."""

    def __init__(self, model: ServedModel, work: Work, session: LlmSession, post: _Poster) -> None:
        self._text = TextPieces(work.decode or model.tokenizer.decode)
        self.stop = StopStrings(work.stop)
        self.sampling = work.host_sampling() if model.context.traits.host_sampling else None
        if self.sampling is None and work.top is not None:
            raise ApiError(
                501,
                "not_supported_error",
                f"backend {model.context.backend_name} tells no probabilities of tokens",
            )
        self._end, self._post = session.stop, post
        self._waiting: list[int] = []
        self._shown = 0

    def result(self, result: LlmResult, state: CallState) -> None:
        """The result callback."""
        if not result.token_ids or self.stop.found is not None:
            return
        self._waiting += result.token_ids
        text = self.stop.push(self._text.push(result.token_ids))
        if text:
            self._post(self._piece(text))
        if self.stop.found is not None:
            self._end()

    def rest(self) -> Piece:
        """What waited for more, at the end of the run."""
        if self.stop.found is not None:
            return self._piece("")
        return self._piece(self.stop.push(self._text.push((), last=True)) + self.stop.flush())

    def _piece(self, text: str) -> Piece:
        tokens, self._waiting = tuple(self._waiting), []
        chances = self.sampling.chances if self.sampling is not None else []
        told = tuple(chances[self._shown : self._shown + len(tokens)])
        self._shown += len(tokens)
        return Piece(text, tokens, told)


def _ended(summary: RunSummary, reader: _Reader, prompt: int) -> Ended:
    if summary.state is CallState.STOP and reader.stop.found is None:
        raise ApiError(
            503, "unavailable_error", "the server is stopping; the answer is not complete", retry_after=5
        )
    reason = "length" if summary.state is CallState.MAX_NEW_TOKEN_REACHED else "stop"
    prompt = max(prompt, summary.n_prefill_tokens + summary.n_cached_tokens)
    return Ended(reason, prompt, summary.n_decode_tokens, summary.n_cached_tokens, summary, reader.stop.found)
