"""What the faces say: lines ``<L> <text>`` on stderr, one logger per object, nothing global touched.

The logger is a plain ``logging.Logger`` that stands outside the tree of ``logging.getLogger``: it has no
parent, so the root logger neither sees nor changes it, and two faces may be as talkative as they like.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from ..errors import RknnError, visible
from ..log import level as library_level
from ..log import logger as library_logger
from .arguments import path_of, shown

__all__ = ["FaceLog", "listen", "log_file", "unlisten"]

_FORMAT = logging.Formatter("%(levelname).1s %(message)s")
_MAX_REMEMBERED = 256


class _StderrHandler(logging.Handler):
    """Writes to what ``sys.stderr`` is at that moment (test runners and daemons exchange it)."""

    def emit(self, record: logging.LogRecord) -> None:
        stream = sys.stderr
        if stream is None:  # a program without a console
            return
        with contextlib.suppress(OSError, ValueError):  # closed or full: a log line is not worth a crash
            stream.write(visible(_FORMAT.format(record)) + "\n")
            stream.flush()


class _FileHandler(logging.Handler):
    """Appends to a file that is open only while a line is written: nothing to close, nothing to inherit."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def emit(self, record: logging.LogRecord) -> None:
        with (
            contextlib.suppress(OSError),
            self._path.open("a", encoding="utf-8", errors="backslashreplace") as file,
        ):
            file.write(visible(_FORMAT.format(record)) + "\n")


class _Logger(logging.Logger):
    """A logger outside the tree, which therefore must not rely on the tree to refresh its cache of levels."""

    def isEnabledFor(self, level: int) -> bool:
        return not self.disabled and self.manager.disable < level and level >= self.getEffectiveLevel()


def _threshold(verbose: bool) -> int:
    if verbose:
        return logging.DEBUG
    return logging.ERROR if library_level() == 0 else logging.WARNING


class FaceLog:
    """The ``rknn_log`` of a face.

    Args:
        verbose: D and I lines too. Otherwise W and E lines are written, at ``RKNN_LOG_LEVEL=0`` E lines alone.
        verbose_file: file that gets the same lines, appended; only used with ``verbose``.
    """

    def __init__(self, verbose: bool = False, verbose_file: Path | None = None) -> None:
        self.logger: logging.Logger = _Logger("rknnlite.api", _threshold(verbose))
        self.logger.addHandler(_StderrHandler())
        if verbose and verbose_file is not None:
            self.logger.addHandler(_FileHandler(verbose_file))
        self._warnings = 0
        self._told: set[str] = set()

    def greet(
        self, line: str, verbose: bool, verbose_file: object, file: Path | None, problems: Sequence[str] = ()
    ) -> None:
        """The first lines of a face: its version, ``problems`` with its arguments, and where the log goes."""
        self.w(line)
        for problem in problems:
            self.e(problem, False)
        if verbose and file is not None:
            self.d(f"This log is also written to {shown(file)}")
        elif verbose and verbose_file is not None and shown(verbose_file):
            self.w(f"There is no directory for the log file {shown(verbose_file)}; no log file is written.")

    def d(self, msg: object) -> None:
        """Log a debug line (verbose only)."""
        self.logger.debug("%s", msg)

    def i(self, msg: object) -> None:
        """Log an information line (verbose only)."""
        self.logger.info("%s", msg)

    def w(self, msg: object) -> None:
        """Log a warning line."""
        self._warnings += 1
        self.logger.warning("%s", msg)

    def once(self, msg: str) -> None:
        """Log a warning line, unless this object has said the very same before."""
        if msg in self._told:
            return
        if len(self._told) < _MAX_REMEMBERED:
            self._told.add(msg)
        self.w(msg)

    def e(self, msg: object, abort: bool = True) -> None:
        """Log an error line; with ``abort`` close with the count of warnings and raise ValueError."""
        self.logger.error("%s", msg)
        if abort:
            self.logger.warning("----------------Warning(%d)----------------", self._warnings)
            raise ValueError(msg)

    def rknn_e(self, msg: object) -> None:
        """Log an error line of the runtime; never raises."""
        self.e(msg, abort=False)

    def p(self, msg: object) -> None:
        """Print bare text on stdout."""
        print(msg)

    def n(self, msg: object) -> None:
        """Log bare text, without a letter, where the other lines go."""
        if self.logger.isEnabledFor(logging.WARNING) and sys.stderr is not None:
            print(msg, file=sys.stderr)

    def reset(self) -> None:
        """Forget the count of warnings."""
        self._warnings = 0

    def tell(self, headline: str, error: BaseException, code: str | None = None) -> None:
        """One E line for an error; a traceback follows only for one that is not ours.

        Args:
            headline: what was tried.
            code: name of the error's code; None takes that of librknnrt.
        """
        text = " ".join(str(error).split())
        if isinstance(error, RknnError):
            name = "" if "error code:" in f"{headline}{text}" else f" (error code: {code or error.name})"
            self.e(f"{headline} {text}{name}", False)
        else:
            self.e(f"{headline} {type(error).__name__}: {text}", False)
            trace = traceback.format_exception(type(error), error, error.__traceback__)
            self.e("".join(trace).rstrip(), False)
        error.__traceback__ = None  # reported; a frame that holds it would keep the inputs alive

    # -- the library's own lines --------------------------------------------------------------------------

    def listening(self) -> Listening:
        """A ``with`` block in which lines that the library logs in this thread are this object's lines."""
        return Listening(self)

    def take(self, record: logging.LogRecord) -> None:
        """Log a line of the library; the same warning is shown once per object, not once per frame."""
        if record.levelno == logging.WARNING:
            self.once(record.getMessage())
        else:
            self.logger.log(record.levelno, "%s", record.getMessage())


_listener: contextvars.ContextVar[FaceLog | None] = contextvars.ContextVar("listener", default=None)
"""The object whose call is under way in this thread."""
listen, unlisten = _listener.set, _listener.reset
"""What ``FaceLog.listening`` does, by hand and at a quarter of the cost: for what happens at every frame."""


class Listening:
    """See ``FaceLog.listening``; may be nested."""

    __slots__ = ("_log", "_token")

    def __init__(self, log: FaceLog) -> None:
        self._log = log

    def __enter__(self) -> None:
        self._token = listen(self._log)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        unlisten(self._token)


def log_file(verbose_file: object) -> Path | None:
    """The absolute path of the log file; None when there is none or its directory does not exist."""
    name = path_of(verbose_file)
    if name is None:
        return None
    try:
        path = Path(name).absolute()
        return path if path.parent.is_dir() and "\0" not in path.name else None
    except (OSError, ValueError):  # longer than the system allows, or with a null character
        return None


def _relay(record: logging.LogRecord) -> bool:
    """Filter of the library's logger: inside a call of a face the record goes to that face, and only there.

    Where somebody (``RKNN_LOG_LEVEL``, the application) gave the library's logger a handler of its own, the
    record stays there: either way the reader sees the line once.
    """
    log = _listener.get()
    if log is None or any(not isinstance(h, logging.NullHandler) for h in library_logger.handlers):
        return True
    log.take(record)
    return False


library_logger.addFilter(_relay)
