"""Boards that a backend reaches over a network, for the faces that list devices."""

from __future__ import annotations

from .. import plugins
from ..log import logger
from ..spi import Backend, Device

__all__ = ["boards_afar"]


def boards_afar() -> list[Device]:
    """Those that are named in the settings and answer; an id is one that ``device_id`` takes. Never raises."""
    found: list[Device] = []
    for backend in plugins.backends().values():
        if type(backend).facts is Backend.facts:
            continue
        try:
            found += backend.devices()
        except Exception as error:
            logger.warning("backend %s: its devices cannot be listed: %s", backend.name, error)
    return found
