"""The facts of a board: what its kernel tells, what is installed, what is loaded."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Optional, TypeVar

from rknnlite_protocol.board_facts import BackendFacts, Facts

from rknnlite import plugins
from rknnlite._version import __version__
from rknnlite.native.board import Board, Reading
from rknnlite.spi import Backend, Probe

from ..app_state import State
from ..async_helpers import in_thread

__all__ = ["FactsReader", "facts_of"]

logger = logging.getLogger("rknnlite.server")
FRESH_SECONDS = 0.5
T = TypeVar("T")


class FactsReader:
    """Reads them at most twice a second, whoever asks and how often; for one event loop."""

    def __init__(self, state: State, board: Optional[Board] = None) -> None:
        self._state, self._board = state, board or Board()
        self._found: Optional[Facts] = None
        self._read = 0.0
        self._lock: Optional[asyncio.Lock] = None  # made in the event loop, to which it belongs

    async def facts(self) -> Facts:
        """Raises nothing: what cannot be read is left out."""
        self._lock = self._lock or asyncio.Lock()
        async with self._lock:
            if self._found is None or time.monotonic() - self._read > FRESH_SECONDS:
                names = tuple(network.name for network in self._state.repository.open)
                self._found = await in_thread(facts_of, self._board, names, self._state.settings.allow_upload)
                self._read = time.monotonic()
            return self._found


def facts_of(board: Board, models: tuple[str, ...], uploads: bool) -> Facts:
    """All of them now; raises nothing."""
    soc = _or(board.soc, None)
    return Facts(
        rknnlite=__version__,
        soc=soc.name if soc else "",
        model=_or(board.model, ""),
        kernel=_or(board.kernel, ""),
        driver=_or(board.driver, Reading()),
        load=_or(board.load, Reading()),
        sram=_or(board.sram, Reading()),
        npu_clock=_or(board.npu_clock, None),
        memory_clock=_or(board.memory_clock, None),
        cpu_clocks=tuple(_or(board.cpu_clocks, [])),
        temperatures=_or(board.temperatures, {}),
        memory=_or(board.memory, {}),
        nodes=tuple(_or(board.nodes, [])),
        backends=tuple(map(_backend, _or(_backends, []))),
        models=models,
        uploads=uploads,
    )


def _backends() -> list[Backend]:
    """Those of this machine: boards that it knows itself are not asked, this one might be among them."""
    return [backend for backend in plugins.backends().values() if backend.name != "remote"]


def _backend(backend: Backend) -> BackendFacts:
    probe = _or(
        lambda: plugins.probe(backend), Probe(False, "it cannot be asked; the server's log says more")
    )
    return BackendFacts(backend.name, probe, tuple(_or(backend.devices, [])))


def _or(read: Callable[[], T], otherwise: Any) -> Any:
    try:
        return read()
    except Exception as error:  # a fact that is missing is better than none at all
        logger.warning("a fact of this board cannot be read: %s", error)
        return otherwise
