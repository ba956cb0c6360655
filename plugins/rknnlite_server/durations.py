"""Durations as Ollama's clients write them: numbers of seconds, or text such as ``1h30m``."""

from __future__ import annotations

import re
from typing import Optional

__all__ = ["FOR_EVER", "seconds_of"]

FOR_EVER = -1.0
"""In place of seconds: without end."""
_DURATION = re.compile(r"-?(\d+(\.\d*)?(ns|us|µs|ms|s|m|h))+|-?\d+(\.\d*)?", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d*)?)(ns|us|µs|ms|s|m|h)", re.ASCII)
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds_of(text: str) -> Optional[float]:
    """Seconds; negative ones are ``FOR_EVER``. None for what is no duration."""
    if not _DURATION.fullmatch(text):
        return None
    if text.startswith("-"):
        return FOR_EVER
    parts = _PART.findall(text)
    return sum(float(number) * _SECONDS[unit] for number, unit in parts) if parts else float(text)
