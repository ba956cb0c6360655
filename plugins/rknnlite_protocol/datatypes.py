"""The protocol's words for element types, beside numpy's and those of models."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rknnlite.errors import InputInvalid, shown
from rknnlite.tensor import DType, TensorAttr

__all__ = ["BYTES", "DATATYPES", "MOST_DIMS", "checked_shape", "datatype_of", "declared", "numpy_type"]

MOST_DIMS = 16
_LONGEST = 1 << 40
BYTES = "BYTES"
"""Strings of bytes, each behind its length in four bytes; no tensor of a model has them."""
DATATYPES = {
    "BOOL": np.dtype(np.bool_),
    "UINT8": np.dtype(np.uint8),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype(np.int8),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
}
"""Little endian, as they are on the wire."""
_WORDS = {dtype.newbyteorder("="): word for word, dtype in DATATYPES.items()}
_WORDS.update({dtype: word for word, dtype in DATATYPES.items()})


def numpy_type(word: str, where: str) -> np.dtype[np.generic]:
    """The numpy type of a datatype, little endian; raises InputInvalid naming ``where``."""
    try:
        return DATATYPES[word]
    except (KeyError, TypeError):
        raise InputInvalid(
            f"{where}: datatype {shown(word)} is unknown here; there are {', '.join(DATATYPES)}"
        ) from None


def checked_shape(shape: Any, where: str) -> list[int]:
    """A shape that an array can have; raises InputInvalid naming ``where``."""
    if not isinstance(shape, list) or len(shape) > MOST_DIMS:
        raise InputInvalid(f"{where}: shape is {shown(shape)}, must be a list of at most {MOST_DIMS} numbers")
    whole = all(isinstance(dim, int) and not isinstance(dim, bool) and 0 <= dim < _LONGEST for dim in shape)
    # numpy minds those beside a 0, too
    if not whole or (0 in shape and math.prod(filter(None, shape)) >= _LONGEST):
        raise InputInvalid(
            f"{where}: shape is {shown(shape)}, dimensions are whole numbers of 0 or more, less than {_LONGEST}"
        )
    return shape


def datatype_of(dtype: np.dtype[np.generic]) -> str:
    """The datatype of an array's elements."""
    return _WORDS[np.dtype(dtype)]


def declared(attr: TensorAttr) -> str:
    """What metadata says of an input or output: FP32 where values are real numbers, else the integers' own type."""
    real = attr.quant is not None or attr.dtype.is_float or attr.dtype is DType.INT4
    return "FP32" if real else datatype_of(attr.dtype.numpy)
