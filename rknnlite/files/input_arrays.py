"""Arrays for a model's inputs: from files of any usual kind, or made up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputInvalid
from ..tensor import TensorAttr
from .arrays import read_archive, read_array
from .pictures import SUFFIXES, read_picture
from .reading import check_file, is_pipe, with_remedy

__all__ = ["arrays_for", "made_up"]

Array = NDArray[Any]
_SEED = 20
_LARGE = 64 << 20
_WIDEST = 32  # bytes for an element of the shape that is chosen now; a dynamic model has others
"""An entry of an archive may have so many bytes, whatever it is packed into."""


def arrays_for(files: Sequence[str], attrs: Sequence[TensorAttr], bgr: bool = False) -> list[Array]:
    """One array per input, in order.

    Args:
        files: paths, or ``NAME=PATH`` for the input of that name; none: made-up data.
        attrs: the model's inputs (rank 4: NHWC).
        bgr: pictures in the order in which OpenCV reads them; else RGB.

    Raises:
        InputInvalid: a file cannot be read, or their number is wrong. BackendUnavailable: pictures need Pillow or OpenCV.
    """
    if not files:
        return [made_up(attr) for attr in attrs]
    if len(files) == 1 and files[0].endswith(".npz"):
        return _from_archive(Path(files[0]), attrs)
    names = [attr.name for attr in attrs]
    if len(files) != len(attrs):
        raise InputInvalid(
            f"the model has {len(attrs)} inputs ({', '.join(names)}), {len(files)} files were given"
        )
    named = dict(_split(file, names) for file in files)
    if None in named:
        return [_read(Path(file), attr, bgr) for file, attr in zip(files, attrs)]
    if len(named) != len(files):
        raise InputInvalid(f"an input was named twice; the inputs are {', '.join(names)}")
    return [_read(Path(named[attr.name]), attr, bgr) for attr in attrs]


def _split(text: str, names: Sequence[str]) -> tuple[str | None, str]:
    name, sign, path = text.partition("=")
    return (name, path) if sign and name in names else (None, text)


def made_up(attr: TensorAttr, number: int = 0) -> Array:
    """The same data every time: pixels for pictures, numbers from 0 to 1 for others, zeros for integers.

    ``number`` asks for other data of the same kind.
    """
    random = np.random.default_rng(_SEED + attr.index + 1000 * number)
    if len(attr.dims) == 4 and attr.dims[-1] in (1, 3, 4):
        return random.integers(0, 256, attr.dims, np.uint8)
    if attr.quant is None and not attr.dtype.is_float:
        return np.zeros(attr.dims, attr.dtype.numpy)
    return random.random(attr.dims, np.float32)


def _read(path: Path, attr: TensorAttr, bgr: bool) -> Array:
    suffix = path.suffix.lower()
    try:
        if suffix == ".npy":
            return read_array(path)
        if suffix in SUFFIXES:
            check_file(path)  # before a package is missed that would read it
            return _picture(path, attr, bgr)
        if is_pipe(path):
            check_file(path)
        with path.open("rb") as file:  # a device such as /dev/zero will do
            data = file.read(4 * attr.n_elems + 1)  # one too many: it may be endless
    except OSError as error:
        raise InputInvalid(f"{path} cannot be read: {with_remedy(error, path).strerror}") from None
    except ValueError as error:
        raise InputInvalid(f"{path} is no .npy file of numbers: {error}") from None
    return _raw(data, path, attr)


def _raw(data: bytes, path: Path, attr: TensorAttr) -> Array:
    """Bytes without a header: their number tells the element type."""
    kinds = {attr.n_elems * size: kind for size, kind in ((1, np.uint8), (2, np.float16), (4, np.float32))}
    kind = kinds.get(len(data))
    if kind is None:
        raise InputInvalid(
            f"{path} has {_bytes_of(data, attr)} bytes; input {attr.name} {list(attr.dims)} takes {attr.n_elems} (uint8), "
            f"{2 * attr.n_elems} (float16) or {4 * attr.n_elems} (float32); or give .npy, .npz or a picture"
        )
    return np.frombuffer(data, kind).reshape(attr.dims)


def _bytes_of(data: bytes, attr: TensorAttr) -> str:
    most = 4 * attr.n_elems
    return f"more than {most}" if len(data) > most else str(len(data))


def _picture(path: Path, attr: TensorAttr, bgr: bool) -> Array:
    """uint8 NHWC, resized to the input; the proportions of the picture are not kept."""
    if len(attr.dims) != 4 or attr.dims[3] not in (1, 3):
        raise InputInvalid(f"input {attr.name} {list(attr.dims)} takes no picture; give .npy, .npz or .bin")
    count, height, width, channels = attr.dims
    pixels = read_picture(path, width, height, channels)
    if bgr:
        pixels = pixels[..., ::-1]
    return np.repeat(pixels[None], count, axis=0)


def _from_archive(path: Path, attrs: Sequence[TensorAttr]) -> list[Array]:
    """Entries named as the inputs, or in0, in1, ..., or just as many as there are inputs."""
    names = [attr.name for attr in attrs]
    numbered = [f"in{index}" for index in range(len(attrs))]

    def choose(stored: Sequence[str]) -> Sequence[str]:
        for wanted in (names, numbered, stored if len(stored) == len(attrs) else []):
            if wanted and set(wanted) <= set(stored):
                return wanted
        raise InputInvalid(f"{path} holds {', '.join(stored)}; the inputs are {', '.join(names)}")

    most = max(_LARGE, *(_WIDEST * attr.n_elems for attr in attrs))
    try:
        return list(read_archive(path, choose, most).values())
    except OSError as error:
        raise InputInvalid(f"{path} cannot be read: {with_remedy(error, path).strerror}") from None
    except ValueError as error:
        raise InputInvalid(f"{path} is no .npz file of numbers: {error}") from None
