"""A language model that can be open: its files, itself while it is open, who uses it, and how long it stays."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Optional

from rknnlite_llm.model_folder import StoredModel

from ..durations import FOR_EVER
from ..served_model import ServedModel
from ..settings import ModelSettings

__all__ = ["ModelEntry"]


@dataclass(eq=False)
class ModelEntry:
    """For one event loop. ``stored`` is None for a model of the command line, which stays as long as the server runs.

    Attributes:
        users: requests that hold it; it is closed when there are none.
        used: time.monotonic() when the last one ended.
        keep: seconds that it stays behind it, ``FOR_EVER``, or 0.
        size: bytes of memory that it takes when it is open.
        file_size, modified: of its files, bytes and seconds since 1970.
        done, total: of loading, matrices of a package that is being made; 0 of 0 before.
        reason: why it could not be opened, the last time.
        gone: it was deleted or replaced; who has it ends on it.
    """

    name: str
    settings: ModelSettings
    stored: Optional[StoredModel] = None
    state: str = ""
    model: Optional[ServedModel] = None
    loading: Optional[asyncio.Task[ServedModel]] = None
    users: int = 0
    used: float = 0.0
    keep: float = FOR_EVER
    size: int = 0
    file_size: int = 0
    modified: float = 0.0
    done: int = 0
    total: int = 0
    reason: str = ""
    gone: bool = False

    @property
    def pinned(self) -> bool:
        """Whether the command line named it."""
        return self.stored is None

    @property
    def idle(self) -> bool:
        """Whether it is open and nobody uses it, so that it may leave."""
        return self.model is not None and not self.users and not self.pinned

    @property
    def status(self) -> str:
        """loaded, loading, unloaded or failed: words of llama.cpp's server."""
        if self.model is not None:
            return "loaded"
        if self.loading is not None:
            return "loading"
        return "failed" if self.reason else "unloaded"

    @property
    def left(self) -> float:
        """Seconds that it still stays; infinite for ever, and for one in use those from now on."""
        if self.pinned or self.keep < 0:
            return float("inf")
        return self.keep if self.users else max(0.0, self.used + self.keep - time.monotonic())
