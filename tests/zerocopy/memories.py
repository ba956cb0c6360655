"""Memory bound to a context, written and read as its attribute says."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from rknnlite.layout import nc1hwc2_to_nchw, nchw_to_nc1hwc2
from rknnlite.spi import Context, Memory
from rknnlite.tensor import Layout, TensorAttr


def bound(context: Context, attr: TensorAttr, **edits: Any) -> tuple[TensorAttr, Memory]:
    """Memory of the right size, bound to what ``attr`` describes."""
    attr = dataclasses.replace(attr, **edits)
    size = max(attr.size_with_stride, attr.size)
    if attr.h_stride:
        size = size // attr.dims[1] * attr.h_stride
    mem = context.create_mem(size)
    context.bind(attr, mem)
    return attr, mem


def elements(attr: TensorAttr, mem: Memory) -> np.ndarray:
    """The tensor in ``mem``, rows with their padding."""
    flat = mem.ndarray.view(attr.dtype.numpy)
    if attr.layout is Layout.NHWC and attr.w_stride:
        n, h, _, c = attr.dims
        return flat[: n * (attr.h_stride or h) * attr.w_stride * c].reshape(n, -1, attr.w_stride, c)
    return flat[: attr.n_elems].reshape(attr.dims)


def fill(attr: TensorAttr, mem: Memory, nhwc: np.ndarray) -> None:
    """Write an input as the caller has it (rank 4: NHWC) where ``attr`` says it belongs."""
    place = elements(attr, mem)
    if attr.layout is Layout.NHWC:
        place[:, : attr.dims[1], : attr.dims[2]] = nhwc
    elif attr.layout is Layout.NC1HWC2:
        place[...] = nchw_to_nc1hwc2(nhwc.transpose(0, 3, 1, 2), attr.dims[-1])
    elif attr.layout is Layout.NCHW:
        place[...] = nhwc.transpose(0, 3, 1, 2)
    else:
        place[...] = nhwc


def plain(attr: TensorAttr, mem: Memory, shape: tuple[int, ...]) -> np.ndarray:
    """An output of that logical shape in the model's order."""
    found = elements(attr, mem)
    if attr.layout is Layout.NC1HWC2:
        return nc1hwc2_to_nchw(found, shape[1], (shape[2], shape[3]))
    return found.transpose(0, 3, 1, 2) if attr.layout is Layout.NHWC else found
