"""Steps for values that the file does not store: the vendor's converter wants them before the sum of a residual.

A convolution and the sum behind it are one node in a ``.rknn`` file, so there are no steps for what is between them. They follow
from the range of that value on given data. Without them the converter computes the sum in float16.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper, shape_inference

from rknnlite.errors import RknnError, visible
from rknnlite.extras import missing

__all__ = ["unstepped", "with_steps"]

Array = NDArray[Any]
_STEPS = ("QuantizeLinear", "DequantizeLinear")
_SUMS, _LIMITS = ("Add", "Conv", "ConvTranspose", "Sub"), {"Clip", "Relu"}


def unstepped(model: ModelProto) -> list[str]:
    """Real values between nodes for which the network has no steps, in order of execution.

    Limits and slopes behind a sum have the steps of their result; integers (tokens, indices) and bools have none.
    """
    whole = _whole(model)
    readers: dict[str, list[str]] = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node.op_type)
    found: list[str] = []
    for node in model.graph.node:
        for name in (each for each in node.output if each not in whole):
            kinds = set(readers.get(name, ()))
            summed = node.op_type in _SUMS and kinds <= _LIMITS
            if kinds - {"QuantizeLinear"} and not summed and node.op_type not in _STEPS:
                found.append(name)
    return found


def _whole(model: ModelProto) -> set[str]:
    """Values that are no float32."""
    graph = shape_inference.infer_shapes(model).graph
    infos = (*graph.value_info, *graph.input, *graph.output)
    kinds = {info.name: info.type.tensor_type.elem_type for info in infos}
    return {name for name, kind in kinds.items() if kind not in (TensorProto.UNDEFINED, TensorProto.FLOAT)}


def with_steps(model: ModelProto, samples: Sequence[Mapping[str, Array]]) -> tuple[ModelProto, list[str]]:
    """The network with QuantizeLinear and DequantizeLinear behind those values, and their names.

    ``samples`` are inputs by name: the smallest and largest value on them are the ends of the 8 bits.

    Raises:
        BackendUnavailable: onnxruntime is not installed. RknnError: it could not run the network.
    """
    names = unstepped(model)
    found = ModelProto()
    found.CopyFrom(model)
    if not names:
        return found, []
    ranges = _ranges(model, names, samples)
    nodes = list(found.graph.node)
    for name, (low, high) in ranges.items():
        _insert(found, nodes, name, low, high)
    del found.graph.node[:]
    found.graph.node.extend(nodes)
    return found, names


def _ranges(
    model: ModelProto, names: Sequence[str], samples: Sequence[Mapping[str, Array]]
) -> dict[str, tuple[float, float]]:
    try:
        import onnxruntime
    except ImportError as error:
        raise missing("fast", "calibrating needs onnxruntime", error) from None
    watched = ModelProto()
    watched.CopyFrom(model)
    watched.graph.output.extend(ValueInfoProto(name=name) for name in names)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    found: dict[str, tuple[float, float]] = {}
    try:
        session = onnxruntime.InferenceSession(watched.SerializeToString(), options, ["CPUExecutionProvider"])
        for sample in samples:
            for name, value in zip(names, session.run(names, dict(sample))):
                low, high = found.get(name, (0.0, 0.0))  # 0 has a step of its own
                found[name] = (min(low, float(value.min())), max(high, float(value.max())))
    except Exception as error:  # onnxruntime's errors have no common ancestor
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise RknnError(
            f"onnxruntime could not run the network to calibrate it: {visible(reason)}; look at what export-onnx --form qdq says "
            "of it, or port with --dtype fp16, which needs no calibration"
        ) from None
    return found


def _insert(model: ModelProto, nodes: list[Any], name: str, low: float, high: float) -> None:
    """Put the two nodes behind the value, for whoever reads it."""
    scale = (high - low) / 255 or 1.0
    zero = int(np.clip(np.rint(-128 - low / scale), -128, 127))
    stored = (("scale", np.float32(scale)), ("zero", np.int8(zero)))
    constants = [f"{name}/{word}" for word, _ in stored]
    model.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(value), f"{name}/{word}") for word, value in stored
    )
    place = next(i for i, node in enumerate(nodes) if name in node.output) + 1
    for node in nodes[place:]:
        node.input[:] = [f"{name}/stepped" if each == name else each for each in node.input]
    arguments = ([name, *constants], [f"{name}/whole"]), ([f"{name}/whole", *constants], [f"{name}/stepped"])
    kinds = ("QuantizeLinear", "DequantizeLinear")
    nodes[place:place] = [
        helper.make_node(kind, *given, name=f"{name}/{kind}") for kind, given in zip(kinds, arguments)
    ]
