"""Models on their way to a board: known by their content, sent once, in pieces, resumed where a connection broke."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
from rknnlite_protocol.board import PIECE
from rknnlite_protocol.grpc_messages import BOARD, message

from rknnlite.errors import DeviceUnavailable
from rknnlite.formats import ModelFile
from rknnlite.log import logger

from .channel import Channel
from .errors import is_away, is_busy

__all__ = ["send", "sha256_of"]

_TRIES = 5
_PAUSE = 0.3  # seconds, doubled at every try that brought nothing
_PATIENCE = 30.0  # seconds for a question; a piece may take as long as the line is slow
_MOST = 64
_known: dict[tuple[str, int, int], str] = {}


def sha256_of(model: ModelFile) -> str:
    """The SHA-256 of a model, of a file computed once as long as neither its time nor its size changes."""
    key = None
    if model.path is not None:
        status = os.stat(model.path)  # noqa: PTH116
        key = (str(Path(model.path).absolute()), status.st_mtime_ns, status.st_size)
        if key in _known:
            return _known[key]
    model.check()
    digest = hashlib.sha256(model.data).hexdigest()
    if key is not None:
        while len(_known) >= _MOST:
            _known.pop(next(iter(_known)))
        _known[key] = digest
    return digest


def send(channel: Channel, model: ModelFile, sha256: str) -> None:
    """Send what the board lacks of a model; returns when it has all.

    Raises:
        DeviceUnavailable: the board takes no uploads, or is away for longer than a few tries.
        Whatever else the board says: a file that is too large, no model.
    """
    pause, furthest, tries = _PAUSE, -1, 0
    asked = message("rknnlite.StoredRequest")(sha256=sha256, size=len(model.data))
    while tries < _TRIES:
        tries += 1
        try:
            state = channel.unary(BOARD, "Stored")(asked, timeout=_PATIENCE, metadata=channel.metadata)
            if state.complete:
                return
            if state.size > furthest:  # something arrived: the line is bad, not dead
                pause, furthest, tries = _PAUSE, state.size, 1
            model.check()
            logger.info("%s goes to board %s from byte %d on", model.label, channel.board.label, state.size)
            if channel.stream("Upload", _pieces(model, sha256, state.size)).complete:
                return
        except grpc.RpcError as error:
            if not (is_away(error) or is_busy(error)) or tries == _TRIES:  # busy: another client sends it
                raise _refusal(channel, error, model) from None
        time.sleep(pause)
        pause *= 2
    raise DeviceUnavailable(f"board {channel.board.label}: {model.label} did not arrive whole; try again")


def _pieces(model: ModelFile, sha256: str, offset: int) -> Iterator[Any]:
    """What is left of the file from ``offset`` on; a file that is there already is one empty piece."""
    made = message("rknnlite.UploadPiece")
    total, first = len(model.data), True
    while first or offset < total:
        data = bytes(model.data[offset : offset + PIECE])
        yield (
            made(sha256=sha256, total=total, offset=offset, data=data)
            if first
            else made(offset=offset, data=data)
        )
        first = False
        offset += len(data)


def _refusal(channel: Channel, error: Any, model: ModelFile) -> Exception:
    if error.code() is grpc.StatusCode.PERMISSION_DENIED:
        return DeviceUnavailable(
            f"board {channel.board.label} takes no models ({error.details()}); start its server with --allow-upload, or "
            f"put {model.label} there and name it when it starts"
        )
    return channel.error(error, f"sending {model.label}")
