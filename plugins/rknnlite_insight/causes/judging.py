"""From figures to a cause. Nothing is run here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Optional

import numpy as np

from ..stored_values import LARGEST_HALF
from .cause import Cause, Harm
from .edge import Edge
from .preprocessing import Wanted

__all__ = ["Evidence", "Finding", "findings"]

_OFF, _OFF_FLOAT = 0.1, 0.01
"""Relative errors of outputs, in networks with quantised tensors and without, below which nothing is wrong."""
_NOTED = 0.05  # from here on what a layer suffers from is told, too
_ELSE, _ELSE_FLOAT = 0.2, 0.02
"""Relative errors of a layer alone, nothing rounded, from which it computes something else."""
_EXPECTED = 9.0  # times the energy that rounding weights lets expect: more is something else
_USED = 0.25  # of a range: less is a range for other values
_MATTERS = 0.3  # of the largest harm
_MOSTLY = 0.6  # of an edge's harm: keeping values within the range does as much
_SHOWN = 6


@dataclass
class Evidence:
    """What was measured. ``edges``: tensors that both sides have, in order of computation; ``inputs`` and ``outputs`` name some of
    them. ``largest``: the reference's tensors, in order, with their largest number; ``halves``: tensors that the model keeps in
    float16. ``broken``: where the model has infinities or NaN and the reference has not; ``lost``: an output is among them.
    ``noise``: what rounding the weights lets expect of a layer (sum of squares). ``weights``: the harm of all weights together."""

    edges: dict[str, Edge]
    inputs: Sequence[str]
    outputs: Sequence[str]
    quantised: bool
    largest: Mapping[str, float] = field(default_factory=dict)
    halves: frozenset[str] = frozenset()
    broken: Sequence[str] = ()
    lost: bool = False
    wanted: Optional[Wanted] = None
    noise: Mapping[str, Optional[float]] = field(default_factory=dict)
    sources: Mapping[str, Sequence[str]] = field(default_factory=dict)
    harms: Sequence[Harm] = ()
    weights: Optional[float] = None

    @property
    def off(self) -> float:
        """How far the outputs are off: the farthest one, or the middle one of its channels where that is worse."""
        found = [math.inf if self.lost else 0.0]
        for name in self.outputs:
            errors = self.edges[name].errors("entire")
            found += [self.edges[name].error("entire"), float(np.median(errors)) if errors.size else 0.0]
        return max(found)


@dataclass(frozen=True)
class Finding:
    """A cause, the tensors with it, why, and what to do."""

    cause: Cause
    where: tuple[str, ...]
    why: str
    remedy: str


def findings(evidence: Evidence) -> list[Finding]:
    """All that was found, the first cause first; it begins with ``Cause.NONE`` where the outputs are near and nothing else is."""
    found = [*_overflows(evidence), *_preprocessing(evidence)]
    if evidence.wanted is not None and evidence.wanted.exact:
        return found  # all else compares two different pictures
    limit = _OFF if evidence.quantised else _OFF_FLOAT
    if evidence.off < limit:
        far = f"the outputs are {_percent(evidence.off)} off, less than {_percent(limit)}"
        none = Finding(Cause.NONE, (), far[0].upper() + far[1:] + ".", "")
        slight = _edges(evidence) if evidence.quantised and evidence.off >= _NOTED else []
        return found or [none, *slight]
    found += _others(evidence) or (_edges(evidence) if evidence.quantised else [])
    return found or [_rounding(evidence)]


def _overflows(evidence: Evidence) -> list[Finding]:
    names = [name for name, most in evidence.largest.items() if most > LARGEST_HALF]
    hidden = (
        evidence.broken or evidence.off >= _OFF_FLOAT
    )  # within fused layers nobody knows what is computed
    there = [name for name in names if name in evidence.halves or (hidden and name not in evidence.edges)]
    if not evidence.halves or not (there or evidence.broken):
        return []
    remedy = (
        "scale the weights before it down and those behind it up, clip it in the network, or keep the layer in int8 "
        "(hybrid quantisation)"
    )
    if not there:
        why = f"{evidence.broken[0]} has infinities or NaN, and the reference has none."
        return [Finding(Cause.OVERFLOW, tuple(evidence.broken), why, remedy)]
    most = evidence.largest[there[0]]
    why = f"The reference's {there[0]} reaches {most:.3g}, float16 ends at {LARGEST_HALF:.0f}."
    return [Finding(Cause.OVERFLOW, tuple(there), why, remedy)]


def _preprocessing(evidence: Evidence) -> list[Finding]:
    wanted = evidence.wanted
    if wanted is None:
        return []
    why = f"The network wants {wanted.network}, the file has {wanted.file}: {wanted.why}."
    mean, std = ([round(n, 3) for n in each] for each in (wanted.network.mean, wanted.network.std))
    found = []
    if wanted.mean:
        remedy = f"rknn.config(mean_values=[{mean}], std_values=[{std}])"
        found.append(Finding(Cause.MEAN, tuple(evidence.inputs[:1]), why, remedy))
    if wanted.order:
        remedy = (
            "give the model its pictures in the other order of colours (and the converter: quant_img_RGB2BGR), or swap the "
            "channels of the first weights"
        )
        found.append(Finding(Cause.COLOUR_ORDER, tuple(evidence.inputs[:1]), why, remedy))
    return found


def _others(evidence: Evidence) -> list[Finding]:
    """Layers that are off with nothing rounded but their weights."""
    limit = _ELSE if evidence.quantised else _ELSE_FLOAT
    for name, edge in evidence.edges.items():
        error = edge.error("weights")
        if name in evidence.inputs or error < limit:
            continue
        expected = evidence.noise.get(name)
        if expected is not None and float(edge.weights.sum()) <= _EXPECTED * expected:
            continue
        why = (
            f"With nothing rounded but its weights, {name} is {_percent(error)} off on the reference's own values"
            f"{', more than rounding can be' if expected is not None else ''}."
        )
        remedy = "compare with the very file that was converted; else the converter changed the network there"
        return [Finding(Cause.OTHER_NETWORK, (name,), why, remedy)]
    return []


def _edges(evidence: Evidence) -> list[Finding]:
    """What the most harmful edges, and the weights, suffer from."""
    most = max([*(harm.outputs for harm in evidence.harms), evidence.weights or 0.0], default=0.0)
    order = {name: number for number, name in enumerate(evidence.edges)}
    harmful = [harm for harm in evidence.harms if harm.outputs >= _MATTERS * most and harm.outputs > 0]
    harmful.sort(key=lambda harm: min(order.get(name, len(order)) for name in harm.tensors))
    told: list[tuple[float, Finding]] = []
    for harm in harmful:
        found = _of_edge(harm, evidence)
        told += [(harm.outputs, found)] if found is not None else []
    weights = _weights(evidence, most)
    if weights is not None and not any(weights.where == each.where for _, each in told):
        told.append((evidence.weights or 0.0, weights))
    harms = {each.cause: max(harm for harm, one in told if one.cause is each.cause) for _, each in told}
    causes = sorted(harms, key=lambda cause: -harms[cause])
    if Cause.CALIBRATION in causes:
        causes = [Cause.CALIBRATION]  # what else there is comes of it
    return [each for cause in causes for _, each in told if each.cause is cause]


def _of_edge(harm: Harm, evidence: Evidence) -> Optional[Finding]:
    known = [(name, evidence.edges[name]) for name in harm.tensors if name in evidence.edges]
    for name, edge in known:
        alone = f"alone it takes {_percent(harm.outputs)} of the outputs"
        if edge.clipped.any() and (harm.clipped or 0.0) > _MOSTLY * harm.outputs:
            return _saturated(name, edge, evidence, alone)
        if edge.used < _USED and edge.about.scale:
            return _wide(name, edge, evidence, alone)
    for name, edge in known:
        large = edge.large
        if large:
            return _large(name, edge, large, alone)
    return None


def _saturated(name: str, edge: Edge, evidence: Evidence, alone: str) -> Finding:
    beyond = [each for each in evidence.edges.values() if each.saturates]
    everywhere = name in evidence.inputs
    why = (
        f"{_percent(edge.clipped_share)} of the values of {name} lie outside of the calibrated range: they go from "
        f"{edge.low.min():.3g} to {edge.high.max():.3g}, in steps of {edge.about.scale:.3g} from zero point "
        f"{edge.about.zero_point}; {alone}. {len(beyond)} of {len(evidence.edges)} tensors saturate."
    )
    if everywhere:
        return Finding(Cause.CALIBRATION, (name,), why, _CALIBRATE)
    remedy = (
        "add inputs like these to the calibration set, or keep the layer in float16 (hybrid quantisation)"
    )
    return Finding(Cause.SATURATION, (name,), why, remedy)


_CALIBRATE = "calibrate with inputs like these, as the program gives them: raw pixels; mean and deviation the converter applies"


def _wide(name: str, edge: Edge, evidence: Evidence, alone: str) -> Finding:
    wide = [each for each in evidence.edges.values() if each.about.scale and each.used < _USED]
    why = (
        f"These inputs use {_percent(edge.used)} of the calibrated range of {name}; {alone}. So do "
        f"{len(wide)} of {len(evidence.edges)} tensors."
    )
    if name in evidence.inputs or 2 * len(wide) > len(evidence.edges):
        return Finding(Cause.CALIBRATION, (name,), why, f"{_CALIBRATE}; look for an odd one in the set")
    remedy = "look for an odd one in the calibration set, or let the converter cut: quantized_algorithm='kl_divergence' or 'mmse'"
    return Finding(Cause.WIDE_RANGE, (name,), why, remedy)


def _large(name: str, edge: Edge, large: Sequence[int], alone: str) -> Finding:
    heard = edge.heard
    span = edge.span
    others = np.array([n for n in np.flatnonzero(heard) if n not in large])
    middle = float(np.median(span[others])) if len(others) else float(np.median(span[heard]))
    errors = np.sqrt(edge.lost[others] / edge.signal[others]) if len(others) else np.zeros(1)
    numbers = ", ".join(map(str, large[:_SHOWN])) + (", ..." if len(large) > _SHOWN else "")
    why = (
        f"Channel{'s' if len(large) > 1 else ''} {numbers} of {name} {'are' if len(large) > 1 else 'is'} "
        f"{float(span[list(large)].max()) / (middle or 1):.0f} times as wide as the middle one, which is left with "
        f"{middle / (edge.about.scale or 1):.0f} of 255 steps: storing takes {_percent(float(errors.min()))} to "
        f"{_percent(float(errors.max()))} of the other channels; {alone}."
    )
    remedy = (
        "keep the layers on both sides of it in float16 (--hybrid tries them), or divide the channel's weights and bias by that "
        "number and multiply the weights that read it"
    )
    return Finding(Cause.LARGE_CHANNELS, (name,), why, remedy)


def _weights(evidence: Evidence, most: float) -> Optional[Finding]:
    """Where the weights do as much harm as any edge: the layer that they take most of."""
    if evidence.weights is None or evidence.weights < _MATTERS * most or evidence.weights < _OFF / 2:
        return None
    layers = [
        (edge.error("weights"), name) for name, edge in evidence.edges.items() if name not in evidence.inputs
    ]
    error, name = max(layers, default=(0.0, ""))
    for source in evidence.sources.get(name, ()):
        edge = evidence.edges.get(source)
        if edge is not None and edge.large:
            return _large(source, edge, edge.large, f"its weights make {name} {_percent(error)} off")
    why = (
        f"Rounding the weights alone takes {_percent(evidence.weights)} of the outputs, most at {name}: {_percent(error)} on the "
        "reference's own values."
    )
    remedy = (
        "keep this layer in float16 (--hybrid tries it), look for weights of inputs that are always zero, and convert with "
        "quantized_method='channel'"
    )
    return Finding(Cause.WEIGHTS, (name,), why, remedy)


def _rounding(evidence: Evidence) -> Finding:
    worst = evidence.harms[0] if evidence.harms else None
    alone = f"; the most harmful is {worst.tensors[0]}, {_percent(worst.outputs)} by itself" if worst else ""
    why = f"The outputs are {_percent(evidence.off)} off, and no layer has a reason of its own{alone}."
    remedy = "--hybrid tries which layers to keep in float16; quantized_dtype='w8a16' where the SoC has it"
    return Finding(Cause.ROUNDING, worst.tensors if worst else (), why, remedy if evidence.quantised else "")


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
