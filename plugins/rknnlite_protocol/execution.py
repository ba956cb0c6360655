"""How a context answers a request."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from rknnlite.errors import InputInvalid, shown
from rknnlite.spi import Context
from rknnlite.spi.inputs import collect
from rknnlite.spi.types import Input
from rknnlite.tensor import QuantParams, TensorAttr

from .board import SHAPES, parse_shapes
from .requests import InferRequest, InferResponse, Parameter, Tensor, Timing

__all__ = ["answer", "outputs_wanted", "paired", "paired_tensors", "take_inputs"]


_MOST_WHOLE = np.iinfo(np.int64).max


def answer(context: Context, request: InferRequest) -> InferResponse:
    """Run the model once, for a caller who has the context to himself.

    Raises:
        InputInvalid: names, shapes, element types, byte counts or parameters do not fit.
        Whatever ``Context.infer`` raises.
    """
    wanted = outputs_wanted(request, [attr.name for attr in context.outputs])
    raw = request.flag("raw")
    with context.exclusive():
        begun = time.perf_counter_ns()
        take_inputs(context, request)
        ready = time.perf_counter_ns()
        context.run()
        ran = time.perf_counter_ns()
        arrays = context.get_outputs(not raw)
        done = time.perf_counter_ns()
        found = context.outputs
        took = context.last_run_us
    outputs = [_output(found[number], arrays[number], raw) for number in wanted]
    parameters = {"run_us": took} if took else {}
    timing = Timing(begun, ready, ran, done)
    return InferResponse(request.model_name, outputs, request.id, parameters=parameters, timing=timing)


def take_inputs(context: Context, request: InferRequest) -> None:
    """Choose the shapes that a request names, and set its inputs. Raises as ``answer``."""
    shapes = parse_shapes(request.parameters.get(SHAPES), f"parameter {SHAPES}")
    if shapes is not None:
        context.set_shapes(shapes)
    elif context.shapes and any(tensor.parameters.get("pass_through") for tensor in request.inputs):
        raise InputInvalid(
            "data that is passed through does not tell its shape: name that of a dynamic model in the parameter "
            f"{SHAPES}, one list of dims per input: {[list(attr.dims) for attr in context.inputs]}"
        )
    context.set_inputs(paired(request, context.inputs, context.shapes))


def paired(
    request: InferRequest,
    attrs: Sequence[TensorAttr],
    shapes: Sequence[Sequence[tuple[int, ...]]] = (),
) -> list[Input]:
    """The inputs of a request in the order of the model's; raises InputInvalid."""
    ordered = paired_tensors(request, attrs)
    for attr, tensor in zip(attrs, ordered):
        _check_numbers(attr, tensor)
    layouts = [_word(tensor, "layout") for tensor in ordered]
    flags = [_flag(tensor, "pass_through") for tensor in ordered]
    return collect([tensor.data for tensor in ordered], attrs, layouts, flags, shapes=shapes)


def paired_tensors(request: InferRequest, attrs: Sequence[TensorAttr]) -> list[Tensor]:
    """The tensors of a request in the order of the model's inputs; raises InputInvalid where names do not fit."""
    by_name: dict[str, Tensor] = {}
    for tensor in request.inputs:
        if tensor.name in by_name:
            raise InputInvalid(f"input {shown(tensor.name)} is given twice")
        by_name[tensor.name] = tensor
    if len(attrs) == 1 and len(by_name) == 1:  # clients that know only their own name for it
        by_name = {attrs[0].name: next(iter(by_name.values()))}
    missing = [attr.name for attr in attrs if attr.name not in by_name]
    if missing or len(by_name) != len(attrs):
        known = ", ".join(attr.name for attr in attrs)
        raise InputInvalid(f"the model has the inputs {known}; given were {shown(sorted(by_name))}")
    return [by_name[attr.name] for attr in attrs]


def outputs_wanted(request: InferRequest, names: Sequence[str]) -> list[int]:
    """Numbers of the outputs that are asked for, all where none is; raises InputInvalid for unknown ones and double ones."""
    if not request.outputs:
        return list(range(len(names)))
    numbers = {name: number for number, name in enumerate(names)}
    found = []
    for output in request.outputs:
        if output.name not in numbers:
            raise InputInvalid(f"the model has no output {shown(output.name)}; it has {', '.join(names)}")
        if numbers[output.name] in found:
            raise InputInvalid(f"output {shown(output.name)} is asked for twice")
        found.append(numbers[output.name])
    return found


def _check_numbers(attr: TensorAttr, tensor: Tensor) -> None:
    """Not every runtime looks: what is no number would become one in a quantised input, without a word."""
    data = tensor.data
    if data.dtype == np.float64:  # runtimes take float32 and int64 at most
        with np.errstate(over="ignore"):
            data = data.astype(np.float32)
    if data.dtype.kind == "f" and not np.isfinite(data).all():
        raise InputInvalid(f"input {attr.name} holds NaN or infinite values; clean the data")
    if data.dtype == np.uint64 and data.size and data.max() > _MOST_WHOLE:
        raise InputInvalid(f"input {attr.name} holds {data.max()}, whole numbers go up to {_MOST_WHOLE}")


def _word(tensor: Tensor, name: str) -> str | None:
    value = tensor.parameters.get(name)
    if value is not None and not isinstance(value, str):
        raise InputInvalid(f"input {tensor.name}: parameter {name} is {shown(value)}, must be text")
    return value


def _flag(tensor: Tensor, name: str) -> bool:
    value = tensor.parameters.get(name, False)
    if not isinstance(value, bool):
        raise InputInvalid(f"input {tensor.name}: parameter {name} is {shown(value)}, must be true or false")
    return value


def _output(attr: TensorAttr, array: Any, raw: bool) -> Tensor:
    parameters: dict[str, Parameter] = {}
    if raw:
        quant = attr.quant or QuantParams(1.0, 0)
        parameters = {"scale": float(quant.scale), "zero_point": int(quant.zero_point)}
        if not math.isfinite(quant.scale):
            parameters.pop("scale")
    return Tensor(attr.name, array, parameters)
