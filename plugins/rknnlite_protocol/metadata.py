"""What metadata tells of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from rknnlite.tensor import TensorAttr

from .datatypes import declared

__all__ = ["EXTENSIONS", "VERSION", "Described", "model_config", "model_metadata", "open_shape"]

VERSION = "1"
"""The version of every model: a file has one."""
EXTENSIONS = ("binary_tensor_data", "model_repository", "statistics", "model_configuration")


class Described(Protocol):
    """What a context and a pool have in common."""

    inputs: Sequence[TensorAttr]
    outputs: Sequence[TensorAttr]
    platform: str
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
    return {
        "name": name,
        "versions": [VERSION],
        "platform": described.platform,
        "inputs": inputs,
        "outputs": outputs,
    }


def model_config(
    name: str, described: Any, batch: int = 1, shapes: Sequence[Sequence[tuple[int, ...]]] = ()
) -> dict[str, Any]:
    """Triton's ModelConfig, as far as clients look at it. With a batch, dims are those of a row.

    Examples:
        >>> with rknnlite.open("examples/resnet18/resnet18_for_RK3588.rknn") as context:
        ...     model_config("resnet", context)["input"]
        [{'name': 'input', 'data_type': 'TYPE_FP32', 'dims': [1, 224, 224, 3], 'format': 'FORMAT_NHWC'}]
    """
    found = model_metadata(name, described, batch, shapes)
    first = 1 if batch > 1 else 0
    inputs = [_config_of(entry, first) for entry in found["inputs"]]
    for entry, attr in zip(inputs, described.inputs):
        entry["format"] = "FORMAT_NHWC" if len(attr.dims) == 4 else "FORMAT_NONE"
    return {
        "name": name,
        "platform": found["platform"],
        "backend": described.backend_name,
        "max_batch_size": batch if batch > 1 else 0,
        "input": inputs,
        "output": [_config_of(entry, first) for entry in found["outputs"]],
    }


def _config_of(entry: dict[str, Any], first: int) -> dict[str, Any]:
    return {"name": entry["name"], "data_type": f"TYPE_{entry['datatype']}", "dims": entry["shape"][first:]}


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
