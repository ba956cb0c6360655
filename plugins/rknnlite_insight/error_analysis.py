"""The analysis of a comparison: what the errors of all layers say together, and where an error is born. No model is run here.

Errors are relative: the Euclidean distance divided by the length of the reference's tensor. The limits were set by 28 networks
in int8 and 10 in float16 for RK3588, each judged layer by layer against its own network in float: a layer alone was never
further away than 0.27 and 0.0009. The exception were twelve tensors of one network (0.7) whose error is gone in the layers after
them: converter and exporter may mean different values by one name, which is why the outputs count here, too. What the values of
the reference lose by being stored in the model's integers is known per tensor: an error that this explains is quantisation's.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

from .comparison import Comparison
from .tensor_error import Distance, TensorError
from .verdict import Kind, LayerError, Quantisation, Verdict

__all__ = ["judge"]

QUANTISED_LIMIT = 0.2
FLOAT_LIMIT = 0.01
"""Relative errors from which a layer is suspected, in networks with quantised tensors and without."""
_OUTSTANDING = 8.0  # as many times the error of a quiet layer: of four, three err more (what follows a wrong layer may, too)
_ANYWAY = 0.5  # suspected however bad the others are
_JUMP = 4.0  # of the error after a whole run over all layers before, where no layer was run alone
_NAMED = 3.0  # times the typical layer's error: worth a row, not a suspicion
_MOST_NAMED = 5
_STORED, _PASSED_ON = (
    2.0,
    3.0,
)  # times what is lost in storing a tensor: as much error it, and its readers, may show
_LOSSY = 0.5  # of the limit: a tensor that loses as much in storing cannot hold its values
_LASTING = 0.25  # of an error: what all later layers have at least, where it lasts
_FEW = 2  # tensors without a counterpart, by which a layer still counts as run alone
_HALF_STEP = 0.5  # what is lost beyond that lies outside of the range


def judge(found: Comparison) -> Verdict:
    """What a comparison comes to, and where the error is born."""
    tensors = list(found.tensors)
    quantised = any(tensor.step for tensor in tensors)
    limit = QUANTISED_LIMIT if quantised else FLOAT_LIMIT
    layers, typical, quiet = _measured(tensors)
    ends = [layer for layer in layers if layer.tensor.role == "output"]
    no_output = not ends
    ends = [layer for layer in ends or layers[-1:] if _differs(layer)]
    farthest = max(ends, key=lambda layer: (layer.entire, layer.tensor.entire.euclidean), default=None)
    outputs = farthest.entire if farthest else 0.0
    why = _quantisation(found, farthest)
    kind, born = _kind(layers, typical is not None, quiet, limit, outputs, why)
    if kind is Kind.NOISE and not ends and not no_output:
        kind = Kind.OUTPUTS_IDENTICAL
    return Verdict(
        kind,
        layers,
        born,
        sum(map(_differs, layers)),
        farthest,
        outputs,
        typical,
        limit,
        quantised,
        why,
        no_output,
    )


def _kind(
    layers: Sequence[LayerError],
    alone: bool,
    quiet: float,
    limit: float,
    outputs: float,
    why: Quantisation | None,
) -> tuple[Kind, Sequence[LayerError]]:
    """What the errors amount to, and the layers where that is born."""
    broken = [layer for layer in layers if not _finite(layer.tensor)]
    if broken:
        return Kind.NOT_FINITE, broken[:1]
    if not any(_differs(layer) or layer.own for layer in layers):
        return Kind.IDENTICAL, ()
    far = outputs >= limit
    suspects = _suspects(layers, quiet, limit) if alone else _jumps(layers, limit)
    lossy = [layer for layer in layers if (layer.stored or 0.0) >= _LOSSY * limit]
    if not suspects and not far and any((layer.stored or 0.0) >= limit for layer in lossy):
        return Kind.LOCAL, lossy
    if suspects:
        near = [layer for layer in suspects if layer.tensor.unseen <= _FEW]
        wrong = [layer for layer in near if _lasts(layer.own, layer, layers)] or near or suspects
        return (Kind.LOCAL if not far else Kind.WRONG if near else Kind.UNSEEN), wrong
    lasting = [layer for layer in lossy if _lasts(layer.stored, layer, layers)]
    if far and lasting and (why is None or why.to_blame):
        return Kind.LOSSY, lasting
    return (Kind.ADDED if far else Kind.NOISE), lossy or _notable(layers)


def _measured(tensors: Sequence[TensorError]) -> tuple[list[LayerError], float | None, float]:
    """All layers, the typical one's own error (None: none was run alone) and that of a quiet one."""
    owns = [None if tensor.single is None else _relative(tensor.single, tensor) for tensor in tensors]
    measured = [
        own for own, tensor in zip(owns, tensors) if own and math.isfinite(own) and tensor.role != "input"
    ]
    alone = any(own is not None for own in owns)
    typical = (statistics.median(measured) if measured else 0.0) if alone else None
    quiet = sorted(measured)[len(measured) // 4] if measured else 0.0
    layers, before = [], 0.0
    for tensor, own in zip(tensors, owns):
        layers.append(_layer(tensor, own, typical, before))
        before = max(before, layers[-1].entire)
    return layers, typical, quiet


def _differs(layer: LayerError) -> bool:
    return layer.tensor.entire.euclidean != 0.0


def _finite(tensor: TensorError) -> bool:
    return all(math.isfinite(found.euclidean) for found in (tensor.entire, tensor.single) if found)


def _quantisation(found: Comparison, farthest: LayerError | None) -> Quantisation | None:
    """For the output that is farthest away, where the model's own file was computed in float as well."""
    ends = [farthest.tensor] if farthest else found.outputs or list(found.tensors)
    known = [tensor for tensor in ends if tensor.reference_to_float is not None]
    if not found.own_float or not known or known[0].reference_to_float is None:
        return None
    return Quantisation(known[0].name, known[0].entire.euclidean, known[0].reference_to_float.euclidean)


def _relative(found: Distance, tensor: TensorError) -> float:
    """By the length of the reference; where that is not known, as long as vectors of equal length with this cosine are apart."""
    if found.euclidean == 0.0:
        return 0.0
    if not math.isfinite(found.euclidean) or tensor.length == 0.0:
        return math.inf
    if tensor.length is None:
        return math.sqrt(max(0.0, 2 - 2 * found.cosine))
    return found.euclidean / tensor.length


def _layer(tensor: TensorError, own: float | None, typical: float | None, before: float) -> LayerError:
    euclidean = (tensor.single or tensor.entire).euclidean
    steps = _in_steps(euclidean, tensor) if tensor.step else None
    times = own / typical if own is not None and typical else None
    stored = None if tensor.stored is None else _relative(tensor.stored, tensor)
    saturates = tensor.stored is not None and _in_steps(tensor.stored.euclidean, tensor) > _HALF_STEP
    entire = _relative(tensor.entire, tensor)
    return LayerError(tensor, own, entire, steps, times, stored, saturates, max(0.0, entire - before))


def _in_steps(euclidean: float, tensor: TensorError) -> float:
    """Root mean square of an error, in steps of a quantised tensor."""
    return euclidean / math.sqrt(max(1, math.prod(tensor.shape))) / (tensor.step or math.inf)


def _suspects(layers: Sequence[LayerError], quiet: float, limit: float) -> list[LayerError]:
    """Those whose own error is large, and more than storing its values or those before it takes."""
    least = max(limit, min(_ANYWAY, _OUTSTANDING * quiet))
    return [
        layer for layer, lost in zip(layers, _explained(layers)) if (layer.own or 0.0) >= max(least, lost)
    ]


def _jumps(layers: Sequence[LayerError], limit: float) -> list[LayerError]:
    """The first layer where the error after a whole run is large at once."""
    before = 0.0
    for layer, lost in zip(layers, _explained(layers)):
        if layer.entire >= max(limit, _JUMP * before, lost):
            return [layer]
        before = max(before, layer.entire)
    return []


def _explained(layers: Sequence[LayerError]) -> Iterator[float]:
    """Per layer the error that storing its values, or those of any layer before it, explains."""
    before = 0.0
    for layer in layers:
        stored = layer.stored or 0.0
        yield max(_STORED * stored, min(_ANYWAY, _PASSED_ON * before))
        before = max(before, stored)


def _lasts(error: float | None, layer: LayerError, layers: Sequence[LayerError]) -> bool:
    """Whether all later layers have a part of an error; where both sides mean different values by one name, they do not."""
    later = layers[next(i for i, one in enumerate(layers) if one is layer) + 1 :]
    return all(one.entire >= _LASTING * min(1.0, error or 0.0) for one in later)


def _notable(layers: Sequence[LayerError]) -> list[LayerError]:
    """The layers that err most beside the others, where none is suspected."""
    found = sorted(layers, key=lambda layer: -(layer.times or 0.0))[:_MOST_NAMED]
    named = [id(layer) for layer in found if (layer.times or 0.0) >= _NAMED]
    return [layer for layer in layers if id(layer) in named]
