"""The backend ``remote``: models on boards from afar, over the Open Inference Protocol (extra ``remote``).

What talks to boards is imported when a board is named: choosing a backend loads this module alone.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING

from rknnlite import config, hookimpl
from rknnlite.errors import BackendUnavailable, DeviceUnavailable, RknnError, RunTimeout
from rknnlite.extras import missing
from rknnlite.spi import Backend, Context, Device, OpenOptions, Probe
from rknnlite.spi.types import Options

if TYPE_CHECKING:
    from rknnlite_protocol.board_facts import Facts

    from rknnlite.formats import ModelFile

__all__ = ["RemoteBackend", "rknnlite_register_backends"]

_FACTS_SECONDS = 5.0
_PRIORITY = 200  # who names a board means it, also on a board
_LACKS = "models on boards from afar need grpcio and protobuf"


class RemoteBackend(Backend):
    """Runs models on the board that ``device_id`` or ``RKNNLITE_REMOTE`` names."""

    name = "remote"
    generation = "any"

    @property
    def generations(self) -> tuple[str, ...]:
        """A board has whatever its server has."""
        return ("rknpu2", "rknpu3")

    def devices(self) -> list[Device]:
        """The boards of the configuration that answer within a second."""
        if not _meant(None) and not config.entries("remotes"):
            return []
        if _lacking():
            return []
        from .board_facts import answering

        return answering()

    def boards(self, device_id: str) -> list[str]:
        """Names among ``remotes`` and addresses, one for each board."""
        from .boards import parts

        return parts(device_id)

    def facts(self, device_id: str) -> Facts:
        """What a board says of itself. Raises DeviceUnavailable, also where grpcio is missing."""
        if _lacking():
            raise missing("remote", _LACKS)
        from .board_facts import facts_of
        from .boards import meant

        board = meant(device_id)
        if board is None:
            raise BackendUnavailable(f"{device_id!r} names no board; give HOST:PORT, or one of remotes")
        try:
            return facts_of(board, _FACTS_SECONDS)
        except RunTimeout as error:
            raise DeviceUnavailable(str(error)) from None

    def probe(self) -> Probe:
        """Available where ``RKNNLITE_REMOTE`` names a board; whether it answers is not asked."""
        return self.probe_for(Options())

    def probe_for(self, options: Options) -> Probe:
        """``probe`` with the board that ``device_id`` names.

        It is available also where grpcio is missing: a program that names a board is told so by ``open``, and not run
        on something else.
        """
        if not _meant(options.device_id):
            return Probe(
                False,
                "no board is named; name one in device_id or RKNNLITE_REMOTE: HOST:PORT, or one of remotes",
            )
        from .boards import meant

        try:
            board = meant(options.device_id)
        except RknnError as error:
            return Probe(True, str(error), _PRIORITY)
        if board is None:
            return Probe(False, f"{options.device_id!r} names no board; give HOST:PORT, or one of remotes")
        lack = f" ({_LACKS})" if _lacking() else ""
        return Probe(True, f"board {board.label}{lack}", _PRIORITY, (board.label,))

    def open(self, model: ModelFile, options: OpenOptions) -> Context:
        """Send the model unless the board has it, and open it there.

        Raises:
            BackendUnavailable: grpcio is missing, or no board is named.
            DeviceUnavailable: the board does not answer, or takes no such model.
            ParamInvalid: an option that cannot cross a network. Whatever opening the model raises there.
        """
        if _lacking():
            raise missing("remote", _LACKS)
        from .opening import open_remote

        return open_remote(model, options)


def _meant(device_id: object) -> bool:
    return (isinstance(device_id, str) and device_id != "") or bool(config.get("remote"))


def _lacking() -> bool:
    return importlib.util.find_spec("grpc") is None or importlib.util.find_spec("google.protobuf") is None


@hookimpl
def rknnlite_register_backends(register: Callable[[Backend], None]) -> None:
    """Offer the backend ``remote``."""
    register(RemoteBackend())
