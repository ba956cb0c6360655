"""Writes the figures of docs/speed.md from one run, and the table as its data: every network on every engine beside the network that it came from.

    python benchmarks/speed_page.py FOLDER [--threads 1 2] [--rounds 25] [--only 'resnet18*'] [--page docs/speed.md]
    python benchmarks/speed_page.py --again figures.json    # the page once more from figures that are kept

FOLDER holds pairs ``<network>.<soc>.<type>.rknn`` and ``<network>.onnx`` (README.md says how they are made). Each file is measured
in a process of its own, where all take turns, a call to warm the caches and one that counts; ratios are of medians. onnxruntime
computes the source network in float with the same number of threads, which is 1. ``default`` is what a program gets that names no
engine, when it has settled. Figures go to ``figures.json`` (``--figures``), and between the marks of the page.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatch
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "plugins")]

import numpy as np  # noqa: E402
from rknnlite_cpu.engines import choice  # noqa: E402

import rknnlite  # noqa: E402
from tools.sweep import data_file  # noqa: E402
from tools.sweep.data_file import DataTable  # noqa: E402

BEGIN, END = "<!-- speed: begin, written by benchmarks/speed_page.py -->", "<!-- speed: end -->"
FLOAT, DEFAULT, NUMPY = "onnxruntime float", "default", "numpy"
TARGETS = {"i8": (0.6, 1.0), "fp16": (1.0, 1.4)}
"""Of the time in float: the median of all networks, and the slowest."""
SCALING = 1.7
"""Two threads over one, for networks above ``LARGE`` milliseconds."""
LARGE = 5.0
ENGINES = list(dict.fromkeys(name for each in choice.candidates() for name in each.split("+")))
SETTLED = 120.0
"""Seconds for the default engine to be found."""


@dataclass
class Measured:
    """One file: milliseconds per frame by ``engine`` and number of threads, float included; what the default is."""

    network: str
    kind: str
    medians: dict[str, dict[str, float]] = field(default_factory=dict)
    default: str = ""


# -- measuring: a process for each file --------------------------------------------------------------------------


def measure(path: Path, threads: Sequence[int], rounds: int, engines: Sequence[str]) -> Measured:
    """One file on all engines."""
    network, _, kind = path.name.split(".")[:3]
    found = Measured(network, kind)
    for count in threads:
        calls: dict[str, Callable[[], object]] = {FLOAT: _float(path.with_name(f"{network}.onnx"), count)}
        opened = {name: rknnlite.open(path, backend="cpu", threads=count, engine=name) for name in engines}
        opened[DEFAULT] = rknnlite.open(path, backend="cpu", threads=count)
        for name, context in opened.items():
            calls[name] = _frame(context)
        found.default = _settle(opened[DEFAULT], calls[DEFAULT])
        for name, seconds in in_turns(calls, rounds).items():
            found.medians.setdefault(name, {})[str(count)] = 1e3 * statistics.median(seconds)
        for context in opened.values():
            context.close()
    return found


def in_turns(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each call."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            call()
            started = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - started)
    return times


def _frame(context: Any) -> Callable[[], object]:
    random = np.random.default_rng(0)
    inputs = [
        random.integers(0, 256, attr.dims, np.uint8)
        if len(attr.dims) == 4
        else random.normal(size=attr.dims).astype(np.float32)
        for attr in context.inputs
    ]
    return lambda: context.infer(inputs)


def _settle(context: Any, call: Callable[[], object]) -> str:
    """Run frames until the fastest engine computes; its name."""
    end = time.monotonic() + SETTLED
    call()
    while context._shapes.current.plan._tiers is not None and time.monotonic() < end:
        call()
    accelerator = context._shapes.current.plan._accelerator
    islands = [] if accelerator is None else accelerator._islands
    return "+".join(dict.fromkeys(island.engine.name for island in islands)) or NUMPY


def _float(onnx: Path, threads: int) -> Callable[[], object]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(onnx), options, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(0)
    feeds = {
        each.name: random.normal(size=[size if isinstance(size, int) else 1 for size in each.shape]).astype(
            np.float32
        )
        for each in session.get_inputs()
    }
    return lambda: session.run(None, feeds)


def _apart(path: Path, args: argparse.Namespace) -> Measured:
    """``measure`` in a process of its own."""
    words = ["--one", str(path), "--rounds", str(args.rounds), "--threads", *map(str, args.threads)]
    done = subprocess.run(
        [sys.executable, __file__, *words, "--engines", *args.engines], stdout=subprocess.PIPE, text=True, check=True,
        env={**os.environ, "RKNN_LOG_LEVEL": "0"},
    )  # fmt: skip
    return Measured(**json.loads(done.stdout.splitlines()[-1]))


# -- the page ------------------------------------------------------------------------------------------------------


def page(rows: Sequence[Measured], about: str) -> str:
    """The text between the marks: medians and what is above the aims."""
    counts = _counts(rows)
    engines = _engines(rows)
    table = [["files", *engines, "slowest default"]]
    verdicts = []
    for kind in _kinds(rows):
        chosen = [row for row in rows if row.kind == kind]
        for count in counts:
            medians = [statistics.median(ratio(row, name, count) for row in chosen) for name in engines]
            slowest = max(ratio(row, DEFAULT, count) for row in chosen)
            cells = [f"{found:.2f}" for found in (*medians, slowest)]
            table.append([f"{kind}, {_threads(count)}", *cells])
        verdicts += _verdicts(kind, chosen, counts)
    head = "Median time of a frame, that of onnxruntime's float on the source network as 1:\n"
    return "\n".join([about, head, _table(table), "", *verdicts, *_scaling(rows, counts)])


def data(rows: Sequence[Measured]) -> DataTable:
    """A row for each network, type and number of threads, with the ratios of the engines."""
    engines = _engines(rows)
    found = []
    for kind in _kinds(rows):
        for count in _counts(rows):
            for row in rows:
                if row.kind == kind:
                    ratios = [f"{ratio(row, name, count):.2f}" for name in engines]
                    milliseconds = f"{row.medians[FLOAT][count]:.2f} ms"
                    found.append([row.network, kind, count, milliseconds, *ratios, row.default])
    columns = ["network", "type", "threads", "float", *engines, "default is"]
    return DataTable(columns, ["network", "type", "threads"], found)


def _counts(rows: Sequence[Measured]) -> list[str]:
    return sorted({count for row in rows for count in row.medians.get(FLOAT, {})}, key=int)


def _engines(rows: Sequence[Measured]) -> list[str]:
    return [name for name in rows[0].medians if name != FLOAT] if rows else []


def _kinds(rows: Sequence[Measured]) -> list[str]:
    return sorted({row.kind for row in rows}, reverse=True)


def ratio(row: Measured, engine: str, count: str) -> float:
    """Of the time in float."""
    return row.medians[engine][count] / row.medians[FLOAT][count]


def _verdicts(kind: str, rows: Sequence[Measured], counts: Iterable[str]) -> list[str]:
    if kind not in TARGETS:
        return []
    median, slowest = TARGETS[kind]
    lines = []
    for count in counts:
        found = [ratio(row, DEFAULT, count) for row in rows]
        above = ", ".join(row.network for row in rows if ratio(row, DEFAULT, count) > slowest)
        lines.append(
            f"* {kind}, {_threads(count)}: median {statistics.median(found):.2f} (at most {median:g} is the aim), "
            + (f"above {slowest:g}: {above}." if above else f"none above {slowest:g}.")
        )
    return lines


def _scaling(rows: Sequence[Measured], counts: Sequence[str]) -> list[str]:
    """How much faster two threads are than one."""
    large = [row for row in rows if {"1", "2"} <= set(counts) and row.medians[DEFAULT]["1"] > LARGE]
    if not large:
        return []
    own, other = (
        sorted(row.medians[name]["1"] / row.medians[name]["2"] for row in large) for name in (DEFAULT, FLOAT)
    )
    return [
        f"* Two threads, {len(large)} networks above {LARGE:g} ms: {own[0]:.2f} to {own[-1]:.2f} times as fast as one, median "
        f"{statistics.median(own):.2f} ({SCALING:g} is the aim); float {statistics.median(other):.2f}."
    ]


def _threads(count: str) -> str:
    return f"{count} thread{'s' * (count != '1')}"


def _table(rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])


def about(rounds: int) -> str:
    """When, where and with what."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("numpy", *ENGINES) if _has(name))
    model = next(
        (line.split(":")[1].strip() for line in _cpuinfo() if line.startswith("model name")),
        platform.machine(),
    )
    return (
        f"Measured on {time.strftime('%Y-%m-%d')}: {model}, {os.cpu_count()} processors, Python {platform.python_version()}, {versions}; "
        f"medians of {rounds} rounds in turns.\n"
    )


def _has(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _cpuinfo() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def write(path: Path, text: str) -> None:
    """Put the tables in their place; what stands outside of the marks stays."""
    old = path.read_text(encoding="utf-8")
    if BEGIN not in old or END not in old:
        raise SystemExit(f"{path} has no marks: {BEGIN} ... {END}")
    before, rest = old.split(BEGIN, 1)
    path.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.split(END, 1)[1]}", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "speed.md")
    parser.add_argument("--figures", type=Path, default=Path("figures.json"))
    parser.add_argument("--again", type=Path, help="figures of an earlier run: only write the page")
    parser.add_argument("--only", default="*")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--engines", nargs="+", default=[NUMPY, *ENGINES])
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.one is not None:
        print(json.dumps(asdict(measure(args.one, args.threads, args.rounds, args.engines))))
        return
    if args.again is not None:
        kept = json.loads(args.again.read_text(encoding="utf-8"))
        _write_both(args.page, [Measured(**row) for row in kept["rows"]], kept["about"])
        return
    if args.folder is None:
        parser.error("FOLDER is missing")
    rows = []
    for path in sorted(args.folder.glob("*.rknn")):
        if fnmatch(path.name, args.only) and path.with_name(f"{path.name.split('.')[0]}.onnx").exists():
            rows.append(_apart(path, args))
            told = ", ".join(f"{name} {times}" for name, times in rows[-1].medians.items())
            print(f"{path.name}: {told}", flush=True)
    if not rows:
        raise SystemExit(f"{args.folder} has no pairs of .rknn and .onnx")
    told = {"about": about(args.rounds), "rows": [asdict(row) for row in rows]}
    args.figures.write_text(json.dumps(told, indent=1), encoding="utf-8")
    _write_both(args.page, rows, told["about"])


def _write_both(path: Path, rows: Sequence[Measured], about: str) -> None:
    write(path, page(rows, about))
    data_file.write(data_file.assets(path, "networks"), "Times of benchmarks/speed_page.py.", data(rows))


if __name__ == "__main__":
    main()
