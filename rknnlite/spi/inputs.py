"""From what a caller hands over to one checked ``Input`` per model input.

Used by the native API and the vendor-compatible faces alike; knows nothing of backends. ``collect`` does it all;
a face that does more to each array uses its parts: ``pair``, ``per_input`` and ``checked``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from ..errors import InputInvalid
from ..layout import nhwc_to_nchw_shape
from ..log import logger
from ..tensor import DType, Layout, TensorAttr
from .types import Input

__all__ = [
    "RankMismatch", "ShapesRefused", "array_of", "as_they_are", "check_size", "checked", "collect",
    "pair", "per_input", "shapes_of", "truth", "widened",
]  # fmt: skip

Array = NDArray[Any]
Shapes = list[tuple[int, ...]]
_NCHW, _NHWC, _UNDEFINED = (
    Layout.NCHW,
    Layout.NHWC,
    Layout.UNDEFINED,
)  # per frame, and slow to look up in an enum
_SMALL = 1 << 24  # elements that may be copied before anybody looks at the shape
_WIDEST = 16  # lanes or more that a native layout has for each element that is passed through
_CARRIERS = {"float64": np.float32, "float128": np.float32, "longdouble": np.float32, "uint64": np.int64}
_LAYOUTS = {"nhwc": Layout.NHWC, "nchw": Layout.NCHW, "undefined": Layout.UNDEFINED}
_PLAIN = frozenset(
    np.dtype(name)
    for name in ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "float16", "float32")
)


class RankMismatch(InputInvalid):
    """An array has another number of dimensions than its input ``attr``: ``shape`` is that of the array."""

    def __init__(self, attr: TensorAttr, shape: tuple[int, ...]) -> None:
        super().__init__(
            f"input {attr.name}: expected {len(attr.dims)} dimensions {list(attr.dims)}, "
            f"got {len(shape)} {list(shape)}"
        )
        self.attr, self.shape = attr, shape


class ShapesRefused(InputInvalid):
    """The arrays have shapes that the model lacks: ``given``, one per input in order, rank 4 as NHWC."""

    def __init__(self, text: str, given: Shapes) -> None:
        super().__init__(text)
        self.given = given


def as_they_are(given: Any, attrs: Sequence[TensorAttr], layout: Any = None) -> list[Input] | None:
    """The quick way for what nearly every frame is: arrays of the model's very shapes, NHWC or, where ``layout`` says so,
    NCHW; None when it is not.

    Whatever this accepts ``collect`` accepts with the same result.
    """
    arrays = given if type(given) is list or type(given) is tuple else [given]
    if len(arrays) != len(attrs):
        return None
    if layout is not None:
        return _as_said(arrays, attrs, layout)
    result = []
    for attr, array in zip(attrs, arrays):
        if type(array) is not np.ndarray or array.shape != attr.dims or array.dtype not in _PLAIN:
            return None
        result.append(Input(attr.index, array, _NHWC if array.ndim == 4 else _UNDEFINED))
    return result


def _as_said(arrays: Sequence[Any], attrs: Sequence[TensorAttr], layout: Any) -> list[Input] | None:
    """The same where layouts are named; None for what makes no sense, too."""
    words = layout if type(layout) is list or type(layout) is tuple else [layout]
    if len(words) != len(attrs):
        if len(words) != 1:
            return None
        words = words * len(attrs)
    result = []
    for attr, array, word in zip(attrs, arrays, words):
        if type(array) is not np.ndarray or array.dtype not in _PLAIN:
            return None
        dims = attr.dims
        order = _NHWC if len(dims) == 4 else _UNDEFINED
        if word is not None:
            word = word.lower() if type(word) is str else None
            if word not in ("nhwc", "nchw"):
                return None
            if word == "nchw" and order is _NHWC:
                dims, order = (dims[0], dims[3], dims[1], dims[2]), _NCHW
        if array.shape != dims:
            return None
        result.append(Input(attr.index, array, order))
    return result


def shapes_of(inputs: Sequence[Input]) -> Shapes:
    """The shapes of the arrays in the order of the model's inputs, rank 4 as NHWC."""
    return [item.nhwc_shape for item in sorted(inputs, key=lambda item: item.index)]


def collect(
    given: Any,
    attrs: Sequence[TensorAttr],
    layout: str | Sequence[str | None] | None = None,
    pass_through: bool | Sequence[bool] | None = False,
    shapes: Sequence[Sequence[tuple[int, ...]]] = (),
) -> list[Input]:
    """Pair arrays with the model's inputs.

    Args:
        given: one array, a list or tuple of arrays in order, or a ``{name: array}`` mapping.
        attrs: attributes of the model's inputs (rank 4: NHWC dims).
        layout: ``nhwc``/``nchw`` in any case, one for all or one per input; None means NHWC.
        pass_through: one flag for all inputs or one per input.
        shapes: legal shapes of a dynamic model; then ranks are checked here and shapes by the context.

    Raises:
        InputInvalid: wrong number, rank (RankMismatch), dtype or layout; the text names the input and the numbers.
    """
    if isinstance(pass_through, np.ndarray):
        pass_through = pass_through.tolist()
    if not pass_through and not shapes:
        plain = as_they_are(given, attrs, layout)
        if plain is not None:
            return plain
    items = pair(given, attrs)
    words = per_input(layout, len(attrs), "layouts")
    flags = [
        truth(flag, "pass_through") for flag in per_input(pass_through, len(attrs), "pass_through flags")
    ]
    return [checked(*each, dynamic=bool(shapes)) for each in zip(attrs, items, words, flags)]


def pair(given: Any, attrs: Sequence[TensorAttr]) -> list[Any]:
    """What is given for each input, in order; raises InputInvalid when number or names do not fit."""
    if isinstance(given, Mapping):
        names = [attr.name for attr in attrs]
        if set(given) != set(names):
            raise InputInvalid(f"inputs are named {sorted(names)}, but {sorted(map(str, given))} were given")
        return [given[name] for name in names]
    items = list(given) if isinstance(given, (list, tuple)) else [given]
    if len(attrs) == 1 and len(items) > 1 and np.isscalar(items[0]):  # the content of the only input
        items = [given]
    if len(items) != len(attrs):
        raise InputInvalid(
            f"the model has {len(attrs)} inputs ({', '.join(a.name for a in attrs)}), but {len(items)} were given"
        )
    return items


def per_input(value: Any, count: int, what: str) -> list[Any]:
    """One value per input from one for all or a list; raises InputInvalid when a list has the wrong length."""
    if isinstance(value, np.ndarray):
        if value.ndim and value.shape not in ((1,), (count,)):
            raise InputInvalid(f"{what} of shape {list(value.shape)} given for {count} inputs")
        value = value.tolist()
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) == 1:
        return list(value) * count
    if len(value) != count:
        raise InputInvalid(f"{len(value)} {what} given for {count} inputs")
    return list(value)


def truth(value: Any, what: str) -> bool:
    """What a flag says; raises InputInvalid for what is neither true nor false, such as an array of several."""
    try:
        return bool(value)
    except Exception as error:
        raise InputInvalid(f"{what} is neither true nor false: {type(error).__name__}: {error}") from None


def array_of(item: Any, attr: TensorAttr) -> Array:
    """The array that is given for an input; raises InputInvalid when it is none, or none of numbers."""
    try:
        array = np.asarray(item)
    except Exception as error:  # whatever the object's own __array__ or __array_interface__ does
        raise InputInvalid(f"input {attr.name} is no array: {type(error).__name__}: {error}") from None
    if array.dtype == object or array.dtype.kind not in "buif":
        raise InputInvalid(
            f"input {attr.name} has element type {array.dtype}; give an array of numbers such as uint8 or float32"
        )
    return array


def widened(array: Array, attr: Optional[TensorAttr] = None) -> Array:
    """Numbers of types that no model has, in the nearest type that one has; others as they are.

    What float32 cannot hold becomes infinite, and is refused as such. Whole numbers for a tensor ``attr`` of whole numbers, as of
    tokens, get that tensor's type: float32 would round those above 2**24.
    """
    kind = _CARRIERS.get(array.dtype.name)
    if kind is None:
        return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    with np.errstate(all="ignore"):
        if attr is not None and attr.dtype in (DType.INT32, DType.INT64):
            whole: Array = array.astype(attr.dtype.numpy)
            if np.array_equal(whole, array):
                return whole
        return array.astype(kind)


def check_size(array: Array, attr: TensorAttr, shapes: Sequence[Sequence[tuple[int, ...]]] = ()) -> None:
    """Before anything is copied: raise InputInvalid for far more elements than an input has in any of its ``shapes``.

    An array may claim petabytes and hold eight bytes (stride 0).
    """
    legal = [entry[attr.index] for entry in shapes] or [attr.dims]
    most = max(math.prod(dims) for dims in legal)
    if array.size > max(most * _WIDEST, _SMALL):
        raise InputInvalid(
            f"input {attr.name}: expected shape {' or '.join(str(list(dims)) for dims in legal)}, "
            f"got {list(array.shape)}, {array.size} elements"
        )


def checked(attr: TensorAttr, item: Any, word: Any, pass_through: Any, *, dynamic: bool) -> Input:
    """One input: what is given for ``attr``, which lies as ``word`` says (None: NHWC). See ``collect``."""
    array, layout = array_of(item, attr), _layout(word, attr)
    if pass_through:
        check_size(array, attr)
        return Input(attr.index, array, layout, pass_through=True)
    if array.ndim == 3 and len(attr.dims) == 4 and (dynamic or attr.dims[0] == 1):
        logger.warning(
            "input %s needs 4 dimensions, but 3 were given %s; taken as a batch of one",
            attr.name,
            array.shape,
        )
        array = array[None]
    if array.ndim != len(attr.dims):
        raise RankMismatch(attr, array.shape)
    if not dynamic:
        _check_shape(attr, array, layout)
    return Input(attr.index, array, layout)


def _layout(word: Any, attr: TensorAttr) -> Layout:
    """The layout that a word means for an input; only rank 4 has one."""
    try:
        layout = Layout.NHWC if word is None else _LAYOUTS[str(word).lower()]
    except Exception:  # whatever the object's own __str__ does
        shown = f"{word!r:.80}" if isinstance(word, (str, int)) else f"of type {type(word).__name__}"
        raise InputInvalid(f"input {attr.name}: unknown layout {shown}; use 'nhwc' or 'nchw'") from None
    if len(attr.dims) != 4:
        return Layout.UNDEFINED
    return Layout.NHWC if layout is Layout.UNDEFINED else layout


def _check_shape(attr: TensorAttr, array: Array, layout: Layout) -> None:
    nhwc, shape = tuple(attr.dims), tuple(array.shape)
    nchw = nhwc_to_nchw_shape(nhwc)
    if layout is not Layout.NCHW:
        if shape == nhwc:
            return
        hint = ""
        if len(nhwc) == 4 and shape == nchw:
            hint = "; this looks like NCHW data, say so with data_format='nchw' (native API: layout='nchw')"
        raise InputInvalid(f"input {attr.name}: expected shape {list(nhwc)}, got {list(shape)}{hint}")
    if shape != nchw:
        hint = "; this looks like NHWC data, leave the layout out" if shape == nhwc else ""
        raise InputInvalid(f"input {attr.name}: expected NCHW shape {list(nchw)}, got {list(shape)}{hint}")
