"""Luma and chroma to RGB, in integers that are told here, so that every machine gets the same numbers.

With ``y = max(0, Y - 16)`` for limited range (``Y`` for full), ``u = Cb - 128``, ``v = Cr - 128`` and factors of 20 bits::

    red   = (y * luma                  + v * red_cr  + half) >> 20
    green = (y * luma + u * green_cb   + v * green_cr + half) >> 20
    blue  = (y * luma + u * blue_cb                   + half) >> 20

cut to 0 to 255, where ``half`` is 2 ** 19. Luma below 16 counts as 16, as in OpenCV; ffmpeg lets it darken bright colours. A
value of chroma counts for all pixels that share it (2, or 2 x 2): nothing is smoothed, wherever the format says that it lies.

The factors of BT.601, limited range, are those of OpenCV (1.164, 1.596, 0.813, 0.391, 2.018), which programs for boards use;
the others come from the matrix, to 20 bits. Both are at most one step from ffmpeg's exact arithmetic.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ParamInvalid

__all__ = ["BT601", "Colours", "opencv_agrees", "yuv_to_rgb"]

Array = NDArray[Any]
_BITS = 20
_HALF = 1 << (_BITS - 1)
_BAND = 128  # rows at a time: temporary arrays stay in the cache, and small for the largest pictures
_MATRICES = {"bt601": (0.299, 0.114), "bt709": (0.2126, 0.0722), "bt2020": (0.2627, 0.0593)}
"""The shares of red and blue in luma."""


class Factors(NamedTuple):
    """What luma and chroma are multiplied with, times 2 ** 20; ``floor`` is the luma of black."""

    floor: int
    luma: int
    red_cr: int
    green_cb: int
    green_cr: int
    blue_cb: int


_OPENCV_601 = Factors(16, 1220542, 1673527, -409993, -852492, 2116026)


class Colours(NamedTuple):
    """What the luma and chroma of a frame mean.

    Attributes:
        matrix: ``"bt601"`` (cameras, standard definition), ``"bt709"`` (high definition) or ``"bt2020"``.
        full: 0 to 255 for black to white, as JPEG has it; False: 16 to 235, as video has it.

    Examples:
        >>> Colours("bt709").full
        False
    """

    matrix: str = "bt601"
    full: bool = False

    @property
    def factors(self) -> Factors:
        """The integers that are computed with. Raises ParamInvalid for an unknown matrix."""
        if self.matrix not in _MATRICES:
            raise ParamInvalid(f"Colours: matrix is {self.matrix!r}, must be one of {', '.join(_MATRICES)}")
        if (self.matrix, bool(self.full)) == ("bt601", False):
            return _OPENCV_601
        red, blue = _MATRICES[self.matrix]
        green = 1 - red - blue
        luma, chroma = (1.0, 1.0) if self.full else (255 / 219, 255 / 224)
        cr, cb = 2 * (1 - red) * chroma, 2 * (1 - blue) * chroma
        numbers = (luma, cr, -cb * blue / green, -cr * red / green, cb)
        return Factors(0 if self.full else 16, *(round(number * (1 << _BITS)) for number in numbers))


BT601 = Colours()
"""BT.601, limited range: what OpenCV, ffmpeg and RGA take where nothing is said."""


def yuv_to_rgb(luma: Array, chroma: Sequence[Array], down: int, colours: Colours, opencv: bool) -> Array:
    """RGB [height, width, 3], a fresh array.

    Args:
        luma: uint8 [height, width]; chroma: Cb and Cr, half as wide, and with ``down`` 2 half as high; rounded up.
        opencv: use OpenCV where it does this conversion.
    """
    if opencv and colours == BT601 and not (luma.shape[0] % down or luma.shape[1] % 2):
        made = _by_opencv(luma, chroma[0], chroma[1], down)
        if made is not None:
            return made
    out = np.empty((*luma.shape, 3), np.uint8)
    for start in range(0, len(luma), _BAND):
        rows, halves = slice(start, start + _BAND), slice(start // down, (start + _BAND) // down)
        _convert(luma[rows], [plane[halves] for plane in chroma], down, colours, out[rows])
    return out


def _convert(luma: Array, chroma: Sequence[Array], down: int, colours: Colours, out: Array) -> None:
    """A few rows; pixels at one place of the blocks that share chroma at a time, which are as many as values of chroma."""
    floor, scale, red_cr, green_cb, green_cr, blue_cb = colours.factors
    levels = np.maximum(np.arange(256, dtype=np.int32) - floor, 0) * np.int32(scale) + np.int32(_HALF)
    cb, cr = (plane.astype(np.int32) - 128 for plane in chroma)
    terms = (cr * red_cr, cb * green_cb + cr * green_cr, cb * blue_cb)
    for row, column in itertools.product(range(down), range(2)):
        bright = levels.take(luma[row::down, column::2])
        height, width = bright.shape
        for channel, term in enumerate(terms):
            value = bright + term[:height, :width]
            value >>= _BITS
            out[row::down, column::2, channel] = np.clip(value, 0, 255, out=value)


def _by_opencv(luma: Array, cb: Array, cr: Array, down: int) -> Optional[Array]:
    """Of even sizes; None for a layout that OpenCV has no name for."""
    import cv2

    start = min((luma, cb, cr), key=_address)
    order = tuple(_address(plane) - _address(start) for plane in (luma, cb, cr))
    packed = {
        (0, 1, 3): cv2.COLOR_YUV2RGB_YUY2,
        (0, 3, 1): cv2.COLOR_YUV2RGB_YVYU,
        (1, 0, 2): cv2.COLOR_YUV2RGB_UYVY,
    }
    if down == 1:
        if order not in packed:
            return None
        pixels = _as_they_lie(start, luma.shape, luma.strides)
        return np.asarray(cv2.cvtColor(pixels, packed[order]))
    apart = order[2] - order[1]
    if abs(apart) != 1:  # chroma in planes of its own
        return np.asarray(cv2.cvtColorTwoPlane(luma, np.stack([cb, cr], -1), cv2.COLOR_YUV2RGB_NV12))
    both = _as_they_lie(cb if apart == 1 else cr, cb.shape, cb.strides)
    return np.asarray(
        cv2.cvtColorTwoPlane(luma, both, cv2.COLOR_YUV2RGB_NV12 if apart == 1 else cv2.COLOR_YUV2RGB_NV21)
    )


def _address(plane: Array) -> int:
    return int(plane.ctypes.data)


def _as_they_lie(first: Array, shape: Sequence[int], strides: Sequence[int]) -> Array:
    """Pairs of bytes, of which ``first`` is every first one."""
    return np.lib.stride_tricks.as_strided(first, (*shape, 2), (*strides, 1))


def opencv_agrees() -> bool:
    """Whether OpenCV, which is installed, converts with the numbers told here."""
    generator = np.random.default_rng(0)
    luma, cb, cr = (generator.integers(0, 256, (n, n), np.uint8) for n in (64, 32, 32))
    ours, theirs = (yuv_to_rgb(luma, (cb, cr), 2, BT601, opencv) for opencv in (False, True))
    return bool(np.array_equal(ours, theirs))
