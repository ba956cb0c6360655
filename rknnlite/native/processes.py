"""Other processes: the command of a Python that runs a module of ours, and how a process ended."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

__all__ = ["ending", "python_main"]


def python_main(module: str, *words: str, options: Sequence[str] = ()) -> list[str]:
    """The command of a Python that calls ``main`` of a module, imported from where this program imports and nowhere else.

    Args:
        module: its full name.
        words: what ``main`` finds in ``sys.argv[1:]``; the socket of a ``ChildProcess`` comes behind them.
        options: of the interpreter, ``-E`` say.
    """
    places = len(sys.path)
    code = f"import sys; sys.path[:] = sys.argv[1:{places + 1}]; del sys.argv[1:{places + 1}]"
    return [sys.executable, *options, "-c", f"{code}; from {module} import main; main()", *sys.path, *words]


def ending(status: int) -> str:
    """How a process with this return code ended: ``status 1``, ``signal 11 (SIGSEGV)``."""
    if status >= 0:
        return f"status {status}"
    named = {s.value: f" ({s.name})" for s in signal.Signals}
    return f"signal {-status}{named.get(-status, '')}"
