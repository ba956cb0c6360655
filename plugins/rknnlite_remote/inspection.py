"""Looking into a board's runs: figures per layer, every tensor of a run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

from rknnlite_backend.perf import PerfTable
from rknnlite_insight.dumps import MANIFEST, Dump
from rknnlite_protocol.board import PIECE, PerfFigures
from rknnlite_protocol.dataclass_json import from_text
from rknnlite_protocol.grpc_messages import BOARD, message

from rknnlite.errors import DeviceUnavailable, ParamInvalid
from rknnlite.files.reading import read_bytes
from rknnlite.files.writing import write_file

from .channel import Channel
from .model_on_boards import ModelOnBoards

__all__ = ["dumped", "figures"]

_SECONDS = 600.0  # a run with every tensor written, and the tensors over a slow line
_MOST = 8 << 30
_MOST_FILES = 100_000


def figures(hosted: ModelOnBoards, channel: Channel, request: bytes) -> tuple[PerfTable, int]:
    """Figures per layer of a run, and the microseconds that it took."""
    asked = message("rknnlite.PerfRequest")(request=request)

    def ask() -> Any:
        return channel.unary(BOARD, "Perf")(asked, timeout=_SECONDS, metadata=channel.metadata)

    answer = hosted.with_model(channel, ask, "figures per layer")
    found: PerfFigures = from_text(
        PerfFigures, answer.json, f"what board {channel.board.label} says of its layers"
    )
    return found.table(), found.run_us


def dumped(
    hosted: ModelOnBoards,
    channel: Channel,
    request: bytes,
    directory: str | os.PathLike[str],
    golden: Optional[Dump],
) -> Dump:
    """Every tensor of a run, written to a folder here. Raises ParamInvalid where that is not possible."""
    folder = Path(directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParamInvalid(f"cannot make the folder {folder}: {error.strerror or error}") from None

    def ask() -> int:
        return _write(channel.stream("Dump", _asked(request, golden), _SECONDS), folder)

    if not hosted.with_model(channel, ask, "a dump"):
        raise DeviceUnavailable(f"board {channel.board.label}: its dump holds no file")
    return Dump.read(folder)


def _asked(request: bytes, golden: Optional[Dump]) -> Iterator[Any]:
    made, piece = message("rknnlite.DumpRequest"), message("rknnlite.FilePiece")
    yield made(request=request)
    if golden is None:
        return
    yield made(golden=piece(name=MANIFEST, data=golden.manifest().encode()))
    names = {name for tensor in golden.tensors for name in (tensor.file, tensor.raw_file) if name}
    for name in sorted(names):
        data = read_bytes(golden.folder / name)
        for offset in range(0, max(1, len(data)), PIECE):
            yield made(golden=piece(name=name, data=data[offset : offset + PIECE]))


def _write(pieces: Any, folder: Path) -> int:
    """Write the files that come, pieces of one behind each other; how many there were."""
    parts: list[bytes] = []
    name, count, total = "", 0, 0
    for piece in pieces:
        total += len(piece.data)
        if piece.name and piece.name != name:
            count += _put(folder, name, parts)
            name, parts = piece.name, []
        if total > _MOST or count > _MOST_FILES:
            raise DeviceUnavailable(
                f"the board's dump is larger than {_MOST} bytes or has more than {_MOST_FILES} files"
            )
        parts.append(piece.data)
    return count + _put(folder, name, parts)


def _put(folder: Path, name: str, parts: list[bytes]) -> int:
    if not name:
        return 0
    if name in (".", "..") or "/" in name or "\\" in name or "\0" in name:
        raise DeviceUnavailable(f"the board's dump has a file {name[:80]!r}, which would leave the folder")
    try:
        write_file(folder / name, b"".join(parts))
    except OSError as error:
        raise ParamInvalid(f"cannot write {name[:80]} to {folder}: {error.strerror or error}") from None
    return 1
