"""Share of identical int8 values per kind of layer, over the networks of a cache that have a single layer.

    python tools/sweep/kinds.py --cache FOLDER [--target rk3588.i8] [--only 'Conv*'] [--markdown FILE]

Such a layer computes on the simulator's own input, so what differs is its own doing. Where bytes differ, the layer is computed
once more as the simulator does (``recompute.py``). ``--markdown`` writes the section "kinds" of a page and its data.
"""

from __future__ import annotations

import argparse
import fnmatch
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

import numpy as np
from cases import CASES
from data_file import DataTable, assets, write
from page import put
from recompute import Way, recompute
from rknnlite_cpu.backend import CpuBackend
from rknnlite_cpu.context import CpuContext
from rknnlite_graph.graph import Graph, Node

from rknnlite.errors import RknnError
from rknnlite.formats import ModelFile
from rknnlite.spi import OpenOptions

_NO_LAYERS = ("InputOperator", "OutputOperator", "Identity")
_SHOWN = 99.9
"""Per cent of identical values from which on a kind needs no line of its own."""


@dataclass
class _Layer:
    """What came of one file."""

    errors: np.ndarray  # in steps
    then: float  # share of identical values as the simulator computes
    ways: tuple[Way, ...] = ()

    @property
    def share(self) -> float:
        """Identical values."""
        return float((self.errors == 0).mean()) if self.errors.size else 1.0


@dataclass
class _Count:
    """Values of one kind of layer."""

    files: int = 0
    values: int = 0
    equal: int = 0
    worst: int = 0
    then: float = 0.0
    gained: Counter[Way] = field(default_factory=Counter)

    def add(self, layer: _Layer) -> None:
        """Count one output of a file."""
        size = layer.errors.size
        self.values += size
        self.equal += int((layer.errors == 0).sum())
        self.worst = max(self.worst, int(layer.errors.max(initial=0)))
        self.then += layer.then * size
        for way in layer.ways:
            self.gained[way] += max(0, round((layer.then - layer.share) * size))

    @property
    def share(self) -> float:
        """Per cent of identical values."""
        return 100 * self.equal / self.values

    @property
    def share_then(self) -> float:
        """The same as the simulator computes."""
        return 100 * self.then / self.values

    @property
    def ways(self) -> list[Way]:
        """What most of the difference is."""
        return [way for way, gained in self.gained.most_common() if 10 * gained > max(self.gained.values())]


def _single(graph: Graph) -> Optional[Node]:
    nodes = [node for node in graph.nodes if node.op not in _NO_LAYERS]
    return nodes[0] if len(nodes) == 1 else None


def _layers(model: ModelFile, answers: Path) -> Iterator[tuple[str, _Layer]]:
    """(kind, quantised output) of a file with a single layer."""
    with np.load(answers) as stored:
        arrays = {name: stored[name] for name in stored.files}
    inputs = [arrays[name] for name in sorted(arrays) if name.startswith("in")]
    with CpuBackend().open(model, OpenOptions()) as context:
        assert isinstance(context, CpuContext)
        node = _single(context._shapes.current.plan.graph)
        if node is None:
            return
        kind = f"depthwise {node.op}" if node.conv is not None and node.conv.depthwise else node.op
        for i, (found, attr) in enumerate(zip(context.infer(inputs), context.outputs)):
            wanted = arrays[f"out{i}"]
            if attr.quant is None or found.shape != wanted.shape:
                continue
            errors = np.abs(np.rint((found.astype(np.float64) - wanted) / attr.quant.scale))
            layer = _Layer(errors, 1.0)
            layer.then = layer.share
            case = CASES.get(answers.parent.name.rpartition("-")[0])
            if layer.share < 1 and i == 0 and case is not None:
                again = recompute(context, node, wanted, case.record()[0])
                if again is not None and again.share > layer.share:
                    layer.then, layer.ways = again.share, again.ways
            yield kind, layer


def count(cache: Path, target: str, only: str = "*") -> dict[str, _Count]:
    """Per kind of layer, the least identical first."""
    counts: dict[str, _Count] = {}
    for path in sorted(cache.glob(f"*/{target}.rknn")):
        try:
            layers = list(_layers(ModelFile(path), path.with_suffix(".npz")))
        except RknnError:
            continue
        for kind in {kind for kind, _ in layers if fnmatch.fnmatch(kind, only)}:
            counts.setdefault(kind, _Count()).files += 1
        for kind, layer in layers:
            if kind in counts:
                counts[kind].add(layer)
    return dict(sorted(counts.items(), key=lambda item: item[1].share))


def table(counts: dict[str, _Count]) -> str:
    """For the terminal."""
    return "\n".join(
        f"{kind:36}{found.files:5} files {found.share:8.3f} % identical, at most {found.worst} off, "
        f"then {found.share_then:8.3f} %  {', '.join(way.name.lower() for way in found.ways)}"
        for kind, found in counts.items()
    )


def markdown(counts: dict[str, _Count], target: str) -> str:
    """The section of the page."""
    good = [found for found in counts.values() if found.share >= _SHOWN]
    whole = sum(found.equal == found.values for found in good)
    return "\n".join(
        [
            "## Layer by layer\n",
            f"{sum(found.files for found in counts.values())} networks of one layer ({target}) on the simulator's own input. Of\n"
            f"{len(counts)} kinds {len(good)} have {_SHOWN} % of its bytes or more ({whole} all of them). The others, and the share\n"
            "*then*, computed in the simulator's way:\n",
            *(f"* *{way.name.lower()}*: {_EXPLAINED[way]}" for way in Way),
            "\n[Kinds of layers](assets/coverage-kinds.js)",
        ]
    )


def rows(counts: dict[str, _Count]) -> DataTable:
    """A row per kind that is not all equal."""
    found = []
    for kind, count in counts.items():
        if count.share < _SHOWN:
            ways = ", ".join(way.name.lower() for way in count.ways) or "not explained"
            cells = kind, count.files, f"{count.share:.2f} %", count.worst, f"{count.share_then:.2f} %", ways
            found.append([str(cell) for cell in cells])
    columns = ["layer", "networks", "identical", "at most, steps", "then", "the simulator's way"]
    return DataTable(columns, ["the simulator's way"], found)


_EXPLAINED = {
    Way.EXACT: "with exact scales and limits; the file has 16-bit multipliers and whole steps;",
    Way.STORED: "with a rounding to int8 between convolution and activation;",
    Way.OPERANDS: "with int8 factors of a normalisation, and summands not rounded.",
}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cache", type=Path, required=True, help="folder of conversions")
    parser.add_argument("--target", default="rk3588.i8")
    parser.add_argument("--only", default="*", help="shell pattern of kinds")
    parser.add_argument("--markdown", type=Path, help="page: write the section there, its data beside it")
    args = parser.parse_args()
    counts = count(args.cache, args.target, args.only)
    print(table(counts))
    if args.markdown:
        put(args.markdown, "kinds", markdown(counts, args.target))
        write(assets(args.markdown, "kinds"), "Layers of tools/sweep that are not all equal.", rows(counts))


if __name__ == "__main__":
    main()
