"""An ONNX file run by onnxruntime with every tensor kept. Needs the extra ``fast``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid, ModelInvalid, RknnError, visible
from rknnlite.extras import missing
from rknnlite.spi.custom_op import CustomOp
from rknnlite.tensor import DType

from .dumps import Dump, DumpWriter
from .onnx_custom_nodes import ShapeOf, custom_nodes, run_pieces

__all__ = ["dump_onnx"]

Array = NDArray[Any]


def dump_onnx(
    path: Path,
    inputs: Mapping[str, Array],
    folder: Path,
    ops: Sequence[CustomOp] = (),
    shape_of: ShapeOf = lambda name: None,
) -> Dump:
    """Run the network on real values (NCHW) and write every tensor of it to ``folder``, in order of computation.

    A tensor that is read by nothing but a Relu is written as that leaves it, and ``info["before_relu"]`` of the dump names it:
    converters make one layer of both, or move the Relu, and nobody sees what lies below zero.

    Args:
        inputs: by name; where no name fits, in the order of the network's inputs.
        ops: compute the nodes of their types that ONNX does not define.
        shape_of: the shape of a tensor where neither operator nor network says it.

    Raises:
        BackendUnavailable: onnx or onnxruntime is not installed.
        ModelInvalid: the file is no ONNX network.
        InputInvalid: number or shape of the inputs.
        RknnError: onnxruntime or a custom operator failed.
    """
    onnx, runtime = _libraries()
    try:
        network = onnx.load(str(path))
        _check_names(network.graph)
        by_type = {op.op_type: op for op in ops}
        strange = custom_nodes(onnx, network)
    except Exception as error:  # protobuf's and onnxruntime's errors have no common ancestor
        raise _unreadable(path, error) from None
    missing_ops = sorted({str(node.op_type) for node in strange} - set(by_type))
    made_by = _made_by(network.graph)
    if any(node.op_type in by_type for node in strange):
        feeds = _feeds(_declared(onnx, network.graph), inputs, path)

        def run(piece: Any, known: Mapping[str, Array]) -> dict[str, Array]:
            session = _session(runtime, piece, path, missing_ops)
            return _run(session, {entry.name: known[entry.name] for entry in session.get_inputs()}, path)

        values = run_pieces(onnx, network, by_type, feeds, run, shape_of, path)
    else:
        _expose(onnx, network.graph, made_by)
        session = _session(runtime, network, path, missing_ops)
        feeds = _feeds(session.get_inputs(), inputs, path)
        values = _run(session, feeds, path)
    hidden = _before_relu(network.graph, made_by)
    order = {name: number for number, name in enumerate(made_by)}
    writer = DumpWriter(
        folder, model=str(path), backend="onnxruntime", fidelity="float", before_relu=sorted(hidden)
    )
    for name, value in feeds.items():
        writer.add(name, value, dtype=_type(value), op="InputOperator", role="input")
    for name, value in sorted(values.items(), key=lambda pair: order.get(pair[0], -1)):
        if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
            op, node, added = made_by.get(name, ("", "", False))
            role = "activation" if added else "output"
            value = np.maximum(value, 0) if name in hidden else value
            writer.add(name, value, dtype=_type(value), op=op, node=node, role=role)
    return writer.close()


def _libraries() -> tuple[Any, Any]:
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise missing("fast", "running an ONNX file needs onnx and onnxruntime", error) from None
    return onnx, onnxruntime


def _unreadable(path: Path, error: Exception, remedy: str = "") -> ModelInvalid:
    remedy = remedy or "; export it again, or ask onnx.checker.check_model what is wrong with it"
    return ModelInvalid(f"{path} cannot be opened as an ONNX network: {_first_line(error)}{remedy}")


def _check_names(graph: Any) -> None:
    """What is no UTF-8 is read as bytes, which nothing else takes."""
    entries = (*graph.input, *graph.output, *graph.initializer, *graph.value_info)
    names = [*(entry.name for entry in entries)]
    for node in graph.node:
        names += [node.name, node.op_type, node.domain, *node.input, *node.output]
    strange = next((name for name in names if not isinstance(name, str)), None)
    if strange is not None:
        raise ValueError(f"the name {strange!r:.60} is not UTF-8")


def _made_by(graph: Any) -> dict[str, tuple[str, str, bool]]:
    """Per tensor that is computed (operator, node, whether it is no output of the graph)."""
    known = {value.name for value in (*graph.output, *graph.input)}
    return {
        name: (str(node.op_type), str(node.name), name not in known)
        for node in graph.node
        for name in node.output
        if name
    }


def _before_relu(graph: Any, made_by: Mapping[str, tuple[str, str, bool]]) -> set[str]:
    """Tensors whose every reader is a Relu."""
    readers: dict[str, set[str]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, set()).add(str(node.op_type))
    return {name for name, (_, _, added) in made_by.items() if added and readers.get(name) == {"Relu"}}


def _expose(onnx: Any, graph: Any, made_by: Mapping[str, tuple[str, str, bool]]) -> None:
    """Make every tensor an output of the graph."""
    added = [name for name, (_, _, hidden) in made_by.items() if hidden]
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in added)


def _session(runtime: Any, network: Any, path: Path, missing_ops: Sequence[str]) -> Any:
    try:
        options = runtime.SessionOptions()
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        return runtime.InferenceSession(network.SerializeToString(), options, ["CPUExecutionProvider"])
    except Exception as error:
        remedy = (
            f"; ONNX does not define {', '.join(missing_ops)}: if these are operators of your own, pass them in "
            "custom_ops=[...], on the command line with --custom-op"
        )
        raise _unreadable(path, error, remedy if missing_ops else "") from None


def _run(session: Any, feeds: Mapping[str, Array], path: Path) -> dict[str, Any]:
    names = [output.name for output in session.get_outputs()]
    try:
        return dict(zip(names, session.run(None, dict(feeds))))
    except Exception as error:
        raise RknnError(f"onnxruntime could not run {path}: {_first_line(error)}") from None


class _Declared(NamedTuple):
    """An input as onnxruntime describes it."""

    name: str
    shape: list[Any]
    type: str


def _declared(onnx: Any, graph: Any) -> list[_Declared]:
    """The inputs of a network that onnxruntime does not see as a whole."""
    stored = {tensor.name for tensor in graph.initializer}
    kinds = {
        1: "float",
        10: "float16",
        11: "double",
        7: "int64",
        6: "int32",
        3: "int8",
        2: "uint8",
        9: "bool",
    }
    return [
        _Declared(
            entry.name,
            [dim.dim_value or dim.dim_param for dim in entry.type.tensor_type.shape.dim],
            f"tensor({kinds.get(entry.type.tensor_type.elem_type)})",
        )
        for entry in graph.input
        if entry.name not in stored
    ]


def _feeds(wanted: Sequence[Any], inputs: Mapping[str, Array], path: Path) -> dict[str, Array]:
    if len(wanted) != len(inputs):
        raise InputInvalid(f"{path} has {len(wanted)} inputs, {len(inputs)} were given")
    names = [entry.name for entry in wanted]
    arrays = [inputs[name] for name in names] if set(names) == set(inputs) else list(inputs.values())
    feeds: dict[str, Array] = {}
    for entry, array in zip(wanted, arrays):
        shape, given = entry.shape, list(array.shape)
        if len(shape) != len(given) or any(isinstance(d, int) and d != n for d, n in zip(shape, given)):
            raise InputInvalid(f"{path}: input {entry.name} has shape {shape}, {given} was given")
        feeds[entry.name] = np.ascontiguousarray(array, _ELEMENTS.get(entry.type, np.float32))
    return feeds


_ELEMENTS: dict[str, type] = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(int8)": np.int8,
    "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
}


def _type(value: Array) -> str:
    try:
        return DType.from_numpy(value.dtype).short
    except RknnError:
        return str(value.dtype)


def _first_line(error: Exception) -> str:
    lines: list[str] = str(error).strip().splitlines()
    return visible(lines[0]) if lines else type(error).__name__
