"""What a port has kept of its original: size, weights, outputs, and how far both are from the network in float."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_graph.read import read_graph
from rknnlite_insight.comparison import distance
from rknnlite_programs.toolkit_process import Toolkit

from rknnlite.formats import ModelFile
from rknnlite.runtime import open_model
from rknnlite.tensor import TensorAttr

from .port import port
from .trial import stepped

__all__ = ["OutputReport", "PortReport", "ported", "report_on"]

Array = NDArray[Any]
_NAMED = 6
Tell = Callable[[int, int, str], None]


def _nothing(done: int, total: int, what: str) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True)
class OutputReport:
    """One output over all samples.

    ``identical`` is the share of elements that are the same, ``most_steps`` the largest difference in steps of the original
    (None where it has none), the others cosines.
    """

    name: str
    elements: int
    identical: float
    most_steps: Optional[int]
    to_original: float
    original_to_float: float
    port_to_float: float

    def __str__(self) -> str:
        steps = "" if self.most_steps is None else f", at most {self.most_steps} steps apart"
        share = np.floor(1000 * self.identical) / 10  # 100 only where all are
        return (
            f"output {self.name}: {share:.1f} % of {self.elements} elements identical{steps}; cosine "
            f"{self.to_original:.6f}; to the float network: original {self.original_to_float:.6f}, port {self.port_to_float:.6f}"
        )


@dataclass(frozen=True)
class PortReport:
    """A port beside its original; ``str()`` is the text."""

    source: str
    port: str
    soc: str
    samples: int
    bytes: tuple[int, int]
    """Of the original and of the port."""
    weights: int
    """Weight tensors of the original."""
    same_weights: Optional[int]
    """Those that the port has bit for bit, apart from a zero point; None where its weights are of another type."""
    outputs: Sequence[OutputReport]
    calibrated: Sequence[str] = field(default=())
    """Values whose steps the file does not have."""
    lost_weights: Sequence[str] = field(default=())
    """Nodes whose weights are not the original's, and how far they are from them."""

    def __str__(self) -> str:
        lines = [
            f"{self.port}: {self.source} for {self.soc}",
            f"size: {self.bytes[1]} bytes, the original {self.bytes[0]}",
        ]
        if self.same_weights is None:
            lines.append(f"weights: {self.weights} tensors, of another type in the port")
        else:
            lines.append(f"weights: {self.same_weights} of {self.weights} tensors identical")
        lines += [f"weights not kept: {each}" for each in self.lost_weights[:_NAMED]]
        if len(self.lost_weights) > _NAMED:
            lines.append(f"weights not kept: {len(self.lost_weights) - _NAMED} more")
        if self.calibrated:
            lines.append(f"steps from a calibration: {len(self.calibrated)} values inside of nodes")
        return "\n".join([*lines, *map(str, self.outputs), f"compared on {self.samples} samples"])


def ported(
    source: Path,
    soc: str,
    out: Path,
    python: Path,
    samples: Sequence[Sequence[Array]],
    dtype: str = "",
    tell: Tell = _nothing,
) -> PortReport:
    """Write a port and compare it with its original; arguments and errors are those of ``port`` and of opening a model.
    ``tell`` gets what is done, of how much, and what comes next."""
    tell(0, 1 + 3 * len(samples), "conversion by the toolkit")
    calibrated = port(source, soc, out, Toolkit(python), samples, dtype)
    return report_on(source, out, soc, samples, calibrated, tell)


def report_on(
    source: Path,
    made: Path,
    soc: str,
    samples: Sequence[Sequence[Array]],
    calibrated: Sequence[str] = (),
    tell: Tell = _nothing,
) -> PortReport:
    """Run both files on the CPU reference, the original also in float, and compare."""
    done = itertools.count(1)

    def answers(path: Path, what: str, **options: Any) -> tuple[list[TensorAttr], list[Array]]:
        return _answers(path, samples, lambda: tell(next(done), 1 + 3 * len(samples), what), **options)

    attrs, original = answers(source, "runs of the original")
    _, ported = answers(made, "runs of the port")
    _, floating = answers(source, "runs of the original in float", fidelity="float")
    outputs = [_output(*each) for each in zip(attrs, original, ported, floating)]
    count, lost = _weights(source, made)
    same = None if lost is None else count - len(lost)
    sizes = (source.stat().st_size, made.stat().st_size)
    return PortReport(
        source.name,
        str(made),
        soc,
        len(samples),
        sizes,
        count,
        same,
        outputs,
        tuple(calibrated),
        tuple(lost or ()),
    )


def _answers(
    path: Path, samples: Sequence[Sequence[Array]], begin: Callable[[], None], **options: Any
) -> tuple[list[TensorAttr], list[Array]]:
    """Outputs, all samples of one behind the other; ``begin`` is called before each."""
    answers = []
    with open_model(path, backend="cpu", **options) as context:
        for arrays in samples:
            begin()
            answers.append(context.infer(list(arrays)))
        attrs = list(context.outputs)
    return attrs, [np.concatenate([np.ravel(each) for each in output]) for output in zip(*answers)]


def _output(attr: TensorAttr, original: Array, ported: Array, floating: Array) -> OutputReport:
    away = np.abs(original.astype(np.float64) - ported)
    steps = stepped(attr)
    step = None if steps is None else steps.scale
    same = away == 0 if step is None else away < step / 2
    return OutputReport(
        attr.name,
        original.size,
        float(same.mean()),
        None if step is None else int(np.rint(away.max() / step)),
        distance(original, ported).cosine,
        distance(original, floating).cosine,
        distance(ported, floating).cosine,
    )


class _Weights(NamedTuple):
    """Of one convolution: its node, the element type, and elements less their zero points."""

    node: str
    kind: str
    centred: Array

    def same(self, other: _Weights) -> bool:
        return self.kind == other.kind and np.array_equal(self.centred, other.centred)


def _weights(source: Path, made: Path) -> tuple[int, Optional[list[str]]]:
    """How many weight tensors convolutions have in the original, and what the port has of them otherwise, a line each."""
    original, ported = _stored(source), _stored(made)
    if original and not {each.kind for each in original} & {each.kind for each in ported}:
        return len(original), None
    missed = [each for each in original if not _take(ported, each.same)]
    return len(original), [_difference(each, ported) for each in missed]


def _stored(path: Path) -> list[_Weights]:
    found = []
    for node in read_graph(ModelFile(path).model).nodes:
        if node.conv is None or node.conv.computed:
            continue
        weight = node.conv.weight()
        kind, zero = weight.dtype.str, node.conv.zero_point
        if node.conv.quantised and zero is not None:
            weight = weight.astype(np.int32) - np.rint(zero).astype(np.int32).reshape(-1, 1, 1, 1)
        found.append(_Weights(node.label(), kind, weight))
    return found


def _take(weights: list[_Weights], fits: Callable[[_Weights], bool]) -> Optional[_Weights]:
    """The first that fits, which is no longer there then."""
    place = next((i for i, each in enumerate(weights) if fits(each)), None)
    return None if place is None else weights.pop(place)


def _difference(lost: _Weights, ported: list[_Weights]) -> str:
    other = _take(ported, lambda each: each.kind == lost.kind and each.centred.shape == lost.centred.shape)
    if other is None:
        return f"{lost.node}: stored in another shape or type"
    away = np.abs(other.centred - lost.centred)
    return f"{lost.node}: {np.count_nonzero(away)} of {away.size} elements differ, by at most {away.max()}"
