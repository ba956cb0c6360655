"""Pictures in another size, and in grey: by OpenCV where it is installed, else by numpy; the numbers are the same."""

from __future__ import annotations

import functools
import importlib.util
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.files.pictures import resize

from .colours import opencv_agrees as colours_agree

__all__ = ["grey", "opencv_agrees", "resize_into"]

Array = NDArray[Any]
_RED, _GREEN, _BLUE, _SHIFT = 9798, 19235, 3735, 15  # 0.299, 0.587, 0.114 of BT.601, as integers of 15 bits


@functools.lru_cache(maxsize=1)
def opencv_agrees() -> bool:
    """Whether OpenCV is installed and gives these numbers: on some processors it has arithmetic of its own. Tried once."""
    if importlib.util.find_spec("cv2") is None:
        return False
    picture = np.random.default_rng(0).integers(0, 256, (96, 128, 3), np.uint8)
    for height, width in ((48, 64), (32, 40), (120, 128), (31, 150)):
        ours, theirs = (np.empty((height, width, 3), np.uint8) for _ in range(2))
        resize_into(ours, picture, False)
        resize_into(theirs, picture, True)
        if not np.array_equal(ours, theirs):
            return False
    return colours_agree()


def resize_into(out: Array, picture: Array, opencv: bool) -> None:
    """Fill ``out`` [height, width, channels] with a picture, bilinear, in the fixed point of ``cv2.resize``."""
    height, width = out.shape[:2]
    if picture.shape[:2] == (height, width):
        out[...] = picture
        return
    if not opencv:
        out[...] = resize(picture, width, height)
        return
    import cv2

    made = cv2.resize(picture, (width, height), dst=out if out.strides[1:] == (3, 1) else None)
    if not np.shares_memory(made, out):
        out[...] = made.reshape(out.shape)


def grey(picture: Array) -> Array:
    """RGB [..., 3] to [..., 1]: luma of BT.601, rounded as ``cv2.cvtColor`` does."""
    red, green, blue = (picture[..., n].astype(np.int32) for n in range(3))
    luma = (red * _RED + green * _GREEN + blue * _BLUE + (1 << (_SHIFT - 1))) >> _SHIFT
    return luma.astype(np.uint8)[..., None]
