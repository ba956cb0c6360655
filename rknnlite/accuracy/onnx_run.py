"""An ONNX file run by onnxruntime with every tensor kept. Needs the extra ``onnx``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputInvalid, ModelInvalid, RknnError
from ..extras import missing
from ..spi.dumps import Dump, DumpWriter
from ..tensor import DType

__all__ = ["dump_onnx"]

Array = NDArray[Any]


def dump_onnx(path: Path, inputs: Mapping[str, Array], folder: Path) -> Dump:
    """Run the network on real values (NCHW) and write every tensor of it to ``folder``.

    Args:
        inputs: by name; where no name fits, in the order of the network's inputs.

    Raises:
        BackendUnavailable: onnx or onnxruntime is not installed. ModelInvalid: the file is no ONNX network.
        InputInvalid: number or shape of the inputs. RknnError: onnxruntime failed.
    """
    onnx, runtime = _libraries()
    try:
        network = onnx.load(str(path))
        made_by = _expose(onnx, network.graph)
        options = runtime.SessionOptions()
        as_written = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.graph_optimization_level = as_written
        options.log_severity_level = 4
        session = runtime.InferenceSession(network.SerializeToString(), options, ["CPUExecutionProvider"])
    except Exception as error:  # protobuf's and onnxruntime's errors have no common ancestor
        raise ModelInvalid(f"{path} cannot be opened as an ONNX network: {_first_line(error)}") from None
    feeds = _feeds(session, inputs, path)
    names = [output.name for output in session.get_outputs()]
    try:
        values = session.run(None, feeds)
    except Exception as error:
        raise RknnError(f"onnxruntime could not run {path}: {_first_line(error)}") from None
    writer = DumpWriter(folder, model=str(path), backend="onnxruntime", fidelity="float")
    for name, value in feeds.items():
        writer.add(name, value, dtype=_type(value), op="InputOperator", role="input")
    for name, value in zip(names, values):
        if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
            op, node, added = made_by.get(name, ("", "", False))
            role = "activation" if added else "output"
            writer.add(name, value, dtype=_type(value), op=op, node=node, role=role)
    return writer.close()


def _libraries() -> tuple[Any, Any]:
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise missing("onnx", "running an ONNX file needs onnx and onnxruntime", error) from None
    return onnx, onnxruntime


def _expose(onnx: Any, graph: Any) -> dict[str, tuple[str, str, bool]]:
    """Make every tensor an output of the graph; per tensor (operator, node, whether it was added here)."""
    known = {value.name for value in (*graph.output, *graph.input)}
    made_by = {}
    for node in graph.node:
        for name in node.output:
            if name:
                made_by[name] = (str(node.op_type), str(node.name), name not in known)
                if name not in known:
                    graph.output.append(onnx.ValueInfoProto(name=name))
    return made_by


def _feeds(session: Any, inputs: Mapping[str, Array], path: Path) -> dict[str, Array]:
    wanted = session.get_inputs()
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
    "tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64,
    "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(int8)": np.int8, "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
}  # fmt: skip


def _type(value: Array) -> str:
    try:
        return DType.from_numpy(value.dtype).short
    except RknnError:
        return str(value.dtype)


def _first_line(error: Exception) -> str:
    lines: list[str] = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
