"""Frames under way: requests that one stream of ``ModelStreamInfer`` carries, and their answers by number."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from concurrent import futures
from concurrent.futures import Future
from typing import Any, NamedTuple, Optional

import grpc

from rknnlite.errors import ContextInvalid, RknnError
from rknnlite.spi.exclusive import CLOSED

from .channel import Channel
from .errors import is_away
from .wire import InferAnswer, parse_streamed, with_id

__all__ = ["FrameStream"]

_MOST = 16  # frames under way, each with its inputs
_TRIES = 5  # to connect anew
_PAUSE = 0.2  # seconds, doubled at each
_Reader = Optional[threading.Thread]


class _Underway(NamedTuple):
    request: bytes
    answer: Future[InferAnswer]


class FrameStream:
    """The frames of one context. The owner makes one call at a time; ``close`` may come from another thread meanwhile.

    A thread reads the answers, from the first frame until ``close``. Where the connection breaks, what has no answer yet
    goes over a new one, to whichever board answers there: requests change nothing and may be sent twice.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._under_way: dict[int, _Underway] = {}
        self._reader: _Reader = None
        self._outbox: queue.SimpleQueue[Optional[bytes]] = queue.SimpleQueue()
        self._call: Any = None
        self._closed = threading.Event()

    def begin(self, number: int, request: bytes) -> Future[InferAnswer]:
        """Send a frame; its answer is in the future. Waits for an earlier one where too many are under way."""
        request = with_id(request, number)
        while True:
            with self._lock:
                waiting = [frame.answer for frame in self._under_way.values()]
                if len(waiting) < _MOST:
                    break
            futures.wait(waiting, return_when=futures.FIRST_COMPLETED)
        future: Future[InferAnswer] = Future()
        with self._lock:
            if self._closed.is_set():
                raise ContextInvalid(CLOSED)
            self._under_way[number] = _Underway(request, future)
            if self._reader is None:
                self._reader = threading.Thread(target=self._read, name="rknnlite-remote", daemon=True)
                self._reader.start()
            else:
                self._outbox.put(request)
        return future

    def close(self) -> None:
        """Give up what is under way, end the stream and its threads; may be called again."""
        with self._lock:
            self._closed.set()
            call, reader = self._call, self._reader
            left, self._under_way = list(self._under_way.values()), {}
            self._outbox.put(None)
        if call is not None:
            call.cancel()
        for number, frame in enumerate(left):
            frame.answer.set_exception(
                ContextInvalid(
                    f"{len(left) - number} frames were given up: the context was closed before they were done"
                )
            )
        if reader is not None and reader is not threading.current_thread():
            reader.join()

    # -- the thread ---------------------------------------------------------------------------------------

    def _read(self) -> None:
        pause, tries = _PAUSE, 0
        while self._connect():
            try:
                for data in self._call:
                    self._take(data)
                    pause, tries = _PAUSE, 0
                error: Any = None
            except grpc.RpcError as problem:
                error = problem
            except RknnError as problem:  # what came cannot be read
                self._fail(problem)
                self._call.cancel()
                continue
            finally:
                self._outbox.put(None)  # the thread of gRPC that sends what lies there ends
            tries += 1
            if (error is not None and not is_away(error)) or tries > _TRIES:
                self._fail(
                    self._channel.error(error, "inference")
                    if error
                    else RknnError("the board ended the stream")
                )
                tries, pause = 0, _PAUSE
            if not self._wait_for_work(pause):
                return
            pause = min(2.0, pause * 2)

    def _connect(self) -> bool:
        """A new stream with all frames that have no answer; False once closed."""
        with self._lock:
            if self._closed.is_set():
                return False
            self._outbox = queue.SimpleQueue()
            for frame in self._under_way.values():
                self._outbox.put(frame.request)
            self._call = self._channel.stream("ModelStreamInfer", _sent(self._outbox))
            return True

    def _wait_for_work(self, pause: float) -> bool:
        """Before a new stream: give the board time, and do not connect while there is nothing to ask."""
        self._closed.wait(pause)
        with self._lock:
            if not self._under_way:  # the next frame makes a thread of its own
                self._reader = None
                return False
            return not self._closed.is_set()

    def _take(self, data: bytes) -> None:
        number, answer, error = parse_streamed(data, self._channel.board.label)
        with self._lock:
            frame = self._under_way.pop(number, None)
        if frame is None:
            return
        if answer is not None:
            frame.answer.set_result(answer)
        else:
            frame.answer.set_exception(error or RknnError("the board says neither result nor error"))

    def _fail(self, error: RknnError) -> None:
        with self._lock:
            left, self._under_way = list(self._under_way.values()), {}
        for frame in left:
            frame.answer.set_exception(type(error)(str(error)))


def _sent(outbox: queue.SimpleQueue[Optional[bytes]]) -> Iterator[bytes]:
    while True:
        request = outbox.get()
        if request is None:
            return
        yield request
