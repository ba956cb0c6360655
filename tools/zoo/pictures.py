"""Real pictures for trained networks: photographs with people that packages ship, and text rendered in packaged fonts."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import cv2
import numpy as np
from network import Source, packaged
from numpy.typing import NDArray

__all__ = ["WORDS", "captchas", "face", "faces", "lines", "mixed", "pages", "people"]

Picture = NDArray[np.uint8]

_TEXT = (
    "board network light water machine morning signal carry number window river paper garden yellow engine "
    "station bridge winter silver answer simple travel second bottle market doctor orange kitchen summer "
    "picture 2024 17 380 9.50 No.4 RK3588 total invoice street London Paris A4 100% open closed exit north"
)
WORDS = tuple(_TEXT.split())

# package, file, faces as (centre x, centre y, size) in its pixels
_PHOTOGRAPHS = (
    ("ultralytics", "assets/zidane.jpg", ((982, 186, 180), (614, 346, 160))),
    ("ultralytics", "assets/bus.jpg", ((134, 446, 56), (289, 451, 50), (726, 621, 50))),
    ("matplotlib", "mpl-data/sample_data/grace_hopper.jpg", ((266, 231, 216),)),
    ("skimage", "data/astronaut.png", ((226, 118, 118),)),
)
# persons in the second one: left, top, right, bottom
_PERSONS = ((50, 400, 245, 905), (223, 405, 345, 860), (670, 380, 810, 880), (0, 550, 65, 875))
_FONTS = ("DejaVuSans", "DejaVuSans-Bold", "DejaVuSerif", "DejaVuSansMono", "DejaVuSerif-Bold", "STIXGeneral")


@lru_cache(maxsize=8)
def _photograph(place: int) -> Picture:
    package, file, _ = _PHOTOGRAPHS[place]
    read = cv2.imread(str(packaged(package, file)))
    return np.ascontiguousarray(read[:, :, ::-1])


def _varied(rng: np.random.Generator, picture: Any, height: int, width: int) -> Picture:
    """The picture resized, perhaps mirrored, with another brightness and a little noise; NCHW."""
    if rng.integers(2):
        picture = picture[:, ::-1]
    resized = cv2.resize(np.ascontiguousarray(picture), (width, height), interpolation=cv2.INTER_AREA)
    values = resized * rng.uniform(0.75, 1.15) + rng.normal(0, 3, resized.shape)
    return np.clip(np.rint(values), 0, 255).astype(np.uint8).transpose(2, 0, 1)[None]


def _window(picture: Picture, left: float, top: float, width: float, height: float) -> Picture:
    """A part of a picture, grey where it reaches beyond the edge."""
    margin = int(max(width, height))
    wide = cv2.copyMakeBorder(picture, *[margin] * 4, cv2.BORDER_CONSTANT, value=(114, 114, 114))
    y, x = int(top) + margin, int(left) + margin
    return wide[max(0, y) : y + int(height), max(0, x) : x + int(width)]


def faces(height: int, width: int = 0) -> Source:
    """Scenes with a face or more, of any size from a tenth of the picture on."""
    width = width or height

    def draw(rng: np.random.Generator) -> list[Any]:
        place = int(rng.integers(len(_PHOTOGRAPHS)))
        x, y, size = _PHOTOGRAPHS[place][2][rng.integers(len(_PHOTOGRAPHS[place][2]))]
        high = size * rng.uniform(1.6, 6.0)
        wide = high * width / height
        left, top = x - wide * rng.uniform(0.3, 0.7), y - high * rng.uniform(0.3, 0.7)
        return [_varied(rng, _window(_photograph(place), left, top, wide, high), height, width)]

    return draw


def face(size: int, part: float = 1.0, right: float = 0.0, down: float = 0.0) -> Source:
    """One face in the middle; ``part``: side of the square over the face's size; ``right``, ``down``: its offset."""

    def draw(rng: np.random.Generator) -> list[Any]:
        place = int(rng.integers(len(_PHOTOGRAPHS)))
        x, y, wide = _PHOTOGRAPHS[place][2][rng.integers(len(_PHOTOGRAPHS[place][2]))]
        side = wide * part * rng.uniform(0.9, 1.25)
        x, y = (a + wide * (b + rng.uniform(-0.08, 0.08)) for a, b in ((x, right), (y, down)))
        return [_varied(rng, _window(_photograph(place), x - side / 2, y - side / 2, side, side), size, size)]

    return draw


def mixed(one: Source, other: Source) -> Source:
    """One or the other, at random."""
    return lambda rng: (one if rng.integers(2) else other)(rng)


def people(height: int, width: int) -> Source:
    """One person, as a tracker cuts them out."""

    def draw(rng: np.random.Generator) -> list[Any]:
        left, top, right, bottom = _PERSONS[rng.integers(len(_PERSONS))]
        w, h = right - left, bottom - top
        left, top = left + w * rng.uniform(-0.12, 0.12), top + h * rng.uniform(-0.1, 0.1)
        part = _window(_photograph(1), left, top, w * rng.uniform(0.85, 1.1), h * rng.uniform(0.8, 1.1))
        return [_varied(rng, part, height, width)]

    return draw


def _written(rng: np.random.Generator, count: int, size: int) -> Picture:
    """A line of ``count`` words, black on light or light on dark, RGB."""
    from PIL import Image, ImageDraw, ImageFont

    name = _FONTS[rng.integers(len(_FONTS))]
    font = ImageFont.truetype(str(packaged("matplotlib", f"mpl-data/fonts/ttf/{name}.ttf")), size)
    words = " ".join(WORDS[n] for n in rng.integers(len(WORDS), size=count))
    left, top, right, bottom = font.getbbox(words)
    ground, ink = rng.integers(170, 256, 3), rng.integers(0, 90, 3)
    if rng.integers(5) == 0:
        ground, ink = ink, ground
    shape = (int(right - left) + size // 2, int(bottom - top) + size // 2)
    canvas = Image.new("RGB", shape, tuple(map(int, ground)))
    ImageDraw.Draw(canvas).text(
        (size // 4 - left, size // 4 - top), words, font=font, fill=tuple(map(int, ink))
    )
    return np.asarray(canvas)


def lines(height: int, width: int, turned: bool = False) -> Source:
    """One line of text, as wide as it is, padded with grey; ``turned``: each second one upside down."""

    def draw(rng: np.random.Generator) -> list[Any]:
        line = _written(rng, 3, 36)
        wide = min(width, line.shape[1] * height // line.shape[0])
        line = cv2.resize(line, (wide, height), interpolation=cv2.INTER_AREA)
        full = np.full((height, width, 3), 127, np.uint8)
        full[:, :wide] = line
        values = full + rng.normal(0, 4, full.shape)
        picture = np.clip(np.rint(values), 0, 255).astype(np.uint8)
        if turned and rng.integers(2):
            picture = picture[::-1, ::-1]
        return [np.ascontiguousarray(picture.transpose(2, 0, 1)[None])]

    return draw


def pages(size: int) -> Source:
    """A photograph's part, or a plain ground, with some lines of text on it."""

    def draw(rng: np.random.Generator) -> list[Any]:
        import skimage.data

        if rng.integers(2):
            page = cv2.cvtColor(skimage.data.page(), cv2.COLOR_GRAY2RGB)
            left = int(rng.integers(page.shape[1] - 180))
            part = cv2.resize(page[:180, left : left + 180], (size, size), interpolation=cv2.INTER_CUBIC)
            return [np.ascontiguousarray(part.transpose(2, 0, 1)[None])]
        photo = cv2.resize(_photograph(int(rng.integers(len(_PHOTOGRAPHS)))), (size, size))
        for n in range(int(rng.integers(2, 6))):
            line = _written(rng, int(rng.integers(1, 3)), int(rng.integers(16, 32)))[:, : size - 16]
            top, left = 12 + n * size // 6, int(rng.integers(size - line.shape[1] - 4))
            photo[top : top + line.shape[0], left : left + line.shape[1]] = line
        return [np.ascontiguousarray(photo.transpose(2, 0, 1)[None])]

    return draw


def captchas(height: int, width: int, channels: int) -> Source:
    """Letters and digits, each turned and coloured, with strokes over them."""

    def draw(rng: np.random.Generator) -> list[Any]:
        full = rng.integers(200, 250, (height, width, 3)).astype(np.uint8)
        letters = "ABCDEFGHKMNPRSTWXYZ23456789abdefghkmnrt"
        pitch = min(width // 4, int(0.62 * height))
        for n in range(4):
            scale = height / 40 * rng.uniform(0.8, 1.1)
            colour = [int(c) for c in rng.integers(0, 140, 3)]
            place = (int(pitch * (n + 0.15)), int(height * rng.uniform(0.68, 0.85)))
            letter = letters[rng.integers(len(letters))]
            cv2.putText(
                full, letter, place, cv2.FONT_HERSHEY_DUPLEX, scale, colour, max(1, height // 26), cv2.LINE_AA
            )
        for _ in range(3):
            ends = [tuple(int(v) for v in rng.integers(0, (width, height))) for _ in range(2)]
            cv2.line(full, *ends, [int(c) for c in rng.integers(80, 200, 3)], 1, cv2.LINE_AA)
        if channels == 1:
            full = cv2.cvtColor(full, cv2.COLOR_RGB2GRAY)[:, :, None]
        return [np.ascontiguousarray(full.transpose(2, 0, 1)[None])]

    return draw
