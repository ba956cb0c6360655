"""Build the corpus: export every case to ONNX, convert it for its targets, check and store the results.

    python make.py --out ../../tests/data                    everything that is missing
    python make.py --out ../../tests/data --only 'act_*'     some cases, by shell pattern
    python make.py --out ../../tests/data --force            again, even where files exist
    python make.py --prune                                   delete what no case asks for
    python make.py --registry FILE --out FOLDER              other networks: a module with CASES
    python make.py --list

Each conversion runs in its own process; one that fails is reported and skipped.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from case import DTYPES, SOCS, Case, export, load_registry
from numpy.typing import NDArray

HERE = Path(__file__).resolve().parent
MIN_STEPS = 4.0  # a useful output spreads over at least this many quantisation steps (standard deviation)


def dull(name: str, y: NDArray[np.generic], dtype: str) -> str | None:
    """Say why an output would prove little, or None if it is worth comparing."""
    if not np.isfinite(y).all():
        return f"{name}: not finite"
    if y.size < 2 or not np.issubdtype(y.dtype, np.floating):
        return None
    spread = float(y.std())
    if spread == 0:
        return f"{name}: constant"
    values = np.unique(y)
    if dtype == "i8" and 1 < len(values) <= 256:
        step = float(np.diff(values).min())
        if spread < MIN_STEPS * step:
            return f"{name}: spread of {spread / step:.1f} steps only"
    return None


def inspect(stem: Path, dtype: str) -> list[str]:
    """Weak points of a finished case."""
    with np.load(f"{stem}.npz") as arrays:
        found = [dull(k, arrays[k], dtype) for k in arrays.files if "out" in k]
    return [text for text in found if text]


def reason(log: str) -> str:
    """The most telling line of a failed conversion's output."""
    lines = [line.strip() for line in log.replace("\r", "\n").splitlines() if line.strip()]
    telling = [line for line in lines if "Error" in line or line.startswith("E ") or "refused" in line]
    return (telling or lines or ["no output"])[-1][:300]


def suffixes_of(case: Case) -> tuple[str, ...]:
    """The files that a case leaves: the model, and the simulator's answers if it can be run."""
    return (".rknn",) if case.unusable else (".rknn", ".npz")


def run_target(case: Case, target: str, onnx: Path, args: argparse.Namespace) -> str | None:
    """Convert for one target in a process of its own; returns the reason if it failed."""
    stem = onnx.parent / f"{case.name}.{target}"
    script = [sys.executable, str(HERE / "convert.py"), str(args.registry.resolve())]
    command = [*script, case.name, target, str(onnx), str(stem)]
    env = dict(os.environ, OMP_NUM_THREADS=os.environ.get("OMP_NUM_THREADS", "1"))
    try:
        done = subprocess.run(
            command, cwd=onnx.parent, env=env, capture_output=True, text=True, errors="replace", timeout=3600
        )
    except subprocess.TimeoutExpired:
        return "time limit"
    log = done.stdout + done.stderr
    if args.verbose:
        print(log)
    suffixes = suffixes_of(case)
    if done.returncode != 0 or not all(Path(f"{stem}{suffix}").exists() for suffix in suffixes):
        return f"exit {done.returncode}: {reason(log)}"
    for suffix in suffixes:
        shutil.move(f"{stem}{suffix}", f"{args.out / stem.name}{suffix}")
    return None


def run_case(case: Case, targets: list[str], args: argparse.Namespace) -> list[str]:
    """Export a case once and convert it for the given targets; returns what went wrong."""
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        onnx = Path(folder) / f"{case.name}.onnx"
        try:
            export(case, onnx)
        except Exception as err:  # any torch export problem concerns this case only
            return [f"{case.name}: export: {err}"]
        if args.keep_onnx:
            shutil.copy(onnx, args.out / onnx.name)
        for target in targets:
            stem = args.out / f"{case.name}.{target}"
            problem = run_target(case, target, onnx, args)
            if problem:
                failures.append(f"{stem.name}: {problem}")
                print(f"FAIL {failures[-1]}", flush=True)
                continue
            sizes = " + ".join(str(Path(f"{stem}{s}").stat().st_size // 1024) for s in suffixes_of(case))
            weak = "" if case.unusable else "; ".join(inspect(stem, target.split(".")[1]))
            print(f"ok   {stem.name}  {sizes} kB  {weak and 'WEAK ' + weak}", flush=True)
    return failures


def targets_of(case: Case, out: Path, pattern: str, force: bool) -> list[str]:
    """The targets of a case that are wanted and not there yet."""
    for target in case.targets:
        soc, dtype = target.split(".")
        if soc not in SOCS or dtype not in DTYPES:
            raise SystemExit(f"{case.name}: unknown target {target}")
    wanted = [t for t in case.targets if fnmatch.fnmatch(t, pattern)]
    last = suffixes_of(case)[-1]
    return [t for t in wanted if force or not (out / f"{case.name}.{t}{last}").exists()]


def prune(cases: dict[str, Case], out: Path) -> None:
    """Delete results that no case asks for any more."""
    wanted = {f"{case.name}.{target}" for case in cases.values() for target in case.targets}
    for path in sorted(out.glob("*.*.*")):
        if path.suffix in (".rknn", ".npz") and path.stem not in wanted:
            path.unlink()
            print(f"gone {path.name}")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=HERE.parent.parent / "tests" / "data")
    parser.add_argument(
        "--registry", type=Path, default=HERE / "networks.py", help="module that defines CASES"
    )
    parser.add_argument("--only", default="*", help="shell pattern of case names")
    parser.add_argument("--target", default="*", help="shell pattern of targets, for example 'rk3588.*'")
    parser.add_argument("--force", action="store_true", help="convert again where files exist")
    parser.add_argument(
        "--prune", action="store_true", help="delete results that no case asks for, then stop"
    )
    parser.add_argument("--keep-onnx", action="store_true", help="store the ONNX file beside the results")
    parser.add_argument("--verbose", action="store_true", help="show the toolkit's messages")
    parser.add_argument("--list", action="store_true", help="name the cases and their targets, do nothing")
    args = parser.parse_args()
    registry = load_registry(args.registry)
    if args.prune:
        prune(registry, args.out)
        return
    cases = [case for name, case in registry.items() if fnmatch.fnmatch(name, args.only)]
    if args.list:
        for case in cases:
            print(case.name, *case.targets)
        return
    args.out.mkdir(parents=True, exist_ok=True)
    failures: list[str] = []
    for case in cases:
        targets = targets_of(case, args.out, args.target, args.force)
        if targets:
            failures += run_case(case, targets, args)
    if failures:
        print(f"\n{len(failures)} conversions failed:", *failures, sep="\n  ")
        sys.exit(1)


if __name__ == "__main__":
    main()
