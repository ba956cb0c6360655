"""Which boards are there: all that are known are asked at once, for a second at most."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

from rknnlite_protocol.board_facts import Facts
from rknnlite_protocol.dataclass_json import from_text
from rknnlite_protocol.grpc_messages import BOARD

from rknnlite.errors import RknnError
from rknnlite.log import logger
from rknnlite.spi import Device

from .boards import Board, configured
from .channel import Channel

__all__ = ["answering", "facts_of"]

_SECONDS = 1.0


def answering() -> list[Device]:
    """The known boards that answer, each address for itself: id, SoC, memory. Never raises."""
    wanted = [replace(board, addresses=(address,)) for board in configured() for address in board.addresses]
    found: dict[int, Device] = {}
    threads = [
        threading.Thread(target=_ask, args=(number, board, found), daemon=True)
        for number, board in enumerate(wanted)
    ]
    end = time.monotonic() + _SECONDS
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return [device for _, device in sorted(found.items())]


def facts_of(board: Board, seconds: float = _SECONDS) -> Facts:
    """What a board tells of itself; raises DeviceUnavailable and what else there is."""
    channel = Channel(board, retries=False)
    try:
        answer = channel.call(BOARD, "Facts", seconds, "asking what it is")
        found: Facts = from_text(Facts, answer.json, f"what board {board.label} says of itself")
        return found
    finally:
        channel.close()


def _ask(number: int, board: Board, found: dict[int, Device]) -> None:
    try:
        facts = facts_of(board)
    except RknnError as error:
        logger.info("%s", error)
        return
    except Exception as error:
        logger.warning("board %s cannot be asked: %s", board.label, error)
        return
    total, free = (int(facts.memory.get(name, 0)) for name in ("MemTotal", "MemAvailable"))
    address = board.addresses[0]
    found[number] = Device(board.name or address, facts.soc, total, free, address)
