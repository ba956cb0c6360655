"""A model and the boards that have it: who lacks it is sent it, and each is asked what it makes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

import grpc
from rknnlite_protocol.board import Description, shapes_text, stored_name
from rknnlite_protocol.dataclass_json import from_text
from rknnlite_protocol.grpc_messages import BOARD, HEALTH, message

from rknnlite.errors import DeviceUnavailable, RknnError, RunTimeout, TargetPlatformUnmatch
from rknnlite.formats import ModelFile
from rknnlite.log import logger

from .boards import Board
from .channel import Channel
from .errors import NotThere, error_of
from .upload import send, sha256_of

__all__ = ["ModelOnBoards"]

T = TypeVar("T")
_ANSWER_SECONDS = 5.0  # until a board says that it is there
_OPEN_SECONDS = 600.0  # a large network is read, and prepared on a small board
_MOST_AT_ONCE = 16


class ModelOnBoards:
    """Where a model lives. Nothing is held open here."""

    def __init__(self, board: Board, file: ModelFile) -> None:
        self.board, self.file = board, file
        self.sha256 = sha256_of(file)
        self.name = stored_name(self.sha256)

    def distribute(self) -> Description:
        """See to it that every board that answers has the model; what they make of it.

        Raises:
            DeviceUnavailable: none answers.
            TargetPlatformUnmatch: they are boards of different SoCs.
            Whatever opening the model raises there.
        """
        found: dict[str, Description] = {}
        away: dict[str, RknnError] = {}
        for address, outcome in zip(self.board.addresses, self._ask_each()):
            if isinstance(outcome, Description):
                found[address] = outcome
            elif isinstance(outcome, (DeviceUnavailable, RunTimeout)):
                away[address] = outcome
            else:
                raise outcome
        if not found:
            raise next(iter(away.values()))
        for error in away.values():
            logger.warning("%s; the other boards go on without it", error)
        self._check_alike(found)
        return next(iter(found.values()))

    def describe(self, channel: Channel, shapes: Sequence[Sequence[int]] = ()) -> Description:
        """What a board makes of the model, for a dynamic shape if one is given; it is sent again where it is gone."""
        request = message("rknnlite.DescribeRequest")(
            model_name=self.name, shapes=shapes_text(shapes) if shapes else ""
        )

        def ask() -> Any:
            call = channel.unary(BOARD, "Describe")
            return call(request, timeout=_OPEN_SECONDS, metadata=channel.metadata)

        answer = self.with_model(channel, ask, f"opening {self.file.label}", lambda: self._send(channel))
        found: Description = from_text(
            Description, answer.json, f"what board {channel.board.label} says of the model"
        )
        return found

    def with_model(
        self, channel: Channel, call: Callable[[], T], doing: str, restore: Callable[[], object] | None = None
    ) -> T:
        """What a call answers; where the board does not have the model it is sent, and the call made once more."""
        try:
            return _made(channel, call, doing)
        except NotThere:
            (restore or self.distribute)()
        try:
            return _made(channel, call, doing)
        except NotThere as error:
            raise DeviceUnavailable(
                f"{error}; it was sent and is gone again: is the room for uploads there too small?"
            ) from None

    # -- inside -------------------------------------------------------------------------------------------

    def _ask_each(self) -> list[Description | RknnError]:
        if len(self.board.addresses) == 1:
            return [self._ask(self.board.addresses[0])]
        with ThreadPoolExecutor(min(_MOST_AT_ONCE, len(self.board.addresses))) as threads:
            return list(threads.map(self._ask, self.board.addresses))

    def _ask(self, address: str) -> Description | RknnError:
        """Over a channel of its own: what is sent goes to this very board."""
        try:
            channel = Channel(replace(self.board, addresses=(address,)))
        except RknnError as error:
            return error
        try:
            check_answers(channel)
            return self.describe(channel)
        except RknnError as error:
            return error
        finally:
            channel.close()

    def _send(self, channel: Channel) -> None:
        send(channel, self.file, self.sha256)

    def _check_alike(self, found: dict[str, Description]) -> None:
        (first, one), *others = found.items()
        for address, other in others:
            if other.soc.lower() != one.soc.lower():
                raise TargetPlatformUnmatch(
                    f"board {self.board.label}: {first} is an {one.soc}, {address} an {other.soc}; only boards of one SoC "
                    "can stand for each other: open them one by one"
                )


def check_answers(channel: Channel, seconds: float = _ANSWER_SECONDS) -> None:
    """Raise DeviceUnavailable unless the board answers soon."""
    try:
        channel.call(HEALTH, "Check", seconds, "asking whether it is there")
    except RunTimeout:
        raise DeviceUnavailable(
            f"board {channel.board.label}: nobody answers within {seconds:g} s; is the board on, the address right?"
        ) from None


def _made(channel: Channel, call: Callable[[], T], doing: str) -> T:
    try:
        return call()
    except grpc.RpcError as error:
        raise error_of(error, channel.board, doing) from None
