"""A name that a library offers as ``rknnlite.NAME``."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["PublicName"]


class PublicName(NamedTuple):
    """``rknnlite.name`` is what the module ``module`` calls so; it is imported when the name is first used."""

    name: str
    module: str
