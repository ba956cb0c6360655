"""Processes that plugins start: a socket to each, a limit on every answer, and none that outlives its program."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, Optional

from rknnlite.errors import BackendUnavailable, ParamInvalid, RknnError, RunTimeout
from rknnlite.native.forks import Owner
from rknnlite.native.processes import ending

__all__ = ["TIME_LIMIT", "ChildProcess", "ProcessEnded", "checked_limit", "exactly"]

TIME_LIMIT = 10.0
"""Seconds that one call of a plugin may take where nothing else is asked for."""


class ProcessEnded(RknnError):
    """A process that a plugin started has ended, now or earlier.

    Attributes:
        ending: how, without its name and a remedy: ``ended in rkllm_run: signal 11 (SIGSEGV)``.
    """

    def __init__(self, text: str, ending: str = "") -> None:
        super().__init__(text)
        self.ending = ending


class ChildProcess:
    """A running command and a socket to it; the number of its end of the socket is the command's last argument.

    It has a session of its own, because Ctrl-C is for the program. The kernel ends it together with this process,
    whatever it is doing then and however this process ends.

    Args:
        name: what runs in it, for messages.
        command: program and arguments.
        fds: descriptors that it inherits.
        options: more for ``subprocess.Popen``.

    Raises:
        BackendUnavailable: there is no such program.
    """

    def __init__(self, name: str, command: Sequence[str], fds: Sequence[int] = (), **options: Any) -> None:
        self._name = name
        self._owner = Owner()
        self._over = ""
        ours, theirs = socket.socketpair()
        leash, held = os.pipe()
        try:
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno())],
                pass_fds=[*fds, theirs.fileno(), leash],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                **options,
            )
            _tie(leash, self._process.pid)
        except OSError as error:
            ours.close()
            os.close(held)
            raise BackendUnavailable(f"{name} needs {command[0]}: {error.strerror}") from None
        finally:
            theirs.close()
            os.close(leash)
        self._sock = ours
        self._finalizer = weakref.finalize(self, _end, self._owner, self._process, ours, held)

    @property
    def alive(self) -> bool:
        """Whether it can be asked anything by this process; a fork of the owner cannot."""
        return not self._over and self._owner.is_here

    @property
    def pid(self) -> int:
        """Number of the process, also when it has ended."""
        return self._process.pid

    @contextlib.contextmanager
    def exchange(self, step: str, limit: Optional[float]) -> Iterator[socket.socket]:
        """The socket, for one request and its answer within ``limit`` seconds each way; ``step`` is for messages.

        Raises:
            RunTimeout: no answer in time; the process is ended.
            ProcessEnded: it has ended, now or earlier. ContextInvalid: it belongs to the parent of this process.
        """
        self.check()
        self._sock.settimeout(limit)
        try:
            yield self._sock
        except (socket.timeout, TimeoutError):
            self._kill(f"did not return from {step} within {limit:g} s and was ended")
            raise RunTimeout(f"plugin {self._name} {self._over}") from None
        except (OSError, EOFError):
            self._over = f"ended in {step}: {_ending(self._process)}"
            raise ProcessEnded(f"plugin {self._name} {self._over}", self._over) from None
        except BaseException:  # Ctrl-C, say: this answer must not be taken for that to the next request
            self._kill(f"was interrupted in {step}")
            raise

    def end(self) -> None:
        """Kill it, from any thread; whoever waits for its answer gets ProcessEnded."""
        self._process.kill()

    def close(self) -> None:
        """Let it end by closing the socket, or make it; calling it again does nothing."""
        self._over = self._over or "is closed"
        self._finalizer()

    def check(self) -> None:
        """Raise what ``exchange`` would raise before it asks anything."""
        self._owner.check(f"plugin {self._name}")
        if self._over:
            raise ProcessEnded(f"plugin {self._name} {self._over}; open the model again", self._over)

    def _kill(self, why: str) -> None:
        self._over = why
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):  # it may hang in a driver
            self._process.wait(2)


def exactly(sock: socket.socket, size: int) -> bytes:
    """``size`` bytes from a socket; EOFError when the other side is gone."""
    data = sock.recv(size, socket.MSG_WAITALL)
    while len(data) < size:
        part = sock.recv(size - len(data))
        if not part:
            raise EOFError("the other side has ended")
        data += part
    return data


def checked_limit(given: Any, what: object) -> Optional[float]:
    """A ``time_limit`` in seconds, None for no limit; raises ParamInvalid."""
    if given is None:
        return None
    if isinstance(given, (int, float)) and not isinstance(given, bool) and given > 0:
        return min(float(given), 1e9)  # what a socket can wait for
    raise ParamInvalid(f"{what}: time_limit must be a number of seconds above 0 or None, not {given!r}")


def _tie(leash: int, pid: int) -> None:
    """Have the kernel kill ``pid`` when nobody holds the other end of this pipe any more, where it can do that.

    Unlike PR_SET_PDEATHSIG this does not act when merely the thread that started the process ends.
    """
    with contextlib.suppress(OSError):
        fcntl.fcntl(leash, fcntl.F_SETOWN, pid)
        fcntl.fcntl(leash, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(leash, fcntl.F_SETFL, os.O_ASYNC)


def _ending(process: subprocess.Popen[bytes]) -> str:
    try:
        return ending(process.wait(2))
    except subprocess.TimeoutExpired:
        return "it stopped answering"


def _end(owner: Owner, process: subprocess.Popen[bytes], sock: socket.socket, held: int) -> None:
    sock.close()
    if owner.is_here:
        try:
            process.wait(2)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    os.close(held)
