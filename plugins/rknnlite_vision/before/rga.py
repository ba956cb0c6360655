"""RGA, the engine of Rockchip SoCs that scales and converts pictures, by ``librga.so``: the functions for C of its im2d interface.

It is used where a program asks for it (``by="rga"``), as its pixels are its own: SoCs scale and round in different ways, and none
as OpenCV or numpy do. Networks mostly do not mind; comparisons of numbers do.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any, NamedTuple, Union

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import BackendUnavailable, InputInvalid

from ..placement import Placement
from .colours import Colours
from .frame import Frame

__all__ = ["Rga", "Surface", "shared_rga"]

Array = NDArray[Any]
_LIBRARY = "librga.so"
_SUCCESS, _NO_ERROR = 1, 2
_SYNC = 1 << 19
_VERSION = 1  # of ``querystring``
_OURS = "rknnlite"  # in the version of the library that stands in on machines without RGA


class _Kind(NamedTuple):
    """RK_FORMAT_* and the bytes of a pixel in a row of the first plane."""

    number: int
    size: int


_FORMATS = {
    "RGBA": _Kind(0x0 << 8, 4),
    "RGB": _Kind(0x2 << 8, 3),
    "BGRA": _Kind(0x3 << 8, 4),
    "BGR": _Kind(0x7 << 8, 3),
    "NV12": _Kind(0xA << 8, 1),
    "NV21": _Kind(0xE << 8, 1),
    "YUYV": _Kind(0x1C << 8, 2),
    "UYVY": _Kind(0x1E << 8, 2),
}
_TO_RGB = {Colours("bt601"): 1, Colours("bt601", True): 2, Colours("bt709"): 3}
"""IM_YUV_TO_RGB_*."""


class _Buffer(ctypes.Structure):
    """``rga_buffer_t``."""

    _fields_ = [
        ("virtual", ctypes.c_void_p),
        ("physical", ctypes.c_void_p),
        *[
            (name, ctypes.c_int)
            for name in ("fd", "width", "height", "wstride", "hstride", "format", "color_space_mode")
        ],
        *[(name, ctypes.c_int) for name in ("global_alpha", "rd_mode", "color")],
        ("colorkey", ctypes.c_int * 2),
        ("nn", ctypes.c_int * 6),
        ("rop_code", ctypes.c_int),
        ("handle", ctypes.c_uint32),
    ]


class _Rect(ctypes.Structure):
    """``im_rect``."""

    _fields_ = [(name, ctypes.c_int) for name in ("x", "y", "width", "height")]


class Surface(NamedTuple):
    """Where RGA writes: RGB or BGR, 24 bits.

    Attributes:
        memory: uint8 [height, width, 3], or the descriptor of a buffer, such as ``Memory.fd`` of an input.
        size: width and height.
        stride: pixels from row to row.
        bgr: blue first.

    Examples:
        >>> Surface.of(np.zeros((48, 64, 3), np.uint8)).size
        (64, 48)
    """

    memory: Union[Array, int]
    size: tuple[int, int]
    stride: int
    bgr: bool = False

    @classmethod
    def of(cls, array: Array, bgr: bool = False) -> Surface:
        """An array [height, width, 3]; rows may be padded by whole pixels."""
        height, width = array.shape[:2]
        if array.dtype != np.uint8 or array.strides[1:] != (3, 1) or array.strides[0] % 3:
            raise InputInvalid(
                f"RGA writes uint8 [height, width, 3] without gaps, not {array.dtype} {list(array.shape)}"
            )
        return cls(array, (width, height), array.strides[0] // 3, bgr)


class Rga:
    """``librga``, loaded.

    Args:
        library: its name or path.

    Raises:
        BackendUnavailable: there is none, or it lacks the functions for C.

    Attributes:
        version: what it says of itself.

    Examples:
        >>> try:
        ...     version = Rga().version
        ... except BackendUnavailable:
        ...     version = "no board"
    """

    def __init__(self, library: str = _LIBRARY) -> None:
        try:
            self._dll = ctypes.CDLL(library)
            self._process, self._text, self._query = (
                self._dll.improcess,
                self._dll.imStrError_t,
                self._dll.querystring,
            )
            self._by_address, self._by_fd = self._dll.wrapbuffer_virtualaddr_t, self._dll.wrapbuffer_fd_t
        except (OSError, AttributeError) as error:
            raise BackendUnavailable(
                f"RGA cannot be used: {error}; install librga for your board, or prepare by 'numpy' or 'opencv'"
            ) from None
        numbers = [ctypes.c_int] * 5
        self._by_address.argtypes, self._by_address.restype = [ctypes.c_void_p, *numbers], _Buffer
        self._by_fd.argtypes, self._by_fd.restype = [ctypes.c_int, *numbers], _Buffer
        self._process.argtypes = [_Buffer] * 3 + [_Rect] * 3 + [ctypes.c_int]
        self._process.restype = ctypes.c_int
        self._text.argtypes, self._text.restype = [ctypes.c_int], ctypes.c_char_p
        self._query.argtypes, self._query.restype = [ctypes.c_int], ctypes.c_char_p
        self.version = " ".join((self._query(_VERSION) or b"").decode("utf-8", "replace").split())

    def put(self, frame: Frame, surface: Surface, placement: Placement) -> None:
        """Convert and scale a frame to its place in ``surface``, whose other pixels stay as they are.

        Raises:
            InputInvalid: RGA does not take the frame, with its numbers and what librga says.
        """
        source, visible = self._source(frame), _visible(placement)
        inside = _Rect(
            *(_even(visible[0]) if frame.format in ("NV12", "NV21", "YUYV", "UYVY") else visible[0])
        )
        target = self._target(surface)
        target.color_space_mode = source.color_space_mode
        status = self._process(source, target, _Buffer(), inside, _Rect(*visible[1]), _Rect(), _SYNC)
        if status not in (_SUCCESS, _NO_ERROR):
            text = " ".join((self._text(status) or b"").decode("utf-8", "replace").split())
            raise InputInvalid(
                f"RGA refuses {frame}, rows of {source.wstride} pixels, for {visible[1][2]} x {visible[1][3]} pixels in rows of "
                f"{surface.stride}: {text} (status {status}); prepare it by 'numpy' or 'opencv'"
            )

    def _source(self, frame: Frame) -> Any:
        kind = _FORMATS.get(frame.format)
        if kind is None:
            raise InputInvalid(
                f"RGA does not take {frame} here; it takes {', '.join(_FORMATS)}; prepare it by 'numpy' or 'opencv'"
            )
        first, last = frame.planes[0], frame.planes[-1]
        rows, rest = (
            divmod(last.offset - first.offset, first.stride) if last is not first else (frame.height, 0)
        )
        if (
            rest
            or first.stride % kind.size
            or last.stride != first.stride
            or last.buffer
            or rows < frame.height
        ):
            raise InputInvalid(
                f"RGA does not take {frame}: strides {first.stride} and {last.stride}, offsets {first.offset} and {last.offset}; "
                "chroma must follow in the same buffer and stride, and rows be whole pixels; prepare it by 'numpy' or 'opencv'"
            )
        shape = (frame.width, frame.height, first.stride // kind.size, rows, kind.number)
        if not frame.fds:
            buffer = self._by_address(frame.address + first.offset, *shape)
        elif first.offset:
            raise InputInvalid(
                f"RGA does not take {frame}: its descriptor must begin with it, not at byte {first.offset}"
            )
        else:
            buffer = self._by_fd(frame.fds[0], *shape)
        if kind.number >= _FORMATS["NV12"].number:
            buffer.color_space_mode = self._mode(frame)
        return buffer

    def _mode(self, frame: Frame) -> int:
        known = [colours for colours in _TO_RGB if _OURS not in self.version or _TO_RGB[colours] == 1]
        if frame.colours not in known:
            raise InputInvalid(
                f"RGA ({self.version}) converts {', '.join(map(str, known))}; {frame} is {frame.colours}; prepare it by 'numpy'"
            )
        return _TO_RGB[frame.colours]

    def _target(self, surface: Surface) -> Any:
        shape = (
            *surface.size,
            surface.stride,
            surface.size[1],
            _FORMATS["BGR" if surface.bgr else "RGB"].number,
        )
        if isinstance(surface.memory, int):
            return self._by_fd(surface.memory, *shape)
        return self._by_address(surface.memory.ctypes.data, *shape)

    def __repr__(self) -> str:
        return f"<Rga {self.version}>"


@functools.lru_cache(maxsize=1)
def shared_rga() -> Rga:
    """The one of this process: loaded when it is first asked for."""
    return Rga()


def _visible(placement: Placement) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """x, y, width, height of what is seen of the picture, and of where it lies in the input: whole pixels, at least 1."""
    source, target = [], []
    starts = (placement.left, placement.top)
    for inner, start, picture, network in zip(placement.inner, starts, placement.picture, placement.network):
        first, last = max(0, int(start)), min(network, int(start) + inner)
        begin, end = (round((edge - start) * picture / inner) for edge in (first, last))
        begin = min(begin, picture - 1)
        source.append((begin, max(1, min(picture, end) - begin)))
        target.append((first, last - first))
    return tuple(np.transpose(source).ravel().tolist()), tuple(np.transpose(target).ravel().tolist())


def _even(rect: tuple[int, ...]) -> tuple[int, ...]:
    """The same where chroma begins; what is odd loses a pixel, but not the last one."""
    return (rect[0] & ~1, rect[1] & ~1, max(1, rect[2] & ~1), max(1, rect[3] & ~1))
