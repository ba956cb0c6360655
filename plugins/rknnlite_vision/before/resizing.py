"""Pictures in another size, and in grey: by OpenCV where it is installed, else by numpy; the numbers are the same."""

from __future__ import annotations

import functools
import importlib.util
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.files.pictures import resize

from .colours import opencv_agrees as colours_agree

__all__ = ["grey", "opencv_agrees", "resize_into", "resized", "turn_into"]

Array = NDArray[Any]
_RED, _GREEN, _BLUE, _SHIFT = 9798, 19235, 3735, 15  # 0.299, 0.587, 0.114 of BT.601, as integers of 15 bits


@functools.lru_cache(maxsize=1)
def opencv_agrees() -> bool:
    """Whether OpenCV is installed and gives these numbers: on some processors it has arithmetic of its own. Tried once."""
    if importlib.util.find_spec("cv2") is None:
        return False
    picture = np.random.default_rng(0).integers(0, 256, (96, 128, 3), np.uint8)
    sizes = ((64, 48), (40, 32), (128, 120), (150, 31))
    same = (np.array_equal(resized(picture, *size, False), resized(picture, *size, True)) for size in sizes)
    return all(same) and colours_agree()


def resized(picture: Array, width: int, height: int, opencv: bool) -> Array:
    """A picture [rows, columns, channels] in another size, bilinear, in the fixed point of ``cv2.resize``; itself in its own."""
    if not opencv or picture.shape[:2] == (height, width):
        return resize(picture, width, height)
    import cv2

    return np.asarray(cv2.resize(picture, (width, height))).reshape(height, width, -1)


def resize_into(out: Array, picture: Array, opencv: bool) -> None:
    """``resized``, into ``out`` [height, width, channels]."""
    height, width, channels = out.shape
    if not opencv or picture.shape[:2] == (height, width) or out.strides[1:] != (channels, 1):
        out[...] = resized(picture, width, height, opencv)
        return
    import cv2

    made = cv2.resize(picture, (width, height), dst=out)
    if not np.shares_memory(made, out):
        out[...] = made.reshape(out.shape)


def turn_into(out: Array, picture: Array, opencv: bool) -> None:
    """Red for blue, into ``out`` of the same size."""
    if not opencv:
        for channel in range(3):
            out[..., channel] = picture[..., 2 - channel]
        return
    import cv2

    made = cv2.cvtColor(picture, cv2.COLOR_BGR2RGB, dst=out)
    if not np.shares_memory(made, out):
        out[...] = made


def grey(picture: Array) -> Array:
    """RGB [..., 3] to [..., 1]: luma of BT.601, rounded as ``cv2.cvtColor`` does."""
    red, green, blue = (picture[..., n].astype(np.int32) for n in range(3))
    luma = (red * _RED + green * _GREEN + blue * _BLUE + (1 << (_SHIFT - 1))) >> _SHIFT
    return luma.astype(np.uint8)[..., None]
