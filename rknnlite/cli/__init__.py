"""The ``rknnlite`` command: one file per command, built on the native API; plugins may add more."""

from __future__ import annotations

from .program import main, parser

__all__ = ["main", "parser"]
