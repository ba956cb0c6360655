"""What one network wants of a picture, told once: size, way, colours, numbers, layout."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid, ModelInvalid, ParamInvalid
from rknnlite.formats import IoTensor
from rknnlite.spi import Context, Memory
from rknnlite.tensor import DType, Layout

from ..placement import Placement
from .frame import Frame
from .normalisation import normalisation
from .resizing import grey, opencv_agrees, resize_into, resized, turn_into
from .rga import Surface, shared_rga

__all__ = ["Preparation", "Way"]

Array = NDArray[Any]
Picture = Union[Array, Frame]
_MOST_CUT = (
    16  # CROP: the long side may be so many of the short one; all of it is scaled before the middle is taken
)

_BEHIND_LINES = 127


class Way(str, enum.Enum):
    """How a picture is put into the input of a network.

    Examples:
        >>> Way("crop")
        <Way.CROP: 'crop'>
    """

    LETTERBOX = "letterbox"
    STRETCH = "stretch"
    CROP = "crop"
    LINE = "line"


@dataclass(frozen=True)
class Preparation:
    """Makes inputs of pictures.

    Attributes:
        size: width and height of the network's input.
        way: how the picture is put there: all of it with bars, all of it stretched, its middle, or a line of text from the left.
        fill: the bars of a letterbox, and what is behind a line.
        bgr: the network wants blue before red.
        channels: 3, or 1 for grey.
        nchw: whether channels come before rows; ``context.infer`` takes the other unless ``layout="nchw"`` is said.
        mean: of each channel, in the order of the network.
        std: of each channel: floats ``(pixel - mean) / std`` are made; empty: the pixels as they are, uint8.
        zoom: of CROP, see ``Placement.crop``.
        by: what computes: ``"opencv"`` or ``"numpy"``, whose numbers are the same, or ``"rga"``, whose are its own; empty: OpenCV
            where it is installed and gives the numbers of numpy (tried once), else numpy.

    Examples:
        >>> preparation = Preparation((640, 640))
        >>> array, placement = preparation(np.zeros((720, 1280, 3), np.uint8))
        >>> array.shape, int(array[0, 0, 0, 0]), placement.top
        ((1, 640, 640, 3), 114, 140)
    """

    size: tuple[int, int]
    way: Way = Way.LETTERBOX
    fill: int = 114
    bgr: bool = False
    channels: int = 3
    nchw: bool = False
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    zoom: float = 1.0
    by: str = ""

    def __post_init__(self) -> None:
        if self.by not in ("", "opencv", "numpy", "rga"):
            raise ParamInvalid(
                f"Preparation: by is {self.by!r}, must be 'opencv', 'numpy' or 'rga', or empty"
            )
        if self.by == "rga":
            shared_rga()  # where there is none it is told now
        object.__setattr__(self, "by", self.by or ("opencv" if opencv_agrees() else "numpy"))
        object.__setattr__(self, "way", Way(self.way))
        if not 0 <= self.fill <= 255:
            raise ParamInvalid(f"Preparation: fill is {self.fill}, must be 0 to 255")
        if not self.zoom >= 1:
            raise ParamInvalid(f"Preparation: zoom is {self.zoom}, must be 1 or more")
        if self.channels not in (1, 3):
            raise ParamInvalid(f"Preparation: {self.channels} channels, must be 3 (colours) or 1 (grey)")
        for name in ("mean", "std"):
            object.__setattr__(self, name, self._each(name))

    def _each(self, name: str) -> tuple[float, ...]:
        """``mean`` or ``std`` of each channel; both empty where pixels are taken as they are."""
        values = tuple(map(float, getattr(self, name)))
        if not values and (self.mean or self.std):
            values = (0.0 if name == "mean" else 1.0,)
        values = values * self.channels if len(values) == 1 else values
        if len(values) not in (0, self.channels):
            raise ParamInvalid(f"Preparation: {len(values)} numbers of {name} for {self.channels} channels")
        if not np.isfinite(values).all() or (name == "std" and 0 in values):
            raise ParamInvalid(f"Preparation: {name} is {list(values)}, must be finite, and std not 0")
        return values

    @classmethod
    def of(
        cls,
        context: Context,
        *,
        way: Way = Way.LETTERBOX,
        fill: Optional[int] = None,
        bgr: bool = False,
        stored: Optional[IoTensor] = None,
        **options: Any,
    ) -> Preparation:
        """What the only input of a network wants.

        Args:
            fill: None: 114, of lines 127, as those who trained such networks mostly did.
            stored: what the file says of the input, ``ModelFile(path).model.inputs[0]``: of one converted without mean and
                deviation it is known then whether pixels / 255 are wanted.
            options: further attributes, such as ``mean``, ``std``, ``zoom``, ``by``.

        The runtime subtracts the mean that a ``.rknn`` file stores and divides by the deviation, so pixels go in as they are,
        unless ``mean`` or ``std`` is given. Models of other formats get pixels / 255, what networks of vision mostly learnt with.

        Raises:
            ModelInvalid: there are several inputs, or the input is no picture; see ``normalisation``, too.
        """
        if len(context.inputs) != 1:
            names = ", ".join(attr.name for attr in context.inputs)
            raise ModelInvalid(
                f"the model has {len(context.inputs)} inputs ({names}); a picture goes into one"
            )
        (attr,) = context.inputs
        first = attr.layout is Layout.NCHW
        shape = attr.dims
        if len(shape) == 4 and first:
            shape = (shape[0], *shape[2:], shape[1])
        if len(shape) != 4 or shape[3] not in (1, 3) or min(shape) < 1:
            raise ModelInvalid(
                f"input {attr.name} is {list(attr.dims)} {attr.layout.name}: no picture of 3 channels or 1; prepare it yourself"
            )
        if not {"mean", "std"} & set(options):
            if not context.platform.startswith("rknn"):
                options["std"] = (255.0,)
            elif stored is not None:
                options.update(normalisation(stored))
        fill = (_BEHIND_LINES if way is Way.LINE else cls.fill) if fill is None else fill
        return cls((shape[2], shape[1]), way, fill, bgr, shape[3], first, **options)

    def __call__(self, picture: Picture, out: Optional[Array] = None) -> tuple[Array, Placement]:
        """The input for ``Context.infer``, [1, height, width, channels] (or NCHW), and where the picture lies in it.

        Args:
            picture: RGB uint8 [height, width, 3]; grey without the last axis, or with 1; or a frame.
            out: an array of an earlier frame to write into, which is not needed any more; None: a fresh one.

        Raises:
            InputInvalid: no such picture.
        """
        array = self._room(out, 1)
        return array, self._fill(array[0], picture)

    def batch(
        self, pictures: Sequence[Picture], out: Optional[Array] = None
    ) -> tuple[Array, list[Placement]]:
        """One input of several pictures, which may differ in size."""
        if not len(pictures):
            raise InputInvalid("a batch of 0 pictures; give one at least")
        array = self._room(out, len(pictures))
        return array, [self._fill(one, picture) for one, picture in zip(array, pictures)]

    def bind(self, context: Context, frame: Frame) -> Memory:
        """Have the network read a frame where it lies, nothing copied: each ``context.run`` sees what is in the buffer then.

        Outputs are to be bound, too. The frame has one descriptor, and size, channels, order of colours and padding of rows are
        those of the network's input, which takes pixels as they are.

        Returns:
            The memory; close it before the descriptor.

        Raises:
            InputInvalid: with what does not fit; then ``preparation(frame)`` makes an input of it.
        """
        (native,) = context.native_inputs
        wanted = {1: "GREY", 3: "BGR" if self.bgr else "RGB"}[self.channels]
        row = (
            (native.w_stride or self.size[0]) if native.dtype.bits == 8 else self.size[0]
        )  # other types are converted, without padding
        needs = {
            "format": wanted,
            "size": self.size,
            "stride": row * self.channels,
            "descriptors": 1,
            "batch": 1,
            "std": (),
        }
        given = {
            "format": frame.format, "size": frame.size, "stride": frame.planes[0].stride, "descriptors": len(frame.fds),
            "batch": native.dims[0], "std": self.std,
        }  # fmt: skip
        clashes = [
            f"{name} is {given[name]}, must be {value}"
            for name, value in needs.items()
            if given[name] != value
        ]
        if clashes:
            raise InputInvalid(f"{frame} cannot be read where it lies: {'; '.join(clashes)}; prepare it")
        attr = dataclasses.replace(native, dtype=DType.UINT8)
        memory = context.import_fd(frame.fds[0], offset=frame.planes[0].offset)
        context.bind(attr, memory)
        return memory

    def place(self, picture: tuple[int, int]) -> Placement:
        """Where a picture of this width and height will lie. Raises InputInvalid for one too long to be cropped."""
        if self.way is Way.STRETCH:
            return Placement.stretch(picture, self.size)
        if self.way is Way.LETTERBOX:
            return Placement.letterbox(picture, self.size)
        if self.way is Way.LINE:
            return Placement.line(picture, self.size)
        if max(picture) > _MOST_CUT * min(picture):
            raise InputInvalid(
                f"a picture of {picture[0]} x {picture[1]} pixels is more than {_MOST_CUT} times as long as wide, and the way "
                "'crop' takes its middle; cut it before, or choose 'letterbox' or 'stretch'"
            )
        return Placement.crop(picture, self.size, self.zoom)

    @property
    def _shape(self) -> tuple[int, int, int]:
        width, height = self.size
        return (self.channels, height, width) if self.nchw else (height, width, self.channels)

    def _room(self, out: Optional[Array], count: int) -> Array:
        dtype = np.dtype(np.float32 if self.std else np.uint8)
        if out is None:
            return np.empty((count, *self._shape), dtype)
        if out.shape != (count, *self._shape) or out.dtype != dtype:
            raise InputInvalid(
                f"out is {out.dtype} {list(out.shape)}, must be {dtype} {[count, *self._shape]}; leave it out and one is made"
            )
        return out

    def _fill(self, out: Array, picture: Picture) -> Placement:
        """One picture into its part of the input."""
        if self.by == "rga":
            return self._by_rga(out, picture)
        if isinstance(picture, Frame):
            with picture.pixels(self.by == "opencv") as pixels:
                return self._fill_with(out, pixels)
        return self._fill_with(out, checked(picture))

    def _by_rga(self, out: Array, picture: Picture) -> Placement:
        frame = picture if isinstance(picture, Frame) else Frame.of(coloured(picture))
        placement = self.place(frame.size)
        direct = not (self.std or self.nchw) and self.channels == 3
        square = out if direct else np.empty((self.size[1], self.size[0], 3), np.uint8)
        self._bars(square, placement)
        shared_rga().put(frame, Surface.of(square, direct and self.bgr), placement)
        if not direct:
            self._finish(out, square)
        return placement

    def _fill_with(self, out: Array, pixels: Array) -> Placement:
        placement = self.place((pixels.shape[1], pixels.shape[0]))
        swapped = pixels.shape[2] == 3 and pixels.strides[2] < 0  # BGR in memory: turn what is small
        pixels = pixels[..., ::-1] if swapped else pixels
        if not (self.std or self.nchw) and pixels.shape[2] == self.channels and self.bgr == swapped:
            self._put(out, pixels, placement)
            return placement
        square = np.empty((self.size[1], self.size[0], pixels.shape[2]), np.uint8)
        self._put(square, pixels, placement)
        self._finish(out, square[..., ::-1] if swapped else square)
        return placement

    def _put(self, square: Array, pixels: Array, placement: Placement) -> None:
        """The picture, scaled, at its place in ``square``, and the bars around it."""
        opencv = self.by == "opencv"
        (width, height), left, top = placement.inner, int(placement.left), int(placement.top)
        if self.way is not Way.CROP:
            self._bars(square, placement)
            resize_into(square[top : top + height, left : left + width], pixels, opencv)
            return
        whole = resized(pixels, width, height, opencv)
        square[...] = whole[-top : -top + square.shape[0], -left : -left + square.shape[1]]

    def _bars(self, square: Array, placement: Placement) -> None:
        """Fill what the picture leaves free."""
        (width, height), left, top = placement.inner, int(placement.left), int(placement.top)
        if self.way is not Way.CROP:
            square[:top] = square[top + height :] = self.fill
            square[top : top + height, :left] = square[top : top + height, left + width :] = self.fill

    def _finish(self, out: Array, square: Array) -> None:
        """Pixels in the size of the network, RGB or grey, as its numbers and in its order."""
        if self.channels == 1 and square.shape[2] == 3:
            square = grey(square)
        if self.bgr:
            square = square[..., ::-1]
        if not (self.std or self.nchw) and square.shape[2] == 3 and square.strides[2] < 0:
            turn_into(out, square[..., ::-1], self.by == "opencv")
            return
        target = out.transpose(1, 2, 0) if self.nchw else out
        for channel in range(self.channels):
            pixels = square[..., channel if square.shape[2] > 1 else 0]
            self._number(target[..., channel], pixels, channel)

    def _number(self, out: Array, pixels: Array, channel: int) -> None:
        """Pixels of a channel as what the network takes."""
        if not self.std:
            out[...] = pixels
        elif self.mean[channel]:
            np.subtract(pixels, np.float32(self.mean[channel]), out=out, dtype=np.float32)
            out /= np.float32(self.std[channel])
        else:
            np.divide(pixels, np.float32(self.std[channel]), out=out, dtype=np.float32)


def checked(picture: Any) -> Array:
    """A picture as uint8 [height, width, 3 or 1]; raises InputInvalid, which says what it is and what to do."""
    if not isinstance(picture, np.ndarray):
        raise InputInvalid(
            f"a picture is {type(picture).__name__}, must be a numpy array [height, width, 3] of uint8"
        )
    shape = list(picture.shape)
    if picture.dtype != np.uint8:
        raise InputInvalid(
            f"a picture is {picture.dtype} {shape}, must be uint8; of 16 bits take the upper 8: (picture >> 8).astype('uint8'), "
            "of floats from 0 to 1 (picture * 255).round().astype('uint8')"
        )
    if picture.ndim == 2:
        picture = picture[..., None]
    if picture.ndim != 3 or picture.shape[2] not in (1, 3):
        remedy = (
            "leave alpha out: picture[..., :3]"
            if shape[2:] == [4]
            else "colours come last, and there is one picture"
        )
        raise InputInvalid(
            f"a picture is {shape}, must be [height, width, 3], or [height, width] for grey; {remedy}"
        )
    if not picture.size:
        raise InputInvalid(f"a picture is {shape}: it has no pixels")
    pixels: Array = picture
    return pixels


def coloured(picture: Any) -> Array:
    """A picture as uint8 [height, width, 3]; raises InputInvalid."""
    pixels = checked(picture)
    wide: Array = np.broadcast_to(pixels, (*pixels.shape[:2], 3))
    return wide
