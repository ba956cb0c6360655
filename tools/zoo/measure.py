"""How close a converted network comes to the simulator, and both to the float network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np
from answers import ComparedOutput, answers
from compare import Outcome
from layers import RELATIVE, Layer, judge_layers
from numpy.typing import NDArray
from stored import Stored

__all__ = ["COSINE", "NEAR", "RELATIVE", "TRAINED", "Closeness", "Measured", "measure"]

COSINE = 0.999
"""Least cosine between ours and the simulator's answer, int8."""
TRAINED = 0.9999
"""The same for trained networks."""
NEAR = 0.99
"""Trained int8 networks: share of the values within two steps."""


@dataclass(frozen=True)
class Closeness:
    """One output. ``steps`` and the shares are None where it has no quantisation step.

    ``ours`` and ``simulator``: mean distance to the float network over the float answer's mean magnitude.
    """

    cosine: float
    relative: float
    steps: Optional[float]
    within_one: Optional[float]
    within_two: Optional[float]
    ours: float
    simulator: float


@dataclass(frozen=True)
class Measured:
    """One network for one target."""

    network: str
    target: str
    outcome: Outcome
    trained: bool = False
    outputs: tuple[Closeness, ...] = ()
    note: str = ""
    layers: tuple[
        Layer, ...
    ] = ()  # of int8, and of fp16 that differs, where the conversion kept the simulator's tensors

    @property
    def explained(self) -> bool:
        """Whether each layer alone fits: then it is the network that makes more of single steps."""
        return bool(self.layers) and all(layer.fits for layer in self.layers)

    @property
    def odd(self) -> Optional[Layer]:
        """The layer that alone agrees least."""
        if self.layers and not self.layers[0].quantised:
            return max(self.layers, key=lambda layer: layer.error)
        return min(
            self.layers,
            key=lambda layer: (layer.fits, layer.even or layer.proven, min(layer.same, layer.near)),
            default=None,
        )

    @property
    def worst(self) -> Optional[Closeness]:
        """The output with the least cosine."""
        return min(self.outputs, key=lambda o: (o.cosine, -o.relative), default=None)


def measure(network: Stored, target: str) -> Measured:
    """What became of a network for a target."""
    stem, trained = network.folder / target, bool(network.facts["trained"])
    failure = Path(f"{stem}.fail")
    if failure.exists():
        return Measured(network.name, target, Outcome.UNCONVERTED, trained, note=failure.read_text().strip())
    if not Path(f"{stem}.npz").exists():
        return Measured(network.name, target, Outcome.WAITING, trained)
    try:
        found = answers(stem, {})
        with np.load(network.folder / "float.npz") as stored:
            wanted = [stored[f"out{i}"] for i in range(len(stored.files))]
        outputs = tuple(closeness(a, w) for a, w in zip(found, wanted, strict=True))
    except Exception as error:  # whatever goes wrong concerns this network, and is what the zoo looks for
        text = str(error).replace(f"{stem}.rknn: ", "")
        return Measured(
            network.name, target, Outcome.REFUSED, trained, note=f"{type(error).__name__}: {text}"
        )
    fits = all(_fits(o, target.endswith(".i8"), trained) for o in outputs)
    outcome = Outcome.MATCHES if fits else Outcome.DIFFERS
    layers = () if fits and not target.endswith(".i8") else tuple(judge_layers(network, target))
    return Measured(network.name, target, outcome, trained, outputs, layers=layers)


def closeness(answer: ComparedOutput, wanted: NDArray[Any]) -> Closeness:
    """Compare one output with the simulator's, and both with the float network's."""
    a, b, f = (x.astype(np.float64).reshape(-1) for x in (answer.ours, answer.simulator, wanted))
    difference, size = np.abs(a - b), float(np.abs(f).mean()) or 1.0
    peak, lengths = float(np.abs(b).max(initial=0)), float(np.sqrt((a @ a) * (b @ b)))
    largest = float(difference.max(initial=0))
    steps = difference / answer.step if answer.step else None
    return Closeness(
        cosine=float(a @ b) / lengths if lengths else float(largest == 0),
        relative=largest / peak if peak else largest,
        steps=None if steps is None else float(steps.max(initial=0)),
        within_one=None if steps is None else float((steps < 1.01).mean()),
        within_two=None if steps is None else float((steps < 2.01).mean()),
        ours=float(np.abs(a - f).mean()) / size,
        simulator=float(np.abs(b - f).mean()) / size,
    )


def _fits(output: Closeness, quantised: bool, trained: bool) -> bool:
    if not quantised:
        return output.relative <= RELATIVE
    if output.steps is not None and output.steps < 1.01:
        return True  # a cosine says little of an output that is zero nearly everywhere
    near = output.within_two is None or output.within_two >= NEAR
    return output.cosine >= TRAINED and near if trained else output.cosine >= COSINE
