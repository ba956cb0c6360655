"""Where pictures of a pipeline go: films and folders. A sink is any function of a picture and its result, so ``print`` is one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid, ParamInvalid

from .. import pictures
from .sources import film_name, opencv

__all__ = ["FilmSink", "FolderSink", "nowhere"]

Array = NDArray[Any]
Draw = Callable[[Any, Any], Array]
_CODES = {".avi": "MJPG", ".mp4": "mp4v", ".mkv": "MJPG", ".mov": "mp4v"}


def nowhere(picture: Any, result: Any) -> None:
    """The sink that keeps nothing.

    Examples:
        >>> nowhere(None, None)
    """


class FilmSink:
    """Writes a film, in a ``with`` block: there once the block ends, also by Ctrl-C; not after another exception.

    Args:
        path: ``.avi``, ``.mp4``, ``.mkv`` or ``.mov``.
        rate: frames per second.
        draw: makes the picture that is written of ``(picture, result)``; None: the picture itself.

    Raises:
        ParamInvalid: another ending. BackendUnavailable: OpenCV is not installed.
        InputInvalid: its name is not UTF-8; from a call: the film cannot be written, or a picture is not of the size of
            those before.

    Examples:
        >>> FilmSink("found.txt")
        Traceback (most recent call last):
        ...
        rknnlite.errors.ParamInvalid: found.txt: a film is called .avi, .mp4, .mkv, .mov
    """

    def __init__(self, path: str | os.PathLike[str], rate: float = 25.0, draw: Optional[Draw] = None) -> None:
        self.path, self._rate, self._draw = Path(film_name(path)), rate, draw
        if self.path.suffix.lower() not in _CODES:
            raise ParamInvalid(f"{path}: a film is called {', '.join(_CODES)}")
        self._cv2 = opencv("writing films")
        self._writer: Any = None
        self._size = (0, 0)
        self._part = self.path.with_name(f".{self.path.stem}.{os.getpid()}{self.path.suffix}")

    def __call__(self, picture: Array, result: Any = None) -> None:
        """Write one picture, RGB uint8 [height, width, 3]."""
        pixels = picture if self._draw is None else self._draw(picture, result)
        size = (pixels.shape[1], pixels.shape[0])
        if self._writer is None:
            self._begin(size)
        if size != self._size:
            now, before = ("{} x {}".format(*each) for each in (size, self._size))
            raise InputInvalid(
                f"{self.path}: the picture is {now}, those before {before}; a film has one size: "
                "resize them, or write pictures into a folder"
            )
        self._writer.write(np.ascontiguousarray(pixels[..., ::-1]))

    def _begin(self, size: tuple[int, int]) -> None:
        code = self._cv2.VideoWriter_fourcc(*_CODES[self.path.suffix.lower()])
        self._writer, self._size = self._cv2.VideoWriter(str(self._part), code, self._rate, size), size
        if not self._writer.isOpened():
            raise InputInvalid(f"{self.path} cannot be written as a film of {size[0]} x {size[1]}")

    def close(self, keep: bool = True) -> None:
        """End the film; ``keep`` False: take it away. May be called again."""
        if self._writer is None:
            return
        self._writer.release()
        self._writer = None
        if keep and self._part.exists():
            self._part.replace(self.path)
        self._part.unlink(missing_ok=True)

    def __enter__(self) -> FilmSink:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(keep=kind is None or issubclass(kind, KeyboardInterrupt))


class FolderSink:
    """Writes pictures into a folder: ``000001.png`` and on, or as ``names`` calls them.

    Args:
        folder: made where it is not there.
        draw: as for ``FilmSink``.
        names: names of the files, in order; an ending that ``pictures.write`` knows.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     FolderSink(folder)(np.zeros((4, 4, 3), np.uint8), None)
        ...     os.listdir(folder)
        ['000001.png']
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        draw: Optional[Draw] = None,
        names: Optional[list[str]] = None,
    ) -> None:
        self._folder, self._draw, self._names = Path(folder), draw, names
        self._folder.mkdir(parents=True, exist_ok=True)
        self.written = 0

    def __call__(self, picture: Array, result: Any = None) -> None:
        """Write one picture."""
        name = f"{self.written + 1:06}.png" if self._names is None else self._names[self.written]
        pictures.write(self._folder / name, picture if self._draw is None else self._draw(picture, result))
        self.written += 1
