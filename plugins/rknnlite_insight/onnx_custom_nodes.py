"""An ONNX network with custom nodes: cut at them, run piece by piece, each node computed by its operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ParamInvalid, RknnError
from rknnlite.spi.custom_op import CustomOp, CustomOpFailed, OpNode

from .one_node import run_op

__all__ = ["ShapeOf", "custom_nodes", "run_pieces"]

Array = NDArray[Any]
ShapeOf = Callable[[str], Optional[tuple[int, ...]]]


def custom_nodes(onnx: Any, network: Any) -> list[Any]:
    """The nodes of types that ONNX does not define, and the network does not either."""
    own = {(function.domain, function.name) for function in network.functions}
    return [
        node
        for node in network.graph.node
        if (node.domain, node.op_type) not in own and not onnx.defs.has(node.op_type, _domain(node))
    ]


def _domain(node: Any) -> str:
    return "" if node.domain == "ai.onnx" else str(node.domain)


def run_pieces(
    onnx: Any,
    network: Any,
    ops: Mapping[str, CustomOp],
    feeds: Mapping[str, Array],
    run: Callable[[Any, Mapping[str, Array]], dict[str, Array]],
    shape_of: ShapeOf,
    path: Path,
) -> dict[str, Array]:
    """Every tensor that the network computes, by name.

    Args:
        ops: operators by type. feeds: the inputs of the network.
        run: computes all tensors of a network without custom nodes.
        shape_of: shape of a tensor as the other side of a comparison has it.

    Raises:
        CustomOpFailed, ParamInvalid: an operator failed, or nobody knows the shape of its output.
    """
    custom = {id(node) for node in custom_nodes(onnx, network) if node.op_type in ops}
    stored = {tensor.name: tensor for tensor in network.graph.initializer}
    values = dict(feeds)
    for part in _parts(network.graph.node, custom):
        if id(part[0]) not in custom:
            values.update(run(_piece(onnx, network, part, values), values))
            continue
        (node,) = part
        inputs = []
        for name in filter(None, node.input):
            given = values[name] if name in values else onnx.numpy_helper.to_array(stored[name])
            inputs.append(given.astype(np.float32) if given.dtype.kind == "f" else given)
        names = [name for name in node.output if name]
        values.update(zip(names, _compute(onnx, network, node, ops[node.op_type], inputs, shape_of, path)))
    return {name: value for name, value in values.items() if name not in feeds}


def _parts(nodes: Sequence[Any], custom: set[int]) -> Iterator[list[Any]]:
    """Custom nodes alone, what lies between them together; nodes of a file are in order of execution."""
    piece: list[Any] = []
    for node in nodes:
        if id(node) in custom:
            if piece:
                yield piece
            yield [node]
            piece = []
        else:
            piece.append(node)
    if piece:
        yield piece


def _piece(onnx: Any, network: Any, nodes: Sequence[Any], values: Mapping[str, Array]) -> Any:
    """A network of these nodes alone, which takes what is computed already and shows every tensor."""
    used = set(_used(nodes))
    made = [name for node in nodes for name in node.output if name]
    stored = [tensor for tensor in network.graph.initializer if tensor.name in used]
    known = {tensor.name for tensor in stored}
    taken = sorted(name for name in used - known - set(made) if name in values)
    inputs = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(values[name].dtype), values[name].shape
        )
        for name in taken
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in made]
    piece = onnx.ModelProto(ir_version=network.ir_version)
    piece.opset_import.extend(network.opset_import)
    piece.functions.extend(network.functions)
    piece.graph.CopyFrom(onnx.helper.make_graph(nodes, "piece", inputs, outputs, stored))
    piece.graph.sparse_initializer.extend(network.graph.sparse_initializer)
    return piece


def _used(nodes: Sequence[Any]) -> Iterator[str]:
    """Names that nodes read, in branches and loops too."""
    for node in nodes:
        yield from node.input
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _used(graph.node)
                yield from (output.name for output in graph.output)


def _compute(
    onnx: Any, network: Any, node: Any, op: CustomOp, inputs: list[Array], shape_of: ShapeOf, path: Path
) -> list[Array]:
    attrs = {entry.name: _text(onnx.helper.get_attribute_value(entry)) for entry in node.attribute}
    outputs = [name for name in node.output if name]
    name = node.name or outputs[0]
    seen = OpNode(node.op_type, name, attrs, [n for n in node.input if n], outputs)
    try:
        return run_op(op, inputs, _blank(onnx, network, seen, op, inputs, shape_of), node=seen)
    except Exception as error:
        cause = str(error) if isinstance(error, RknnError) else f"{type(error).__name__}: {error}"
        raise CustomOpFailed(
            f'{path}: custom operator {node.op_type} ({op.describe()}) failed at node "{name}" on inputs '
            f"{[list(array.shape) for array in inputs]}: {cause}"
        ) from error


def _text(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return [_text(item) for item in value] if isinstance(value, (list, tuple)) else value


def _blank(
    onnx: Any, network: Any, node: OpNode, op: CustomOp, inputs: list[Array], shape_of: ShapeOf
) -> list[Array]:
    """Arrays for the outputs: as the operator infers them, as the network says, as the other side has them."""
    try:
        shapes, dtypes = op.shape_infer(
            node, [list(array.shape) for array in inputs], [array.dtype.name for array in inputs]
        )
        inferred = [np.zeros(shape, dtype) for shape, dtype in zip(shapes, dtypes)]
        if len(inferred) == len(node.output):
            return inferred
    except Exception:  # only converting needs it, so it may be missing or wrong
        inferred = []
    told = {
        entry.name: entry.type.tensor_type for entry in (*network.graph.value_info, *network.graph.output)
    }
    blank = []
    for name in node.output:
        said = told.get(name)
        dims = [dim.dim_value for dim in said.shape.dim] if said is not None else []
        kind = onnx.helper.tensor_dtype_to_np_dtype(said.elem_type) if said is not None else np.dtype("f4")
        shape = tuple(dims) if dims and min(dims) > 0 else shape_of(name)
        if shape is None:
            raise ParamInvalid(f"nobody says the shape of its output {name}; give the operator a shape_infer")
        blank.append(np.zeros(shape, np.float32 if kind.kind == "f" else kind))
    return blank
