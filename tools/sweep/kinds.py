"""Share of identical int8 values per kind of layer, over the networks of a cache that have a single layer.

    python tools/sweep/kinds.py --cache FOLDER [--target rk3588.i8]

Such a layer computes on the simulator's own input, so what differs is its own doing.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import numpy as np
from rknnlite_cpu.backend import CpuBackend

from rknnlite.errors import RknnError
from rknnlite.formats import ModelFile
from rknnlite.graph import Node
from rknnlite.spi import OpenOptions

_NO_LAYERS = ("InputOperator", "OutputOperator", "Identity")


@dataclass
class _Count:
    """Values of one kind of layer."""

    files: int = 0
    values: int = 0
    equal: int = 0
    worst: int = 0


def _single(model: ModelFile) -> Optional[Node]:
    nodes = [node for node in model.model.graph().nodes if node.op not in _NO_LAYERS]
    return nodes[0] if len(nodes) == 1 else None


def _errors(model: ModelFile, answers: Path) -> Iterator[np.ndarray]:
    """Distance in steps per quantised output."""
    with np.load(answers) as stored:
        arrays = {name: stored[name] for name in stored.files}
    inputs = [arrays[name] for name in sorted(arrays) if name.startswith("in")]
    with CpuBackend().open(model, OpenOptions()) as context:
        for i, (found, attr) in enumerate(zip(context.infer(inputs), context.outputs)):
            wanted = arrays[f"out{i}"]
            if attr.quant is not None and found.shape == wanted.shape:
                yield np.abs(np.rint((found.astype(np.float64) - wanted) / attr.quant.scale))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cache", type=Path, required=True, help="folder of conversions")
    parser.add_argument("--target", default="rk3588.i8")
    args = parser.parse_args()
    counts: dict[str, _Count] = {}
    for path in sorted(args.cache.glob(f"*/{args.target}.rknn")):
        try:
            model = ModelFile(path)
            node = _single(model)
            errors = list(_errors(model, path.with_suffix(".npz"))) if node is not None else []
        except RknnError:
            continue
        if node is None or not errors:
            continue
        kind = f"depthwise {node.op}" if node.conv is not None and node.conv.depthwise else node.op
        count = counts.setdefault(kind, _Count())
        count.files += 1
        for error in errors:
            count.values += error.size
            count.equal += int((error == 0).sum())
            count.worst = max(count.worst, int(error.max(initial=0)))
    for kind, count in sorted(counts.items(), key=lambda item: item[1].equal / item[1].values):
        share = 100 * count.equal / count.values
        print(f"{kind:36}{count.files:5} files {share:8.3f} % identical, at most {count.worst} off")


if __name__ == "__main__":
    main()
