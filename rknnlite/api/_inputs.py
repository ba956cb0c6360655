"""What the face adds to ``rknnlite.spi.inputs``: ``data_type`` and the habits of existing programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._faces.arguments import described
from ..errors import InputInvalid
from ..layout import nchw_to_nhwc_shape
from ..spi import Input
from ..spi.inputs import array_of, check_size, checked, pair, per_input, truth, widened
from ..tensor import DType, Layout, TensorAttr

__all__ = ["prepare", "tell_of_planes"]

Array = NDArray[Any]
Shapes = Sequence[Sequence[tuple[int, ...]]]


def prepare(
    given: Any,
    attrs: Sequence[TensorAttr],
    data_type: Any,
    data_format: Any,
    pass_through: Any,
    shapes: Shapes,
    warn: Callable[[str], None],
    warn_each: Callable[[str], None],
) -> list[Input]:
    """Pair, convert and check the arrays of one call.

    Args:
        given: one array, a list or tuple of arrays, or a ``{name: array}`` mapping.
        attrs: attributes of the model's inputs (rank 4: NHWC).
        data_type: element type to convert to, for all inputs or one per input; None keeps the arrays' own.
        data_format: ``nhwc``/``nchw`` in any case, for all inputs or one per input; None means NHWC.
        pass_through: one flag for all inputs or one per input; flagged arrays stay as they are.
        shapes: legal shapes of a dynamic model (same order of dims as ``attrs``), else empty.
        warn: takes a warning that need not be repeated per frame.
        warn_each: takes a warning that is shown at every call.

    Raises:
        InputInvalid: number, rank, shape, dtype or format do not fit; the text names the numbers.
    """
    count = len(attrs)
    items = pair(_by_text(given), attrs)
    words = per_input(data_format, count, "layouts")
    flags = [
        truth(flag, "inputs_pass_through") for flag in per_input(pass_through, count, "pass_through flags")
    ]
    types = per_input(data_type, count, "data types")
    prepared = []
    for attr, item, word, flag, wanted in zip(attrs, items, words, flags, types):
        guessed = False
        if not flag:
            array = array_of(item, attr)
            check_size(array, attr, shapes)
            item = _convert(array, attr, wanted, warn)
            guessed = word is None and len(attr.dims) == 4 and _is_nchw(item, attr, shapes)
        if guessed:
            warn(
                f"The input[{attr.index}] need NHWC data format, but its shape {list(item.shape)} is NCHW and "
                "data_format is not set; it is taken as NCHW, set data_format='nchw' to say so."
            )
        prepared.append(checked(attr, item, "nchw" if guessed else word, flag, dynamic=bool(shapes)))
        if not guessed:
            tell_of_planes(prepared[-1:], warn_each)
    return prepared


def tell_of_planes(inputs: Sequence[Input], warn: Callable[[str], None]) -> None:
    """Warn, as the vendor's class does at every call, of inputs that are handed over as NCHW."""
    for entry in inputs:
        if entry.layout is Layout.NCHW and not entry.pass_through:
            warn(
                f"The input[{entry.index}] need NHWC data format, but NCHW set, "
                "the data format and data buffer will be changed to NHWC."
            )


def _by_text(given: Any) -> Any:
    """Names that programs read from the runtime are bytes."""
    if not isinstance(given, Mapping):
        return given
    return {key.decode() if isinstance(key, bytes) else key: value for key, value in given.items()}


def _convert(array: Array, attr: TensorAttr, wanted: Any, warn: Callable[[str], None]) -> Array:
    """The array in an element type that a model can take."""
    array = widened(array, attr)
    return array if wanted is None else _as_type(array, attr, _type(wanted, attr), warn)


def _type(wanted: Any, attr: TensorAttr) -> np.dtype[Any]:
    try:
        return DType.from_numpy(wanted).numpy
    except Exception:  # whatever numpy asks of the object
        raise InputInvalid(
            f"input {attr.name}: unknown data_type {described(wanted)}; use int8, uint8, int16, float16 or float32"
        ) from None


def _as_type(array: Array, attr: TensorAttr, dtype: np.dtype[Any], warn: Callable[[str], None]) -> Array:
    """Convert where that keeps the values (or only their precision); else keep the array's own type."""
    if array.dtype == dtype:
        return array
    with np.errstate(all="ignore"):
        converted: Array = array.astype(dtype)
        exact = array.dtype.kind == dtype.kind == "f" or bool(np.array_equal(converted, array))
    if exact:
        return converted
    warn(
        f"The input[{attr.index}] holds {array.dtype} values that data_type {dtype} cannot hold; "
        f"they are taken as {array.dtype}."
    )
    return array


def _is_nchw(array: Array, attr: TensorAttr, shapes: Shapes) -> bool:
    """Whether the shape fits the model as NCHW and does not fit it as NHWC."""
    shape = tuple(array.shape)
    if shape == attr.dims:
        return False
    if len(shape) == 3:
        shape = (1, *shape)
    if len(shape) != 4:
        return False
    legal = [tuple(entry[attr.index]) for entry in shapes] if shapes else [tuple(attr.dims)]
    return shape not in legal and nchw_to_nhwc_shape(shape) in legal
