"""What ``rknnlite doctor`` looks at by itself; the machine and models are looked at by the library ``insight``."""

from __future__ import annotations

from .runtimes import backends, of_backends
from .software import configuration, extras, packages

__all__ = ["backends", "configuration", "extras", "of_backends", "packages"]
