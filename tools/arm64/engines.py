"""What an engine of the CPU reference does on this processor, beside the numpy kernels.

    python -m tools.arm64.engines [--engine openvino] [MODEL.rknn ...]

Prints the form that the probe chooses, and per model: elements of all outputs that are the same, nodes that the engine has
of all nodes, what its proof left to numpy and why, and a digest of the numpy kernels' bytes, to compare processors. Models
are those with stored inputs in tests/data and examples, the smallest first, unless some are named. OUTSIDE and status 1: an
output is further from the numpy kernels than tests/cpu/engines/test_bytes.py allows; those bounds are for its small files,
in deep networks the last bits of floats grow.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import os
import platform
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Optional

import numpy as np
from rknnlite_cpu.engines.choice import chosen
from rknnlite_cpu.engines.proof import is_floating

from rknnlite.log import logger
from rknnlite.spi import Context
from rknnlite.spi.types import RawOutput
from tests.cpu.engines.test_bytes import check, on
from tests.cpu.test_corpus import CASES, graph_of
from tests.support.corpus import Golden, goldens

MARKERS = ("InputOperator", "OutputOperator")


class Reasons(logging.Handler):
    """Collects what proofs say about nodes that are not for the engine, inside a ``with``."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []

    def __enter__(self) -> Reasons:
        self._level_before = logger.level
        logger.addHandler(self)
        logger.setLevel(logging.INFO)
        return self

    def __exit__(self, *_: object) -> None:
        logger.removeHandler(self)
        logger.setLevel(self._level_before)

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if "engine" in text:
            self.lines.append(text)


@dataclass
class Seen:
    """What one model showed."""

    same: int = 0
    elements: int = 0
    nodes: int = 0
    taken: int = 0
    digest: str = ""
    largest: float = 0.0
    """Difference between the engine and the numpy kernels: steps, or of float outputs the share of the largest value."""
    simulator: tuple[float, float] = (0.0, 0.0)
    """Mean distance of the numpy kernels and of the engine from the stored outputs, as a share of the largest value."""
    outside: str = ""
    """Why an output is not as near as it must be."""

    @property
    def verdict(self) -> str:
        if self.outside:
            return "OUTSIDE"
        return "identical" if self.same == self.elements else "near"

    def __str__(self) -> str:
        text = f"{self.same} of {self.elements} the same, engine has {self.taken} of {self.nodes} nodes, {self.digest}"
        if self.same < self.elements:
            ours, theirs = self.simulator
            text += (
                f", at most {self.largest:.3g} apart, from the simulator {ours:.3g}, the engine {theirs:.3g}"
            )
        return text


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Print what there is to see; 1 for an output that is too far away."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--engine", default="onnxruntime")
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL.rknn")
    options = parser.parse_args(arguments)
    engines = chosen(options.engine)
    if not engines:
        parser.error(f"the engine {options.engine} cannot be loaded here")
    engine = engines[0]
    print(
        f"{platform.machine()}, numpy {np.__version__}, {engine.version}, form {engine.form.value}",
        flush=True,
    )
    verdicts = Counter[str]()
    with tempfile.TemporaryDirectory() as folder, Reasons() as reasons:
        os.environ["RKNNLITE_CACHE"] = folder  # an engine proves itself anew
        for path, archive in named(options.models) or sorted(CASES, key=lambda case: case[0].stat().st_size):
            start = perf_counter()
            seen = look(path, archive, options.engine)
            verdicts[seen.verdict] += 1
            print(
                f"{seen.verdict:9} {path.stem}: {seen}, {perf_counter() - start:.1f} s{seen.outside}",
                flush=True,
            )
            for line in reasons.lines:
                print(f"          {line}", flush=True)
            reasons.lines.clear()
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items())))
    return 1 if verdicts["OUTSIDE"] else 0


def named(models: list[Path]) -> list[tuple[Path, Path]]:
    """The given models with their archives of stored inputs, where there are any."""
    known = {model.resolve(): archive for model, archive in CASES}
    return [(path, known.get(path.resolve(), path.with_suffix(".npz"))) for path in models]


def look(path: Path, archive: Path, engine: str) -> Seen:
    """Both engines on the stored inputs of a model."""
    seen, digest = Seen(), hashlib.sha256()
    with on(path, "numpy") as slow, on(path, engine) as fast:
        floating = any(is_floating(node) for node in graph_of(slow).nodes)
        for golden in inputs_of(slow, archive):
            for context in (slow, fast):
                if context.shapes:
                    context.set_shapes([array.shape for array in golden.inputs])
            ours, theirs = (context.infer(golden.inputs, raw=True) for context in (slow, fast))
            for attr, a, b in zip(slow.outputs, ours, theirs):
                digest.update(np.ascontiguousarray(a.data).tobytes())
                compare(seen, a.data, b.data)
                try:
                    check(attr.dtype, a, b, floating)
                except AssertionError as error:
                    why = " ".join(str(error).split())[:300] or "too many integers differ, or by too much"
                    seen.outside += f"\n          output {attr.name}: {why}"
            pairs = list(zip(golden.outputs, ours, theirs))
            seen.simulator = (far([(s, a) for s, a, _ in pairs]), far([(s, b) for s, _, b in pairs]))
        seen.nodes = sum(node.op not in MARKERS for node in graph_of(fast).nodes)
        seen.taken = sum(
            len(island.segment.nodes) for island in fast._shapes.current.plan._accelerator._islands
        )  # type: ignore[attr-defined]
    seen.digest = digest.hexdigest()[:12]
    return seen


def compare(seen: Seen, ours: np.ndarray, theirs: np.ndarray) -> None:
    """Count one output of both."""
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    seen.elements += a.size
    seen.same += int(np.count_nonzero((a == b) | (np.isnan(a) & np.isnan(b))))
    unit = np.abs(a).max(initial=1e-6) if ours.dtype.kind == "f" else 1
    seen.largest = max(seen.largest, float(np.nanmax(np.abs(a - b), initial=0) / unit))


def far(pairs: Sequence[tuple[np.ndarray, RawOutput]]) -> float:
    """Mean distance of results from what the simulator gave; 0 where nothing is stored."""
    found = 0.0
    for simulated, result in pairs:
        real = result.data.astype(np.float64)
        if result.data.dtype.kind != "f" and simulated.dtype.kind == "f":
            real = (real - result.zero_point) * result.scale
        if real.size == simulated.size:
            distance = np.abs(real.ravel() - simulated.ravel().astype(np.float64))
            found = max(found, float(np.nanmean(distance) / np.abs(simulated).max(initial=1e-6)))
    return found


def inputs_of(context: Context, archive: Path) -> Iterator[Golden]:
    """The stored inferences of a model, else one on random bytes."""
    if archive.exists():
        yield from goldens(archive)
        return
    random = np.random.default_rng(0)
    yield Golden([random.integers(0, 256, attr.dims).astype(np.uint8) for attr in context.inputs], [])


if __name__ == "__main__":
    sys.exit(main())
