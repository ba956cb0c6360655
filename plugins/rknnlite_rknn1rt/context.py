"""One model on librknn_api."""

from __future__ import annotations

import ctypes as ct
from collections import deque
from collections.abc import Sequence
from concurrent import futures
from typing import Any

from numpy.typing import NDArray
from rknnlite_backend.native_objects import abandon_after_fork
from rknnlite_backend.running import both_paths, not_prepared, not_under_way, outcome, wait_done

from rknnlite import socs
from rknnlite.errors import ContextInvalid, ParamInvalid, RknnError
from rknnlite.formats import ModelFile
from rknnlite.spi import Input, Memory, OpenOptions
from rknnlite.spi.one_thread import OneThread

from . import abi
from .errors import check
from .feed import InputFeed
from .fetch import OutputFetch, discard
from .loader import Library
from .native_context import NativeContext
from .settings import Rknn1rtSettings
from .zerocopy import ZeroCopyContext

__all__ = ["Rknn1Context"]

Array = NDArray[Any]
_QUEUE = 3
"""Frames that the library holds for who fetches them; the run after them would wait for ever in a single thread."""
_IDLE = 0.1  # seconds that the thread of ``wait`` waits for the next frame


class Rknn1Context(ZeroCopyContext):
    """See ``rknnlite.spi.Context``. A run is fetched once: the library gives each frame's outputs out one time."""

    def __init__(
        self,
        library: Library,
        file: ModelFile,
        settings: Rknn1rtSettings,
        options: OpenOptions,
        soc: socs.Soc,
    ) -> None:
        super().__init__()
        self._begun: deque[int] = deque()  # frames whose outputs were not fetched
        self._frame: int | None = None
        self._ready = False
        self._fetches: dict[bool, OutputFetch] = {}
        self._waiting: futures.Future[None] | None = None
        self._waiter: OneThread | None = None
        self._kept: list[Array] | None = None  # what ``wait`` has fetched
        self._options = options
        self._set_up(NativeContext.open(library, file, settings, self._owner), file, settings, soc)
        self._set_up_memory()
        abandon_after_fork(self)
        try:
            self._read_attrs()
            if options.core_mask:
                self.set_core_mask(options.core_mask)
        except BaseException:
            self._closed = True
            native, self._native_context = self._native_context, None
            if native is not None:
                native.native.release()
            raise
        self._feed = InputFeed(self._inputs, self._native_attrs[True])

    def _need(self) -> NativeContext:
        self._idle()
        return super()._need()

    # -- common path --------------------------------------------------------------------------------------

    def set_inputs(self, inputs: Sequence[Input]) -> None:
        with self.step():
            self._idle()
            if self._on_side(True):
                raise both_paths()
            held = self._feed.put(inputs)
            function = self._library.function("rknn_inputs_set")
            code = function(self._value, self._feed.count, self._feed.structs)
            del held  # the library has its copy
            self._ready = not code
            check("rknn_inputs_set", code)

    def run(self) -> None:
        """As the contract says; without memory for the outputs the library may still compute when it returns."""
        with self.step():
            self._idle()
            if not self._settings.async_mode:
                self._drain()
            self._begin()
            if self._on_side(False):
                self._finish()

    def _drain(self) -> None:
        """Frames that nobody has fetched, or that failed, leave the library's queue."""
        self._kept = None
        while self._begun and not self._on_side(False):
            self._begun.popleft()
            discard(self._library, self._value, self._outputs)
        self._begun.clear()

    def _begin(self) -> int:
        if len(self._begun) >= _QUEUE:
            raise ContextInvalid(
                f"{_QUEUE} frames have been begun and not fetched; fetch outputs before the next one"
            )
        if self._on_side(True):
            self._sync_side(True)
        elif not self._ready:
            raise not_prepared("set inputs (or map or bind memory)")
        if self._on_side(False):
            self._check_side(False)
        extend = abi.RunExtend()
        check("rknn_run", self._library.function("rknn_run")(self._value, ct.byref(extend)))
        self._begun.append(extend.frame_id)
        return int(extend.frame_id)

    def _finish(self) -> None:
        """Wait for what runs on memory of the program's: all frames that were begun."""
        last = self._begun[-1] if self._begun else self._frame
        self._begun.clear()
        self._sync_side(False)
        self._frame, self._done = last, True

    def _outputs_awaited(self) -> None:
        if self._begun:
            self._finish()

    def get_outputs(self, want_float: bool = True) -> list[Array]:
        with self.step():
            self._idle()
            if self._kept is not None:
                arrays, self._kept = self._take_kept(want_float), None
                return arrays
            arrays = self._fetch(want_float).fresh()
            self._get(want_float, arrays)
            return arrays

    def get_outputs_into(self, arrays: Sequence[Array], want_float: bool = True) -> None:
        with self.step():
            self._idle()
            self._fetch(want_float).check(arrays)
            if self._kept is None:
                self._get(want_float, arrays)
                return
            for array, kept in zip(arrays, self._take_kept(want_float)):
                array[...] = kept
            self._kept = None

    def _take_kept(self, want_float: bool) -> list[Array]:
        if not want_float:
            raise ContextInvalid(
                "wait() has fetched this frame as float32; for stored elements call run instead of start"
            )
        assert self._kept is not None
        return self._kept

    def _fetch(self, want_float: bool) -> OutputFetch:
        if self._on_side(False):
            raise both_paths()
        if want_float not in self._fetches:
            self._fetches[want_float] = OutputFetch(self._outputs, want_float)
        return self._fetches[want_float]

    def _get(self, want_float: bool, arrays: Sequence[Array]) -> None:
        if not self._begun:
            raise ContextInvalid(
                "there is no frame to fetch: run the model first (each run's outputs are given out once)"
            )
        wanted = self._begun.popleft()
        frame = self._fetch(want_float).get(self._library, self._value, arrays)
        # 0: a library that does not count
        if frame and wanted and frame != wanted and not self._settings.async_mode:
            raise RknnError(
                f"rknn_outputs_get gave frame {frame} where {wanted} was the next; open the model again, and tell which "
                f"library does so: {self._library!r}"
            )
        self._frame, self._done = frame, True

    # -- frames under way ---------------------------------------------------------------------------------

    @property
    def frame_id(self) -> int | None:
        return self._frame

    def start(self, timeout_ms: int = 0) -> int:
        with self.step():
            self._idle()
            if self._settings.async_mode:
                raise ParamInvalid(
                    "async_mode and start exclude each other; open the model without async_mode"
                )
            self._kept = None
            return self._begin()

    def wait(self, frame_id: int, timeout_ms: int = 0) -> None:
        """See ``Context.wait``; fetches the frame, which ``get_outputs`` then gives. Frames before it are dropped."""
        with self.step():
            if self._waiting is None:
                if frame_id == self._frame and frame_id not in self._begun:
                    return
                if frame_id not in self._begun:
                    raise not_under_way(frame_id, self._begun[-1] if self._begun else self._frame)
                if self._on_side(False):
                    work: tuple[Any, ...] = (self._finish,)
                else:
                    work = (self._fetch_until, frame_id)
                if not timeout_ms:
                    work[0](*work[1:])
                    return
                if self._waiter is None:
                    self._waiter = OneThread("rknnlite-rknn1rt", daemon=False, idle=_IDLE)
                self._waiting = self._waiter.submit(*work)
            wait_done(self._waiting, frame_id, timeout_ms)
            waiting, self._waiting = self._waiting, None
            try:
                outcome(waiting, frame_id)
            finally:
                del waiting

    def _fetch_until(self, frame_id: int) -> None:
        while self._begun[0] != frame_id:
            self._begun.popleft()
            discard(self._library, self._value, self._outputs)
        arrays = self._fetch(True).fresh()
        self._get(True, arrays)
        self._kept = arrays

    def _idle(self) -> None:
        """Raise while a frame is being waited for: the library fills its arrays."""
        if self._waiting is not None and not self._waiting.done():
            raise ContextInvalid("a frame that wait() gave up on is still under way; wait for it again")

    def unbind(self, mem: Memory) -> None:
        waiting = self._waiting
        if waiting is not None:
            futures.wait([waiting])
        super().unbind(mem)

    # -- life ---------------------------------------------------------------------------------------------

    def dup(self) -> Rknn1Context:
        """A second context on the same file: librknn_api shares no weights between contexts."""
        with self.exclusive():
            self._need()
            return Rknn1Context(self._library, self._file, self._settings, self._options, self._soc)

    def _release(self) -> None:
        """Memory first, then the context; numpy views that are still alive delay both until they are gone."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.close()
        self._waiting = None
        for mem in list(self._memories):
            mem.close()
        self._bound.clear()
        native, self._native_context = self._native_context, None
        if native is not None:
            native.native.retire()

    def abandon(self) -> None:
        super().abandon()
        native, self._native_context = self._native_context, None
        self._waiting = self._waiter = None
        if native is not None:
            native.native.disown()
