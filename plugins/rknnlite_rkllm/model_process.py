"""A model in a process of its own: the library ends the program by ``abort()`` where a file or a driver displeases it.

The process ends with the model, and with this program however that ends. A crash in there is ``RkllmCrashed`` here.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections import deque
from typing import Any, Optional

from rknnlite_backend.native_objects import abandon_after_fork
from rknnlite_programs.childprocess import ChildProcess, ProcessEnded

from rknnlite.errors import RknnError
from rknnlite.log import logger
from rknnlite.native.processes import python_main

from .failure import error_of
from .identify import Identity
from .requests import ResultHandler, Run, RunEnd, Start
from .wire import Channel, Message

__all__ = ["LoadFailed", "ModelProcess", "RkllmCrashed"]

_LINES, _SHOWN = 60, 3
_PYTHONS = re.compile(
    r"File \"|(Current t|T)hread 0x|Fatal Python error|Extension modules|<no Python frame>|Current thread's C"
)
"""What Python says of a crash: of our files, which are not what is the matter."""
_CLOSE_LIMIT, _LOG_LIMIT = 20.0, 1.0


class RkllmCrashed(RknnError):
    """The process with librkllmrt ended by itself; the session is lost, the program goes on."""


class LoadFailed(RknnError):
    """A model was not loaded, because of ``cause``; ``log`` are the lines that the library printed, which may say why."""

    def __init__(self, cause: RknnError, log: tuple[str, ...]) -> None:
        super().__init__(str(cause))
        self.cause, self.log = cause, log


class ModelProcess:
    """See ``Model``.

    Args:
        identity: the library.
        stated: what the user says its version is.
        start: what the model is opened with.
        patience: seconds that a run may go on after ``abort`` before its process is ended.
        open_limit: seconds that loading may take.
    """

    def __init__(
        self, identity: Identity, stated: Optional[str], start: Start, patience: float, open_limit: float
    ) -> None:
        """Start the process and load the model.

        Raises:
            LoadFailed: because of RkllmCrashed, RunTimeout or what the library answers.
            BackendUnavailable: there is no Python to start.
        """
        self._name = f"librkllmrt {identity.version} with {start.model}"
        self._patience = patience
        self._lock = threading.Lock()  # of the socket's sending side
        self._running = False
        self._impatient: Optional[threading.Timer] = None
        self._channel: Optional[Channel] = None
        self._number = 0
        self._gave_up = False
        ours, theirs = os.pipe()
        try:
            command = python_main(f"{__package__}.worker")
            self._child = ChildProcess(self._name, command, stdout=theirs, stderr=theirs)
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        self._log = _Log(ours)
        abandon_after_fork(self)  # not by the context alone, which may have been dropped
        try:
            self._ask("open", str(identity.path), stated, identity.version, start, limit=open_limit)
        except RknnError as error:
            self._end()
            raise LoadFailed(error, self.log) from None
        except BaseException:
            self._end()
            raise

    @property
    def log(self) -> tuple[str, ...]:
        """The lines that the library printed in the last call."""
        return self._log.since_mark()

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._child.pid

    # -- calls --------------------------------------------------------------------------------------------

    def run(self, request: Run, on_result: ResultHandler) -> RunEnd:
        """``NativeModel.run`` over there."""
        try:
            ended: RunEnd = self._ask("run", request, on_result=on_result)
            return ended
        finally:
            with self._lock:
                self._running, timer, self._impatient = False, self._impatient, None
            if timer is not None:
                timer.cancel()

    def call(self, name: str, *args: Any) -> Any:
        """One of the other calls of ``NativeModel`` over there."""
        return self._ask(name, *args)

    def abort(self) -> None:
        """``NativeModel.abort`` over there; a run that does not end then loses its process."""
        with self._lock:
            if not self._running or self._channel is None:
                return
            if self._impatient is None:
                self._impatient = threading.Timer(self._patience, self._give_up)
                self._impatient.daemon = True
                self._impatient.start()
            # Again if asked again: one that comes before the run has begun over there has no effect.
            with contextlib.suppress(OSError):
                self._channel.send(Message.ABORT)

    def _give_up(self) -> None:
        self._gave_up = True
        self._child.end()

    def _ask(
        self, name: str, *args: Any, limit: Optional[float] = None, on_result: Optional[ResultHandler] = None
    ) -> Any:
        self._number += 1
        self._log.mark()
        try:
            with self._child.exchange(f"rkllm_{name}" if name != "open" else "rkllm_init", limit) as sock:
                channel = self._channel = self._channel or Channel(sock)
                with self._lock:
                    channel.send(Message.REQUEST, (self._number, name, *args))
                    self._running = on_result is not None
                kind, answer = channel.receive()
                while on_result is not None and kind in (Message.TOKEN, Message.RESULT):
                    on_result(answer)
                    kind, answer = channel.receive()
        except ProcessEnded as error:
            raise self._crashed(error.ending) from None
        self._log.wait_for(self._number)
        if kind is Message.FAILED:
            raise error_of(answer)
        return answer

    def _crashed(self, ending: str) -> RkllmCrashed:
        """What became of the process, with the library's last words."""
        self._log.wait_for_end()
        if self._gave_up:
            ending = f"did not stop within {self._patience:g} s (option patience) and was ended"
        words = self._log.last_words(_SHOWN)
        return RkllmCrashed(
            f"{self._name}: its process {ending}; the session is lost, open another one"
            + (f". The library's last words: {' | '.join(words)}" if words else "")
        )

    # -- life ---------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Have the library destroy the model, then the process end."""
        if self._child.alive:
            with contextlib.suppress(RknnError):
                self._ask("close", limit=_CLOSE_LIMIT)
        self._end()

    def _end(self) -> None:
        self._child.close()
        self._log.close()

    def abandon(self) -> None:
        """After a fork: the process is the parent's, and must not live on because a child holds the ends of its pipes."""
        self._lock, self._running = threading.Lock(), False
        self._child.close()


class _Log:
    """Reads the pipe that the process prints to, in a thread; keeps the last lines, and those of the call under way."""

    def __init__(self, pipe: int) -> None:
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._call: deque[str] = deque(maxlen=_LINES)
        self._changed = threading.Condition()
        self._seen, self._ended = 0, False
        self._thread = threading.Thread(
            target=self._read, args=(pipe,), name="rknnlite-rkllm-log", daemon=True
        )
        self._thread.start()

    def _read(self, pipe: int) -> None:
        with open(pipe, "rb", buffering=0) as file:
            rest = b""
            while True:
                part = file.read(1 << 16)
                if not part:
                    break
                *lines, rest = (rest + part).split(b"\n")
                rest = rest[-(1 << 16) :]
                for line in lines:
                    self._take(line)
        if rest:
            self._take(rest)
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _take(self, line: bytes) -> None:
        mark = re.search(rb"\0(\d+)$", line)
        text = (line[: mark.start()] if mark else line).decode("utf-8", "replace").strip()
        with self._changed:
            if text:
                self._lines.append(text)
                self._call.append(text)
            if mark:
                self._seen = int(mark.group(1))
                self._changed.notify_all()
        if text:
            logger.debug("librkllmrt: %s", text)

    def mark(self) -> None:
        """A call begins."""
        with self._changed:
            self._call.clear()

    def wait_for(self, number: int) -> None:
        """Wait until all lines of a call are here."""
        with self._changed:
            self._changed.wait_for(lambda: self._seen >= number or self._ended, _LOG_LIMIT)

    def wait_for_end(self) -> None:
        """Wait until all lines of a process that has ended are here."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended, _LOG_LIMIT)

    def since_mark(self) -> tuple[str, ...]:
        """Lines of the last call."""
        with self._changed:
            return tuple(self._call)

    def last_words(self, count: int) -> list[str]:
        """The last lines, those that speak of errors first."""
        with self._changed:
            lines = [line for line in self._lines if not _PYTHONS.match(line)]
        telling = [line for line in lines if re.search(r"rkllm|GGML|error|failed", line, re.IGNORECASE)]
        return [line[:200] for line in (telling or lines)[-count:]]

    def close(self) -> None:
        """Wait for the end of the thread; the process has ended."""
        self._thread.join(_LOG_LIMIT)
