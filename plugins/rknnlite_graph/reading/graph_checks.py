"""Whether the parts of a graph fit each other: refused at load, with the node's name, when they do not.

Shapes are judged by what must hold for any values: a result has as many elements as its node computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Optional

from rknnlite.errors import ModelInvalid, ModelUnsupported
from rknnlite.tensor import DType

from ..graph import ConvParams, Node, Tensor, TensorRole
from ..operators import Shape, operator_of
from .npu_families import NpuFamily
from .register_map import SMALL_CONSTANTS, Registers

__all__ = ["check_constants", "check_convolution", "check_inputs", "check_operands", "check_shapes"]

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


# -- shapes --------------------------------------------------------------------------------------------------


def check_shapes(node: Node, operands: Operands, results: Sequence[Tensor]) -> None:
    """Operands and results of a node must fit each other. Raises ModelInvalid naming the node and the shapes.

    Args:
        operands: as ``node.inputs``, None for those that are not given.
    """
    x = operands[0] if operands else None
    if x is None or not results:
        return
    if node.conv is not None and x.role is TensorRole.CONST:
        raise ModelInvalid(
            f"node {node.label()}: its input {x.name} is a constant, a convolution computes on inputs"
        )
    y = results[0]
    row = operator_of(node.op)
    shape = row.shape if row is not None else Shape.OTHER
    if shape in (Shape.UNARY, Shape.SAME) and prod(x.shape) != prod(y.shape):
        raise ModelInvalid(f"node {node.label()} gives shape {list(x.shape)}, the file says {list(y.shape)}")
    rule = _RULES.get(node.op) or _RULES_OF_SHAPES.get(shape)
    try:
        fits = rule is None or rule(node, x, operands, y)
    except (IndexError, ValueError, ZeroDivisionError, TypeError):
        fits = False
    if not fits:
        shapes = [list(tensor.shape) for tensor in operands if tensor is not None]
        raise ModelInvalid(
            f"node {node.label()}: operands of shape {shapes} do not give its result {list(y.shape)}"
        )


def _reduced(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    """The axes that stay give the result; those of an operand that is computed are not known yet."""
    axes = node.attrs.get("axes")
    stored = operands[1] if len(operands) > 1 else None
    if stored is not None:
        if stored.role is not TensorRole.CONST:
            return True
        axes = stored.value().reshape(-1).tolist()
    rank = len(x.shape)
    gone = {axis % rank for axis in axes} if axes else set(range(rank))
    return prod(n for axis, n in enumerate(x.shape) if axis not in gone) == prod(y.shape)


def _one_axis(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    axis = node.attrs.get("axis", 0)
    return bool(prod(x.shape) == prod(y.shape) * x.shape[axis])


def _pooled(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    return len(x.shape) == len(y.shape) == 4 and x.shape[:2] == y.shape[:2]


def _pooled_to_one(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    return prod(x.shape[:2]) == prod(y.shape)


def _gathered(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    index, axis = operands[1], node.attrs.get("axis", 0)
    return index is not None and prod(x.shape) * prod(index.shape) == prod(y.shape) * x.shape[axis]


def _sampled(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    grid = operands[1]
    fits = grid is not None and len(x.shape) == len(grid.shape) == 4 and grid.shape[3] == 2
    return (
        fits
        and grid is not None
        and (*x.shape[:2], *grid.shape[1:3]) == y.shape
        and x.shape[0] == grid.shape[0]
    )


def _joined(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    axis = node.attrs.get("axis", 0) % len(x.shape)
    shapes = [tensor.shape for tensor in operands if tensor is not None]
    others = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes if len(shape) == len(x.shape)}
    total = prod(others.pop()) * sum(shape[axis] for shape in shapes)
    return not others and len({len(shape) for shape in shapes}) == 1 and total == prod(y.shape)


def _spread(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    """Inputs of a transposed convolution with zeros between and around them."""
    words = ("strides", "kernel_shape", "dilations", "pads")
    strides, kernel, dilations, pads = (node.attrs.get(word, [int(word != "pads")] * 2) for word in words)
    first = [dilations[i] * (kernel[i] - 1) - pads[i] for i in range(2)]
    last = [first[i] + (x.shape[2 + i] - 1) * strides[i] for i in range(2)]
    inside = min(first) >= 0 and last[0] < y.shape[2] and last[1] < y.shape[3]
    return inside and len(x.shape) == len(y.shape) == 4 and x.shape[:2] == y.shape[:2]


def _recurrent(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    """x [T, B, I], Y [T, D, B, H] in some order of axes; states of D * H elements for each of the batch."""
    params = node.recurrent
    if params is None:
        return True
    steps, batch, width = x.shape[0], prod(x.shape[1:-1]), params.directions * params.hidden
    for state in operands[2:4]:
        rows, rest = divmod(prod(state.shape), width) if state is not None else (batch, 0)
        if rest or (rows < batch and rows != 1):
            return False
    return x.shape[-1] == params.w.shape[-1] and steps * batch * width == prod(y.shape)


def _joint(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that shapes have together, as numpy broadcasts them; raises ValueError when they have none."""
    rank = max(map(len, shapes))
    sizes = list(zip(*((1,) * (rank - len(shape)) + tuple(shape) for shape in shapes)))
    if any(len(set(at) - {1}) > 1 for at in sizes):
        raise ValueError("they do not go together")
    return tuple(next((n for n in at if n != 1), 1) for at in sizes)


def _multiplied(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    """The shape of ``numpy.matmul``; raises ValueError or IndexError when there is no product."""
    a, b = (1, *a) if len(a) == 1 else a, (*b, 1) if len(b) == 1 else b
    if a[-1] != b[-2]:
        raise ValueError("the inner sizes differ")
    return (*_joint(a[:-2], b[:-2], ()), a[-2], b[-1])


def _product(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    b = operands[1]
    return b is not None and prod(_multiplied(x.shape, b.shape)) == prod(y.shape)


def _gemm(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    b, c = operands[1], operands[2] if len(operands) > 2 else None
    if b is None:
        return False
    left = x.shape[::-1] if node.attrs.get("transA") else x.shape
    right = b.shape[::-1] if node.attrs.get("transB") else b.shape
    found = _multiplied(left, right)
    return prod(found if c is None else _joint(found, c.shape)) == prod(y.shape)


def _together(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    return prod(_joint(*(tensor.shape for tensor in operands if tensor is not None))) == prod(y.shape)


def _chosen(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    return len([tensor for tensor in operands if tensor is not None]) == 3 and _together(node, x, operands, y)


def _gathered_cells(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    index, batch = operands[1], node.attrs.get("batch_dims", 0)
    if index is None or not 0 <= batch < min(len(x.shape), len(index.shape)):
        return False
    depth = index.shape[-1]
    cell = x.shape[batch + depth :]
    fits = batch + depth <= len(x.shape) and x.shape[:batch] == index.shape[:batch]
    return fits and prod(index.shape[:-1]) * prod(cell) == prod(y.shape)


def _gathered_elements(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    index, axis = operands[1], node.attrs.get("axis", 0) % len(x.shape)
    if index is None or len(index.shape) != len(x.shape) or prod(index.shape) != prod(y.shape):
        return False
    return all(axis == i or 1 <= n <= m for i, (n, m) in enumerate(zip(index.shape, x.shape)))


def _deep_to_wide(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    block = node.attrs.get("blocksize", 1)
    return len(x.shape) == 4 and block > 0 and x.shape[1] % block**2 == 0 and prod(x.shape) == prod(y.shape)


def _wide_to_deep(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    block = node.attrs.get("blocksize", 1)
    whole = len(x.shape) == 4 and block > 0 and x.shape[2] % block == x.shape[3] % block == 0
    return whole and prod(x.shape) == prod(y.shape)


Rule = Callable[[Node, Tensor, Operands, Tensor], bool]
_RULES_OF_SHAPES: dict[Shape, Rule] = {  # where elements are reshaped or operands broadcast, kernels check
    Shape.REDUCED: _reduced,
    Shape.ONE_AXIS: _one_axis,
    Shape.POOLED: _pooled,
    Shape.POOLED_TO_ONE: _pooled_to_one,
    Shape.RECURRENT: _recurrent,
}
_RULES: dict[str, Rule] = {
    **dict.fromkeys(("Mean", "Mod"), _together),
    "Concat": _joined,
    "DepthToSpace": _deep_to_wide,
    "SpaceToDepth": _wide_to_deep,
    "MatMul": _product,
    "Gemm": _gemm,
    "Where": _chosen,
    "GatherND": _gathered_cells,
    "GatherElements": _gathered_elements,
    "Gather": _gathered,
    "GridSample": _sampled,
    "exConvTransposePad": _spread,
}
"""Those of single operators."""
