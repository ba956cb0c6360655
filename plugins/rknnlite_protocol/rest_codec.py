"""Requests and responses to and from HTTP: JSON, and the extension that puts tensors as bytes behind it.

With the extension the header ``Inference-Header-Content-Length`` says where the JSON ends; a tensor's parameter
``binary_data_size`` says how many of the bytes behind it are its own, in the order of the tensors.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid, shown

from .datatypes import DATATYPES, checked_shape, datatype_of, numpy_type
from .requests import InferRequest, InferResponse, Parameter, Requested, Tensor
from .tensor_json import array_of_list, json_object, json_text

__all__ = [
    "HEADER_LENGTH",
    "json_elements",
    "parse_request",
    "parse_response",
    "request_body",
    "response_body",
    "tensor_of",
]

HEADER_LENGTH = "Inference-Header-Content-Length"
_MOST_TENSORS = 1024
Array = NDArray[Any]


def parse_request(
    model: str, body: bytes | memoryview, header_length: str | None = None, version: str = ""
) -> InferRequest:
    """The request that a body holds; tensors behind the JSON stay views of it. Raises InputInvalid."""
    fields, rest = _parts(body, header_length, "the request")
    parameters = _parameters(fields, "the request")
    inputs = _tensors(fields, rest, "inputs", "input")
    outputs = []
    for number, entry in enumerate(_list(fields, "outputs", "the request")):
        name = _text(entry, "name", f"output {number}")
        outputs.append(Requested(name, _asked(entry, f"output {shown(name)}")))
    return InferRequest(
        model,
        inputs,
        outputs,
        _text(fields, "id", "the request", ""),
        version,
        parameters,
        _truth(parameters, "binary_data_output", "the request"),
    )


def response_body(
    request: InferRequest, response: InferResponse
) -> tuple[list[bytes | memoryview], int | None]:
    """The parts of a body, and the length of its JSON where tensors as bytes follow it.

    Raises InputInvalid for NaN and infinite values that are wanted as JSON.
    """
    head: dict[str, Any] = {"model_name": response.model_name, "model_version": response.model_version}
    if response.id:
        head["id"] = response.id
    if response.parameters:
        head["parameters"] = dict(response.parameters)
    wanted = _binary(request, response)
    return _body(head, "outputs", response.outputs, wanted)


def json_elements(request: InferRequest, response: InferResponse) -> int:
    """How many elements of a response are to be written as JSON."""
    pairs = zip(response.outputs, _binary(request, response))
    return sum(tensor.data.size for tensor, binary in pairs if not binary)


def request_body(request: InferRequest) -> tuple[list[bytes | memoryview], int | None]:
    """The other direction: the body of a request, all tensors as bytes."""
    head: dict[str, Any] = {"parameters": {**request.parameters, "binary_data_output": True}}
    if request.id:
        head["id"] = request.id
    if request.outputs:
        head["outputs"] = [
            {"name": output.name, "parameters": dict(output.parameters)} for output in request.outputs
        ]
    return _body(head, "inputs", request.inputs, [True] * len(request.inputs))


def parse_response(body: bytes | memoryview, header_length: str | None = None) -> InferResponse:
    """The response that a body holds; raises InputInvalid."""
    fields, rest = _parts(body, header_length, "the response")
    return InferResponse(
        _text(fields, "model_name", "the response", ""),
        _tensors(fields, rest, "outputs", "output"),
        _text(fields, "id", "the response", ""),
        _text(fields, "model_version", "the response", ""),
        _parameters(fields, "the response"),
    )


def tensor_of(data: bytes | memoryview, datatype: str, shape: Sequence[int], where: str) -> Array:
    """An array over raw bytes; raises InputInvalid where their number does not fit."""
    dtype = numpy_type(datatype, where)
    need = math.prod(shape) * dtype.itemsize
    if len(data) != need:
        raise InputInvalid(
            f"{where}: {datatype} of shape {list(shape)} takes {need} bytes, {len(data)} were given"
        )
    if dtype.name == "bool":  # any other byte than 0 and 1 would be no bool at all
        found = np.asarray(np.frombuffer(data, np.uint8) != 0)
    else:
        found = np.frombuffer(data, dtype)
    try:
        return found.reshape(shape)
    except ValueError as error:  # no elements, by dimensions beyond all bounds
        raise InputInvalid(f"{where}: shape {list(shape)}: {shown(error)}") from None


def _parts(
    body: bytes | memoryview, header_length: str | None, what: str
) -> tuple[dict[str, Any], memoryview]:
    view = memoryview(body)
    length = len(view)
    if header_length is not None:
        if not (header_length.isascii() and header_length.isdigit() and len(header_length) < 16):
            raise InputInvalid(f"{HEADER_LENGTH} is {shown(header_length)}, must be a number of bytes")
        length = int(header_length)
        if length > len(view):
            raise InputInvalid(f"{HEADER_LENGTH} is {length}, the body has {len(view)} bytes")
    return json_object(bytes(view[:length]), what), view[length:]


def _tensors(fields: Mapping[str, Any], rest: memoryview, key: str, what: str) -> list[Tensor]:
    found = []
    for number, entry in enumerate(_list(fields, key, "the request")):
        name = _text(entry, "name", f"{what} {number}")
        where = f"{what} {shown(name)}"
        parameters = _parameters(entry, where)
        size = parameters.pop("binary_data_size", None)
        shape, datatype = _shape(entry, where), _text(entry, "datatype", where)
        _check_place(entry, parameters, size, where)
        if size is None:
            data = array_of_list(entry["data"], datatype, shape, where)
        else:
            if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= len(rest):
                raise InputInvalid(
                    f"{where}: binary_data_size is {shown(size)}, {len(rest)} bytes are left behind the JSON"
                )
            data, rest = tensor_of(rest[:size], datatype, shape, where), rest[size:]
        found.append(Tensor(name, data, parameters))
    if len(rest):
        raise InputInvalid(f"{len(rest)} bytes follow the JSON that belong to no {what}")
    return found


def _check_place(
    entry: Mapping[str, Any], parameters: Mapping[str, Parameter], size: Any, where: str
) -> None:
    """Elements are in the JSON or behind it, and nowhere else."""
    _refuse(parameters, "shared_memory_region", where)
    if size is None and "data" not in entry:
        raise InputInvalid(f"{where}: data is missing, and no binary_data_size says that it follows as bytes")
    if size is not None and "data" in entry:
        raise InputInvalid(f"{where}: has both data and binary_data_size; give one of them")


def _asked(entry: Mapping[str, Any], where: str) -> dict[str, Parameter]:
    """The parameters of an output; raises InputInvalid for those whose silence would be taken for obedience."""
    parameters = _parameters(entry, where)
    _truth(parameters, "binary_data", where)
    _refuse(parameters, "shared_memory_region", where)
    _refuse(parameters, "classification", where)
    return parameters


def _refuse(parameters: Mapping[str, Parameter], name: str, where: str) -> None:
    if name in parameters:
        raise InputInvalid(f"{where}: parameter {name} is not offered here")


def _truth(parameters: Mapping[str, Parameter], name: str, where: str) -> bool:
    value = parameters.get(name, False)
    if not isinstance(value, bool):
        raise InputInvalid(f"{where}: parameter {name} is {shown(value)}, must be true or false")
    return value


def _binary(request: InferRequest, response: InferResponse) -> list[bool]:
    """Which outputs go as bytes: what the request says of each, else of all."""
    said = {output.name: output.parameters.get("binary_data") for output in request.outputs}
    words = [said.get(tensor.name) for tensor in response.outputs]
    return [request.binary_outputs if word is None else word is True for word in words]


def _body(
    head: Mapping[str, Any], key: str, tensors: Sequence[Tensor], binary: Sequence[bool]
) -> tuple[list[bytes | memoryview], int | None]:
    parts: list[bytes | memoryview] = []
    entries = [_entry(tensor, raw, parts) for tensor, raw in zip(tensors, binary)]
    start = _dumped(head)[:-1]
    text = f'{start},"{key}":[{",".join(entries)}]}}'.encode()
    return [text, *parts], len(text) if parts else None


def _entry(tensor: Tensor, binary: bool, parts: list[bytes | memoryview]) -> str:
    """A tensor's JSON; its elements are in it, or are added to the parts behind."""
    array = np.ascontiguousarray(tensor.data)
    datatype = datatype_of(array.dtype)
    entry: dict[str, Any] = {"name": tensor.name, "datatype": datatype, "shape": list(tensor.data.shape)}
    parameters = dict(tensor.parameters)
    if binary:
        data = array.astype(DATATYPES[datatype], copy=False)
        parts.append(data.reshape(-1).view(np.uint8).data)
        parameters["binary_data_size"] = data.nbytes
    if parameters:
        entry["parameters"] = parameters
    start = _dumped(entry)
    return start if binary else f'{start[:-1]},"data":{json_text(array, f"output {shown(tensor.name)}")}}}'


def _dumped(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _shape(entry: Mapping[str, Any], where: str) -> list[int]:
    return checked_shape(entry.get("shape"), where)


def _parameters(fields: Mapping[str, Any], where: str) -> dict[str, Parameter]:
    found = fields.get("parameters")
    if found is None:
        return {}
    if not isinstance(found, dict) or not all(isinstance(v, (bool, int, float, str)) for v in found.values()):
        raise InputInvalid(f"{where}: parameters must be an object of texts, numbers, true and false")
    return dict(found)


def _list(fields: Mapping[str, Any], key: str, where: str) -> list[Mapping[str, Any]]:
    found = fields.get(key)
    if found is None:
        return []
    if (
        not isinstance(found, list)
        or len(found) > _MOST_TENSORS
        or not all(isinstance(e, dict) for e in found)
    ):
        raise InputInvalid(f"{where}: {key} must be a list of at most {_MOST_TENSORS} objects")
    return found


def _text(fields: Mapping[str, Any], key: str, where: str, default: str | None = None) -> str:
    value = fields.get(key, default)
    if not isinstance(value, str):
        raise InputInvalid(f"{where}: {key} is {shown(value)}, must be text")
    return value
