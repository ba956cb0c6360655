"""Requests and responses to and from messages of gRPC."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from rknnlite.errors import InputInvalid, shown

from .datatypes import DATATYPES, checked_shape, datatype_of, numpy_type
from .grpc_messages import message
from .requests import InferRequest, InferResponse, Parameter, Requested, Tensor
from .rest_codec import tensor_of

__all__ = ["parse_request", "parse_response", "request_message", "response_message"]

_CONTENTS = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
}
"""Where elements lie that are not raw; FP16 has no such place."""
_WIDE = {
    "bool_contents": np.bool_,
    "int_contents": np.int32,
    "int64_contents": np.int64,
    "uint_contents": np.uint32,
    "uint64_contents": np.uint64,
    "fp32_contents": np.float32,
    "fp64_contents": np.float64,
}
"""What they are there."""


def parse_request(found: Any) -> InferRequest:
    """The request in a ``ModelInferRequest``; raw tensors stay views of its bytes. Raises InputInvalid."""
    outputs = [Requested(entry.name, _parameters(entry.parameters)) for entry in found.outputs]
    inputs = _tensors(found.inputs, found.raw_input_contents, "input")
    return InferRequest(
        found.model_name, inputs, outputs, found.id, found.model_version, _parameters(found.parameters)
    )


def parse_response(found: Any) -> InferResponse:
    """The response in a ``ModelInferResponse``."""
    outputs = _tensors(found.outputs, found.raw_output_contents, "output")
    return InferResponse(
        found.model_name, outputs, found.id, found.model_version, _parameters(found.parameters)
    )


def request_message(request: InferRequest) -> Any:
    """The message of a request, its tensors as raw bytes."""
    made = message("inference.ModelInferRequest")(
        model_name=request.model_name, model_version=request.model_version, id=request.id
    )
    _set(made.parameters, request.parameters)
    for tensor in request.inputs:
        _add(tensor, made.inputs.add(), made.raw_input_contents)
    for output in request.outputs:
        _set(made.outputs.add(name=output.name).parameters, output.parameters)
    return made


def response_message(response: InferResponse) -> Any:
    """The message of a response, its tensors as raw bytes."""
    made = message("inference.ModelInferResponse")(
        model_name=response.model_name, model_version=response.model_version, id=response.id
    )
    _set(made.parameters, response.parameters)
    for tensor in response.outputs:
        _add(tensor, made.outputs.add(), made.raw_output_contents)
    return made


def _tensors(entries: Any, raw: Any, what: str) -> list[Tensor]:
    if len(raw) and len(raw) != len(entries):
        raise InputInvalid(f"{len(entries)} {what}s have {len(raw)} raw contents; give one each, or none")
    found = []
    for number, entry in enumerate(entries):
        where = f"{what} {shown(entry.name)}"
        shape = checked_shape(list(entry.shape), where)
        if len(raw):
            if entry.HasField("contents"):
                raise InputInvalid(f"{where}: has contents beside raw contents; give one of them")
            data = tensor_of(raw[number], entry.datatype, shape, where)
        else:
            data = _from_contents(entry, shape, where)
        found.append(Tensor(entry.name, data, _parameters(entry.parameters)))
    return found


def _from_contents(entry: Any, shape: list[int], where: str) -> Any:
    dtype = numpy_type(entry.datatype, where)
    field = _CONTENTS.get(entry.datatype)
    if field is None:
        raise InputInvalid(f"{where}: elements of datatype {entry.datatype} are sent as raw contents")
    values = getattr(entry.contents, field)
    if len(values) != math.prod(shape):
        raise InputInvalid(
            f"{where}: shape {shape} has {math.prod(shape)} elements, {field} has {len(values)}"
        )
    wide: Any = np.array(values, _WIDE[field])
    if dtype.kind in "iu" and wide.size:
        limits = np.iinfo(dtype.name)
        if wide.min() < limits.min or wide.max() > limits.max:
            raise InputInvalid(
                f"{where}: values are in {wide.min()}..{wide.max()}, {dtype} has {limits.min}..{limits.max}"
            )
    return wide.astype(dtype).reshape(shape)


def _add(tensor: Tensor, entry: Any, raw: Any) -> None:
    array = tensor.data
    entry.name, entry.datatype = tensor.name, datatype_of(array.dtype)
    entry.shape.extend(array.shape)
    _set(entry.parameters, tensor.parameters)
    raw.append(array.astype(DATATYPES[entry.datatype], order="C", copy=False).tobytes())


def _parameters(found: Any) -> dict[str, Parameter]:
    values: dict[str, Parameter] = {}
    for name, value in found.items():
        kind = value.WhichOneof("parameter_choice")
        if kind is not None:
            values[name] = getattr(value, kind)
    return values


def _set(target: Any, parameters: Mapping[str, Parameter]) -> None:
    for name, value in parameters.items():
        if isinstance(value, bool):
            target[name].bool_param = value
        elif isinstance(value, int):
            target[name].int64_param = value
        elif isinstance(value, float):
            target[name].double_param = value
        else:
            target[name].string_param = value
