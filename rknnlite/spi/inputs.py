"""From what a caller hands over to one checked ``Input`` per model input.

Used by the native API and the vendor-compatible faces alike; knows nothing of backends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import InputInvalid
from ..log import logger
from ..tensor import Layout, TensorAttr
from .types import Input

__all__ = ["as_they_are", "collect"]

_NHWC, _UNDEFINED = Layout.NHWC, Layout.UNDEFINED  # looked up per frame, and slow to look up in an enum
_LAYOUTS = {"nhwc": Layout.NHWC, "nchw": Layout.NCHW, "undefined": Layout.UNDEFINED}


_PLAIN = frozenset(
    np.dtype(name)
    for name in ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "float16", "float32")
)


def as_they_are(given: Any, attrs: Sequence[TensorAttr]) -> list[Input] | None:
    """The quick way for what nearly every frame is: arrays of the model's very shapes; None when it is not.

    Whatever this accepts ``collect`` accepts with the same result.
    """
    arrays = given if type(given) is list or type(given) is tuple else [given]
    if len(arrays) != len(attrs):
        return None
    result = []
    for attr, array in zip(attrs, arrays):
        if type(array) is not np.ndarray or array.shape != attr.dims or array.dtype not in _PLAIN:
            return None
        result.append(Input(attr.index, array, _NHWC if array.ndim == 4 else _UNDEFINED))
    return result


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
        InputInvalid: wrong number, rank, dtype or layout; the text names the input and the numbers.
    """
    if layout is None and not pass_through and not shapes:
        plain = as_they_are(given, attrs)
        if plain is not None:
            return plain
    arrays = _arrays(given, attrs)
    layouts = _per_input(layout, len(attrs), "layouts")
    flags = _per_input(pass_through, len(attrs), "pass_through flags")
    result = []
    for attr, array, word, flag in zip(attrs, arrays, layouts, flags):
        result.append(_one(attr, array, _layout(word, attr), bool(flag), dynamic=bool(shapes)))
    return result


def _arrays(given: Any, attrs: Sequence[TensorAttr]) -> list[np.ndarray[Any, Any]]:
    if isinstance(given, Mapping):
        names = [attr.name for attr in attrs]
        if set(given) != set(names):
            raise InputInvalid(f"inputs are named {sorted(names)}, but {sorted(map(str, given))} were given")
        items = [given[name] for name in names]
    elif isinstance(given, (list, tuple)):
        items = list(given)
        if len(attrs) == 1 and len(items) != 1 and items and np.isscalar(items[0]):
            items = [given]
    else:
        items = [given]
    if len(items) != len(attrs):
        raise InputInvalid(
            f"the model has {len(attrs)} inputs ({', '.join(a.name for a in attrs)}), but {len(items)} were given"
        )
    return [_array(item, attr) for item, attr in zip(items, attrs)]


def _array(item: Any, attr: TensorAttr) -> np.ndarray[Any, Any]:
    try:
        array = np.asarray(item)
    except ValueError as error:
        raise InputInvalid(f"input {attr.name} is no array: {error}") from None
    if array.dtype == object or array.dtype.kind not in "buif":
        raise InputInvalid(
            f"input {attr.name} has element type {array.dtype}; give an array of numbers such as uint8 or float32"
        )
    return array


def _per_input(value: Any, count: int, what: str) -> list[Any]:
    if isinstance(value, (list, tuple)):
        if len(value) == 1 and count > 1:
            return list(value) * count
        if len(value) != count:
            raise InputInvalid(f"{len(value)} {what} given for {count} inputs")
        return list(value)
    return [value] * count


def _layout(word: Any, attr: TensorAttr) -> Layout:
    if word is None:
        return Layout.NHWC if len(attr.dims) == 4 else Layout.UNDEFINED
    try:
        layout = _LAYOUTS[str(word).lower()]
    except KeyError:
        raise InputInvalid(f"input {attr.name}: unknown layout {word!r}; use 'nhwc' or 'nchw'") from None
    return layout if len(attr.dims) == 4 else Layout.UNDEFINED


def _one(attr: TensorAttr, array: np.ndarray[Any, Any], layout: Layout, flag: bool, dynamic: bool) -> Input:
    if layout is Layout.UNDEFINED and len(attr.dims) == 4:
        layout = Layout.NHWC
    if flag:
        return Input(attr.index, array, layout, pass_through=True)
    if array.ndim == 3 and len(attr.dims) == 4 and (dynamic or attr.dims[0] == 1):
        logger.warning(
            "input %s needs 4 dimensions, but 3 were given %s; taken as a batch of one",
            attr.name, array.shape,
        )  # fmt: skip
        array = array[None]
    if array.ndim != len(attr.dims):
        raise InputInvalid(
            f"The input[{attr.index}] need {len(attr.dims)}dims input, but {array.ndim}dims input buffer feed. "
            f"({attr.name}: expected {list(attr.dims)}, got {list(array.shape)})"
        )
    if not dynamic:
        _check_shape(attr, array, layout)
    return Input(attr.index, array, layout)


def _check_shape(attr: TensorAttr, array: np.ndarray[Any, Any], layout: Layout) -> None:
    nhwc, shape = tuple(attr.dims), tuple(array.shape)
    if layout is not Layout.NCHW:
        if shape == nhwc:
            return
        hint = ""
        if len(nhwc) == 4 and shape == (nhwc[0], nhwc[3], nhwc[1], nhwc[2]):
            hint = "; this looks like NCHW data, say so with data_format='nchw' (native API: layout='nchw')"
        raise InputInvalid(f"input {attr.name}: expected shape {list(nhwc)}, got {list(shape)}{hint}")
    nchw = (nhwc[0], nhwc[3], nhwc[1], nhwc[2])
    if shape != nchw:
        hint = "; this looks like NHWC data, leave the layout out" if shape == nhwc else ""
        raise InputInvalid(f"input {attr.name}: expected NCHW shape {list(nchw)}, got {list(shape)}{hint}")
