"""Requests that share a run of a model that was built for several rows: joined, padded, and taken apart again.

A model with ``rknn_batch_size`` N has N times as many entries on the first axis of every tensor. A request may bring
1..N of these N parts, its rows.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Optional

import numpy as np
from rknnlite_protocol.execution import answer, outputs_wanted, paired_tensors
from rknnlite_protocol.requests import InferRequest, InferResponse, Parameter, Tensor

from rknnlite.errors import InputInvalid
from rknnlite.spi import Context
from rknnlite.tensor import TensorAttr

__all__ = ["Batches", "Joinable", "answer_together"]

_FORMS = ("timeout", "binary_data_output")  # parameters that are not about the run


@dataclass(frozen=True)
class Joinable:
    """Requests with the same ``key`` may share a run; one of ``rows`` rows takes that much of it."""

    key: Hashable
    rows: int


class Batches:
    """What is known of a model that takes several rows; ``size`` is its N, 1 where rows cannot be told apart.

    Examples:
        >>> attrs = [TensorAttr(0, "x", (4, 2), DType.FLOAT32, Layout.UNDEFINED)]
        >>> batches = Batches(attrs, attrs, 4)
        >>> first = InferRequest("m", [Tensor("x", np.zeros((1, 2), np.float32))])
        >>> last = InferRequest("m", [Tensor("x", np.ones((2, 2), np.float32))])
        >>> batches.of(first).rows, batches.of(first).key == batches.of(last).key
        (1, True)
        >>> batches.join([first, last]).inputs[0].data[:, 0].tolist()
        [0.0, 1.0, 1.0, 1.0]
    """

    def __init__(self, inputs: Sequence[TensorAttr], outputs: Sequence[TensorAttr], size: int) -> None:
        tensors = [*inputs, *outputs]
        whole = all(attr.dims and attr.dims[0] and attr.dims[0] % size == 0 for attr in tensors)
        self.size = size if whole else 1
        self._inputs, self._outputs = inputs, outputs
        self._names = [attr.name for attr in outputs]

    def of(self, request: InferRequest) -> Optional[Joinable]:
        """How a request may be joined with others; None where it runs as it is: whole batches, data passed through.

        Raises:
            InputInvalid: its names, ranks, parameters or outputs do not fit, so that nobody else need suffer.
        """
        if self.size == 1:
            return None
        tensors = paired_tensors(request, self._inputs)
        outputs_wanted(request, self._names)
        request.flag("raw")
        if any(tensor.parameters.get("pass_through") for tensor in tensors):
            return None
        rows = self._rows(tensors)
        if rows == self.size:
            return None
        parts = [
            (tensor.data.dtype.str, tensor.data.shape[1:], _frozen(tensor.parameters, ()))
            for tensor in tensors
        ]
        return Joinable((_frozen(request.parameters, _FORMS), *parts), rows)

    def join(self, requests: Sequence[InferRequest]) -> InferRequest:
        """One request for a whole run, which asks for all outputs. The last row is repeated as often as there is room.

        Repeated, because it is a row that the model can do something with; zeros might not be.
        """
        ordered = [paired_tensors(request, self._inputs) for request in requests]
        inputs = []
        for attr, *tensors in zip(self._inputs, *ordered):
            first = tensors[0]
            data = np.empty((attr.dims[0], *first.data.shape[1:]), first.data.dtype)
            at = 0
            for tensor in tensors:
                data[at : at + len(tensor.data)] = tensor.data
                at += len(tensor.data)
            each = attr.dims[0] // self.size
            for begin in range(at, len(data), each):
                data[begin : begin + each] = data[at - each : at]
            inputs.append(Tensor(attr.name, data, first.parameters))
        return replace(requests[0], inputs=inputs, outputs=(), id="")

    def split(self, requests: Sequence[InferRequest], response: InferResponse) -> list[InferResponse]:
        """The answer of each request from the one to all of them; arrays are views."""
        found, at = [], 0
        for request in requests:
            rows = self._rows(paired_tensors(request, self._inputs))
            wanted = outputs_wanted(request, self._names)
            outputs = [self._part(response.outputs[number], at, rows) for number in wanted]
            found.append(replace(response, outputs=outputs, id=request.id))
            at += rows
        return found

    def _part(self, tensor: Tensor, at: int, rows: int) -> Tensor:
        each = len(tensor.data) // self.size
        return replace(tensor, data=tensor.data[at * each : (at + rows) * each])

    def _rows(self, tensors: Sequence[Tensor]) -> int:
        found = set()
        for attr, tensor in zip(self._inputs, tensors):
            shape = tensor.data.shape
            most, each = attr.dims[0], attr.dims[0] // self.size
            fits = len(shape) == len(attr.dims) and math.prod(shape[1:]) == math.prod(attr.dims[1:])
            if not fits or not 0 < shape[0] <= most or shape[0] % each:
                wanted = f"1 to {self.size} rows" + ("" if each == 1 else f" of {each}")
                raise InputInvalid(
                    f"input {attr.name}: expected shape {list(attr.dims)}, or {wanted} of it, got {list(shape)}"
                )
            found.add(shape[0] // each)
        if len(found) != 1:
            names = ", ".join(attr.name for attr in self._inputs)
            raise InputInvalid(f"the inputs {names} have different numbers of rows: {sorted(found)}")
        return int(found.pop())


def answer_together(
    context: Context, batches: Batches, requests: Sequence[InferRequest]
) -> list[InferResponse]:
    """One run for several requests that may share it; raises what ``answer`` raises, for all of them."""
    return batches.split(requests, answer(context, batches.join(requests)))


def _frozen(parameters: Any, without: Sequence[str]) -> Hashable:
    """Parameters as something that is equal when they are; true is not 1 here."""
    found: list[tuple[str, str, Parameter]] = [
        (name, type(value).__name__, value) for name, value in parameters.items() if name not in without
    ]
    return tuple(sorted(found, key=lambda entry: entry[0]))
