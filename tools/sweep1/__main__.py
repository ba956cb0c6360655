"""Which operators of the first toolkit the CPU reference computes as the chip maker's simulator does.

    python -m tools.sweep1 write --folder FOLDER              one file and its inputs per case
    python -m tools.sweep1 run --folder FOLDER --command CMD  ``CMD case.rknn case.in.npz case.out.npz`` for each without answer
    python -m tools.sweep1 compare --folder FOLDER [--data docs/assets/coverage-first.js]    how near, and the table of the documentation
    python -m tools.sweep1 pack --folder FOLDER --out FILE    the answers, as data of the tests

The inputs are the arrays x0, x1, ... of the first archive, stored elements; the answers y0, y1, ... of the second. The command
is a simulator of your own; none is part of the project. All take ``--only 'conv*'``.
"""

from __future__ import annotations

import argparse
import fnmatch
import shlex
import subprocess
from functools import partial
from pathlib import Path

import numpy as np

from rknnlite.errors import RknnError
from tests.support.rknn1_files import File

from .answers import answer, nearness
from .kinds import KINDS
from .networks import NETWORKS, drawn_network
from .rows import FINDINGS, near, row
from .sequences_and_regions import CASES

EVERY = {
    **CASES,
    **NETWORKS,
    **KINDS,
    **{f"drawn_{seed}": partial(drawn_network, seed) for seed in range(100)},
}
"""Drawn networks are for a search: ``--only 'drawn_1?'``; ``--only 'net_unet@*'``: the first node of a network, the first two, ..."""


def _chosen(args: argparse.Namespace) -> list[str]:
    whole, at, _ = args.only.partition("@")
    if at:
        counts = range(1, len(EVERY[whole]().description["nodes"]) + 1)
        return [name for name in (f"{whole}@{n}" for n in counts) if fnmatch.fnmatch(name, args.only)]
    return [name for name in EVERY if fnmatch.fnmatch(name, args.only)]


def _file(name: str) -> File:
    whole, at, count = name.partition("@")
    return EVERY[whole](int(count)) if at else EVERY[whole]()


def _write(args: argparse.Namespace) -> None:
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in _chosen(args):
        file = _file(name)
        (args.folder / f"{name}.rknn").write_bytes(file.data)
        arrays = {f"x{number}": array for number, array in enumerate(file.stored_inputs())}
        np.savez_compressed(args.folder / f"{name}.in.npz", **arrays)


def _run(args: argparse.Namespace) -> None:
    for name in _chosen(args):
        paths = [args.folder / f"{name}{ending}" for ending in (".rknn", ".in.npz", ".out.npz")]
        if not paths[2].exists():
            done = subprocess.run(
                [*shlex.split(args.command), *map(str, paths)], capture_output=True, text=True
            )
            print(
                name, "ran" if done.returncode == 0 else f"failed: {done.stderr[-200:].strip()}", flush=True
            )


def _answers(folder: Path, name: str) -> list[np.ndarray]:
    with np.load(folder / f"{name}.out.npz") as stored:
        return [stored[key] for key in sorted(stored.files) if key.startswith("y")]


def _compare(args: argparse.Namespace) -> None:
    found = [_compared(args.folder, name) for name in _chosen(args)]
    for case, _, _, _, result, difference, remark, _ in found:
        print(f"{case:30} {result:14} {difference}  {remark}")
    if args.data:
        from tools.sweep.data_file import CASE_COLUMNS, CASE_FILTERS, DataTable, write

        table = DataTable(CASE_COLUMNS, CASE_FILTERS, [*found, *FINDINGS])
        write(args.data, "Cases of tools/sweep1.", table)


def _compared(folder: Path, name: str) -> list[str]:
    """The row of a case."""
    file = _file(name)
    if not (folder / f"{name}.out.npz").exists():
        return row(name, file, "not confirmed", remark="the simulator has no answer")
    try:
        return row(
            name, file, *near(nearness(answer(file.data, file.stored_inputs()), _answers(folder, name)))
        )
    except RknnError as error:
        return row(name, file, "refused", remark=str(error))


def _pack(args: argparse.Namespace) -> None:
    arrays = {}
    for name in _chosen(args):
        if (args.folder / f"{name}.out.npz").exists():
            found = enumerate(_answers(args.folder, name))
            arrays.update({f"{name}.{number}": array for number, array in found if array.nbytes <= args.most})
    np.savez_compressed(args.out, **arrays)
    print(f"{len(arrays)} outputs, {args.out.stat().st_size} bytes")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="sweep1", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    steps = parser.add_subparsers(dest="step", required=True)
    for word, step in (("write", _write), ("run", _run), ("compare", _compare), ("pack", _pack)):
        sub = steps.add_parser(word)
        sub.set_defaults(step=step)
        sub.add_argument("--folder", type=Path, required=True)
        sub.add_argument("--only", default="*")
        if step is _compare:
            sub.add_argument("--data", type=Path, help="file of the table")
        if step is _run:
            sub.add_argument("--command", required=True)
        if step is _pack:
            sub.add_argument("--out", type=Path, required=True)
            sub.add_argument("--most", type=int, default=1300, help="bytes of an output")
    args = parser.parse_args()
    args.step(args)


if __name__ == "__main__":
    main()
