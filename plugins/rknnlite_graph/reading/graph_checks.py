"""Whether the parts of a graph fit each other: refused at load, with the node's name, when they do not.

``rknnlite_graph.shape_rules`` judges shapes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Optional

from rknnlite.errors import ModelInvalid, ModelUnsupported
from rknnlite.tensor import DType

from ..graph import ConvParams, Node, Tensor, TensorRole
from .npu_families import NpuFamily
from .register_map import SMALL_CONSTANTS, Registers

__all__ = ["check_constants", "check_convolution", "check_inputs", "check_operands", "unread_bias"]

Operands = Sequence[Optional[Tensor]]


def check_operands(
    node: Node, listed: Sequence[int], tensors: list[Tensor], known: set[int], producers: Mapping[int, int]
) -> None:
    """Every operand must be there when the node runs.

    Args:
        listed: operands as the file lists them; scratch tensors that nobody fills stand at the end, unused
            operands are helper tensors. known: tensors filled so far. producers: tensor -> node that fills it.
    """
    live = [i >= 0 and (i in known or tensors[i].role is TensorRole.CONST) for i in listed]
    for place, index in enumerate(listed):
        if live[place]:
            continue
        if index < 0:  # not given
            if place == 0:
                raise ModelInvalid(f"node {node.label()}: its operand 0 is missing")
            continue
        tensor = tensors[index]
        if index in producers:
            raise ModelInvalid(
                f"node {node.label()} reads tensor {tensor.name} before it is written: the graph has a cycle"
            )
        used = tensor.role is not TensorRole.HELPER and any(live[place:])
        if used or (place == 0 and node.op != "InputOperator"):
            raise ModelInvalid(
                f"node {node.label()}: its operand {place}, tensor {tensor.name}, is written by no node and holds "
                "no data"
            )


def check_constants(node: Node, operands: Operands) -> None:
    """Constants beside int16 values must be int16, too: the converter calls some int8 and stores their first half only."""
    known = [tensor for tensor in operands if tensor is not None]
    if node.op not in _JOINS or all(tensor.dtype is not DType.INT16 for tensor in known):
        return
    for tensor in known:
        if tensor.role is TensorRole.CONST and tensor.dtype is DType.INT8 and tensor.quant is not None:
            raise ModelUnsupported(
                f"node {node.label()}: the constant {tensor.name} is int8 beside int16 values: the converter stored half "
                "of it, and the NPU computes nonsense, too; convert in int8 or float16, or give the constant as an input"
            )


_JOINS = (
    "Add",
    "AddRelu",
    "Sub",
    "SubRelu",
    "Mul",
    "MulRelu",
    "Div",
    "Max",
    "Min",
    "Pow",
    "BatchNormalization",
)
_SMALL = min(SMALL_CONSTANTS.values())
_MOST_REACH = 160  # of a dilated kernel, beside what it may do on a large picture


def check_convolution(
    node: Node, conv: ConvParams, y: Tensor, family: NpuFamily, registers: Registers
) -> None:
    """The register commands must be those of this convolution: same kernel, same output zero point.

    A kernel that is too large for its registers makes ``node.overflow``: all else is whole.
    """
    if not any(place < _SMALL for place in registers):  # beyond lie constants beside the node
        raise ModelInvalid(
            f"node {node.label()} has no register commands; if the converter wrote none, the NPU cannot compute it either: give "
            "the layer a smaller kernel or dilation or fewer channels, or convert for another SoC"
        )
    for taps, dilation, size in zip(conv.weight_shape[2:], conv.dilations, y.shape[2:]):
        reach = (taps - 1) * dilation + 1
        if reach > _MOST_REACH + 4 * size * max(conv.strides):
            raise ModelInvalid(
                f"node {node.label()}: its registers spread a kernel of {taps} over {reach} positions, its output has "
                f"{size}"
            )
    kernel = family.places.kernel_size(registers)
    if kernel is None:
        return
    columns = conv.weight_shape[3] == y.shape[3] == 1  # rk3566 and rk3568 have a column computed as a row
    wanted = conv.weight_shape[2:][::-1] if columns and kernel[0] == 1 else conv.weight_shape[2:]
    if kernel not in (wanted, conv.weight_shape[2:]):
        sizes = (
            f"registers are for a kernel of {kernel[0]}x{kernel[1]}, its weight is {wanted[0]}x{wanted[1]}"
        )
        if kernel != family.places.held(wanted):
            raise ModelInvalid(f"node {node.label()}: its {sizes}")
        node.overflow = f"its {sizes}, and they hold no more than {family.places.largest_kernel}"
    stage = node.stage
    if conv.quantised and y.quant is not None and stage is not None:
        if stage.zero_point != y.quant.zero_point:
            raise ModelInvalid(
                f"node {node.label()}: its registers give zero point {stage.zero_point}, its output {y.name} has "
                f"{y.quant.zero_point}"
            )
        if stage.scale <= 0:
            raise ModelInvalid(f"node {node.label()}: its registers give the output scale {stage.scale}")


def check_inputs(inputs: Sequence[int], tensors: list[Tensor], fetched: Sequence[int] = ()) -> None:
    """What the caller fills: no constants, and all that the input nodes fetch (``fetched``)."""
    for index in inputs:
        if tensors[index].role is TensorRole.CONST:
            raise ModelInvalid(f"input {tensors[index].name} is stored in the file as a constant")
    for index in fetched:
        if index not in inputs:
            raise ModelInvalid(
                f"node InputOperator fetches tensor {tensors[index].name}, which is no input of the graph"
            )


def unread_bias(conv: ConvParams, read: bool) -> list[str]:
    """What to say of a convolution with computed weights whose commands do not read its bias, as the converter writes them
    for RK3562, RK3576, RV1126B and RV1103B where a function follows."""
    if read or conv.bias is None or not conv.bias.any():
        return []
    return [
        "its weights are computed, and its register commands leave its bias out, as a board does; it is added here, as "
        "the vendor's simulator does. Put an operator (Identity) between the layer and what follows"
    ]
