"""Where pictures of a pipeline come from: folders, films, cameras. Pictures are RGB uint8 [height, width, 3]."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid
from rknnlite.extras import missing

from .. import pictures

__all__ = ["FilmSource", "FolderSource", "film_name", "is_camera", "opencv"]

Array = NDArray[Any]
_BROKEN = 10
"""Frames in a row that cannot be read: a film has ended then. Of a camera one is enough, as each may take its time."""
_LIVE = ("rtsp:", "rtmp:", "udp:", "rtp:", "srt:")


def is_camera(name: str) -> bool:
    """Whether that is what Linux calls a camera.

    Examples:
        >>> is_camera("/dev/v4l/by-id/usb-camera-index0"), is_camera("film.avi")
        (True, False)
    """
    return name.startswith(("/dev/video", "/dev/v4l/"))


def opencv(what: str) -> Any:
    """The module; raises BackendUnavailable, which says what needs it."""
    try:
        import cv2
    except ImportError as error:
        raise missing("cpu", f"{what} needs OpenCV", error) from None
    return cv2


def film_name(name: str | os.PathLike[str]) -> str:
    """The name as OpenCV takes it, whose reader and writer crash on one that is not UTF-8. Raises InputInvalid.

    Examples:
        >>> film_name(Path("film.avi"))
        'film.avi'
    """
    text = os.fspath(name)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputInvalid(
            f"{text}: the name of a film must be UTF-8, as OpenCV takes no other; rename it"
        ) from None
    return text


class FolderSource:
    """The pictures of a folder by name; ``paths`` are their files, and a pipeline meets them in this order.

    Examples:
        >>> FolderSource("examples/detect").paths[-1].name
        'scene.jpg'
    """

    live = False

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.paths = pictures.pictures_in(Path(folder))

    def __iter__(self) -> Iterator[Array]:
        return map(pictures.read, self.paths)

    def __len__(self) -> int:
        return len(self.paths)


class FilmSource:
    """Frames of a film (a file or an address), or of a camera (its number, or ``/dev/video0``), read by OpenCV.

    A film ends where it ends, or is cut. Frames that are broken are left out; those of a film that changes its size OpenCV
    scales to the first one's.

    Args:
        name: of the film or camera.
        size: width and height that a camera is asked for.

    Attributes:
        live: it does not wait for us: a camera, or a stream such as RTSP.
        total: frames that a file says it has; 0 where that is unknown.
        rate: frames per second that it says it has; 25 where it says none.

    Raises:
        InputInvalid: it cannot be opened. BackendUnavailable: OpenCV is not installed.

    Examples:
        >>> FilmSource("no_such_film.mp4")
        Traceback (most recent call last):
        ...
        rknnlite.errors.InputInvalid: no_such_film.mp4: there is no such film
    """

    def __init__(self, name: str | int, size: Optional[tuple[int, int]] = None) -> None:
        text = str(name) if isinstance(name, int) else film_name(name)
        camera = text.isdigit() or is_camera(text)
        self.name = f"camera {text}" if text.isdigit() else text
        self.live = camera or text.lower().startswith(_LIVE)
        if not self.live and "://" not in text and not Path(text).is_file():
            raise InputInvalid(f"{text}: there is no such film")
        cv2 = opencv("reading films and cameras")
        api = cv2.CAP_V4L2 if is_camera(text) else cv2.CAP_ANY
        self._capture = cv2.VideoCapture(int(text) if text.isdigit() else text, api)
        self._reading = threading.Lock()
        self._closed = False
        if not self._capture.isOpened():
            self._capture.release()
            raise InputInvalid(f"{self.name} cannot be opened as a film or camera")
        if size is not None:
            self._capture.set(cv2.CAP_PROP_FRAME_WIDTH, size[0])
            self._capture.set(cv2.CAP_PROP_FRAME_HEIGHT, size[1])
        self.total = max(0, int(self._capture.get(cv2.CAP_PROP_FRAME_COUNT))) if not self.live else 0
        rate = float(self._capture.get(cv2.CAP_PROP_FPS))
        self.rate = rate if 0 < rate < 1000 else 25.0

    def __iter__(self) -> Iterator[Array]:
        failed = 0
        while failed < (1 if self.live else _BROKEN):
            with self._reading:
                good, frame = self._capture.read()
            if self._closed:
                self.close()
                return
            if not good:
                failed += 1
                continue
            failed = 0
            if frame.ndim == 2:
                frame = frame[..., None].repeat(3, axis=2)
            yield np.ascontiguousarray(frame[..., 2::-1])

    def close(self) -> None:
        """Let go of the film or camera, at once, or once a thread that reads it has its picture; may be called again."""
        self._closed = True
        if self._reading.acquire(
            blocking=False
        ):  # what is released while it is read takes the process with it
            self._capture.release()
            self._reading.release()

    def __enter__(self) -> FilmSource:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
