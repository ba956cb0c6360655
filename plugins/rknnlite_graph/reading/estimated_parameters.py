"""Parameters that files of int16 and bfloat16 layers leave out, and what is taken for them (each is told: ``unverified_facts``).

Layers of these types have no activation tables, so alpha of Elu and of ``x * sigmoid(alpha * x)`` are nowhere as such. What is
left of the tables tells some of them (``int16_*`` and converted networks that differ in alpha alone):

* The slope beyond the upper end is 1 where alpha of the sigmoid is not 1, else ``1 / sigmoid(5.8)``.
* The families of rk3576 and rv1126b keep the table's values at both ends: ``-32767 * sigmoid(-5.8 * alpha)``; of Elu
  ``32767 * alpha * exp(-10) - 32767`` and, cut off at 0, ``32767 * (alpha - 1)``.

The converter for rk3588, rk3566 and rk3568 counts the sums of an int16 layer in steps of its bias, of which 32 bits hold any
(without a bias: steps of 2**-31), and does not round the weights to them: where their own steps are finer, the sums of the file
are 2, 4, ... times too large. For other families it shifts the accumulators by as much.

Of several Elu with another alpha each, or several ``x * sigmoid(beta * x)``, all get the table of the first in the network
(toolkit 2.5, all families and types): a board computes another function than the simulator. Calibrated ranges show most.
"""

from __future__ import annotations

from math import exp, log, log2, prod, sqrt
from typing import Any

import numpy as np

from rknnlite.errors import ParamInvalid
from rknnlite.quant import RANGES
from rknnlite.tensor import DType

from ..graph import Activation, ConvParams, Node, Stage, Tensor
from ..operators import Operator
from .inferred_attributes import SuppliedAttributes
from .register_map import RegisterMap, Registers

__all__ = ["doubtful_sums", "read_parameter"]

_TOP = 32767
_SWISH_END, _ELU_END = 16384 / 2824.787, 10.0  # arguments at the ends of the tables
_PLAIN, _QUICK = 1.0, 1.702  # SiLU, and what exporters call quick GELU
_LEAST_OF_SILU = 0.278465  # x * sigmoid(x) is never below minus this, with beta minus this / beta
_SURE = 0.01
_FINE = 0.05  # steps that tell the ends of functions apart
_NEAR = 0.51
_NEARLY_FULL, _FINEST_STEP = 1 << 30, 2.0**-31  # of biases of 32 bits
_MOST_EXCESS = 16


def read_parameter(
    node: Node, row: Operator, y: Tensor, places: RegisterMap, regs: Registers, given: SuppliedAttributes
) -> None:
    """Fill in the parameter of ``row``, the function of a layer that gives ``y``, and doubt a table that holds another."""
    assert node.stage is not None
    if node.stage.lut is not None:
        node.doubts += _doubtful_table(node.stage, row, y)
    elif node.fused is not None and node.fused.convolves:
        node.stage.parameters = (_function_parameter(node, places, regs, given),)


def _function_parameter(node: Node, places: RegisterMap, regs: Registers, given: SuppliedAttributes) -> float:
    """Alpha of the Elu or ``x * sigmoid(alpha * x)`` behind a convolution without a table; adds to ``node.doubts``.

    Raises ParamInvalid where the caller gives attributes without it.
    """
    assert node.fused is not None
    alpha, low, high = (_swish if node.fused.function == "ExSwish" else _elu)(places, regs)
    if high - low <= _SURE:
        return alpha
    told = given.of(node)
    if told is not None:
        return _told(node, told)
    between = "" if high == float("inf") and low <= 0 else f" (its registers say {low:.3g} to {high:.3g})"
    node.doubts.append(
        f"alpha of its {node.fused.function.replace('Ex', 'ex')} is not in the file; {alpha:.4g} is taken{between}; give "
        f'attributes={{"{node.op}": {{"alpha": ...}}}}, or by the node\'s name, if it is another'
    )
    return alpha


def _told(node: Node, attributes: dict[str, Any]) -> float:
    alpha = attributes.get("alpha")
    if isinstance(alpha, bool) or not isinstance(alpha, (int, float)) or not abs(alpha) < 1e6:
        raise ParamInvalid(f"attributes of node {node.label()}: alpha must be a number, not {alpha!r}")
    return float(alpha)


def _swish(places: RegisterMap, regs: Registers) -> tuple[float, float, float]:
    """(what is taken, from, to)."""
    if places.table_high[0].of(regs) != 1 << 14:
        return _PLAIN, _PLAIN, _PLAIN
    if places.table_ends is None:
        return _QUICK, 0.0, float("inf")
    steps = -places.table_ends[0].of(regs)
    low, high = (_of_sigmoid(steps + half) for half in (0.5, -0.5))
    return (_QUICK if low <= _QUICK <= high else (low + min(high, 2 * low)) / 2), low, high


def _of_sigmoid(steps: float) -> float:
    return log(_TOP / steps - 1) / _SWISH_END if 0 < steps < _TOP else float("inf")


def _elu(places: RegisterMap, regs: Registers) -> tuple[float, float, float]:
    """(what is taken, from, to)."""
    if places.table_ends is None:
        return 1.0, 0.0, float("inf")
    end, middle = (place.of(regs) for place in places.table_ends)
    if middle < 0:
        alpha = round(middle / _TOP + 1, 4)
        return alpha, alpha, alpha
    steps = end + _TOP
    low, high = (max(1.0, (steps + half) / _TOP * exp(_ELU_END)) for half in (-0.5, 0.5))
    return (low if high - low <= _SURE else (low + high) / 2), low, high


def _doubtful_table(stage: Stage, row: Operator, y: Tensor) -> list[str]:
    """What to say where the calibrated range of a result ends as that of another parameter than its table's."""
    if y.quant is None or y.dtype is not DType.INT8 or y.quant.scale > _FINE:  # int16: as long on either side
        return []
    swish, step = row.names[0] == "exSwish", y.quant.scale
    end = (RANGES[y.dtype][0] - y.quant.zero_point) * step
    usual = [p for p in (_PLAIN, _QUICK) if swish and abs(end + _LEAST_OF_SILU / p) < _NEAR * step]
    if not (usual if swish else -_PLAIN - step < end):
        return []
    (parameter,) = row.table_parameters(stage)
    if abs(parameter - usual[0]) < _SURE if swish else end > -parameter - 2 * step:
        return []
    word = f"x * sigmoid({parameter:.4g} * x)" if swish else f"Elu with alpha {parameter:.4g}"
    other = f" as that of x * sigmoid({usual[0]:.4g} * x) does" if swish else ""
    return [
        f"its table is of {word}, but its calibrated range ends at {end:.3g}{other}: the converter gives all such layers of a "
        "network the table of the first. A board computes with it, the vendor's simulator does not"
    ]


def doubtful_sums(
    node: Node, conv: ConvParams, x: Tensor, y: Tensor, weight: Tensor, means: dict[str, float]
) -> None:
    """Int16 sums that files for rk3588, rk3566 and rk3568 make too large; adds to ``node.doubts``.

    Averages that the converter makes convolutions of have weights that are known, and so is what the registers should hold.

    Args:
        means: the weights of averages whose first step was read, by name.
    """
    assert node.stage is not None and node.fused is not None and conv.multiplier is not None
    steps = np.ones(1) if y.quant is None else conv.multiplier * node.stage.scale * y.quant.scale
    real = _mean_weight(conv, x, y, weight, means)
    if real > 0 and x.quant is not None:
        excess = _power_of_two(float(steps[0]) * float(conv.weight().reshape(-1)[0]) / (real * x.quant.scale))
        if excess > 1:
            conv.multiplier = conv.multiplier / excess
            node.doubts.append(
                f"its registers make a mean {excess} times as large as its weights do; the weights are believed"
            )
        return
    largest = 0.0 if conv.bias is None else float(np.abs(conv.bias).max(initial=0))
    looked_up = node.fused.after is Activation.TABLE  # its steps are not those of the output
    finest = looked_up or bool((abs(steps / _FINEST_STEP - 1) < _SURE).any())
    if largest >= _NEARLY_FULL or (not largest and finest):
        node.doubts.append(
            "its sums may be 2, 4, ... times too large: the converter for this SoC counts them in steps of the bias, and "
            "these are as fine or as coarse as 32 bits allow"
        )


def _mean_weight(conv: ConvParams, x: Tensor, y: Tensor, weight: Tensor, means: dict[str, float]) -> float:
    """The weight of all elements of an average, 0 for other layers.

    That is 1 / n for n elements or, where a second step follows, the root of that for both.
    """
    name, _, step = weight.name.rpartition("_2conv")
    elements = prod(x.shape[2:])
    alone = conv.depthwise or conv.weight_shape[:2] == (1, 1)
    if not (alone and name and step in ("0_i1", "1_i1") and elements):
        return 0.0
    if step == "0_i1":
        means[name] = 1 / elements if y.shape[2:] == (1, 1) else 1 / sqrt(elements)
    return means.get(name, 0.0)


def _power_of_two(ratio: float) -> int:
    """The power of two next to a ratio, 1 if there is none."""
    power = log2(max(ratio, 1e-9))
    return 1 << round(power) if 0.5 < power < _MOST_EXCESS and abs(power - round(power)) < _SURE else 1
