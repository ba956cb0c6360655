"""Trained networks on many real inputs: the simulator and ours against the float network, and against each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Optional

import numpy as np
from cells import header, row
from meanings import MEANINGS
from numpy.typing import NDArray
from stored import Stored

__all__ = ["Agreement", "Trained", "judge", "markdown"]

Array = NDArray[Any]

ALIKE = 0.001
"""Difference of two cosines that counts as none."""


@dataclass(frozen=True)
class Agreement:
    """Of two answers to all inputs: the mean cosine of the output that is least alike, and what a user reads."""

    cosine: float
    reading: float


@dataclass(frozen=True)
class Trained:
    """One network; agreements are None where the toolkit does not convert it (``note``)."""

    network: Stored
    simulator: Optional[Agreement] = None
    ours: Optional[Agreement] = None
    both: Optional[Agreement] = None
    within: float = 0.0
    steps: float = 0.0
    note: str = ""


def judge(network: Stored, target: str) -> Trained:
    """Run a network's many inputs on the CPU reference and compare three ways."""
    stem = network.folder / target
    if not Path(f"{stem}.many.npz").exists():
        failure = Path(f"{stem}.fail")
        return Trained(network, note=failure.read_text().strip() if failure.exists() else "not converted yet")
    try:
        ours, scales = _ours(network, stem)
    except Exception as error:  # whatever goes wrong concerns this network, and is told
        return Trained(network, note=f"{type(error).__name__}: {error}")
    simulator, wanted = (
        _stored(path) for path in (Path(f"{stem}.many.npz"), network.folder / "float.many.npz")
    )
    shapes = [y.shape for y in wanted[0]]
    sides = [
        [[y.reshape(s) for y, s in zip(answer, shapes)] for answer in side]
        for side in (wanted, simulator, ours)
    ]
    first, second, third = (_agreement(network, a, b) for a, b in combinations(sides, 2))
    within, steps = _steps(ours, simulator, scales)
    return Trained(network, first, second, third, within, steps)


def _ours(network: Stored, stem: Path) -> tuple[list[list[Array]], list[Optional[float]]]:
    """Our answers, and the quantisation step of each output (None where it has none)."""
    from rknnlite_cpu.backend import CpuBackend

    from rknnlite.formats import ModelFile
    from rknnlite.spi import OpenOptions

    with CpuBackend().open(ModelFile(f"{stem}.rknn"), OpenOptions()) as context:
        steps = [a.quant.scale if a.quant and not a.dtype.is_float else None for a in context.outputs]
        found = []
        for n in range(network.many):
            drawn = network.draw(f"many{n}")
            fed = [np.ascontiguousarray(a.transpose(0, 2, 3, 1) if a.ndim == 4 else a) for a in drawn]
            found.append(list(context.infer(fed)))
    return found, steps


def _stored(path: Path) -> list[list[Array]]:
    with np.load(path) as stored:
        outputs = [stored[f"out{i}"] for i in range(len(stored.files))]
    return [[y[n] for y in outputs] for n in range(len(outputs[0]))]


def _cosine(a: Array, b: Array) -> float:
    a, b = (x.astype(np.float64).reshape(-1) for x in (a, b))
    lengths = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / lengths if lengths else float(np.array_equal(a, b))


def _agreement(network: Stored, a: list[list[Array]], b: list[list[Array]]) -> Agreement:
    cosines = [[_cosine(x, y) for x, y in zip(p, q)] for p, q in zip(a, b, strict=True)]
    meaning = MEANINGS[network.facts["meaning"]]
    readings = [[meaning.read(answer) for answer in side] for side in (a, b)]
    return Agreement(float(np.mean(cosines, 0).min()), meaning.compare(*readings))


def _steps(
    ours: list[list[Array]], simulator: list[list[Array]], scales: list[Optional[float]]
) -> tuple[float, float]:
    """Least share of an output's values within one step, and the most steps between two values; of quantised outputs."""
    shares, most = [], 0.0
    for place, scale in enumerate(scales):
        if scale is not None:
            apart = np.concatenate(
                [
                    np.abs(x[place].astype(np.float64) - y[place]).reshape(-1) / scale
                    for x, y in zip(ours, simulator)
                ]
            )
            shares.append(float((apart < 1.01).mean()))
            most = max(most, float(apart.max()))
    return min(shares, default=float("nan")), most


def markdown(results: Mapping[str, Sequence[Trained]]) -> str:
    """The section: what was measured, then a table for each target."""
    networks = [r.network for r in next(iter(results.values()))]
    packages = {network.facts["package"]["name"]: network.facts["package"] for network in networks}
    listed = ", ".join(
        f"{p['name']} {p['version']} ({p['licence']})"
        for p in sorted(packages.values(), key=lambda p: p["name"])
    )
    start = (
        f"{len(networks)} networks with the weights that packages ship: {listed}. Calibrated with {networks[0].calibrations} "
        f"real inputs, compared on {networks[0].many} others."
    )
    return "\n".join([start, "", *(_table(target, found) for target, found in results.items())])


def _table(target: str, results: Sequence[Trained]) -> str:
    soc, _, dtype = target.partition(".")
    lines = [f"**{soc.upper()}, {'int8' if dtype == 'i8' else dtype}.** {_summary(results)}\n"]
    heads = (
        "network",
        "package",
        "what a user reads",
        "simulator to float",
        "ours to float",
        "ours to simulator",
    )
    lines.append(header(*heads, "within one step") if dtype == "i8" else header(*heads))
    for r in results:
        facts = r.network.facts
        meaning = MEANINGS[facts["meaning"]]
        cells = [f"`{r.network.name}`", facts["package"]["name"], f"{meaning.told}, {meaning.unit}"]
        if r.both is None:
            cells += [f"not converted: {' '.join(r.note.split())[:120]}", "", ""]
        else:
            cells += [_cell(a, meaning.unit) for a in (r.simulator, r.ours, r.both)]
        lines.append(row(*cells, _within(r)) if dtype == "i8" else row(*cells))
    return "\n".join(lines) + "\n"


def _summary(results: Sequence[Trained]) -> str:
    """How often ours is as near to the float network as the simulator, and the medians of what is told in percent."""
    told = [r for r in results if r.both is not None]
    near = sum(r.ours.cosine >= r.simulator.cosine - ALIKE for r in told if r.ours and r.simulator)
    shares = [r for r in told if MEANINGS[r.network.facts["meaning"]].unit.startswith("%")]
    medians = [
        float(np.median([a.reading for r in shares for a in (getattr(r, side),) if a is not None]))
        for side in ("simulator", "ours", "both")
    ]
    return (
        f"Of {len(told)} networks ours is as near to the float network as the simulator in {near} (cosine at most {ALIKE:g} "
        f"less). Median of the readings that are shares: simulator to float {medians[0]:.1f} %, ours to float {medians[1]:.1f} %, "
        f"ours to simulator {medians[2]:.1f} %."
    )


def _cell(agreement: Optional[Agreement], unit: str) -> str:
    assert agreement is not None
    if np.isnan(agreement.cosine):
        return "not finite"
    figure = f"{agreement.reading:.1f}" if unit.startswith("%") else f"{agreement.reading:.2f}"
    return f"**{figure}** ({agreement.cosine:.4f})"


def _within(result: Trained) -> str:
    return (
        ""
        if result.both is None or np.isnan(result.within)
        else f"{100 * result.within:.1f} %, {result.steps:.0f} at most"
    )
