"""What is to be known of a path before it is opened for reading."""

from __future__ import annotations

from pathlib import Path

__all__ = ["check_file", "is_pipe", "is_stream"]


def is_stream(path: Path) -> bool:
    """A pipe, a socket or a device: opening it may wait for ever, reading it may not end."""
    return path.exists() and not path.is_file() and not path.is_dir()


def is_pipe(path: Path) -> bool:
    """A pipe or a socket: opening it waits for somebody who writes."""
    return path.is_fifo() or path.is_socket()


def check_file(path: Path) -> None:
    """Raise OSError for a pipe, a socket or a device."""
    if is_stream(path):
        raise OSError(None, "it is a pipe, a socket or a device; give a file", str(path))
