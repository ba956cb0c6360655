"""What the words of a command name: pictures, or one stream of them (a film, a camera, an address)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

from numpy.typing import NDArray

from rknnlite.errors import InputInvalid, ParamInvalid
from rknnlite.files.reading import open_file

from ..pictures import fetch, pictures_in, read
from ..streams.sources import is_camera

__all__ = ["PictureSource", "StreamSource", "sources_of"]

Array = NDArray[Any]
FILMS = (".avi", ".mp4", ".m4v", ".mkv", ".mov", ".webm", ".ts", ".m3u8", ".mjpeg", ".mjpg", ".mpg", ".mpeg", ".flv", ".y4m",
         ".h264", ".h265", ".hevc", ".ogv", ".wmv", ".3gp")  # fmt: skip
"""Endings of films."""
_STREAMING = ("rtsp://", "rtsps://", "rtmp://", "udp://", "tcp://", "rtp://", "srt://")
_WEB = ("http://", "https://")


@dataclass(frozen=True)
class PictureSource:
    """One picture: what it is called, and how its pixels come."""

    name: str
    pixels: Callable[[], Array]
    path: Union[Path, None] = None


@dataclass(frozen=True)
class StreamSource:
    """Pictures without end, or as many as a film has: ``address`` is a file, a URL, or a camera's number."""

    address: Union[str, int]
    live: bool


def sources_of(words: Sequence[str]) -> Union[list[PictureSource], StreamSource]:
    """The pictures that words name, folders by their files, or the one stream.

    Raises:
        InputInvalid: a folder without pictures, an address that does not answer.
        ParamInvalid: a stream beside something else.
    """
    found: list[PictureSource] = []
    for word in words:
        source = _source(word)
        if not isinstance(source, StreamSource):
            found += source
        elif len(words) == 1:
            return source
        else:
            raise ParamInvalid(
                f"{word} is a film, a camera or a stream, which comes alone; name it without others"
            )
    return found


def _source(word: str) -> Union[list[PictureSource], StreamSource]:
    if word.startswith(_STREAMING):
        return StreamSource(word, live=True)
    if word.startswith(_WEB):
        return _of_web(word)
    if os.path.isdir(word):  # noqa: PTH112  names too long for Path
        return [_file(path) for path in pictures_in(Path(word))]
    if is_camera(word) or (word.isascii() and word.isdecimal() and not os.path.exists(word)):  # noqa: PTH110
        return StreamSource(int(word) if word.isdecimal() else word, live=True)
    path = Path(word)
    if path.suffix.lower() in FILMS:
        _check(path)
        return StreamSource(word, live=False)
    return [_file(path)]


def _of_web(address: str) -> Union[list[PictureSource], StreamSource]:
    """What an address has: its ending says it, else the first answer."""
    suffix = Path(address.partition("?")[0]).suffix.lower()
    pixels = None if suffix in FILMS else fetch(address)
    if pixels is None:
        return StreamSource(address, live=suffix not in FILMS)
    return [PictureSource(address, lambda: pixels)]


def _file(path: Path) -> PictureSource:
    return PictureSource(str(path), lambda: read(path), path)


def _check(path: Path) -> None:
    """What is wrong with a file is said here, as whoever reads films says little."""
    try:
        open_file(path).close()
    except (OSError, ValueError) as error:
        raise InputInvalid(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
