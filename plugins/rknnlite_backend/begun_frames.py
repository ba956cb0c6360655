"""How a context that computes in this process runs frames, begins them and waits for them."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from rknnlite.formats import Model, ModelFile
from rknnlite.layout import nchw_to_nhwc_shape
from rknnlite.socs import Soc

from .running import both_paths, check_timeout, check_under_way
from .zero_copy_context import ZeroCopyContext

if TYPE_CHECKING:
    from .in_flight import InFlight

__all__ = ["BegunFrames", "FrameBegun", "Opened"]


class Opened(Protocol):
    """What is fixed for a model once it is open."""

    @property
    def file(self) -> ModelFile: ...

    @property
    def model(self) -> Model: ...

    @property
    def soc(self) -> Soc: ...


class FrameBegun(Protocol):
    """A frame that is about to be computed, with all of the context that a later call may change."""

    number: int


Frame = TypeVar("Frame", bound=FrameBegun)


class BegunFrames(ZeroCopyContext, Generic[Frame]):
    """What a model says of itself, ``run``, ``start`` and ``wait``; a subclass says what a frame is and computes it."""

    _opened: Opened
    _flight: InFlight | None = None
    """Frames that ``start`` has begun; most contexts never do."""

    @property
    def lent(self) -> Model:
        self._opened.file.check()  # its weights are to be read
        return self._opened.model

    @property
    def soc(self) -> Soc:
        return self._opened.soc

    @property
    def batch(self) -> int:
        return self._opened.model.batch

    @property
    def shapes(self) -> list[list[tuple[int, ...]]]:
        return [[nchw_to_nhwc_shape(shape) for shape in shapes] for shapes in self._opened.model.shapes]

    @property
    def custom_string(self) -> str:
        return self._opened.model.custom_string

    def _check_path(self) -> None:
        if self._bindings.bound and not self.mixed_paths:
            raise both_paths()

    @property
    def _one_at_a_time(self) -> bool:
        """Whether one frame alone is under way, as on a coprocessor."""
        return False

    @property
    @abc.abstractmethod
    def _newest(self) -> int | None:
        """Number of the last frame that has begun; None before the first."""

    @abc.abstractmethod
    def _begin(self) -> Frame:
        """A frame on the inputs of this moment; raises ContextInvalid or RknnError where something is missing."""

    @abc.abstractmethod
    def _keep_inputs(self, frame: Frame) -> None:
        """Let the frame have inputs of its own: the program writes into its memory again before it is computed."""

    @abc.abstractmethod
    def _make(self, frame: Frame) -> None:
        """Compute a frame, in whatever thread; others may call meanwhile what does not ``_settle``."""

    def run(self) -> None:
        outer = self.begin_step()  # as ``step`` does, which costs every frame three calls more
        try:
            if self._flight is not None:
                self._settle()
            self._make(self._begin())
        finally:
            self.end_step(outer)

    def start(self, timeout_ms: int = 0) -> int:
        """See ``Context.start``; bound memory is read here, and written when the frame ends."""
        with self.step():
            check_timeout(timeout_ms)
            if self._flight is None:
                from .in_flight import InFlight

                self._flight = InFlight()
            if self._one_at_a_time:
                self._settle()
            frame = self._begin()
            self._keep_inputs(frame)
            self._flight.begin(frame.number, self._make, frame)
        return frame.number

    def wait(self, frame_id: int, timeout_ms: int = 0) -> None:
        """See ``Context.wait``. A coprocessor has one frame under way, so that only the last one is legal there."""
        with self.step():
            check_timeout(timeout_ms)
            newest = self._newest
            check_under_way(frame_id, newest or 0 if self._one_at_a_time else 0, newest)
            if self._flight is not None:
                self._flight.wait(frame_id, timeout_ms)

    def _settle(self) -> None:
        """Let the frames under way end. What they raise is told by ``wait``; a coprocessor's runtime tells at once."""
        if self._flight is None:
            return
        if self._one_at_a_time:
            self._flight.wait(-1 if self._newest is None else self._newest)
        else:
            self._flight.finish()

    def close(self) -> None:
        """As ``Context.close``; frames that have not begun are given up, the one under way is waited for."""
        self.refuse_inside()
        self._give_up()
        super().close()

    def _give_up(self) -> None:
        """End what ``start`` began; also for ``_release``, since a frame may have begun until then."""
        if self._flight is not None:
            self._flight.close()
