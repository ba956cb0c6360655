"""Trained networks on many real inputs: the simulator and ours against the float network, and against each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Optional

import numpy as np
from cells import row
from data_file import DataTable
from meanings import MEANINGS
from numpy.typing import NDArray
from stored import Stored
from targets import places

__all__ = ["Agreement", "Trained", "judge", "markdown", "rows"]

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
    """The section: what was measured, and a summary for each target."""
    networks = [r.network for r in next(iter(results.values()))]
    packages = {network.facts["package"]["name"] for network in networks}
    start = (
        f"{len(networks)} networks with the weights that {len(packages)} packages ship, calibrated with "
        f"{networks[0].calibrations} real inputs, compared on {networks[0].many} others.\n"
    )
    table = [row("", "as near to float as the simulator", *_SIDES), f"|---{'|---:' * (len(_SIDES) + 1)}|"]
    table += [row(*_summary(target, found)) for target, found in results.items()]
    return "\n".join(
        [
            start,
            *table,
            "",
            "Medians of the readings in per cent.\n",
            "[Networks](assets/fidelity-trained.js)",
        ]
    )


_SIDES = ("simulator to float", "ours to float", "ours to simulator")
COLUMNS = ("network", "type", "what a user reads", *_SIDES, "within one step", "package", "licence")
FILTERS = ("type", "what a user reads", "package")


def rows(results: Mapping[str, Sequence[Trained]]) -> DataTable:
    """A row per network and type."""
    found = []
    for target, trained in results.items():
        kind = places(target)["type"]
        for r in trained:
            package = r.network.facts["package"]
            meaning = MEANINGS[r.network.facts["meaning"]]
            cells = [f"not converted: {' '.join(r.note.split())[:120]}", "", ""]
            if r.both is not None:
                cells = [_cell(a, meaning.unit) for a in (r.simulator, r.ours, r.both)]
            told = f"{meaning.told}, {meaning.unit}"
            shipped = f"{package['name']} {package['version']}", package["licence"]
            found.append([r.network.name, kind, told, *cells, _within(r), *shipped])
    return DataTable(COLUMNS, FILTERS, found)


def _summary(target: str, results: Sequence[Trained]) -> tuple[str, ...]:
    """How often ours is as near to the float network as the simulator, and the medians of what is told in percent."""
    told = [r for r in results if r.both is not None]
    near = sum(r.ours.cosine >= r.simulator.cosine - ALIKE for r in told if r.ours and r.simulator)
    shares = [r for r in told if MEANINGS[r.network.facts["meaning"]].unit.startswith("%")]
    medians = [
        float(np.median([a.reading for r in shares for a in (getattr(r, side),) if a is not None]))
        for side in ("simulator", "ours", "both")
    ]
    cells = places(target)
    return (
        f"{cells['SoC']}, {cells['type']}",
        f"{near} of {len(told)}",
        *(f"{found:.1f} %" for found in medians),
    )


def _cell(agreement: Optional[Agreement], unit: str) -> str:
    assert agreement is not None
    if np.isnan(agreement.cosine):
        return "not finite"
    figure = f"{agreement.reading:.1f}" if unit.startswith("%") else f"{agreement.reading:.2f}"
    return f"{figure} ({agreement.cosine:.4f})"


def _within(result: Trained) -> str:
    return (
        ""
        if result.both is None or np.isnan(result.within)
        else f"{100 * result.within:.1f} %, {result.steps:.0f} at most"
    )
