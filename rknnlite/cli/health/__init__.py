"""What ``rknnlite doctor`` looks at: each check returns findings, each finding what to do about it."""

from __future__ import annotations

from ...spi.finding import Finding, Level
from .afar import named
from .machine import kernel, speed
from .models import model
from .runtimes import backends, of_backends
from .software import configuration, extras, packages

__all__ = [
    "Finding",
    "Level",
    "backends",
    "configuration",
    "extras",
    "kernel",
    "model",
    "named",
    "of_backends",
    "packages",
    "speed",
]
