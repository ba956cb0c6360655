"""Frames as V4L2, GStreamer and ffmpeg give them: planes with strides and offsets, in memory or behind a dma-buf."""

from __future__ import annotations

import contextlib
import errno
import mmap
import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Optional, Union

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid, shown
from rknnlite.files.reading import descriptor_size

from .colours import BT601, Colours, yuv_to_rgb

__all__ = ["Frame", "Plane"]

Array = NDArray[Any]
Buffer = Union[bytes, bytearray, memoryview, Array]
_SYNC = 0x40086200  # DMA_BUF_IOCTL_SYNC, _IOW('b', 0, __u64)
_READ, _END = 1, 4


class Format(NamedTuple):
    """How pixels lie. ``order``: the bytes of red, green, blue in a pixel; of packed luma Y, Cb, Cr in two pixels; else Cb, Cr."""

    kind: str
    order: tuple[int, ...]
    bytes: int = 1


_FORMATS = {
    "NV12": Format("pairs", (0, 1)),
    "NV21": Format("pairs", (1, 0)),
    "I420": Format("planes", (0, 1)),
    "YV12": Format("planes", (1, 0)),
    "YUYV": Format("packed", (0, 1, 3), 2),
    "YVYU": Format("packed", (0, 3, 1), 2),
    "UYVY": Format("packed", (1, 0, 2), 2),
    "RGB": Format("pixels", (0, 1, 2), 3),
    "BGR": Format("pixels", (2, 1, 0), 3),
    "RGBA": Format("pixels", (0, 1, 2), 4),
    "BGRA": Format("pixels", (2, 1, 0), 4),
    "GREY": Format("pixels", (0,), 1),
}
_NAMES = {
    "NM12": "NV12", "NM21": "NV21", "YU12": "I420", "YM12": "I420", "IYUV": "I420", "YUV420P": "I420", "YUVJ420P": "I420",
    "YM21": "YV12", "YUY2": "YUYV", "YUYV422": "YUYV", "YVYU422": "YVYU", "UYVY422": "UYVY", "RGB3": "RGB", "RGB24": "RGB",
    "BG24": "RGB", "BGR3": "BGR", "BGR24": "BGR", "RG24": "BGR", "AB24": "RGBA", "XB24": "RGBA", "RGBX": "RGBA", "RGB0": "RGBA",
    "AR24": "BGRA", "XR24": "BGRA", "BGRX": "BGRA", "BGR0": "BGRA", "GRAY": "GREY", "GRAY8": "GREY", "Y8": "GREY", "R8": "GREY",
}  # fmt: skip
"""What V4L2, DRM, GStreamer and ffmpeg call them -> our names; the fourth byte of a pixel is left out."""


class Plane(NamedTuple):
    """Where a plane lies: which buffer, the offset of its first byte, bytes from row to row, bytes of a row, rows.

    Examples:
        >>> Frame("NV12", 4, 2, bytes(12)).planes[1]
        Plane(buffer=0, offset=8, stride=4, width=4, rows=1)
    """

    buffer: int
    offset: int
    stride: int
    width: int
    rows: int

    @property
    def end(self) -> int:
        """One byte behind its last."""
        return self.offset + self.stride * (self.rows - 1) + self.width


class Frame:
    """A picture of a camera or a decoder.

    Args:
        format: ``NV12``, ``NV21``, ``I420``, ``YV12``, ``YUYV``, ``YVYU``, ``UYVY``, ``RGB``, ``BGR``, ``RGBA``, ``BGRA``,
            ``GREY``, or what V4L2 (a number, too), DRM, GStreamer and ffmpeg call these: ``yuyv422``, ``NM12``, ``BGRx``.
        width, height: pixels; odd ones have chroma rounded up.
        data: bytes, or one buffer for each plane.
        strides: bytes from row to row of each plane; one is that of luma; none: no padding.
        offsets: where each plane begins in its buffer; none: each behind the one before.
        fd: descriptor of a dma-buf (or memfd) instead of ``data``, or one for each plane; it stays the caller's.
        colours: what luma and chroma mean; None: BT.601, limited range (full for ``yuvj420p``).

    Raises:
        InputInvalid: the format is unknown, a size is no size, rows overlap, a buffer is too short.

    Examples:
        >>> frame = Frame("NV12", 4, 2, bytes(8) + bytes([128] * 4))
        >>> frame.rgb().shape, int(frame.rgb().max())
        ((2, 4, 3), 0)
    """

    def __init__(
        self,
        format: str | int,
        width: int,
        height: int,
        data: Buffer | Sequence[Buffer] | None = None,
        *,
        strides: int | Sequence[int] = (),
        offsets: Sequence[int] = (),
        fd: int | Sequence[int] = (),
        colours: Optional[Colours] = None,
    ) -> None:
        self.format, full = _named(format)
        self.width, self.height = (_whole(n, what) for n, what in ((width, "width"), (height, "height")))
        self.colours = colours or BT601._replace(full=full)
        self.colours.factors  # noqa: B018  # an unknown matrix is told here
        self.fds: tuple[int, ...] = (fd,) if isinstance(fd, int) else tuple(fd)
        """Descriptors of its buffers; empty where it lies in memory."""
        if (data is None) == (not self.fds):
            raise InputInvalid(f"{self}: give data or fd, one of the two")
        self._data = (
            [] if data is None else [_bytes(one, self) for one in (data if _is_several(data) else [data])]
        )
        sizes = [len(one) for one in self._data] or [descriptor_size(one) for one in self.fds]
        self.planes = self._laid_out(sizes, strides, offsets)
        """Where they lie: luma, then chroma; one for packed formats."""

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        return self.width, self.height

    @property
    def address(self) -> int:
        """Where its first buffer lies in memory; 0 behind a descriptor."""
        return int(self._data[0].ctypes.data) if self._data else 0

    @classmethod
    def of(cls, picture: Array) -> Frame:
        """A picture, RGB uint8 [height, width, 3]; copied only where its pixels do not lie side by side."""
        if picture.strides[1:] != (3, 1) or picture.strides[0] < 3 * picture.shape[1]:
            picture = np.ascontiguousarray(picture)
        height, width = picture.shape[:2]
        stride = picture.strides[0] if height > 1 else 3 * width
        rows = np.lib.stride_tricks.as_strided(picture, (stride * (height - 1) + 3 * width,), (1,))
        return cls("RGB", width, height, rows, strides=stride)

    def rgb(self, opencv: bool = False) -> Array:
        """A copy as RGB, uint8 [height, width, 3].

        Args:
            opencv: let OpenCV convert where it can.
        """
        with self.pixels(opencv) as pixels:
            return np.array(pixels if pixels.shape[2] == 3 else np.repeat(pixels, 3, 2), order="C")

    @contextlib.contextmanager
    def pixels(self, opencv: bool = False) -> Iterator[Array]:
        """As RGB [height, width, 3] or grey [height, width, 1], to be read inside the block only; a view where it can be."""
        kind, order, _ = _FORMATS[self.format]
        with self._reading() as buffers:
            planes = [_view(buffers[plane.buffer], plane) for plane in self.planes]
            if kind == "pixels":
                yield _pixels(planes[0], self.width)[..., _slice(order)]
                return
            luma, chroma, down = self._luma_and_chroma(planes)
            yield yuv_to_rgb(luma, chroma, down, self.colours, opencv)

    def _luma_and_chroma(self, planes: Sequence[Array]) -> tuple[Array, list[Array], int]:
        kind, order, _ = _FORMATS[self.format]
        if kind == "packed":
            (both,) = planes
            luma = both[:, order[0] :: 2][:, : self.width]
            return luma, [both[:, place::4] for place in order[1:]], 1
        if kind == "pairs":
            return planes[0], [planes[1][:, place::2] for place in order], 2
        return planes[0], [planes[1 + place] for place in order], 2

    @contextlib.contextmanager
    def _reading(self) -> Iterator[list[Array]]:
        """The buffers; those of descriptors mapped, and their caches in order meanwhile."""
        if not self.fds:
            yield self._data
            return
        done = []
        try:
            for fd in self.fds:
                _sync(fd, _READ)
                done.append(fd)
            yield [_mapped(fd, self._needed(number)) for number, fd in enumerate(self.fds)]
        finally:
            for fd in done:
                _sync(fd, _READ | _END)

    def _needed(self, buffer: int) -> int:
        return max(plane.end for plane in self.planes if plane.buffer == buffer)

    def _laid_out(
        self, sizes: list[int], strides: int | Sequence[int], offsets: Sequence[int]
    ) -> list[Plane]:
        """The planes, each inside its buffer."""
        shapes = self._shapes()
        if len(sizes) not in (1, len(shapes)):
            raise InputInvalid(
                f"{self}: {len(sizes)} buffers for {len(shapes)} planes; give one for all, or one for each"
            )
        every = self._strides(shapes, [strides] if isinstance(strides, int) else list(strides))
        if offsets and len(offsets) != len(shapes):
            raise InputInvalid(f"{self}: {len(offsets)} offsets for {len(shapes)} planes")
        planes: list[Plane] = []
        behind = 0
        for number, ((width, rows), stride) in enumerate(zip(shapes, every)):
            buffer = number if len(sizes) > 1 else 0
            start = offsets[number] if offsets else 0 if buffer or not number else behind
            plane = Plane(buffer, start, stride, width, rows)
            behind = start + stride * rows
            if start < 0 or plane.end > sizes[buffer]:
                raise InputInvalid(
                    f"{self}: plane {number} ends at byte {plane.end} ({rows} rows of {stride} from byte {start}), its buffer has "
                    f"{sizes[buffer]}; are size, strides and offsets those of this frame?"
                )
            planes.append(plane)
        return planes

    def _shapes(self) -> list[tuple[int, int]]:
        """Bytes of a row and rows of each plane."""
        kind, _, size = _FORMATS[self.format]
        across, down = (self.width + 1) // 2, (self.height + 1) // 2
        luma = (self.width, self.height)
        return {
            "pairs": [luma, (2 * across, down)],
            "planes": [luma, (across, down), (across, down)],
            "packed": [(4 * across, self.height)],
            "pixels": [(self.width * size, self.height)],
        }[kind]

    def _strides(self, shapes: list[tuple[int, int]], given: list[int]) -> list[int]:
        if len(given) == 1 < len(shapes):  # of luma; planes of chroma are half as wide
            given += [given[0] if len(shapes) == 2 else given[0] // 2] * (len(shapes) - 1)
        every = given or [width for width, _ in shapes]
        if len(every) != len(shapes):
            raise InputInvalid(f"{self}: {len(every)} strides for {len(shapes)} planes")
        for number, ((width, _), stride) in enumerate(zip(shapes, every)):
            if stride < width:
                raise InputInvalid(
                    f"{self}: rows of plane {number} are {stride} bytes apart and {width} long; strides are bytes, not pixels"
                )
        return every

    def __repr__(self) -> str:
        return f"<Frame {self.format} {self.width} x {self.height}>"


def _named(format: str | int) -> tuple[str, bool]:
    """Our name of a format, and whether the name says full range."""
    text = (
        format.to_bytes(4, "little").decode("latin-1")
        if isinstance(format, int) and 0 <= format < 1 << 32
        else str(format)
    )
    name = text.strip().upper()
    name = _NAMES.get(name, name)
    if name not in _FORMATS:
        raise InputInvalid(
            f"pixel format {shown(text, 40)} is not known; known are {', '.join(_FORMATS)}; have the camera or decoder give one of "
            "them (8 bits, not tiled, not compressed)"
        )
    return name, text.strip().upper() == "YUVJ420P"


def _whole(number: Any, what: str) -> int:
    if not isinstance(number, (int, np.integer)) or number < 1:
        raise InputInvalid(f"a frame's {what} is {shown(number, 40)}, must be 1 or more")
    return int(number)


def _is_several(data: Any) -> bool:
    return isinstance(data, (list, tuple))


def _bytes(data: Any, frame: Frame) -> Array:
    """A buffer as flat bytes, not copied."""
    if isinstance(data, np.ndarray):
        if data.dtype != np.uint8 or not data.flags.c_contiguous:
            raise InputInvalid(
                f"{frame}: data is {data.dtype} {list(data.shape)}{'' if data.flags.c_contiguous else ' with gaps'}, must be uint8 "
                "without gaps; give the whole buffer, with strides and offsets"
            )
        return data.reshape(-1)
    try:
        return np.frombuffer(data, np.uint8)
    except (TypeError, ValueError, BufferError) as error:
        raise InputInvalid(
            f"{frame}: data is {type(data).__name__}, must be bytes or a numpy array: {error}"
        ) from None


def _view(buffer: Array, plane: Plane) -> Array:
    """[rows, width] of a plane, which is inside its buffer."""
    return np.lib.stride_tricks.as_strided(
        buffer[plane.offset :], (plane.rows, plane.width), (plane.stride, 1)
    )


def _pixels(rows: Array, width: int) -> Array:
    """[height, width, bytes of a pixel] of padded rows."""
    size = rows.shape[1] // width
    return np.lib.stride_tricks.as_strided(rows, (len(rows), width, size), (rows.strides[0], size, 1))


def _slice(order: Sequence[int]) -> slice:
    """The bytes of ``order`` in a pixel."""
    return slice(2, None, -1) if order[0] else slice(0, len(order))


def _mapped(fd: int, size: int) -> Array:
    try:
        return np.frombuffer(mmap.mmap(fd, size, prot=mmap.PROT_READ), np.uint8)
    except (OSError, ValueError) as error:
        raise InputInvalid(f"{size} bytes of file descriptor {fd} cannot be mapped: {error}") from None


def _sync(fd: int, flags: int) -> None:
    """Bring the caches of a dma-buf in order; other files have none to be brought."""
    import fcntl  # Linux alone has descriptors of frames

    while True:
        try:
            fcntl.ioctl(fd, _SYNC, struct.pack("=Q", flags))
            return
        except OSError as error:
            if error.errno == errno.ENOTTY:
                return
            if error.errno not in (errno.EAGAIN, errno.EINTR):
                raise InputInvalid(f"file descriptor {fd} cannot be read: {error.strerror}") from None
