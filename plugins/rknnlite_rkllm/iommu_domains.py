"""Which IOMMU domains the models of this program use: NPU addresses have 32 bits, so one domain holds 4 GiB.

librkllmrt spreads a large model over several by itself, beginning with the one that it is told; two models in one that
holds them not both end in ``failed to malloc npu memory``. What other programs use is not known here.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Optional

from .checks import DOMAIN

__all__ = ["IommuDomains", "Placement", "domains"]


@dataclass(frozen=True)
class Placement:
    """Where a model of ``size`` bytes lies: from domain ``first`` on."""

    first: int
    size: int

    @property
    def parts(self) -> dict[int, int]:
        """Bytes by domain."""
        count = max(1, -(-self.size // DOMAIN))
        return {self.first + i: min(DOMAIN, self.size - i * DOMAIN) for i in range(count)}


class IommuDomains:
    """Placements of models; for any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._placements: list[Placement] = []

    def take(self, size: int, wanted: Optional[int] = None) -> Placement:
        """A place for a model, in ``wanted`` or the first domains with room; give it back with ``give``."""
        with self._lock:
            used: dict[int, int] = {}
            for place in self._placements:
                for domain, part in place.parts.items():
                    used[domain] = used.get(domain, 0) + part
            first = wanted
            if first is None:
                first = 0
                while any(
                    used.get(domain, 0) + part > DOMAIN
                    for domain, part in Placement(first, size).parts.items()
                ):
                    first += 1
            place = Placement(first, size)
            self._placements.append(place)
            return place

    def give(self, place: Placement) -> None:
        """The model has gone; again does nothing."""
        with self._lock:
            if place in self._placements:
                self._placements.remove(place)


domains = IommuDomains()
"""Of this program."""
