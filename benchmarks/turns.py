"""Inference on the CPU reference of this tree and of another one, in turns: times, calls, and whether results are the same.

    git worktree add /tmp/before HEAD~5
    RKNNLITE_THREADS=1 python benchmarks/turns.py [--rounds 60] /tmp/before tests/data/mobilenetv2_like.*.rknn

Each tree has a process of its own, and one computes while the other waits: what else the machine does meets both. ``now`` and
``before`` are medians (and the least) of all rounds in milliseconds, ``ratio`` is now / before of either, and of the CPU time of
all threads; ``calls`` are functions of Python and of C that the calling thread goes through in one inference: they do not depend
on what else the machine does.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent


class Tree:
    """A process that runs one model with the code of one tree."""

    def __init__(self, root: Path, model: Path) -> None:
        path = os.pathsep.join([str(root), str(root / "plugins")])
        self._child = subprocess.Popen(
            [sys.executable, __file__, "--child", str(model.resolve())],
            env={**os.environ, "PYTHONPATH": path}, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self, word: str) -> str:
        """The child's answer to ``run``, ``calls`` or ``results``."""
        pipes = self._child
        assert pipes.stdin is not None and pipes.stdout is not None
        print(word, file=pipes.stdin, flush=True)
        answer = pipes.stdout.readline().strip()
        if not answer:
            raise SystemExit(f"{' '.join(map(str, pipes.args))}: no answer")  # type: ignore[arg-type]
        return answer

    def close(self) -> None:
        assert self._child.stdin is not None
        self._child.stdin.close()
        self._child.wait()


def child(model: Path) -> None:
    """Answers words on the standard input until it ends."""
    import rknnlite

    rng = np.random.default_rng(0)
    with rknnlite.open(model, backend="cpu") as context:
        arrays = [rng.integers(0, 256, attr.dims, np.uint8) for attr in context.inputs]
        outputs = [context.infer(arrays) for _ in range(3)][-1]
        answers: dict[str, Callable[[], Any]] = {
            "run": lambda: "{} {}".format(*seconds(lambda: context.infer(arrays))),
            "calls": lambda: calls(lambda: context.infer(arrays)),
            "results": lambda: hashlib.sha256(b"".join(np.ascontiguousarray(o) for o in outputs)).hexdigest(),
        }
        for line in sys.stdin:
            print(answers[line.strip()](), flush=True)


def seconds(action: Callable[[], object]) -> tuple[float, float]:
    """Wall-clock time of one call, and the CPU time of all its threads."""
    started, used = perf_counter(), process_time()
    action()
    return perf_counter() - started, process_time() - used


def calls(action: Callable[[], object]) -> int:
    """Functions that the calling thread goes through."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


def compare(other: Path, model: Path, rounds: int) -> str:
    """One line about a model."""
    trees = [Tree(ROOT, model), Tree(other, model)]
    try:
        same = len({tree.ask("results") for tree in trees}) == 1
        counts = [int(tree.ask("calls")) for tree in trees]
        answers = [[tree.ask("run").split() for tree in trees] for _ in range(rounds)]
    finally:
        for tree in trees:
            tree.close()
    times = np.array(answers, float) * 1e3  # [rounds, trees, (wall clock, CPU)]
    (now, before), (least_now, least) = np.median(times, 0), times.min(0)
    return (
        f"{now[0]:8.2f} ({least_now[0]:.2f}) {before[0]:8.2f} ({least[0]:.2f})   {now[0] / before[0]:.2f} "
        f"({least_now[0] / least[0]:.2f})   CPU {now[1] / before[1]:.2f} ({least_now[1] / least[1]:.2f})   "
        f"{counts[0]:5d} {counts[1]:5d}   {'same' if same else 'DIFFERENT'}   {'/'.join(model.parts[-2:])}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("other", type=Path, help="folder of the other tree")
    parser.add_argument("models", type=Path, nargs="*")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        return child(chosen.other)
    print(
        "ms: now (least)   before (least)   ratio                               calls: now, before; results, model"
    )
    for model in chosen.models:
        print(compare(chosen.other.resolve(), model, chosen.rounds), flush=True)
    return None


if __name__ == "__main__":
    main()
