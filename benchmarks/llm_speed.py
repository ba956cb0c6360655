"""Speed of language models on the CPU reference beside the machine's memory, numpy, transformers and llama.cpp, in turns.

    python benchmarks/llm_speed.py --folder DIR [--transformers PYTHON] [--llama PYTHON] [--rounds 7] [--shape 0.5b]

Random weights; packages, and GGUF files of the same weights, are made in ``--folder`` on the first run (4 GB). ``--transformers`` and
``--llama`` name the Python that has the packages transformers and torch, llama-cpp-python and gguf; they may be other ones.
Every measured program is a process of its own (``llm_workers.py``), one works at a time, and medians are compared. Wall times mean
something on a quiet machine only.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from llm_workers import PROMPT, STEPS
from random_llm import SHAPES, random_package

WORKERS = Path(__file__).with_name("llm_workers.py")
GIGABYTES = 4 * (1 << 28) / 1e9
Figures = dict[tuple[str, str], tuple[float, float]]


class Worker:
    """A program that is measured."""

    def __init__(self, python: str, kind: str, path: str) -> None:
        self._process = subprocess.Popen(
            [python, str(WORKERS), kind, path],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        if self._line() != "ready":
            raise SystemExit(
                f"{python} {WORKERS.name} {kind} {path} does not start; run it by itself to see why"
            )

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def seconds(self, call: str) -> tuple[float, float]:
        """Wall and CPU seconds of a call."""
        assert self._process.stdin is not None
        self._process.stdin.write(call + "\n")
        self._process.stdin.flush()
        wall, cpu = json.loads(self._line())
        return wall, cpu

    def close(self) -> None:
        """End it."""
        self._process.communicate()


def once(python: str, kind: str, path: str) -> Any:
    """What a process says that does one thing."""
    done = subprocess.run([python, str(WORKERS), kind, path], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{python} {WORKERS.name} {kind} {path} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def workers(args: argparse.Namespace, folder: Path) -> dict[str, Worker]:
    """Everything that is measured, by name."""
    source = folder / f"random-{args.shape}"
    made = {"numpy GEMV": Worker(sys.executable, "gemv", "")}
    for weights, engine in (
        ("f32", "numpy"),
        ("w8", "numpy"),
        ("w8", "native"),
        ("w4", "native"),
        ("f16", "native"),
    ):
        random_package(folder, args.shape, weights)
        made[f"{weights} {engine}"] = Worker(sys.executable, "ours", f"{source}-{weights}:{engine}")
    if args.transformers:
        made["transformers f32"] = Worker(args.transformers, "transformers", str(source))
    if args.llama:
        if not source.with_name(f"{source.name}.q4_k.gguf").exists():
            once(args.llama, "gguf", f"{source}:{source}")
        for name in ("q8_0", "q4_k"):
            path = source.with_name(f"{source.name}.{name}.gguf")
            made[f"llama.cpp {name}"] = Worker(args.llama, "llama.cpp", str(path))
    return made


def measured(found: dict[str, Worker], rounds: int) -> Figures:
    """Median wall and CPU seconds by program and call; the first round warms up."""
    times: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for turn in range(rounds + 1):
        for name, worker in found.items():
            calls = ["decode 1"] if name == "numpy GEMV" else ["prefill", "decode 1"]
            calls += ["decode 4"] if name.endswith("native") else []
            for call in calls:
                seconds = worker.seconds(call)
                if turn:
                    times[name, call].append(seconds)
    return {key: _medians(values) for key, values in times.items()}


def _medians(values: list[tuple[float, float]]) -> tuple[float, float]:
    wall, cpu = zip(*values)
    return statistics.median(wall), statistics.median(cpu)


def report(figures: Figures, sizes: dict[str, float]) -> None:
    """All figures, then the targets."""
    print(f"{'':18s} {'prefill ' + str(PROMPT):>22s} {'one token':>22s} {'4 sessions':>22s}   wall / CPU")
    for name in dict.fromkeys(name for name, _ in figures):
        cells = []
        for call in ("prefill", "decode 1", "decode 4"):
            wall, cpu = figures.get((name, call), (0.0, 0.0))
            scale = 1000 / (1 if call == "prefill" else STEPS)
            cells.append(f"{wall * scale:8.1f} / {cpu * scale:6.1f} ms" if wall else "")
        print(f"{name:18s} " + " ".join(f"{cell:>22s}" for cell in cells))
    gemv = [GIGABYTES * STEPS / seconds for seconds in figures["numpy GEMV", "decode 1"]]
    print(f"numpy GEMV reads {gemv[0]:.1f} GB/s of wall time, {gemv[1]:.1f} GB per CPU second")
    for weights, share, factor in (("w8", 0.55, 2), ("w4", 0.45, 3)):
        name = f"{weights} native"
        used = [sizes[weights] * STEPS / seconds for seconds in figures[name, "decode 1"]]
        _ratio(
            f"{weights}: share of the bytes per second of the GEMV",
            [u / g for u, g in zip(used, gemv)],
            share,
        )
        _ratio(f"{weights}: decode beside f32", _beside(figures, "f32 numpy", name, "decode 1"), factor)
        four = [4 * ratio for ratio in _beside(figures, name, name, "decode 1", "decode 4")]
        _ratio(f"{weights}: tokens of 4 sessions beside those of one", four, None)
    for name in ("f32 numpy", "w8 native", "w4 native", "f16 native"):
        if ("transformers f32", "prefill") in figures:
            wanted = 1.0 if name.endswith("native") else None
            _ratio(
                f"{name}: prefill beside transformers",
                _beside(figures, "transformers f32", name, "prefill"),
                wanted,
            )
    for name, theirs in (("w8 native", "llama.cpp q8_0"), ("w4 native", "llama.cpp q4_k")):
        for call in ("prefill", "decode 1"):
            if (theirs, call) in figures:
                _ratio(f"{name}: {call} beside {theirs}", _beside(figures, theirs, name, call), 0.8)


def _beside(figures: Figures, theirs: str, ours: str, call: str, other: str = "") -> list[float]:
    return [a / b for a, b in zip(figures[theirs, call], figures[ours, other or call])]


def _ratio(what: str, values: list[float], target: float | None) -> None:
    goal = f"   target {target}" if target is not None else ""
    print(f"{what:58s} {values[0]:5.2f} wall {values[1]:5.2f} CPU{goal}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--shape", choices=SHAPES, default="0.5b")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--transformers", metavar="PYTHON")
    parser.add_argument("--llama", metavar="PYTHON")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        found = workers(args, folder)
        try:
            figures = measured(found, args.rounds)
        finally:
            for worker in found.values():
                worker.close()
        source = folder / f"random-{args.shape}"
        sizes = {kind: Path(f"{source}-{kind}.weight").stat().st_size / 1e9 for kind in ("w8", "w4")}
        report(figures, sizes)
        for weights in ("w8", "w4"):
            once(sys.executable, "first", f"{source}-{weights}")
            seconds = once(sys.executable, "first", f"{source}-{weights}")
            print(
                f"{weights}: first token besides prefill, opened before: {seconds['wall']:.2f} s wall, "
                f"{seconds['cpu']:.2f} s CPU   target 0.3"
            )
        largest = 2 * SHAPES[args.shape]["vocab_size"] * SHAPES[args.shape]["hidden_size"] / 1e6
        held = once(sys.executable, "export", f"{source}:{temporary}/export:w8")["megabytes"]
        print(
            f"export w8 holds {held:.0f} MB beside the mapped files, {held / largest:.2f} of the largest tensor   target 1.5"
        )


if __name__ == "__main__":
    main()
