"""A QDQ network as the vendor's converter has to be told it, so that it keeps the steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

from rknnlite.errors import ModelInvalid, RknnError, visible

from .calibration import with_steps

__all__ = ["for_the_toolkit", "keeping_steps", "told_as_steps"]

Array = NDArray[Any]
_LONGEST = 300
_MISFITS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
    onnx.checker.ValidationError,
)
"""What reading a damaged network ends in."""
_TAKEN_WIDER = np.float32(128) / np.float32(127)


def for_the_toolkit(
    model: ModelProto, samples: Sequence[Mapping[str, Array]]
) -> tuple[ModelProto, list[str]]:
    """The QDQ network with all that the converter wants, and the names of values that got their steps from ``samples``.

    Raises:
        ModelInvalid: it is no network of ONNX whose steps can be read. BackendUnavailable, RknnError: see ``with_steps``.
    """
    try:
        _check_whole(model.graph)
        onnx.checker.check_model(model)
        stepped, names = with_steps(told_as_steps(model), samples)
        return keeping_steps(stepped), names
    except RknnError:
        raise
    except _MISFITS as error:
        reason = visible(" ".join(str(error).split())[:_LONGEST])
        raise ModelInvalid(
            f"the network is damaged, the steps for the toolkit cannot be read from it ({type(error).__name__}: {reason}); "
            "write it again with export-onnx --form qdq, or port with --dtype fp16, which needs no steps"
        ) from error


def _check_whole(graph: GraphProto) -> None:
    """Arrays in other files are read by whoever asks for them, wherever those files are."""
    attributes = [each for node in graph.node for each in node.attribute]
    tensors = [
        *graph.initializer,
        *(each.t for each in attributes),
        *(t for each in attributes for t in each.tensors),
    ]
    for tensor in tensors:
        if tensor.data_location == TensorProto.EXTERNAL:
            raise ValueError(f"array {tensor.name} is in another file")
    for inner in (each.g for each in attributes if each.HasField("g")):
        _check_whole(inner)


def keeping_steps(model: ModelProto) -> ModelProto:
    """Values in int8 with zero point 0 get steps that are smaller by 127/128.

    The converter takes such steps as symmetric, from -128 to 128 steps, and stores them larger by 128/127. Weights in which every
    zero point is 0 would be quantised anew: one channel of them is moved by a step, and its zero point with it.
    """
    found = ModelProto()
    found.CopyFrom(model)
    constants = {each.name: each for each in model.graph.initializer}
    made: dict[str, str] = {}
    for node in found.graph.node:
        if node.op_type not in ("QuantizeLinear", "DequantizeLinear") or node.input[0] in constants:
            continue
        scale, zero = (numpy_helper.to_array(constants[name]) for name in node.input[1:3])
        if zero.dtype != np.int8 or zero != 0:
            continue
        name = node.input[1]
        if name not in made:
            made[name] = f"{name}/symmetric"
            smaller = np.asarray(scale / _TAKEN_WIDER, np.float32)
            found.graph.initializer.append(numpy_helper.from_array(smaller, made[name]))
        node.input[1] = made[name]
    _move_weights(found, constants)
    _part_outputs(found)
    return found


def told_as_steps(model: ModelProto) -> ModelProto:
    """Roundings to 8 bits inside of nodes (Div, Round, Clip, Mul) as QuantizeLinear and DequantizeLinear."""
    found = ModelProto()
    found.CopyFrom(model)
    constants = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    makers = {name: node for node in found.graph.node for name in node.output}
    readers = Counter(name for node in found.graph.node for name in node.input)
    dropped = []
    for last in found.graph.node:
        chain = _rounding(last, makers, constants)
        if not chain or any(readers[node.output[0]] != 1 for node in chain):
            continue
        divide, whole, clip = chain
        zero = f"{last.output[0]}/zero"
        stored = np.int8(-128 - constants[clip.input[1]])
        found.graph.initializer.append(numpy_helper.from_array(np.asarray(stored), zero))
        whole.op_type, last.op_type = "QuantizeLinear", "DequantizeLinear"
        whole.input[:] = [*divide.input, zero]
        last.input[:] = [whole.output[0], divide.input[1], zero]
        dropped += [divide.output[0], clip.output[0]]
    kept = [node for node in found.graph.node if node.output[0] not in dropped]
    nodes = [NodeProto.FromString(node.SerializeToString()) for node in kept]
    del found.graph.node[:]
    found.graph.node.extend(nodes)
    return found


def _rounding(
    last: NodeProto, makers: Mapping[str, NodeProto], constants: Mapping[str, Array]
) -> list[NodeProto]:
    """Div, Round and Clip before a Mul by the same step, within 256 steps; none where it is something else."""
    chain: list[NodeProto] = []
    node = last
    for before, kind in (("Mul", "Clip"), ("Clip", "Round"), ("Round", "Div")):
        if node is None or node.op_type != before:
            return []
        node = makers.get(node.input[0])
        chain.insert(0, node)
        if node is None or node.op_type != kind:
            return []
    divide, _, clip = chain
    known = all(name in constants for name in (*clip.input[1:], divide.input[1]))
    if not known or last.input[1] != divide.input[1] or len(clip.input) != 3:
        return []
    low, high = (constants[name] for name in clip.input[1:])
    return chain if high - low == 255 and -255 <= low <= 0 else []


def _move_weights(model: ModelProto, constants: Mapping[str, TensorProto]) -> None:
    for node in model.graph.node:
        if node.op_type != "DequantizeLinear" or node.input[0] not in constants:
            continue
        stored, zeros = (numpy_helper.to_array(constants[node.input[i]]) for i in (0, 2))
        axis = next((each.i for each in node.attribute if each.name == "axis"), 1)
        moved = _moved(np.moveaxis(stored, axis, 0), zeros) if zeros.dtype == np.int8 else None
        if moved is None:
            continue
        names = [f"{node.output[0]}/{word}" for word in ("moved", "zero")]
        arrays = np.ascontiguousarray(np.moveaxis(moved[0], 0, axis)), moved[1]
        model.graph.initializer.extend(map(numpy_helper.from_array, arrays, names))
        node.input[0], node.input[2] = names


def _moved(weights: Array, zeros: Array) -> Optional[tuple[Array, Array]]:
    """Weights [channels, ...] and zero points of which one is not 0, for the same real values; None where none is needed.

    Where every channel reaches from -128 to 127, the ends of one are cut off by a step.
    """
    if zeros.any() or zeros.ndim != 1:
        return None
    flat = weights.reshape(len(weights), -1)
    cut = {step: (flat == end).sum(1) for step, end in ((1, 127), (-1, -128))}
    step = min(cut, key=lambda each: int(cut[each].min()))
    channel = int(cut[step].argmin())
    weights, zeros = weights.copy(), zeros.copy()
    weights[channel] = np.clip(weights[channel].astype(np.int16) + step, -128, 127)
    zeros[channel] = step
    return weights, zeros


def _part_outputs(model: ModelProto) -> None:
    """Outputs that nodes read, too, get a node of their own: the converter loses track of such values."""
    outputs = {each.name for each in model.graph.output}
    read = {name for node in model.graph.node for name in node.input}
    nodes = []
    for node in model.graph.node:
        node.input[:] = [f"{name}/inside" if name in outputs else name for name in node.input]
        nodes.append(node)
        if node.op_type == "DequantizeLinear" and node.output[0] in outputs & read:
            twin = NodeProto()
            twin.CopyFrom(node)
            twin.name, twin.output[0] = f"{node.name}/inside", f"{node.output[0]}/inside"
            nodes.append(twin)
    kept = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(kept)
