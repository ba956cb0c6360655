"""Which shapes go together: what each type of nodes makes of its operands, judged before anything is computed.

A result has as many elements as its node computes, for any values; where values decide (indices, lengths), what must hold for
all of them is judged. Readers ask for every node of a file, a backend for every node that it prepares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Optional

from rknnlite.errors import ModelInvalid

from .graph import RECURRENT_GATES, Node, Tensor, TensorRole
from .operators import Shape, operator_of
from .product_shapes import attended, gemm, item_product, joint, plain_recurrent, product

__all__ = ["check_shapes"]

Operands = Sequence[Optional[Tensor]]


class _Missing(Exception):
    """A rule asks for an operand that is not there."""


class _Given(list[Optional[Tensor]]):
    """Operands as rules see them."""

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, int) and place >= len(self):
            raise _Missing(place)
        return super().__getitem__(place)


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
    rule = _convolved if node.conv is not None else _RULES.get(node.op) or _RULES_OF_SHAPES.get(shape)
    try:
        fits = rule is None or rule(node, x, _Given(operands), y)
        more = _RULES_OF_RESULTS.get(node.op)
        fits = fits and (more is None or more(node, x, results))
    except _Missing as missing:
        raise ModelInvalid(f"node {node.label()}: operand {missing} is missing") from None
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError, ZeroDivisionError):
        fits = False
    if not fits:
        told = ", ".join("none" if tensor is None else str(list(tensor.shape)) for tensor in operands)
        raise ModelInvalid(
            f"node {node.label()}: operands of shape [{told}] do not give its result {list(y.shape)} ({y.name})"
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


def _together(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    return prod(joint(*(tensor.shape for tensor in operands if tensor is not None))) == prod(y.shape)


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


def _convolved(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    """Channels and items; padding follows from the sizes. A further operand is spread over the result."""
    conv = node.conv
    if conv is None:
        return True  # nobody has decoded it, which is told elsewhere
    channels, inputs = conv.weight_shape[0], conv.weight_shape[0 if conv.depthwise else 1]
    if (
        len(x.shape) != 4
        or len(y.shape) != 4
        or x.shape[1] != inputs
        or y.shape[:2] != (x.shape[0], channels)
    ):
        return False
    given = [part for part in (conv.bias, conv.multiplier, conv.zero_point) if part is not None]
    if any(len(part) != channels for part in given):
        return False
    if conv.slope is not None and conv.slope.shape not in ((channels,), y.shape[1:]):
        return False
    more = operands[1] if len(operands) > 1 and not conv.computed else None
    return more is None or joint(more.shape, y.shape) == y.shape


def _per_channel(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    factors = [prod(tensor.shape) for tensor in operands[1:3] if tensor is not None]
    return len(x.shape) > 1 and x.shape == y.shape and all(n in (1, x.shape[1]) for n in factors)


def _sloped(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    slope = operands[1]
    if slope is None:
        return False
    if len(slope.shape) < len(x.shape) and prod(slope.shape) == x.shape[1]:
        return prod(x.shape) == prod(y.shape)
    return prod(joint(x.shape, slope.shape)) == prod(y.shape)


def _normalised(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    """Gamma and beta go along the normalised axes, or with all of them."""
    axes = node.attrs.get("axes") or [node.attrs.get("axis", -1)]
    inside = {int(axis) % len(x.shape) for axis in axes if -len(x.shape) <= int(axis) < len(x.shape)}
    along = prod(n for axis, n in enumerate(x.shape) if axis in inside)
    more = [tensor.shape for tensor in operands[1:3] if tensor is not None]
    fits = all(prod(shape) == along or joint(shape, x.shape) == x.shape for shape in more)
    return len(inside) == len(set(axes)) and fits and prod(x.shape) == prod(y.shape)


def _normalised_along(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    axes, rank = node.attrs.get("axes") or (0, 2, 3), len(x.shape)
    inside = {axis % rank for axis in axes if -rank <= axis < rank}
    return len(inside) == len(axes) and prod(x.shape) == prod(y.shape)


def _scattered(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    """Elements or cells of a copy are replaced: as many updates as there are places."""
    index, updates = operands[1], operands[2]
    if index is None or updates is None or prod(x.shape) != prod(y.shape):
        return False
    if node.op == "ScatterND":
        depth = index.shape[-1]
        return depth <= len(x.shape) and updates.shape == (*index.shape[:-1], *x.shape[depth:])
    axis = node.attrs.get("axis", 0) % len(x.shape)
    fits = len(index.shape) == len(x.shape) and updates.shape == index.shape
    return fits and all(axis == i or n <= m for i, (n, m) in enumerate(zip(index.shape, x.shape)))


def _grouped(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    groups = int(node.attrs.get("num_groups") or 1)
    more = [prod(tensor.shape) for tensor in operands[1:3] if tensor is not None]
    whole = groups > 0 and prod(x.shape[1:]) % groups == 0 and all(n and x.shape[1] % n == 0 for n in more)
    return len(x.shape) > 1 and whole and prod(x.shape) == prod(y.shape)


def _stretched(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    return joint(x.shape, y.shape) == y.shape


def _largest(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    axis = int(node.attrs.get("axis", -1)) % len(x.shape)
    others = [(*shape[:axis], *shape[axis + 1 :]) for shape in (x.shape, y.shape)]
    return len(x.shape) == len(y.shape) and others[0] == others[1] and y.shape[axis] <= x.shape[axis]


def _one_hot(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    depth, values = operands[1], operands[2]
    axis = int(node.attrs.get("axis", -1)) % (len(x.shape) + 1)
    if depth is None or values is None or prod(values.shape) < 2 or len(y.shape) != len(x.shape) + 1:
        return False
    return (*y.shape[:axis], *y.shape[axis + 1 :]) == x.shape


def _boxes(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    """Regions of a feature map, as many as there are boxes."""
    boxes, items = operands[1], operands[2] if len(operands) > 2 else None
    width = 4 if items is not None else 5
    fits = boxes is not None and len(x.shape) == len(y.shape) == 4 and len(boxes.shape) == 2
    if not fits or boxes is None:
        return False
    whole = items is None or prod(items.shape) >= boxes.shape[0]
    return whole and boxes.shape[1] == width and y.shape[:2] == (boxes.shape[0], x.shape[1])


def _unpooled(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    return operands[1] is not None and prod(operands[1].shape) == prod(x.shape)


def _parted(node: Node, x: Tensor, results: Sequence[Tensor]) -> bool:
    """Every part has the sizes of the whole but along the axis, where they add up."""
    axis = int(node.attrs.get("axis", 0)) % len(x.shape)
    sizes = [tensor.shape[axis] for tensor in results]
    others = {(*tensor.shape[:axis], *tensor.shape[axis + 1 :]) for tensor in (x, *results)}
    return len(others) == 1 and sum(sizes) == x.shape[axis]


def _with_places(node: Node, x: Tensor, results: Sequence[Tensor]) -> bool:
    """Where the values were, one place for each."""
    return all(prod(tensor.shape) == prod(results[0].shape) for tensor in results)


def _with_states(node: Node, x: Tensor, results: Sequence[Tensor]) -> bool:
    """The last states, H for each direction and item of the batch."""
    if node.recurrent is None:
        return True
    state = node.recurrent.directions * node.recurrent.hidden * prod(x.shape[1:-1])
    return all(prod(tensor.shape) == state for tensor in results[1:])


def _determined(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    return len(x.shape) > 1 and x.shape[-1] == x.shape[-2] and prod(x.shape[:-2]) == prod(y.shape)


def _turned(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    """Each size where ``perm`` puts it; a result of as many elements may be called otherwise."""
    perm = node.attrs.get("perm")
    return prod(x.shape) == prod(y.shape) and (not perm or sorted(perm) == list(range(len(x.shape))))


def _along_axis(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    axis = node.attrs.get("axis", -1)
    return prod(x.shape) == prod(y.shape) and (
        not isinstance(axis, int) or -len(x.shape) <= axis < len(x.shape)
    )


Rule = Callable[[Node, Tensor, Operands, Tensor], bool]
_RULES_OF_SHAPES: dict[Shape, Rule] = {
    Shape.BROADCAST: _together,
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
    "MatMul": product,
    "Gemm": gemm,
    "Where": _chosen,
    "GatherND": _gathered_cells,
    "GatherElements": _gathered_elements,
    "Gather": _gathered,
    "GridSample": _sampled,
    "exConvTransposePad": _spread,
    **dict.fromkeys(("BatchNormalization", "BatchNormalizationRelu"), _per_channel),
    **dict.fromkeys(("exNorm", "LayerNormalization"), _normalised),
    **dict.fromkeys(("exSoftmax13", "Softmax", "LogSoftmax", "Hardmax"), _along_axis),
    **dict.fromkeys(("RoiAlign", "MaxRoiPool"), _boxes),
    "Expand": _stretched,
    "PRelu": _sloped,
    "GroupNormalization": _grouped,
    "MeanVarianceNormalization": _normalised_along,
    **dict.fromkeys(("ScatterND", "ScatterElements", "Scatter"), _scattered),
    "exMatMul": item_product,
    "exSDPAttention": attended,
    "TopK": _largest,
    "OneHot": _one_hot,
    "MaxUnpool": _unpooled,
    "Det": _determined,
    "Transpose": _turned,
    "RNN": plain_recurrent,
}
"""Those of single operators."""
_RULES_OF_RESULTS: dict[str, Callable[[Node, Tensor, Sequence[Tensor]], bool]] = {
    "Split": _parted,
    **dict.fromkeys(("TopK", "MaxPool"), _with_places),
    **dict.fromkeys(RECURRENT_GATES, _with_states),
}
"""Of operators with several results."""
