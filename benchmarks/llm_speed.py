"""Speed of language models on the CPU reference beside the machine's memory, transformers and llama.cpp, in turns: one table.

    python benchmarks/llm_speed.py --folder DIR [--transformers PYTHON] [--llama PYTHON] [--rounds 7] [--threads 1 2] [--all]

Random weights; packages, and GGUF files of the same weights, are made in ``--folder`` on the first run (2 GB). ``--transformers`` and
``--llama`` name the Python that has the packages transformers and torch, llama-cpp-python and gguf; they may be other ones.
Every measured program is a process of its own (``llm_workers.py``) on so many processors, one works at a time, and medians are
compared. The share of the limit is what a step reads of weights, keys and values, over what numpy's product of a float32 matrix
and a vector reads per second. Prompts are prefilled with the most threads. ``--all`` has numpy's kernels and float16, too, the
first token, and memory of an export. Wall times mean something on a quiet machine only.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from llm_workers import LONG, PROMPT, STEPS
from random_llm import SHAPES, random_package
from rknnlite_llm.container.description import read_llm
from rknnlite_llm.footprint import kv_read_bytes, weight_bytes

from rknnlite.formats import ModelFile

WORKERS = Path(__file__).with_name("llm_workers.py")
ROOT = WORKERS.parent.parent
GIGABYTES = 4 * (1 << 28) / 1e9
PREFILL = f"prefill {LONG}"
Figures = dict[tuple[str, str], tuple[float, float]]


class Worker:
    """A program that is measured."""

    def __init__(self, python: str, kind: str, path: str, threads: int) -> None:
        names = ("RKNNLITE_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "WORKER_THREADS")
        path_here = os.pathsep.join([str(ROOT), str(ROOT / "plugins")])
        env = {**os.environ, **dict.fromkeys(names, str(threads)), "PYTHONPATH": path_here}
        self._process = subprocess.Popen(
            [python, str(WORKERS), kind, path], env=env,
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


def workers(args: argparse.Namespace, folder: Path, threads: int) -> dict[str, Worker]:
    """Everything that is measured, by name."""
    source = folder / f"random-{args.shape}"
    made = {"numpy GEMV": Worker(sys.executable, "gemv", "", threads)}
    kinds = [("w8", "native"), ("w4", "native")]
    if args.all:
        kinds += [("f16", "native"), ("f32", "numpy"), ("w8", "numpy")]
    for weights, engine in kinds:
        random_package(folder, args.shape, weights)
        made[f"{weights} {engine}"] = Worker(sys.executable, "ours", f"{source}-{weights}:{engine}", threads)
    if args.transformers and threads == max(args.threads):
        made["transformers f32"] = Worker(args.transformers, "transformers", str(source), threads)
    if args.llama:
        for name in ("q8_0", "q4_k"):
            path = source.with_name(f"{source.name}.{name}.gguf")
            if not path.exists():
                once(args.llama, "gguf", f"{source}:{source}")
            made[f"llama.cpp {name}"] = Worker(args.llama, "llama.cpp", str(path), threads)
    return made


def measured(found: dict[str, Worker], rounds: int, prefill: bool) -> Figures:
    """Median wall and CPU seconds by program and call; the first round warms up."""
    times: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for turn in range(rounds + 1):
        for name, worker in found.items():
            calls = [] if name == "numpy GEMV" or not prefill else [PREFILL]
            calls += ["decode 1", "decode 4"] if name.endswith("native") else ["decode 1"]
            for call in calls if turn else ["decode 1"]:
                if name.startswith(("transformers", "llama")) and not turn:
                    worker.seconds(f"prefill {PROMPT}")
                seconds = worker.seconds(call)
                if turn:
                    times[name, call].append(seconds)
    return {key: _medians(values) for key, values in times.items()}


def _medians(values: list[tuple[float, float]]) -> tuple[float, float]:
    wall, cpu = zip(*values)
    return statistics.median(wall), statistics.median(cpu)


def report(figures: Figures, read: dict[str, float], threads: int) -> None:
    """All figures of so many threads, then the targets; ``read``: gigabytes of a step by weights."""
    title = f"{threads} threads" if threads > 1 else "1 thread"
    print(f"{title:18s} {PREFILL:>22s} {'one token':>22s} {'4 sessions':>22s}   wall / CPU")
    for name in dict.fromkeys(name for name, _ in figures):
        cells = []
        for call in (PREFILL, "decode 1", "decode 4"):
            wall, cpu = figures.get((name, call), (0.0, 0.0))
            scale = 1000 / (1 if call == PREFILL else STEPS)
            cells.append(f"{wall * scale:8.1f} / {cpu * scale:6.1f} ms" if wall else "")
        print(f"{name:18s} " + " ".join(f"{cell:>22s}" for cell in cells))
    gemv = [GIGABYTES * STEPS / seconds for seconds in figures["numpy GEMV", "decode 1"]]
    print(f"numpy GEMV reads {gemv[0]:.1f} GB/s of wall time, {gemv[1]:.1f} GB per CPU second")
    for weights, share in (("w8", 0.70), ("w4", 0.55)):
        name = f"{weights} native"
        used = [read[weights] * STEPS / seconds for seconds in figures[name, "decode 1"]]
        _ratio(f"{weights}: share of the limit", [u / g for u, g in zip(used, gemv)], share)
        four = [4 * ratio for ratio in _beside(figures, name, name, "decode 1", "decode 4")]
        _ratio(f"{weights}: tokens of 4 sessions beside those of one", four, None)
        if ("transformers f32", PREFILL) in figures:
            _ratio(
                f"{weights}: {PREFILL} beside transformers",
                _beside(figures, "transformers f32", name, PREFILL),
                1.2,
            )
    for name, theirs in (("w8 native", "llama.cpp q8_0"), ("w4 native", "llama.cpp q4_k")):
        for call in (PREFILL, "decode 1"):
            if (theirs, call) in figures:
                _ratio(f"{name}: {call} beside {theirs}", _beside(figures, theirs, name, call), None)


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
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--transformers", metavar="PYTHON")
    parser.add_argument("--llama", metavar="PYTHON")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        for threads in sorted(args.threads):
            found = workers(args, folder, threads)
            try:
                figures = measured(found, args.rounds, threads == max(args.threads))
            finally:
                for worker in found.values():
                    worker.close()
            models = {
                kind: read_llm(ModelFile(folder / f"random-{args.shape}-{kind}.rknn"))
                for kind in ("w8", "w4")
            }
            read = {
                kind: (weight_bytes(model) + kv_read_bytes(model, PROMPT)) / 1e9
                for kind, model in models.items()
            }
            report(figures, read, threads)
        if args.all:
            _more(args, folder, Path(temporary))


def _more(args: argparse.Namespace, folder: Path, temporary: Path) -> None:
    """The first token, and memory of an export."""
    source = folder / f"random-{args.shape}"
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
