"""Scales inside int8 matrix products and attention nodes: the file gives them in registers only.

The NPU uses one operand of a product in place of weights, so it is requantised to have no zero point. With the step
``s'`` of that operand, and OUT the factor of the output stage (docs/rknn-format.md, operators):

* a product A * B: OUT = a_step * s' / output_step, times the step of a further int8 factor;
* the scores of an attention node, stored as int8 with the mask added: OUT = s' * k_step / score_step (s' is that of
  q), the output offset is their zero point. With a mask also OUT * MASK = mask_step / score_step;
* its softmax, stored as int8: OUT = 2 * weight_step * v_step / output_step, zero point -128.

The steps of stored tensors are in the file; so each line gives the one that is not.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import numpy as np

from rknnlite.errors import ModelUnsupported

from ..graph import Node, Tensor
from .npu_families import NpuFamily
from .register_map import RegisterMap, Registers, scaled
from .registers import RegisterProgram

__all__ = ["attention_steps", "hidden_attributes", "product_steps"]

Shape = tuple[int, ...]
_IDLE = (0.0, 1.0)
_MOST_STAGES = 16  # a genuine node has three or four
_STEPS = (1e-9, 1e9)


class _Output(NamedTuple):
    scale: float
    offset: int
    operand: float
    input_factor: float


def attention_steps(
    family: NpuFamily, program: RegisterProgram, node: int, operands: list[Tensor], output: Tensor
) -> dict[str, Any]:
    """``score_step``, ``score_zero_point`` and ``weight_step``; nothing for floats, or where they do not fit.

    Args:
        operands: q, k, v and, if there is one, the mask.
    """
    if len(operands) < 3 or output.quant is None:
        return {}
    q, k, v = operands[:3]
    if q.quant is None or k.quant is None or v.quant is None or not k.shape:
        return {}
    stages = _outputs(family.places, program, node)
    if not stages:
        return {}
    scores, mask = stages[0], operands[3].quant if len(operands) > 3 else None
    if mask is not None and scores.operand:
        step = mask.scale / (scores.scale * scores.operand)
    else:
        step = _symmetric_step(q, scores.input_factor) * k.quant.scale / scores.scale
    if not _STEPS[0] < step < _STEPS[1]:
        return {}
    least = 0.95 / max(k.shape[-1], 1)  # the largest of n weights that add up to 1 is at least 1 / n
    for stage in stages[1:]:
        weight_step = stage.scale * output.quant.scale / (2 * v.quant.scale)
        if stage.offset == output.quant.zero_point and least <= 255 * weight_step <= 1.01:
            weight_step = _whole(weight_step)
            return {"score_step": step, "score_zero_point": scores.offset, "weight_step": weight_step}
    return {}


def _whole(step: float) -> float:
    """The step of weights up to 1 where registers, fractions of 15 bits, cannot tell it from that.

    A causal mask makes such a weight, and others of 1/2 and 1/10, which lie half way between two levels.
    """
    whole = float(np.float32(1 / 255))
    return whole if abs(step / whole - 1) < 2.0**-14 else step


def product_steps(
    family: NpuFamily, program: RegisterProgram, node: int, operands: list[Tensor], output: Tensor
) -> dict[str, Any]:
    """``b_step``: the step of B of an int8 product without zero point, where B does not say its calibrated range.

    With a zero point of 0 the NPU takes B as it is; the vendor's simulator requantises all the same, in a step that is
    then known to half a percent.
    """
    if len(operands) < 2 or output.quant is None:
        return {}
    a, b = operands[:2]
    if a.quant is None or b.quant is None or b.value_range is not None:
        return {}
    nearly = b.quant.scale * max(128 + b.quant.zero_point, 127 - b.quant.zero_point) / 127
    stages = _outputs(family.places, program, node)
    if b.quant.zero_point == 0 or not stages:
        return {"b_step": nearly}
    factor = operands[2].quant if len(operands) > 2 else None
    for third in (1.0, factor.scale if factor is not None else 1.0):
        step = stages[-1].scale * output.quant.scale / (a.quant.scale * third)
        if 0.99 < step / nearly < 1.01:
            return {"b_step": step}
    return {"b_step": nearly}


def _symmetric_step(tensor: Tensor, input_factor: float) -> float:
    """The step of an int8 tensor without its zero point; ``input_factor`` is its own over that step."""
    assert tensor.quant is not None
    if tensor.quant.zero_point == 0:
        return tensor.quant.scale
    if tensor.value_range is not None:
        return max(abs(limit) for limit in tensor.value_range) / 127
    return tensor.quant.scale / (input_factor if 0.49 < input_factor < 1.01 else 1.0)


def _outputs(places: RegisterMap, program: RegisterProgram, node: int) -> list[_Output]:
    """The distinct output stages of the node's runs, in order, without those that pass values on."""
    found: list[_Output] = []
    kept: dict[int, int] = {}
    for regs in program.registers(node):
        kept.update(regs)
        stage = _output(places, kept)
        if (
            stage is not None
            and len(found) < _MOST_STAGES
            and stage[:2] not in [known[:2] for known in found]
        ):
            found.append(stage)
    return found


def _output(places: RegisterMap, regs: Registers) -> Optional[_Output]:
    scale = scaled(places.out, regs)
    if scale in _IDLE:
        return None
    operand = 0.0 if places.operand_factor is None else scaled(places.operand_factor, regs)
    return _Output(scale, places.out_offset.of(regs), operand, scaled(places.input_factor, regs))


# -- mini format ---------------------------------------------------------------------------------------------


def hidden_attributes(
    family: NpuFamily, program: RegisterProgram, node: Node, tensors: list[Tensor]
) -> dict[str, Any]:
    """Attributes of a node that only its registers hold. Raises ModelUnsupported where they do not tell.

    Args:
        tensors: those of the graph.
    """
    if not family.mini:
        return {}
    if node.op == "exWindow" and not node.attrs and node.inputs and node.outputs:
        shapes = tensors[node.inputs[0]].shape, tensors[node.outputs[0]].shape
        return _windows(family.places, program, node, *shapes)
    if node.op == "exSDPAttention":
        return {"scale": _attention_scale(family.places, program, node.index)}
    if node.op == "exMatMul" and len(node.inputs) > 2:
        use = _third_operand_use(family.places, program, node.index)
        if use is None:
            raise ModelUnsupported(
                f"node {node.label()}: its registers do not tell what becomes of its third operand; separate "
                "the product from what follows it (an Identity in between) and convert again"
            )
        return {"c_type": use}
    return {}


def _products(places: RegisterMap, program: RegisterProgram, node: int) -> list[Registers]:
    """Registers of the runs that multiply matrices: they set strides."""
    assert places.strides is not None
    return [regs for regs in program.registers(node) if places.strides[0].register in regs]


def _attention_scale(places: RegisterMap, program: RegisterProgram, node: int) -> float:
    """What an attention node multiplies its scores by: the multiplier behind its first product."""
    regs: Registers = next(iter(_products(places, program, node)), {})
    return scaled(places.table_index, regs) or 1.0


def _third_operand_use(places: RegisterMap, program: RegisterProgram, node: int) -> Optional[str]:
    """What a product does with its third operand: "mul", "add", None where the registers do not say.

    The last product says it, or, where every head has a number of its own, a run behind it.
    """
    assert places.strides is not None
    runs = program.registers(node)
    products = [number for number, regs in enumerate(runs) if places.strides[0].register in regs]
    for regs in runs[products[-1] :] if products else []:
        for use, fields in (("mul", places.third_multiplies), ("add", places.third_adds)):
            if any(place.of(regs) for place in fields):
                return use
    return None


def _windows(
    places: RegisterMap, program: RegisterProgram, node: Node, source: Shape, target: Shape
) -> dict[str, Any]:
    """How a picture is cut into windows: the runs read it row by row of a window.

    Both ways swap two parts of four, [.., o, a, b, i] -> [.., o, b, a, i], height and width being the products of
    two of them each: a reversal is a partition of another picture. The registers give i, the shapes the others.
    Where windows are every k-th row and column, a first step reads rows of k elements, a second one single ones.
    """
    runs = program.registers(node.index)
    widths = [places.read_width.of(regs) + 1 for regs in runs if places.read_width.register in regs]
    row = widths[0] if widths else 0
    if row > 0 and len(source) == len(target) == 4 and 0 not in (*source, *target):
        found = _regular(row, source[2:], target[2:]) if set(widths) == {row} else {}
        if row > 1 and set(widths) == {row, 1}:
            found = _interleaved(row, source[2:], target[2:])
        if found and source[:2] == target[:2]:
            return found
    raise ModelUnsupported(
        f"node {node.label()}: its registers read rows of {row} elements, which cut {list(source)} into no windows that "
        f'make up {list(target)}; if you know them, open the model with attributes={{"{node.name}": {{"mode": '
        '"partition", "num_windows": [y, x], "window_sizes": [y, x]}}'
    )


def _regular(row: int, source: Shape, target: Shape) -> dict[str, Any]:
    """Windows ``row`` elements wide; nothing where they do not make up ``target``."""
    across = source[1] // row
    down = target[0] // across if across else 0
    if not down or (down * (source[0] // down), across * row) != source:
        return {}
    sizes = [source[0] // down, row]
    if target != (down * across, sizes[0] * row):
        return {}
    return {"mode": "partition", "num_windows": [down, across], "window_sizes": sizes}


def _interleaved(number: int, source: Shape, target: Shape) -> dict[str, Any]:
    """``number`` windows each way; all that were seen are as many down as across."""
    sizes = [source[0] // number, source[1] // number]
    whole = (number * sizes[0], number * sizes[1]) == source
    if not whole or target != (number * number, sizes[0] * sizes[1]):
        return {}
    return {"mode": "partition_num_first", "num_windows": [number, number], "window_sizes": sizes}
