"""Steps inside int8 matrix products and attention nodes: the file gives them in registers only.

The NPU uses one operand of a product in place of weights, so it is requantised to have no zero point. With the step
``s'`` of that operand, and OUT the factor of the output stage (docs/rknn-format.md, operators):

* a product A * B: OUT = a_step * s' / output_step, times the step of a further int8 factor;
* the scores of an attention node, stored as int8 with the mask added: OUT = s' * k_step / score_step (s' is that of
  q), the output offset is their zero point. With a mask also OUT * MASK = mask_step / score_step;
* its softmax, stored as int8: OUT = 2 * weight_step * v_step / output_step, zero point -128.

The steps of stored tensors are in the file; so each line gives the one that is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Optional

from ..graph import Tensor
from .mini_registers import T3, W1, Field
from .registers import RegisterProgram
from .stages import Family

__all__ = ["attention_steps", "product_steps"]

_INPUT_FACTOR, _INPUT_SHIFT = Field(0x1050, 0, 16), Field(0x104C, 4, 6)
_IDLE = (0.0, 1.0)
_MOST_STAGES = 16  # a genuine node has three or four
_STEPS = (1e-9, 1e9)


class _Places(NamedTuple):
    """Fields of the output stage, and of the factor of a second operand."""

    offset: Field
    scale: Field
    shift: Field
    operand: int


_OLD = _Places(T3.out_offset, T3.out_scale, T3.out_shift, 0x4078)
_NEW = _Places(Field(0x40AC, signed=True), Field(0x40B0, 0, 16), Field(0x40B4, 0, 12), 0x4084)
_PLACES = {
    Family.V1: _OLD, Family.T3: _OLD, Family.V2A: _NEW, Family.V2B: _NEW,
    Family.W1: _Places(W1.out_offset, W1.out_scale, W1.out_shift, 0),
}  # fmt: skip


class _Output(NamedTuple):
    scale: float
    offset: int
    operand: float
    input_factor: float


def attention_steps(
    family: Family, program: RegisterProgram, node: int, operands: list[Tensor], output: Tensor
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
    stages = _outputs(_PLACES[family], program, node)
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
            return {"score_step": step, "score_zero_point": scores.offset, "weight_step": weight_step}
    return {}


def product_steps(
    family: Family, program: RegisterProgram, node: int, operands: list[Tensor], output: Tensor
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
    stages = _outputs(_PLACES[family], program, node)
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


def _outputs(places: _Places, program: RegisterProgram, node: int) -> list[_Output]:
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


def _output(places: _Places, regs: Mapping[int, int]) -> Optional[_Output]:
    scale = places.scale.of(regs) * 2.0 ** -places.shift.of(regs)
    if scale in _IDLE:
        return None
    word = regs.get(places.operand, 0)
    operand = (word & 0xFFFF) * 2.0 ** -(word >> 16 & 0x3F)
    return _Output(
        scale, places.offset.of(regs), operand, _INPUT_FACTOR.of(regs) * 2.0 ** -_INPUT_SHIFT.of(regs)
    )
