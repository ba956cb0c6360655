"""Letters for pictures: by Pillow in any size where that is installed, else letters of 5 x 8 pixels, enlarged."""

from __future__ import annotations

import functools
from typing import Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.log import logger

from .system_fonts import font_with

__all__ = ["can_write", "letters"]

Mask = NDArray[np.uint8]

_ROWS, _COLUMNS, _STEP = 8, 5, 6
_DIGITS = "0123456789abcdefghijklmnopqrstuv"
_PROBED = 24  # pixels
_UNKNOWN = "vhhhhhv0"  # a frame
_ART = """
    00000000 44444040 aa000000 aavavaa0 4fke5u40 pp248jj0 cik8lid0 44000000 24888420 84222480 04lel400 044v4400
    00000048 000v0000 00000040 11248gg0 ehjlphe0 4c4444e0 eh1248v0 eh161he0 26aiv220 vgu11he0 egguhhe0 v1224440
    ehhehhe0 ehhf11e0 00400040 00400048 248g8420 00v0v000 84212480 eh124040 ehnlnge0 ehhvhhh0 uhhuhhu0 ehggghe0
    uhhhhhu0 vgguggv0 vgguggg0 ehgnhhe0 hhhvhhh0 e44444e0 72222ic0 hikokih0 ggggggv0 hrllhhh0 hppljjh0 ehhhhhe0
    uhhuggg0 ehhhlid0 uhhukih0 fgge11u0 v4444440 hhhhhhe0 hhhhaa40 hhhllrh0 hha4ahh0 hha44440 v1248gv0 e88888e0
    gg842110 e22222e0 4ah00000 0000000v 84000000 00e1fhf0 gguhhhu0 00egghe0 11fhhhf0 00ehvge0 68u88880 00fhhf1e
    ggmphhh0 40c444e0 206222ic ggikoki0 c44444e0 00qllhh0 00mphhh0 00ehhhe0 00uhhugg 00fhhf11 00mpggg0 00fge1u0
    88u88960 00hhhjd0 00hhha40 00hhlla0 00ha4ah0 00hhhf1e 00v248v0 688g8860 44444440 c22122c0 009li000
"""
_GLYPHS = _ART.split()
"""The letters of ASCII from the blank on: a digit for each row, whose five bits are the pixels from left to right."""


@functools.lru_cache(maxsize=512)
def letters(text: str, height: int) -> Mask:
    """How much of each pixel a line of text covers, 0 to 255: [about ``height``, as wide as it is], read-only.

    Examples:
        >>> letters("cup", 8).dtype
        dtype('uint8')
    """
    mask = _by_pillow(text, height)
    if mask is None:
        mask = _bitmap(text, height)
    mask.setflags(write=False)
    return mask


def _bitmap(text: str, height: int) -> Mask:
    """Letters in whole multiples of their size; what is no ASCII is a frame."""
    scale = max(1, height // _ROWS)
    rows = np.zeros((_ROWS, _STEP * len(text)), np.uint8)
    for place, char in enumerate(text):
        known = 0 <= ord(char) - 32 < len(_GLYPHS)
        glyph = _GLYPHS[ord(char) - 32] if known else _UNKNOWN
        bits = np.array([[_DIGITS.index(digit)] for digit in glyph]) >> np.arange(_COLUMNS)[::-1] & 1
        rows[:, _STEP * place : _STEP * place + _COLUMNS] = 255 * bits
    return rows.repeat(scale, axis=0).repeat(scale, axis=1)


def _by_pillow(text: str, height: int) -> Optional[Mask]:
    """The same by a font with curves; None without Pillow, or with one that has none."""
    font, whole = font_with(text, height)
    if font is None:
        return None
    if not whole:
        _lacking()
    from PIL import Image, ImageDraw

    width = max(1, round(font.getlength(text)) + 1)
    image = Image.new("L", (width, height))
    ImageDraw.Draw(image).text((0, height // 2), text, fill=255, font=font, anchor="lm")
    return np.array(image, np.uint8)


def can_write(text: str) -> bool:
    """Whether there are letters for all of a text; of others ``letters`` makes frames. The log says so, once.

    Examples:
        >>> can_write("cup")
        True
    """
    font, whole = font_with(text, _PROBED)
    if font is None:
        whole = all(0 <= ord(char) - 32 < len(_GLYPHS) for char in text)
    if not whole:
        _lacking()
    return whole


@functools.lru_cache(maxsize=1)
def _lacking() -> None:
    """Say that letters are missing, once."""
    logger.warning(
        "no font here has all letters of what is written into pictures: lines of text are numbered there, as JSON and tables list "
        "them; install Pillow and a font such as Noto Sans CJK (Debian: fonts-noto-cjk)"
    )
