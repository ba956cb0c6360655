"""Why the runtime computes a node on the CPU, as far as the file tells."""

from __future__ import annotations

from rknnlite.tensor import DType

from .program import NpuNode, NpuProgram

__all__ = ["cpu_reason"]

_COMPUTED = {DType.INT8, DType.INT16, DType.FLOAT16, DType.BFLOAT16}
_CUSTOM = "cst"
_ON_BOTH = {
    "AddRelu", "AveragePool", "Cast", "Conv", "ConvTranspose", "Div", "Expand", "GRU", "Gather", "LSTM", "Max", "MaxPool", "Pad",
    "Pow", "Relu", "Reshape", "Resize", "Slice", "Sqrt", "Tile", "Transpose", "exDataConvert", "exGRU", "exLSTM", "exNorm",
    "exSoftmax13",
}  # fmt: skip
"""Types of nodes of which some run on the NPU and others do not, in 7,053 files of all families."""


def cpu_reason(program: NpuProgram, node: NpuNode) -> str:
    """A clause for a node of the CPU."""
    if node.type in ("InputOperator", "OutputOperator"):
        side = "input" if node.type == "InputOperator" else "output"
        return f"the runtime arranges the {side} itself"
    if node.type.startswith(_CUSTOM):
        return "a custom operator runs where its author's code does"
    tensors = program.tensors_of((*node.inputs, *node.outputs))
    types = {t.dtype for t in tensors if not t.constant and t.offset is not None and t.dtype is not None}
    strange = sorted(dtype.name.lower() for dtype in types - _COMPUTED)
    if strange:
        return f"its values are {' and '.join(strange)}, which the NPU does not compute with"
    if node.type in _ON_BOTH:
        return "others of its type run on the NPU, not with these sizes or attributes (or op_target asked for the CPU)"
    return "no file seen has this type on the NPU"
