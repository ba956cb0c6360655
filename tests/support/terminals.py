"""Pseudo terminals, where the system has any."""

from __future__ import annotations

import pty

import pytest

__all__ = ["open_terminal"]


def open_terminal() -> tuple[int, int]:
    """Both ends of one; the test is skipped where /dev/pts is not mounted, as in a bare chroot."""
    try:
        return pty.openpty()
    except OSError as error:
        pytest.skip(f"needs pseudo terminals (/dev/pts): {error}")
