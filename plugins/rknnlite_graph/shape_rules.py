"""Which shapes go together: what each type of nodes makes of its operands, judged before anything is computed.

A result has as many elements as its node computes, for any values; where values decide (indices, lengths), what must hold for
all of them is judged. Readers ask for every node of a file, a backend for every node that it prepares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Optional

from rknnlite.errors import ModelInvalid

from .graph import RECURRENT_GATES, Node, Tensor, TensorRole
from .operators import Shape, convolution_types, operator_of

__all__ = ["check_shapes"]

Operands = Sequence[Optional[Tensor]]


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
        more = _RULES_OF_RESULTS.get(node.op)
        fits = fits and (more is None or more(node, x, results))
    except (IndexError, ValueError, ZeroDivisionError, TypeError):
        fits = False
    if not fits:
        shapes = [list(tensor.shape) for tensor in operands if tensor is not None]
        raise ModelInvalid(
            f"node {node.label()}: operands of shape {shapes} do not give its result {list(y.shape)} ({y.name})"
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


def _convolved(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    """Channels and items; padding follows from the sizes. A further operand is spread over the result."""
    conv = node.conv
    if conv is None:
        return True  # nobody has decoded it, which is told elsewhere
    channels, inputs = conv.weight_shape[0], conv.weight_shape[0 if conv.depthwise else 1]
    if len(x.shape) != 4 or len(y.shape) != 4 or x.shape[1] != inputs or y.shape[:2] != (x.shape[0], channels):
        return False
    more = operands[1] if len(operands) > 1 and not conv.computed else None
    return more is None or _joint(more.shape, y.shape) == y.shape


def _per_channel(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    factors = [prod(tensor.shape) for tensor in operands[1:3] if tensor is not None]
    return len(x.shape) > 1 and x.shape == y.shape and all(n in (1, x.shape[1]) for n in factors)


def _sloped(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    slope = operands[1]
    if slope is None:
        return False
    if len(slope.shape) < len(x.shape) and prod(slope.shape) == x.shape[1]:
        return prod(x.shape) == prod(y.shape)
    return prod(_joint(x.shape, slope.shape)) == prod(y.shape)


def _normalised(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    """Gamma and beta go along the normalised axes, or with all of them."""
    axes = node.attrs.get("axes") or [node.attrs.get("axis", -1)]
    inside = {int(axis) % len(x.shape) for axis in axes if -len(x.shape) <= int(axis) < len(x.shape)}
    along = prod(n for axis, n in enumerate(x.shape) if axis in inside)
    more = [tensor.shape for tensor in operands[1:3] if tensor is not None]
    fits = all(prod(shape) == along or _joint(shape, x.shape) == x.shape for shape in more)
    return len(inside) == len(set(axes)) and fits and prod(x.shape) == prod(y.shape)


def _grouped(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    groups = int(node.attrs.get("num_groups") or 1)
    more = [prod(tensor.shape) for tensor in operands[1:3] if tensor is not None]
    whole = groups > 0 and prod(x.shape[1:]) % groups == 0 and all(n and x.shape[1] % n == 0 for n in more)
    return len(x.shape) > 1 and whole and prod(x.shape) == prod(y.shape)


def _item_product(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    """A [B, K, 1, M] and B [B, K, 1, N] give [B, M, 1, N], which a third operand may spread."""
    b, c = operands[1], operands[2] if len(operands) > 2 else None
    if b is None or len(x.shape) != 4 or len(b.shape) != 4 or x.shape[1] != b.shape[1]:
        return False
    found = (*_joint(x.shape[:1], b.shape[:1]), x.shape[3], 1, b.shape[3])
    return prod(found if c is None else _joint(found, c.shape)) == prod(y.shape) and min(x.shape[2], b.shape[2]) > 0


def _attended(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    """q, k, v [heads, d, 1, tokens] and a mask [.., tokens of k, 1, tokens of q] -> [heads, d of v, 1, tokens of q]."""
    k, v = operands[1:3]
    mask = operands[3] if len(operands) > 3 else None
    if k is None or v is None or any(len(tensor.shape) != 4 for tensor in (x, k, v)) or x.shape[1] != k.shape[1]:
        return False
    heads = _joint(x.shape[:1], k.shape[:1])
    scores: tuple[int, ...] = (*heads, x.shape[3], k.shape[3])
    if mask is not None:
        if len(mask.shape) != 4 or mask.shape[2] < 1:
            return False
        scores = _joint(scores, (mask.shape[0], mask.shape[3], mask.shape[1]))
    fits = scores[2] == v.shape[3] and len(scores) == 3
    return fits and prod((*_joint(scores[:1], v.shape[:1]), v.shape[1], scores[1])) == prod(y.shape)


def _stretched(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    return _joint(x.shape, y.shape) == y.shape


def _largest(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    axis = int(node.attrs.get("axis", -1)) % len(x.shape)
    others = [(*shape[:axis], *shape[axis + 1 :]) for shape in (x.shape, y.shape)]
    return len(x.shape) == len(y.shape) and others[0] == others[1] and y.shape[axis] <= x.shape[axis]


def _one_hot(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    depth, values = operands[1:3]
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


def _halved(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    changed = [i for i, (before, after) in enumerate(zip(x.shape, y.shape)) if before != after]
    return len(x.shape) == len(y.shape) and len(changed) == 1 and x.shape[changed[0]] == 2 * y.shape[changed[0]]


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
    return prod(x.shape) == prod(y.shape) and (not isinstance(axis, int) or -len(x.shape) <= axis < len(x.shape))


def _plain_recurrent(node: Node, x: Tensor, operands: Operands, y: Tensor) -> bool:
    """x [T, B, I], w [D, H, I], r [D, H, H] -> [T, D, B, H]."""
    w, r = operands[1:3]
    if w is None or r is None or any(len(tensor.shape) != 3 for tensor in (x, w, r)):
        return False
    directions, hidden, inputs = w.shape
    b, h0 = (operands[i] if len(operands) > i else None for i in (3, 5))
    fits = (b is None or b.shape == (directions, 2 * hidden)) and r.shape == (directions, hidden, hidden)
    fits = fits and (h0 is None or h0.shape == (directions, x.shape[1], hidden))
    return fits and inputs == x.shape[2] and prod((*x.shape[:2], directions, hidden)) == prod(y.shape)


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
    "MatMul": _product,
    "Gemm": _gemm,
    "Where": _chosen,
    "GatherND": _gathered_cells,
    "GatherElements": _gathered_elements,
    "Gather": _gathered,
    "GridSample": _sampled,
    "exConvTransposePad": _spread,
    **dict.fromkeys(convolution_types(), _convolved),
    **dict.fromkeys(("BatchNormalization", "BatchNormalizationRelu"), _per_channel),
    **dict.fromkeys(("exNorm", "LayerNormalization"), _normalised),
    **dict.fromkeys(("exSoftmax13", "Softmax", "LogSoftmax", "Hardmax"), _along_axis),
    **dict.fromkeys(("RoiAlign", "MaxRoiPool"), _boxes),
    "Expand": _stretched,
    "PRelu": _sloped,
    "GroupNormalization": _grouped,
    "exMatMul": _item_product,
    "exSDPAttention": _attended,
    "TopK": _largest,
    "OneHot": _one_hot,
    "exGlu": _halved,
    "MaxUnpool": _unpooled,
    "Det": _determined,
    "Transpose": _turned,
    "RNN": _plain_recurrent,
}
"""Those of single operators."""
_RULES_OF_RESULTS: dict[str, Callable[[Node, Tensor, Sequence[Tensor]], bool]] = {
    "Split": _parted,
    **dict.fromkeys(("TopK", "MaxPool"), _with_places),
    **dict.fromkeys(RECURRENT_GATES, _with_states),
}
"""Of operators with several results."""
