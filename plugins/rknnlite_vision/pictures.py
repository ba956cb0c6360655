"""Pictures of files, folders and addresses, and files of pictures. Pixels are RGB uint8 [height, width, 3]."""

from __future__ import annotations

import http.client
import io
import struct
import urllib.request
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid, ParamInvalid, one_line
from rknnlite.extras import missing
from rknnlite.files.pictures import SUFFIXES, decode_whole
from rknnlite.files.reading import read_bytes
from rknnlite.files.writing import write_file

__all__ = ["MOST_PIXELS", "WRITTEN", "encode", "fetch", "pictures_in", "read", "write"]

Array = NDArray[Any]

MOST_PIXELS = 1 << 27
"""Pixels that a picture may have: three bytes each, and as many again for what is drawn."""
WRITTEN = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".ppm")
"""Endings of files that can be written."""
_QUALITY = 92
_MOST_BYTES = 256 << 20  # of a picture that is fetched
_PATIENCE = 20.0  # seconds


def read(path: Path) -> Array:
    """The pixels of a file, turned as its EXIF orientation says, without transparency, 16 bits as 8.

    Raises:
        InputInvalid: it cannot be read, is no picture, or has too many pixels; the text names it.
        BackendUnavailable: neither Pillow nor OpenCV is installed.
    """
    try:
        data = read_bytes(path)
    except (OSError, ValueError) as error:
        raise InputInvalid(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return decode(data, str(path))


def decode(data: bytes, name: str) -> Array:
    """As ``read``, of the bytes of something that is called ``name``."""
    try:
        return decode_whole(data, name, 3, MOST_PIXELS)
    except MemoryError:
        raise InputInvalid(f"{name}: there is no memory for its pixels") from None
    except InputInvalid as error:
        text = str(error)
        raise InputInvalid(text if text.startswith(name) else f"{name}: {text}") from None


def fetch(address: str) -> Optional[Array]:
    """The picture at an address, http or https; None where something else is there, such as a film.

    Raises InputInvalid, which names the address.
    """
    try:
        request = urllib.request.Request(address, headers={"Accept": "image/*, */*;q=0.5"})
        with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
            if not answer.headers.get_content_type().startswith("image/"):
                return None
            data: bytes = answer.read(_MOST_BYTES + 1)
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise InputInvalid(f"{address} cannot be read: {one_line(str(reason))}") from None
    if len(data) > _MOST_BYTES:
        raise InputInvalid(f"{address} has more than {_MOST_BYTES} bytes")
    return decode(data, address)


def pictures_in(folder: Path) -> list[Path]:
    """The pictures of a folder by name, those of folders in it left out; raises InputInvalid where there is none."""
    try:
        found = sorted(p for p in folder.iterdir() if p.suffix.lower() in SUFFIXES and p.is_file())
    except OSError as error:
        raise InputInvalid(f"{folder} cannot be read: {error.strerror}") from None
    if not found:
        raise InputInvalid(f"{folder} has no pictures ({', '.join(SUFFIXES)})")
    return found


def targets(sources: Sequence[Path | str], out: Path) -> list[Path]:
    """Where the marked pictures go: ``out`` itself for one source where it is called as a picture, else names in that folder.

    Raises ParamInvalid where two would have one name, or one would replace its source.
    """
    if out.suffix.lower() in WRITTEN and not out.is_dir():
        if len(sources) > 1:
            raise ParamInvalid(f"--out {out} is one picture, there are {len(sources)}; name a folder")
        made = [out]
    else:
        made = [out / _name(source) for source in sources]
    taken: dict[Path, Path | str] = {}
    for source, target in zip(sources, made):
        other = taken.setdefault(target, source)
        if other is not source:
            raise ParamInvalid(
                f"{other} and {source} would both become {target}; give them one after the other"
            )
        if isinstance(source, Path) and target.exists() and target.samefile(source):
            raise ParamInvalid(f"{target} would replace the picture that is read; give another --out")
    return made


def _name(source: Path | str) -> str:
    """The name of a source, with an ending that can be written."""
    path = source if isinstance(source, Path) else Path(urllib.request.url2pathname(source.partition("?")[0]))
    stem = path.stem or "picture"
    return stem + (path.suffix if path.suffix.lower() in WRITTEN else ".png")


def write(path: Path, pixels: Array) -> None:
    """Write a picture, at once or not at all; its ending says the form. Raises OSError, and what ``encode`` raises."""
    write_file(path, encode(pixels, path.suffix.lower()))


def encode(pixels: Array, suffix: str) -> bytes:
    """The bytes of a picture file: by Pillow, OpenCV, or here where PNG or PPM is wanted and neither is installed.

    Raises:
        ParamInvalid: no such form. BackendUnavailable: the form needs Pillow or OpenCV.
        InputInvalid: the form does not hold so large a picture, as JPEG and WebP do not.

    Examples:
        >>> encode(np.zeros((1, 2, 3), np.uint8), ".ppm")[:11]
        b'P6\\n2 1\\n255\\n'
    """
    if suffix not in WRITTEN:
        raise ParamInvalid(f"no picture can be written as {suffix!r}; give {', '.join(WRITTEN)}")
    if suffix == ".ppm":
        height, width = pixels.shape[:2]
        return b"P6\n%d %d\n255\n" % (width, height) + np.ascontiguousarray(pixels).tobytes()
    for encoder in (_by_opencv, _by_pillow):
        data = encoder(pixels, suffix)
        if data is not None:
            return data
    if suffix == ".png":
        return _png(pixels)
    raise missing("pictures", f"writing {suffix} needs Pillow")


def _by_opencv(pixels: Array, suffix: str) -> Optional[bytes]:
    try:
        import cv2
    except ImportError:
        return None
    options = [cv2.IMWRITE_JPEG_QUALITY, _QUALITY] if suffix in (".jpg", ".jpeg") else []
    done, data = cv2.imencode(suffix, np.ascontiguousarray(pixels[..., ::-1]), options)
    return bytes(data) if done else None


def _by_pillow(pixels: Array, suffix: str) -> Optional[bytes]:
    try:
        from PIL import Image
    except ImportError:
        return None
    kind = {".jpg": "JPEG", ".jpeg": "JPEG"}.get(suffix, suffix[1:].upper())
    file = io.BytesIO()
    try:
        Image.fromarray(np.ascontiguousarray(pixels)).save(file, kind, quality=_QUALITY, lossless=True)
    except (OSError, ValueError):
        height, width = pixels.shape[:2]
        raise InputInvalid(
            f"a picture of {width} x {height} cannot be written as {suffix}, which holds no such size; choose .png"
        ) from None
    return file.getvalue()


def _png(pixels: Array) -> bytes:
    """Rows without a filter: larger than others write it, and done in no time."""
    height, width = pixels.shape[:2]
    rows = np.zeros((height, 1 + 3 * width), np.uint8)
    rows[:, 1:] = pixels.reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(map(_part, parts))


def _part(part: tuple[bytes, bytes]) -> bytes:
    kind, data = part
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
