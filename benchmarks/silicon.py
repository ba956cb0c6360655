"""How far the vendor's simulator is from a chip: the share of values that part, layer by layer and at the end.

    python benchmarks/silicon.py FILE.rknn ... [--seed 0]

A file ``NAME.npz`` beside ``NAME.rknn`` gives the inputs (``in0`` ..., as tools/corpus makes it), else a picture ``digit_224.png``
beside it, else made-up bytes. Three things are told apart, in steps of the tensors:

* layers alone: each computed in the integers of its registers on the simulator's values, so that only its own roundings count
  (``fidelity="silicon"``);
* pixels: the integer offsets that the NPU converts uint8 inputs with (``inputs="board"``), as a share of the input's values;
* outputs: a whole run, with exact inputs and with the board's.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_insight import Ways, compare_ways

import rknnlite
from rknnlite.files.pictures import read_picture

Array = NDArray[Any]


@dataclass(frozen=True)
class Outputs:
    """Quantised outputs of a run against the simulator's: values, how many part, by how many steps at most."""

    size: int
    parted: int
    most: float

    def __str__(self) -> str:
        return f"{self.parted} of {self.size} by {self.most:.0f}"


def inputs_for(path: Path, seed: int) -> list[Array]:
    """See the module."""
    stored = path.with_suffix(".npz")
    if stored.exists():
        with np.load(stored) as arrays:
            return [arrays[name] for name in sorted(arrays.files) if name.startswith(("in", "s0_in"))]
    picture = path.parent / "digit_224.png"
    if picture.exists():
        return [read_picture(picture, 224, 224, 3)[None]]
    rng = np.random.default_rng(seed)
    with rknnlite.open(path, backend="cpu") as context:
        return [rng.integers(0, 256, attr.dims, np.uint8) for attr in context.inputs]


def outputs_of(path: Path, given: list[Array], **how: str) -> tuple[list[Array], list[float]]:
    """Results, and the steps of those that are quantised (0 for others)."""
    with rknnlite.open(path, backend="cpu", **how) as context:
        return context.infer(given), [attr.quant.scale if attr.quant else 0.0 for attr in context.outputs]


def apart(path: Path, given: list[Array], **how: str) -> Outputs:
    """A whole run beside the simulator's."""
    simulator, steps = outputs_of(path, given)
    found, _ = outputs_of(path, given, fidelity="silicon", **how)
    distances = [np.abs(a - b) / step for a, b, step in zip(simulator, found, steps) if step]
    every = np.concatenate([distance.ravel() for distance in distances]) if distances else np.zeros(0)
    return Outputs(every.size, int(np.count_nonzero(every > 0.5)), float(every.max(initial=0)))


def layers(found: Ways) -> Iterator[tuple[int, int, float]]:
    """(values, parted, most steps) of every layer that rounds."""
    for row in found.rows:
        if row.alone is not None and row.role != "input" and row.op != "InputOperator":
            yield row.size, row.alone.count, row.alone.most


def line(path: Path, seed: int) -> tuple[int, int, int]:
    """Print a line; returns (layers, values, parted)."""
    inputs = inputs_for(path, seed)
    found = compare_ways(path, inputs)
    rows = list(layers(found))
    size, parted = sum(row[0] for row in rows), sum(row[1] for row in rows)
    shares = [100 * row[1] / row[0] for row in rows if row[0]]
    pixels, moved, _ = found.totals("silicon", "input")
    print(
        f"{path.stem:36} {len(rows):4} {size:9} {100 * parted / max(1, size):8.4f} {max(shares, default=0):8.3f} "
        f"{max((row[2] for row in rows), default=0):6.0f}   {100 * moved / max(1, pixels):8.2f}   "
        f"{apart(path, inputs)!s:24} {apart(path, inputs, inputs='board')}"
    )
    return len(rows), size, parted


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    logging.getLogger("rknnlite").setLevel(logging.ERROR)
    print(
        f"{'file':36} {'layers':>4} {'values':>7} {'differ %':>8} {'layer %':>8} {'most':>6}   {'pixels %':>8}   "
        f"{'outputs, exact input':24} as on a board"
    )
    totals = np.zeros(3, np.int64)
    for path in args.files:
        try:
            totals += line(path, args.seed)
        except rknnlite.RknnError as error:
            print(f"{path.stem:36} {error}", file=sys.stderr)
    print(
        f"all: {totals[0]} layers, {totals[1]} values, {totals[2]} differ = {100 * totals[2] / max(1, totals[1]):.4f} %"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
