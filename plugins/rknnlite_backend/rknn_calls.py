"""What calls into the vendor's C APIs of several generations have in common: what codes mean, what is made of answers."""

from __future__ import annotations

import ctypes as ct
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from rknnlite.errors import OutputInvalid, RknnError, VendorCode
from rknnlite.layout import nchw_to_nhwc_shape, nhwc_to_nchw_shape
from rknnlite.tensor import Layout, QuantParams, TensorAttr

__all__ = [
    "CallErrors", "as_nchw", "as_nhwc", "check_counts", "check_filled", "quantisation", "text_of", "unfit_arrays",
]  # fmt: skip

_MOST = 4096  # inputs or outputs
_DFP, _AFFINE_ASYMMETRIC = 1, 2  # of rknn_tensor_qnt_type
_UNFIT = "the library does not fit the model, update the runtime"


class CallErrors:
    """The codes of one library as typed errors, which name the call and the code and say what to do.

    Args:
        rows: the codes; the row of -1 stands for those that are in none.
        ours: whether the numbers are those of our classes (librknnrt's); else they are kept as ``native_code``.
    """

    def __init__(self, rows: Sequence[VendorCode], ours: bool = True) -> None:
        self._names = {row.code: row.name for row in rows}
        self._known = {row.code: (row.error, row.remedy) for row in rows if row.error is not None}
        self._ours = ours

    def error(self, function: str, code: int, detail: str = "") -> RknnError:
        """The typed error of a call that answered ``code``; ``detail`` takes the place of the code's own remedy."""
        kind, remedy = self._known.get(code, self._known[RknnError.code])
        name = self._names.get(code, f"unknown code {code}")
        error = kind(f"{function} failed. error code: {name} ({code}); {detail or remedy}")
        if not self._ours:
            error.native_code = code
        elif error.code != code:
            error.code = code
        return error

    def check(self, function: str, code: int, detail: str = "") -> None:
        """Raise ``error`` unless ``code`` is 0."""
        if code:
            raise self.error(function, code, detail)


# -- attributes --------------------------------------------------------------------------------------------


def check_counts(inputs: int, outputs: int) -> None:
    """Raise RknnError for numbers of inputs and outputs that cannot be."""
    if not 0 < inputs <= _MOST or not 0 < outputs <= _MOST:
        raise RknnError(f"the library answers {inputs} inputs and {outputs} outputs")


def quantisation(struct: Any) -> QuantParams | None:
    """Of a ``rknn_tensor_attr``; with DFP a real value is ``stored * 2 ** -fl``."""
    if struct.qnt_type == _AFFINE_ASYMMETRIC:
        return QuantParams(struct.scale, struct.zp)
    if struct.qnt_type == _DFP:
        return QuantParams(2.0**-struct.fl, 0)
    return None


def as_nhwc(attr: TensorAttr) -> TensorAttr:
    """An input as the common path takes it: rank 4 is NHWC whatever the tensor is."""
    if len(attr.dims) != 4 or attr.layout is not Layout.NCHW:
        return attr
    return dataclasses.replace(attr, dims=nchw_to_nhwc_shape(attr.dims), layout=Layout.NHWC)


def as_nchw(attr: TensorAttr) -> TensorAttr:
    """An output as the common path delivers it; current attributes of dynamic models say NHWC."""
    if len(attr.dims) != 4 or attr.layout is not Layout.NHWC:
        return attr
    return dataclasses.replace(attr, dims=nhwc_to_nchw_shape(attr.dims), layout=Layout.NCHW)


# -- results -----------------------------------------------------------------------------------------------


def text_of(detail: Any) -> str:
    """The table of a ``rknn_perf_detail``; empty where the library gave none."""
    if not detail.perf_data:
        return ""
    return ct.string_at(detail.perf_data, detail.data_len).rstrip(b"\0").decode("utf-8", "replace")


def check_filled(name: str, got: int, size: int) -> None:
    """Raise OutputInvalid where ``rknn_outputs_get`` filled ``got`` bytes of output ``name``, less than ``size``."""
    if got < size:
        raise OutputInvalid(f"rknn_outputs_get filled {got} of {size} bytes of output {name}; {_UNFIT}")


def unfit_arrays(dtypes: Sequence[np.dtype[Any]], dims: Sequence[Sequence[int]]) -> OutputInvalid:
    """The error of arrays that outputs cannot be written to; ``dtypes`` and ``dims`` are what is needed."""
    needed = [f"{dtype} {list(shape)}" for dtype, shape in zip(dtypes, dims)]
    return OutputInvalid(f"C-contiguous, writable arrays are needed: {', '.join(needed)}")
