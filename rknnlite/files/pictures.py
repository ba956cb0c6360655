"""Pictures from files, as pixels: by Pillow (extra ``pictures``), else by OpenCV where that is installed.

Both turn a picture as its EXIF orientation says, leave transparency out, and take the upper byte of 16 bits. Resizing
gives the numbers of ``cv2.resize``, by which programs for boards do it, whoever read the file: Pillow's ``resize``
smooths what it makes smaller, and its ``transform`` is off by one in a third of the pixels (measured).
"""

from __future__ import annotations

import contextlib
import io
import warnings
from pathlib import Path
from typing import Any, Callable

import numpy as np
from numpy.typing import NDArray

from ..errors import InputInvalid
from ..extras import missing
from .reading import read_bytes

__all__ = ["SUFFIXES", "decode_picture", "decode_whole", "read_picture", "resize"]

Pixels = NDArray[np.uint8]
Decoder = Callable[[bytes, bool, int], "Pixels | None"]

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".ppm", ".pgm")
_FORMATS = ("JPEG", "PNG", "BMP", "WEBP", "PPM")  # Pillow's others include some that start programs
_MOST = 1 << 62
_ONE = 2048  # the weight of a whole pixel
_BAND = 32  # rows of the result at a time: what is allocated besides does not grow with it
_DEEP = ("I;16", "I;16L", "I;16B", "I")  # grey of 16 bits; the last is what older versions make of it


def read_picture(path: Path, width: int, height: int, channels: int) -> Pixels:
    """The picture of a file, resized; its proportions are not kept.

    Args:
        channels: 3 for RGB, 1 for grey.

    Returns:
        uint8, height x width x channels.

    Raises:
        InputInvalid: the file is no picture. BackendUnavailable: neither Pillow nor OpenCV is installed. OSError.
    """
    _decoder(path)  # it says what is missing before the file is looked for
    return decode_picture(read_bytes(path), path, width, height, channels)


def decode_picture(
    data: bytes, name: Path | str, width: int, height: int, channels: int, most: int = _MOST
) -> Pixels:
    """As ``read_picture``, of what a file called ``name`` holds; more than ``most`` pixels raise InputInvalid, too."""
    pixels = decode_whole(data, name, channels, most)
    return resize(pixels, width, height).reshape(height, width, channels)


def decode_whole(data: bytes, name: Path | str, channels: int = 3, most: int = _MOST) -> Pixels:
    """As ``decode_picture``, in the size that the picture has; without a third dimension where ``channels`` is 1."""
    library, decode = _decoder(name)
    pixels = decode(data, channels == 1, most)
    if pixels is None:
        raise InputInvalid(f"{name} is no picture that {library} can read; give JPEG, PNG, BMP, WebP or PNM")
    return pixels


def resize(pixels: Pixels, width: int, height: int) -> Pixels:
    """Pixels (height x width, with or without channels) in another size: bilinear, in the fixed point of ``cv2.resize``."""
    rows, columns = pixels.shape[:2]
    if (rows, columns) == (height, width):
        return pixels
    (left, right), across = _taps(columns, width)
    inside = (left >= 0) & (left < columns - 1)
    # OpenCV takes a pixel at the edge whole, a row in two parts
    across = np.where(inside, across, [[_ONE], [0]])
    taps, down = _taps(rows, height)
    values = pixels.reshape(rows, columns, -1)
    out = np.empty((height, width, values.shape[2]), np.uint8)
    for part in (slice(start, start + _BAND) for start in range(0, height, _BAND)):
        used, place = np.unique(taps[:, part].clip(0, rows - 1), return_inverse=True)
        lines = values[used]
        lines = _at(lines, left) * across[0, :, None] + _at(lines, right) * across[1, :, None] >> 4
        both = lines[place.reshape(2, -1)] * down[:, part, None, None] >> 16
        out[part] = both[0] + both[1] + 2 >> 2
    return out.reshape(height, width, *pixels.shape[2:])


def _taps(old: int, new: int) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
    """The two neighbours of each new position, which may lie outside, and their weights: both 2 x new."""
    place = ((np.arange(new) + 0.5) * (old / new) - 0.5).astype(np.float32)
    first = np.floor(place)
    share = place - first
    weights = np.rint(np.stack([1 - share, share]) * _ONE).astype(np.int32)
    return np.stack([first, first + 1]).astype(np.intp), weights


def _at(lines: Pixels, columns: NDArray[np.intp]) -> NDArray[np.int32]:
    return lines.take(columns, 1, mode="clip").astype(np.int32)


def _decoder(name: Path | str) -> tuple[str, Decoder]:
    """The library that reads pictures here, and how."""
    try:
        import PIL.Image  # noqa: F401
    except ImportError as error:
        try:
            import cv2  # noqa: F401
        except ImportError:
            raise missing("pictures", f"reading {name} needs Pillow", error) from None
        return "OpenCV", _by_opencv
    return "Pillow", _by_pillow


def _by_pillow(data: bytes, grey: bool, most: int) -> Pixels | None:
    from PIL import Image, ImageOps

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # remarks on large or oddly made files
            image: Any = Image.open(io.BytesIO(data), formats=_FORMATS)
            _check_size(image.width, image.height, most)
            image.load()
            with contextlib.suppress(Exception):  # a damaged tag is no orientation
                image = ImageOps.exif_transpose(image)
            if image.mode in _DEEP:
                image = Image.fromarray((np.asarray(image).astype(np.uint32) >> 8).astype(np.uint8))
            return np.array(image.convert("L" if grey else "RGB"), np.uint8)
    except (MemoryError, InputInvalid):
        raise
    except Image.DecompressionBombError as error:
        raise InputInvalid(f"a picture is too large: {error}") from None
    except Exception:  # decoders raise whatever damaged data lead to
        return None


def _by_opencv(data: bytes, grey: bool, most: int) -> Pixels | None:
    import cv2

    if not data:
        return None
    try:
        kind = cv2.IMREAD_GRAYSCALE if grey else cv2.IMREAD_COLOR
        pixels: Any = cv2.imdecode(np.frombuffer(data, np.uint8), kind)
    except cv2.error:  # more pixels than it takes, or than fit into memory
        return None
    if pixels is None:
        return None
    _check_size(pixels.shape[1], pixels.shape[0], most)
    return pixels if grey else np.ascontiguousarray(pixels[..., ::-1])


def _check_size(width: int, height: int, most: int) -> None:
    if width * height > most:
        raise InputInvalid(f"a picture of {width} x {height} is too large; {most} pixels are allowed")
