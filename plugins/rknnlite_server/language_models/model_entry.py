"""A language model by its name, and the place of its files in memory, which all names of the same files share."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Optional

from rknnlite_llm.model_folder import StoredModel

from rknnlite.errors import ModelInvalid, ModelUnsupported

from ..durations import FOR_EVER
from ..served_model import ServedModel
from ..settings import ModelSettings

__all__ = ["ModelEntry", "OpenModel", "Taken"]


@dataclass(eq=False)
class OpenModel:
    """Files that can be open, once, whatever names they have. For one event loop.

    Attributes:
        identity: of the files, and of what else decides how they are opened.
        entries: the names that they have; none any more: who has them ends on them, and nobody else finds them.
        users: requests that hold it, or wait for it; it is closed when there are none.
        since: time.monotonic() when it was opened.
        used: time.monotonic() when the last request ended.
        keep: seconds that it stays behind it, ``FOR_EVER``, or 0.
        size: bytes of memory that it takes when it is open.
        stage: what is waited for while it is loading.
        done, total: of loading, matrices of a package that is being made; 0 of 0 before.
        reason: why it could not be opened, the last time.
        lasting: whether that is about its files, so that a next try would end with it as well.
    """

    identity: str
    entries: list[ModelEntry] = field(default_factory=list)
    model: Optional[ServedModel] = None
    loading: Optional[asyncio.Task[None]] = None
    users: int = 0
    since: float = 0.0
    used: float = 0.0
    keep: float = FOR_EVER
    size: int = 0
    stage: str = ""
    done: int = 0
    total: int = 0
    reason: str = ""
    lasting: bool = False
    views: dict[str, ServedModel] = field(default_factory=dict)

    @property
    def gone(self) -> bool:
        """Whether no name leads to it any more."""
        return not self.entries

    @property
    def idle(self) -> bool:
        """Whether it is open and nobody uses it, so that it may leave."""
        return self.model is not None and not self.users

    @property
    def left(self) -> float:
        """Seconds that it still stays; infinite for ever, and for one in use those from now on."""
        if self.keep < 0:
            return float("inf")
        return self.keep if self.users else max(0.0, self.used + self.keep - time.monotonic())

    def failed(self, error: BaseException) -> None:
        """It could not be opened. The error itself is not kept: it would keep all that was open when it came."""
        self.reason, self.lasting = str(error), isinstance(error, (ModelInvalid, ModelUnsupported))

    def under(self, entry: ModelEntry) -> ServedModel:
        """The open model under one of its names."""
        assert self.model is not None
        if entry.name not in self.views:
            self.views[entry.name] = self.model.under(entry.settings)
        return self.views[entry.name]


@dataclass(eq=False)
class ModelEntry:
    """A name. ``stored`` is None for a model of the command line, which stays as long as the server runs.

    Attributes:
        place: where it is open; another one when this one has to leave.
        state: of its files.
        file_size, modified: of its files, bytes and seconds since 1970.
    """

    name: str
    settings: ModelSettings
    place: OpenModel
    stored: Optional[StoredModel] = None
    state: str = ""
    file_size: int = 0
    modified: float = 0.0

    @property
    def pinned(self) -> bool:
        """Whether the command line named it."""
        return self.stored is None

    @property
    def model(self) -> Optional[ServedModel]:
        """It, while it is open."""
        return None if self.place.model is None else self.place.under(self)

    @property
    def reason(self) -> str:
        """Why it could not be opened, the last time."""
        return self.place.reason

    @property
    def status(self) -> str:
        """loaded, loading, unloaded or failed: words of llama.cpp's server."""
        if self.place.model is not None:
            return "loaded"
        if self.place.loading is not None:
            return "loading"
        return "failed" if self.reason else "unloaded"

    @property
    def left(self) -> float:
        """Seconds that it still stays."""
        return float("inf") if self.pinned else self.place.left


@dataclass(frozen=True, eq=False)
class Taken:
    """A model in the hands of a request."""

    place: OpenModel
    model: ServedModel
