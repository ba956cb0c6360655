"""Damages files at random and uses them as a program would, for a given time.

    python -m tools.fuzz [--seconds 300] [--cases N] [--processes 2] [--seed N] [--target NAME ...] [--learn]

Targets are ``model`` (genuine network files) and those of ``targets.py``: language model packages, KV cache files,
configuration files, bombs of compressed weights, files of the first toolkit, and the readers and wires of ``readers.py``. All take turns unless some are named; a seed repeats a run as far as
its time goes.

A file may be refused with a typed error or give a result. Another exception, a hang, or more memory than the file
justifies is a finding: the smallest file that shows it is written to ``--out`` and the exit code is 1. The corpus
(tests/formats/data/fuzz.json) keeps one damaged file for every kind of refusal ever met; the tests run it, and the
damage goes on from it. ``--learn`` adds the kinds that are new.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from rknnlite.errors import RknnError
from tests.formats.test_hostile import ALLOWANCE, RUNNABLE, VICTIMS, declared
from tests.formats.test_mini import VICTIMS as MINI_VICTIMS
from tests.support import damage, patches
from tests.support.corpus import genuine, open_cpu
from tools.fuzz.targets import TARGETS, Case, folder

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "tests/formats/data/fuzz.json"
SECONDS = 20.0
"""Time limit of one file."""
BLIND = ["truncated", "flipped", "overwritten"]
"""Kinds of damage that need no intact tables to find their places."""
_BATCH = 60
"""Examples drawn from one file before the next one takes its turn."""


@dataclass
class Report:
    """What one process has seen."""

    count: int = 0
    ran: int = 0
    kinds: dict[str, patches.Patch] = field(default_factory=dict)
    turns: Counter[str] = field(default_factory=Counter)
    findings: list[tuple[str, dict[str, bytes], str]] = field(default_factory=list)


def answer(data: bytes) -> str | None:
    """What a damaged file is refused with, None when it runs; anything else is raised."""
    with damage.limits(SECONDS, ALLOWANCE + 40 * len(data)):
        try:
            with open_cpu(data) as context:
                if declared(context) <= RUNNABLE:
                    context.infer([np.zeros(attr.dims, np.float32) for attr in context.inputs])
        except RknnError as error:
            return patches.refusal(error)
    return None


def fuzz_one(victim: str, start: bytes, kinds: Sequence[str], number: int, report: Report) -> None:
    """One batch of damage to one file, of some kinds."""
    worst: list[bytes] = []

    @seed(number)
    @settings(
        max_examples=_BATCH, database=None, deadline=None, phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.one_of([getattr(damage, kind)(start) for kind in kinds]))
    def check(damaged: bytes) -> None:
        report.count += 1
        worst[:] = [damaged]
        kind = answer(damaged)
        if kind is None:
            report.ran += 1
        elif kind not in report.kinds:
            patch = patches.difference(victim, damaged, kind)
            if patch is not None:
                report.kinds[kind] = patch

    try:
        check()
    except BaseException as error:  # whatever is no typed error; the time limit is no Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        report.findings.append((victim, {"rknn": worst[0]}, traceback.format_exc()))


def fuzz_model(rng: np.random.Generator, corpus: Sequence[patches.Patch], report: Report) -> None:
    """A network file, whole or as the corpus has it."""
    victims = [*VICTIMS, *MINI_VICTIMS]
    victim = victims[int(rng.integers(len(victims)))]
    start, kinds = genuine(victim).read_bytes(), damage.KINDS
    known = [patch for patch in corpus if patch.victim == victim and patch.size == len(start)]
    if known and rng.random() < 0.5:
        start, kinds = known[int(rng.integers(len(known)))].apply(), BLIND
    fuzz_one(victim, start, kinds, int(rng.integers(1 << 62)), report)


def fuzz_case(case: Case, number: int, report: Report) -> None:
    """One batch of inputs of a target."""
    worst: list[Any] = []

    @seed(number)
    @settings(
        max_examples=_BATCH, database=None, deadline=None, phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case.inputs)
    def check(damaged: Any) -> None:
        report.count += 1
        worst[:] = [damaged]
        report.ran += case.use(damaged)

    try:
        check()
    except BaseException as error:  # see fuzz_one
        if isinstance(error, KeyboardInterrupt):
            raise
        report.findings.append((case.victim, case.files(worst[0]), traceback.format_exc()))


def work(
    number: int, until: float, cases: float, targets: Sequence[str], results: multiprocessing.Queue[Report]
) -> None:
    """One process: the targets in turn, until a time or a number of cases."""
    report, rng = Report(), np.random.default_rng(number)
    corpus = patches.load(CORPUS) if CORPUS.exists() else []
    logging.getLogger("rknnlite").setLevel(logging.CRITICAL)  # configurations have their problems told
    while time.time() < until and report.count < cases and len(report.findings) < 5:
        target = targets[int(rng.integers(len(targets)))]
        before = report.count
        if target == "model":
            fuzz_model(rng, corpus, report)
        else:
            with folder() as place:
                fuzz_case(TARGETS[target](rng, Path(place)), int(rng.integers(1 << 62)), report)
        report.turns[target] += report.count - before
    results.put(report)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--cases", type=float, default=float("inf"), help="stop after so many, too")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--target", action="append", choices=["model", *TARGETS], help="default: all")
    parser.add_argument("--out", type=Path, default=ROOT / "build/fuzz", help="folder for findings")
    parser.add_argument("--learn", action="store_true", help="add new kinds of refusals to the corpus")
    args = parser.parse_args()
    results: multiprocessing.Queue[Report] = multiprocessing.Queue()
    began = time.time()
    until = began + args.seconds
    workers = [
        multiprocessing.Process(
            target=work,
            args=(
                args.seed + n,
                until,
                args.cases / args.processes,
                args.target or ["model", *TARGETS],
                results,
            ),
        )
        for n in range(args.processes)
    ]
    for worker in workers:
        worker.start()
    reports = [results.get() for _ in workers]
    for worker in workers:
        worker.join()
    findings = [finding for report in reports for finding in report.findings]
    kinds = {kind: patch for report in reports for kind, patch in report.kinds.items()}
    count, ran = sum(r.count for r in reports), sum(r.ran for r in reports)
    print(
        f"seed {args.seed}: {count} files in {time.time() - began:.0f} s, {ran} ran, {count - ran} refused in {len(kinds)} ways"
    )
    turns = sum((r.turns for r in reports), Counter[str]())
    print(", ".join(f"{name} {turns[name]}" for name in sorted(turns)))
    if args.learn:
        learn(kinds)
    for number, (victim, files, text) in enumerate(findings):
        args.out.mkdir(parents=True, exist_ok=True)
        for ending, data in files.items():
            path = args.out / f"{args.seed}-{number}-{victim}.{ending}"
            path.write_bytes(data)
            print(f"\n{path}")
        print(text)
    sys.exit(1 if findings else 0)


def learn(kinds: dict[str, patches.Patch]) -> None:
    """Add what the corpus lacks."""
    old = patches.load(CORPUS) if CORPUS.exists() else []
    known = {patch.answer for patch in old}
    new = [patch for kind, patch in kinds.items() if kind not in known]
    patches.save(CORPUS, [*old, *new])
    print(f"corpus: {len(old)} kinds and {len(new)} new ones")


if __name__ == "__main__":
    main()
