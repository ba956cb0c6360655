"""One line of ``rknnlite doctor``."""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = ["Finding", "Level"]


class Level(enum.Enum):
    """How much a finding matters."""

    OK = "ok"
    INFO = "info"
    WARN = "warn"
    FAIL = "FAIL"


@dataclass(frozen=True)
class Finding:
    """One fact. ``remedy`` is what to do about it, empty where nothing need be done."""

    topic: str
    level: Level
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        head = f"{self.level.value:4}  {self.text}"
        return f"{head}\n      -> {self.remedy}" if self.remedy else head
