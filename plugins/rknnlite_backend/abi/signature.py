"""Prototypes of C functions for ctypes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Signature"]


@dataclass(frozen=True)
class Signature:
    """Result and argument types of a function, for ctypes."""

    restype: Any
    argtypes: tuple[Any, ...]

    def bind(self, function: Any) -> Any:
        """Declare a function of a loaded library and return it."""
        function.restype = self.restype
        function.argtypes = list(self.argtypes)
        return function
