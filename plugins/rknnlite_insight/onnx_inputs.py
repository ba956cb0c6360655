"""The inputs of an ONNX file, described as those of a model are, so that files and pictures can be given for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid, RknnError
from rknnlite.extras import missing
from rknnlite.tensor import DType, Layout, TensorAttr

__all__ = ["as_network", "onnx_inputs"]

Array = NDArray[Any]
_COLOURS = (1, 3, 4)


def onnx_inputs(path: Path) -> list[TensorAttr]:
    """In order; pictures as [N, H, W, C], sizes that are not fixed as 1. Raises BackendUnavailable, ModelInvalid."""
    try:
        import onnx
        from onnx import helper
    except ImportError as error:
        raise missing("fast", "reading an ONNX file needs onnx", error) from None
    try:
        graph = onnx.load(str(path), load_external_data=False).graph
        stored = {tensor.name for tensor in graph.initializer}
        found: list[TensorAttr] = []
        for entry in graph.input:
            if entry.name in stored:
                continue
            about = entry.type.tensor_type
            dims = tuple(max(1, dim.dim_value) for dim in about.shape.dim)
            kind = DType.from_numpy(np.dtype(helper.tensor_dtype_to_np_dtype(about.elem_type)))
            picture = len(dims) == 4 and dims[1] in _COLOURS
            dims = (dims[0], *dims[2:], dims[1]) if picture else dims
            layout = Layout.NHWC if picture else Layout.UNDEFINED
            found.append(TensorAttr(len(found), entry.name, dims, kind, layout))
    except RknnError:
        raise
    except Exception as error:  # protobuf's errors have no common ancestor
        raise ModelInvalid(f"{path} cannot be opened as an ONNX network: {error}") from None
    return found


def as_network(array: Array, attr: TensorAttr, layout: str | None) -> Array:
    """An array in the layout and type of the network's input; pictures come as [N, H, W, C] unless ``layout`` is ``"nchw"``."""
    if attr.layout is Layout.NHWC and array.ndim == 4 and layout != "nchw":
        array = array.transpose(0, 3, 1, 2)
    return np.ascontiguousarray(array, attr.dtype.numpy)
