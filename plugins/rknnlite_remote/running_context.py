"""How requests go to a board and what their answers leave behind."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_backend.perf import PerfTable
from rknnlite_backend.running import (
    both_paths,
    check_timeout,
    check_under_way,
    no_data,
    not_prepared,
    not_run,
    outcome,
    wait_done,
)
from rknnlite_protocol.board import Description, shapes_text
from rknnlite_protocol.grpc_messages import INFERENCE

from rknnlite.errors import ParamInvalid
from rknnlite.socs import Soc
from rknnlite.spi import OpenOptions
from rknnlite.tensor import Layout

from .channel import Channel
from .described_context import DescribedContext
from .frame_stream import FrameStream
from .memory import Bindings, BoundFrame
from .model_on_boards import ModelOnBoards
from .wire import InferAnswer, InputForm, RequestOptions, body_of, parse, tail_of

__all__ = ["RunningContext"]

Array = NDArray[Any]
_SECONDS = 60.0  # that an answer may take, unless the options say how long a run may
_TRANSIT_SECONDS = 30.0  # beside the run itself
_MOST = 64  # frames that were begun and not answer_of for
_FAILURES = 16  # that nobody has asked for


@dataclass
class _Frame:
    """A frame, from its beginning on; ``body`` are its inputs as they were sent."""

    number: int
    body: bytes
    asked: RequestOptions
    future: Optional[Future[InferAnswer]] = None
    bound: Optional[BoundFrame] = None
    answers: dict[bool, InferAnswer] = field(default_factory=dict)
    """By whether they are floating point numbers."""
    error: Optional[BaseException] = None


class RunningContext(DescribedContext):
    """Part of ``RemoteContext``: inputs made ready, frames begun, answers fetched."""

    def __init__(
        self,
        hosted: ModelOnBoards,
        description: Description,
        soc: Soc,
        channel: Channel,
        options: OpenOptions,
    ) -> None:
        super().__init__(hosted, description, soc, channel)
        self._options = options
        self._seconds = options.timeout_ms / 1000 + _TRANSIT_SECONDS if options.timeout_ms else _SECONDS
        self._infer = channel.unary(INFERENCE, "ModelInfer", raw=True)
        self._stream = FrameStream(channel)
        self._bindings = Bindings()
        self._common = False  # inputs were set
        self._asked = RequestOptions(hosted.name, core_mask=options.core_mask or None)
        self._tails: dict[RequestOptions, bytes] = {}
        self._heads: dict[Any, bytes] = {}
        self._body: Optional[bytes] = None
        self._wants_float = True
        """What the next run asks the board for: what the caller fetched last."""
        self._last: Optional[_Frame] = None
        self._previous: Optional[_Frame] = None
        self._under_way: dict[int, _Frame] = {}
        self._count = self._fetched = self._last_us = 0
        self._table: Optional[PerfTable] = None

    # -- inputs and settings ------------------------------------------------------------------------------

    def _asks(self, **changes: Any) -> None:
        """Say something else with every request from now on."""
        asked = self._asked._replace(**changes)
        self._asked = asked._replace(core_mask=asked.core_mask or None)

    def _take_body(self, body: bytes) -> None:
        self._body, self._table = body, None

    def _forget_inputs(self) -> None:
        """The shape has changed."""
        self._body = self._table = None

    def _shapes_text(self) -> str:
        return shapes_text([attr.dims for attr in self._inputs])

    def _request(self, what: str) -> bytes:
        """The whole request of the last inputs; raises ContextInvalid without any."""
        if self._bindings.bound:
            raise ParamInvalid(f"{what} needs inputs that were set; those in bound memory stay what they are")
        if self._body is None:
            raise no_data(what)
        return self._body + self._tail(self._asked)

    def _tail(self, asked: RequestOptions) -> bytes:
        found = self._tails.get(asked)
        if found is None:
            if len(self._tails) > 64:
                self._tails.clear()
            found = self._tails[asked] = tail_of(asked)
        return found

    # -- frames -------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run once. In asynchronous mode the frame is begun: its outputs are fetched behind those of the one before."""
        with self.step():
            if self._options.async_mode:
                self._start()
                return
            self._settle()
            frame = self._begin()
            try:
                self._take_answer(frame, self._ask(frame.body, frame.asked))
            except BaseException:
                self._last, self._previous = None, self._last
                raise
            self._previous, self._last = self._last, frame

    def start(self, timeout_ms: int = 0) -> int:
        """See ``Context.start``; bound memory is read here, and written when the frame is answer_of for."""
        with self.step():
            check_timeout(timeout_ms)
            return self._start()

    def wait(self, frame_id: int, timeout_ms: int = 0) -> None:
        """See ``Context.wait``."""
        with self.step():
            check_timeout(timeout_ms)
            check_under_way(frame_id, 0, self._count - 1 if self._count else None)
            frame = self._under_way.get(frame_id)
            if frame is not None:
                self._finish(frame, timeout_ms)

    def get_outputs(self, want_float: bool = True) -> list[Array]:
        """Outputs of the last run; in asynchronous mode of the one before it (the first run answers for itself).

        RequestOptions for the other form than the run was (``want_float``), the board runs once more on the same inputs; the
        next run asks for this form at once.
        """
        with self.step():
            return [np.array(array) for array in self._fetched_arrays(want_float)]

    def get_outputs_into(self, arrays: Any, want_float: bool = True) -> None:
        with self.step():
            for array, found in zip(arrays, self._fetched_arrays(want_float)):
                array[...] = found

    @property
    def frame_id(self) -> int | None:
        return self._fetched if self._options.async_mode else None

    @property
    def last_run_us(self) -> int:
        return self._last_us

    # -- inside -------------------------------------------------------------------------------------------

    def _fetched_arrays(self, want_float: bool) -> list[Array]:
        if self._bindings.bound:
            raise both_paths()
        frame = self._answering()
        want_float = bool(want_float)
        self._wants_float = want_float
        if want_float not in frame.answers:
            frame.answers[want_float] = self._ask(frame.body, frame.asked._replace(raw=not want_float))
        self._fetched = frame.number
        return frame.answers[want_float].arrays

    def _answering(self) -> _Frame:
        """The frame whose outputs are to be given, with its answer."""
        wanted = self._previous if self._options.async_mode and self._previous is not None else self._last
        if wanted is None:
            raise not_run()
        if wanted.number in self._under_way:
            self._finish(wanted)
        if not wanted.answers:  # it failed, and has told so
            raise not_run()
        return wanted

    def _start(self) -> int:
        if len(self._under_way) >= _MOST:
            self._settle()
        frame = self._begin()
        frame.future = self._stream.begin(frame.number, frame.body + self._tail(frame.asked))
        self._under_way[frame.number] = frame
        self._previous, self._last = self._last, frame
        return frame.number

    def _begin(self) -> _Frame:
        """A frame on the inputs of this moment; raises ContextInvalid where something is missing."""
        bound = None
        if self._bindings.bound:
            bound = self._bindings.frame(self._all_places())
            body = self._bound_body(bound)
            outputs = tuple((attr, mem.size) for attr, mem in bound.outputs)
            asked = self._asked._replace(bound=outputs, shapes=self._shapes_text() if self._shapes else "")
        elif self._body is None:
            raise not_prepared()
        else:
            body, asked = self._body, self._asked._replace(raw=not self._wants_float)
        self._count += 1
        return _Frame(self._count - 1, body, asked, bound=bound)

    def _bound_body(self, bound: BoundFrame) -> bytes:
        byte = np.dtype(np.uint8)
        forms = [
            InputForm(attr.name, byte, (mem.size,), Layout.UNDEFINED, False, attr)
            for attr, mem in bound.inputs
        ]
        return body_of(forms, [mem.ndarray for _, mem in bound.inputs], self._heads)

    def _ask(self, body: bytes, asked: RequestOptions) -> InferAnswer:
        """One request alone; the model is sent again where the board has lost it."""
        request, channel = body + self._tail(asked), self._channel

        def call() -> bytes:
            data: bytes = self._infer(request, timeout=self._seconds, metadata=channel.metadata)
            return data

        return parse(self._hosted.with_model(channel, call, "inference"))

    def _take_answer(self, frame: _Frame, answer: InferAnswer) -> None:
        self._last_us = answer.run_us
        if frame.bound is not None:
            frame.bound.write(answer.arrays)
        frame.answers[not frame.asked.raw] = answer

    def _end(self, frame: _Frame, timeout_ms: int = 0) -> None:
        """Wait for a frame that was started and take its answer; what it raised is kept. Raises RunTimeout."""
        if frame.future is None:
            return
        try:
            wait_done(frame.future, frame.number, timeout_ms)
            answer = outcome(frame.future, frame.number)
        # of a stream this may mean that the model is gone: asked alone the board says what it is
        except ParamInvalid:
            answer = None
        except Exception as error:
            if not frame.future.done():
                raise
            frame.future, frame.error = None, error.with_traceback(None)
            return
        frame.future = None
        try:
            self._take_answer(frame, answer or self._ask(frame.body, frame.asked))
        except Exception as error:
            frame.error = error.with_traceback(None)

    def _finish(self, frame: _Frame, timeout_ms: int = 0) -> None:
        """Wait for a frame that was started, and raise what it raised."""
        self._end(frame, timeout_ms)
        del self._under_way[frame.number]
        if frame.error is not None:
            raise frame.error

    def _settle(self) -> None:
        """Let the frames under way end. What they raise is told by the ``wait`` that asks for it."""
        for frame in list(self._under_way.values()):
            self._end(frame)
            if frame.error is None:
                del self._under_way[frame.number]
        for number in list(self._under_way)[:-_FAILURES]:
            del self._under_way[number]

    def _drop_arrays(self) -> None:
        """The context is closed."""
        self._body = self._last = self._previous = self._table = None
        self._under_way.clear()
