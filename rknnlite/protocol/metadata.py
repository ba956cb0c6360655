"""What metadata tells of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ..socs import Soc
from ..tensor import TensorAttr
from .datatypes import declared

__all__ = ["EXTENSIONS", "VERSION", "Described", "model_metadata", "open_shape"]

VERSION = "1"
"""The version of every model: a file has one."""
EXTENSIONS = ("binary_tensor_data", "model_repository", "statistics", "model_configuration")


class Described(Protocol):
    """What a context and a pool have in common."""

    inputs: Sequence[TensorAttr]
    outputs: Sequence[TensorAttr]
    soc: Soc
    backend_name: str


def model_metadata(
    name: str, described: Any, batch: int = 1, shapes: Sequence[Sequence[tuple[int, ...]]] = ()
) -> dict[str, Any]:
    """The protocol's metadata object. Dimensions that vary are -1: rows of a batch, and dynamic shapes."""
    inputs = [
        {"name": attr.name, "datatype": declared(attr), "shape": open_shape(attr, number, batch, shapes)}
        for number, attr in enumerate(described.inputs)
    ]
    varies = len(shapes) > 1
    outputs = []
    for attr in described.outputs:
        shape = [-1] * len(attr.dims) if varies else list(attr.dims)
        if batch > 1 and shape:
            shape[0] = -1
        outputs.append({"name": attr.name, "datatype": "FP32", "shape": shape})
    platform = f"rknn_{described.soc.name.lower()}"
    return {"name": name, "versions": [VERSION], "platform": platform, "inputs": inputs, "outputs": outputs}


def open_shape(
    attr: TensorAttr, number: int, batch: int, shapes: Sequence[Sequence[tuple[int, ...]]]
) -> list[int]:
    """The shape of an input, -1 where it varies."""
    dims = list(attr.dims)
    for entry in shapes:
        dims = [dim if dim == other else -1 for dim, other in zip(dims, entry[number])]
    if batch > 1 and dims:
        dims[0] = -1
    return dims
