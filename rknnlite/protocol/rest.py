"""Requests and responses over HTTP: JSON, and the extension that puts tensors as bytes behind it.

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

from ..errors import InputInvalid, shown
from .datatypes import DATATYPES, datatype_of, numpy_type
from .requests import InferRequest, InferResponse, Parameter, Requested, Tensor

__all__ = ["HEADER_LENGTH", "parse_request", "parse_response", "request_body", "response_body", "tensor_of"]

HEADER_LENGTH = "Inference-Header-Content-Length"
_MOST_TENSORS = 1024
_MOST_DIMS = 16
Array = NDArray[Any]


def parse_request(
    model: str, body: bytes | memoryview, header_length: str | None = None, version: str = ""
) -> InferRequest:
    """The request that a body holds; tensors behind the JSON stay views of it. Raises InputInvalid."""
    fields, rest = _parts(body, header_length)
    parameters = _parameters(fields, "the request")
    inputs = _tensors(fields, rest, "inputs", "input")
    outputs = []
    for number, entry in enumerate(_list(fields, "outputs", "the request")):
        name = _text(entry, "name", f"output {number}")
        outputs.append(Requested(name, _parameters(entry, f"output {name}")))
    return InferRequest(
        model,
        inputs,
        outputs,
        _text(fields, "id", "the request", ""),
        version,
        parameters,
        parameters.get("binary_data_output") is True,
    )


def response_body(
    request: InferRequest, response: InferResponse
) -> tuple[list[bytes | memoryview], int | None]:
    """The parts of a body, and the length of its JSON where tensors as bytes follow it."""
    binary = {output.name: output.parameters.get("binary_data") for output in request.outputs}
    head: dict[str, Any] = {"model_name": response.model_name, "model_version": response.model_version}
    if response.id:
        head["id"] = response.id
    if response.parameters:
        head["parameters"] = dict(response.parameters)
    head["outputs"] = []
    parts: list[bytes | memoryview] = []
    for tensor in response.outputs:
        wanted = binary.get(tensor.name)
        _add(tensor, request.binary_outputs if wanted is None else wanted is True, head["outputs"], parts)
    text = json.dumps(head, separators=(",", ":")).encode()
    return [text, *parts], len(text) if parts else None


def request_body(request: InferRequest) -> tuple[list[bytes | memoryview], int | None]:
    """The other direction: the body of a request, all tensors as bytes."""
    head: dict[str, Any] = {"inputs": [], "parameters": {**request.parameters, "binary_data_output": True}}
    if request.id:
        head["id"] = request.id
    if request.outputs:
        head["outputs"] = [
            {"name": output.name, "parameters": dict(output.parameters)} for output in request.outputs
        ]
    parts: list[bytes | memoryview] = []
    for tensor in request.inputs:
        _add(tensor, True, head["inputs"], parts)
    text = json.dumps(head, separators=(",", ":")).encode()
    return [text, *parts], len(text)


def parse_response(body: bytes | memoryview, header_length: str | None = None) -> InferResponse:
    """The response that a body holds; raises InputInvalid."""
    fields, rest = _parts(body, header_length)
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
        return np.asarray(np.frombuffer(data, np.uint8) != 0).reshape(shape)
    return np.frombuffer(data, dtype).reshape(shape)


def _parts(body: bytes | memoryview, header_length: str | None) -> tuple[dict[str, Any], memoryview]:
    view = memoryview(body)
    length = len(view)
    if header_length is not None:
        if not (header_length.isascii() and header_length.isdigit() and len(header_length) < 16):
            raise InputInvalid(f"{HEADER_LENGTH} is {shown(header_length)}, must be a number of bytes")
        length = int(header_length)
        if length > len(view):
            raise InputInvalid(f"{HEADER_LENGTH} is {length}, the body has {len(view)} bytes")
    try:
        fields = json.loads(bytes(view[:length]), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise InputInvalid(f"the request is no JSON: {shown(error)}") from None
    if not isinstance(fields, dict):
        raise InputInvalid(f"the request is {shown(fields)}, must be a JSON object")
    return fields, view[length:]


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is no number in JSON")


def _tensors(fields: Mapping[str, Any], rest: memoryview, key: str, what: str) -> list[Tensor]:
    found = []
    for number, entry in enumerate(_list(fields, key, "the request")):
        name = _text(entry, "name", f"{what} {number}")
        where = f"{what} {shown(name)}"
        parameters = _parameters(entry, where)
        size = parameters.pop("binary_data_size", None)
        shape, datatype = _shape(entry, where), _text(entry, "datatype", where)
        if size is None:
            data = _from_list(entry, datatype, shape, where)
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


def _from_list(entry: Mapping[str, Any], datatype: str, shape: list[int], where: str) -> Array:
    dtype = numpy_type(datatype, where)
    if "data" not in entry:
        raise InputInvalid(f"{where}: data is missing")
    flat = _flat(entry["data"], where)
    if len(flat) != math.prod(shape):
        raise InputInvalid(f"{where}: shape {shape} has {math.prod(shape)} elements, {len(flat)} were given")
    kinds = {bool} if datatype == "BOOL" else {int, float} if dtype.kind == "f" else {int}
    for value in flat:
        if type(value) not in kinds:
            raise InputInvalid(f"{where}: {shown(value)} is no element of datatype {datatype}")
    try:
        with np.errstate(all="ignore"):
            if dtype.kind in "iu":
                _check_range(flat, dtype, where)
            return np.array(flat, dtype).reshape(shape)
    except OverflowError as error:
        raise InputInvalid(f"{where}: {shown(error)}") from None


def _check_range(flat: list[Any], dtype: Any, where: str) -> None:
    limits = np.iinfo(dtype)
    if flat and not (limits.min <= min(flat) and max(flat) <= limits.max):
        raise InputInvalid(
            f"{where}: values are in {shown(min(flat))}..{shown(max(flat))}, {dtype} has {limits.min}..{limits.max}"
        )


def _flat(data: Any, where: str) -> list[Any]:
    """The elements of nested lists in order; the protocol allows flat ones and nested ones."""
    if not isinstance(data, list):
        raise InputInvalid(f"{where}: data is {shown(data)}, must be a list")
    level = data
    for _ in range(_MOST_DIMS):
        if not level or not isinstance(level[0], list):
            return list(level)
        deeper: list[Any] = []
        for item in level:
            if not isinstance(item, list):
                raise InputInvalid(f"{where}: data has lists and values beside each other")
            deeper += item
        level = deeper
    raise InputInvalid(f"{where}: data is nested deeper than {_MOST_DIMS} lists")


def _add(
    tensor: Tensor, binary: bool, entries: list[dict[str, Any]], parts: list[bytes | memoryview]
) -> None:
    array = np.ascontiguousarray(tensor.data)
    datatype = datatype_of(array.dtype)
    entry: dict[str, Any] = {"name": tensor.name, "datatype": datatype, "shape": list(tensor.data.shape)}
    parameters = dict(tensor.parameters)
    if binary:
        data = array.astype(DATATYPES[datatype], copy=False)
        parts.append(data.reshape(-1).view(np.uint8).data)
        parameters["binary_data_size"] = data.nbytes
    else:
        entry["data"] = [_finite(value, tensor.name) for value in array.reshape(-1).tolist()]
    if parameters:
        entry["parameters"] = parameters
    entries.append(entry)


def _finite(value: Any, name: str) -> Any:
    """JSON has no word for NaN and infinity."""
    if isinstance(value, float) and not math.isfinite(value):
        raise InputInvalid(
            f"output {name} holds {value}, which JSON cannot say; ask for it as bytes (parameter binary_data)"
        )
    return value


def _shape(entry: Mapping[str, Any], where: str) -> list[int]:
    shape = entry.get("shape")
    if not isinstance(shape, list) or len(shape) > _MOST_DIMS:
        raise InputInvalid(
            f"{where}: shape is {shown(shape)}, must be a list of at most {_MOST_DIMS} numbers"
        )
    for dim in shape:
        if isinstance(dim, bool) or not isinstance(dim, int) or not 0 <= dim < 1 << 40:
            raise InputInvalid(f"{where}: shape is {shown(shape)}, dimensions are whole numbers of 0 or more")
    return shape


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
