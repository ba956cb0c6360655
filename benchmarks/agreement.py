"""How far the CPU reference is from the vendor's PC simulator on models of a folder.

    python benchmarks/agreement.py FOLDER [--only '*.rk3588.*'] [--all]

FOLDER holds ``<name>.rknn`` and ``<name>.npz`` as tools/corpus makes them (``in0..`` and the simulator's
``out0..``; dynamic models one set per shape, ``s0_in0`` ...). Prints one line per model that differs at all
(with ``--all``: for each), and a summary per kind of output.

For quantised outputs: largest difference in steps of the output (LSB), share of identical bytes, cosine; for
floating ones: largest difference relative to the largest magnitude of the output.
"""

from __future__ import annotations

import argparse
import logging
import sys
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import rknnlite

Array = NDArray[Any]


@dataclass(frozen=True)
class Agreement:
    """One output compared. ``lsb`` and ``identical`` are None for outputs that are not quantised."""

    cosine: float
    relative: float
    lsb: float | None = None
    identical: float | None = None

    def __str__(self) -> str:
        if self.lsb is None:
            return f"relative {self.relative:.1e}, cosine {self.cosine:.6f}"
        return f"{self.lsb:.0f} LSB, {100 * (self.identical or 0):.2f} % identical, cosine {self.cosine:.6f}"


def compare(ours: Array, theirs: Array, scale: float | None) -> Agreement:
    """Both real-valued; ``scale`` is the step of a quantised output."""
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    length = float(np.sqrt((a * a).sum() * (b * b).sum()))
    cosine = float((a * b).sum()) / length if length else float((a == b).all())
    distance = np.abs(a - b)
    relative = float(distance.max() / max(np.abs(b).max(), 1e-30))
    if scale is None:
        return Agreement(cosine, relative)
    return Agreement(
        cosine, relative, float(np.rint(distance.max() / scale)), float((distance < scale / 2).mean())
    )


def measure(model: Path) -> list[Agreement]:
    """All outputs of a model, over all its stored sets of inputs."""
    results = []
    with np.load(model.with_suffix(".npz")) as golden, rknnlite.open(model, backend="cpu") as context:
        for prefix in sorted({name[: name.index("in")] for name in golden.files if "in" in name}):
            count = sum(name.startswith(f"{prefix}in") for name in golden.files)
            outputs = context.infer([golden[f"{prefix}in{i}"] for i in range(count)])
            for i, (output, attr) in enumerate(zip(outputs, context.outputs)):
                scale = attr.quant.scale if attr.quant and not attr.dtype.is_float else None
                results.append(compare(output, golden[f"{prefix}out{i}"].reshape(output.shape), scale))
    return results


def worst(results: list[Agreement]) -> Agreement:
    """The least favourable figure of each kind."""
    quantised = [r for r in results if r.lsb is not None]
    return Agreement(
        min(r.cosine for r in results),
        max(r.relative for r in results),
        max((r.lsb for r in quantised if r.lsb is not None), default=None),
        min((r.identical for r in quantised if r.identical is not None), default=None),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="*", help="shell pattern of model names")
    parser.add_argument("--all", action="store_true", help="list models that agree fully, too")
    args = parser.parse_args()
    logging.getLogger("rknnlite").setLevel(logging.ERROR)
    kinds: dict[str, list[Agreement]] = {"quantised": [], "floating": []}
    models = [m for m in sorted(args.folder.glob("*.rknn")) if fnmatch(m.stem, args.only)]
    for model in models:
        if not model.with_suffix(".npz").exists():
            continue
        results = measure(model)
        for result in results:
            kinds["floating" if result.lsb is None else "quantised"].append(result)
        total = worst(results)
        if args.all or total.relative > 0:
            print(f"{model.stem:32} {total}", flush=True)
    if not models:
        sys.exit(f"no models in {args.folder} match {args.only!r}")
    print(f"\n{len(models)} models")
    summary(kinds["quantised"], kinds["floating"])


def summary(quantised: list[Agreement], floating: list[Agreement]) -> None:
    """Counts over all outputs."""
    if quantised:
        steps = [sum(r.lsb == n for r in quantised) for n in range(3)]
        more, cosine = len(quantised) - sum(steps), min(r.cosine for r in quantised)
        print(
            f"  {len(quantised)} quantised outputs: {steps[0]} identical, {steps[1]} within 1 LSB, "
            f"{steps[2]} within 2, {more} beyond; cosine at least {cosine:.6f}"
        )
    if floating:
        near = sum(r.relative <= 1e-3 for r in floating)
        farthest = max(r.relative for r in floating)
        print(f"  {len(floating)} floating outputs: {near} within 1e-3, worst {farthest:.1e}")


if __name__ == "__main__":
    main()
