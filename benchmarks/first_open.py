"""What the first open of a network costs a fresh program: modules of ours that are loaded, CPU time beyond numpy's.

    python benchmarks/first_open.py                        # on the CPU reference, and on the double of librknnrt (gcc)
    python benchmarks/first_open.py --beside ../before     # the same beside another checkout, in turn

Modules and calls are exact. CPU time is the best of several fresh interpreters, with that of ``import numpy`` taken out.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "plugins")]

MODEL = ROOT / "examples" / "resnet18" / "resnet18_for_RK3588.rknn"
INPUT = "input image int8 4 1 224 224 3 0.0078 -3"
MOST_MODULES, MOST_TIME = 105, 0.75  # of a first open on the CPU reference; time beside the checkout before
PROGRAM = """
import numpy, sys, time, json
start = time.process_time()
import rknnlite
rknnlite.open({model!r}, backend={backend!r})
spent = time.process_time() - start
ours = sorted(m for m in sys.modules if m.split(".")[0].startswith(("rknnlite", "rknn3lite")))
print(json.dumps([ours, len(sys.modules), spent]))
"""


def first_open(tree: Path, model: Path, backend: str, library: str) -> tuple[list[str], int, float]:
    """Modules of ours, modules in all and seconds of CPU time in a fresh interpreter that runs the code of ``tree``."""
    places = {"PYTHONPATH": f"{tree}{os.pathsep}{tree / 'plugins'}", "RKNNLITE_LIBRARY": library}
    script = PROGRAM.format(model=str(model), backend=backend)
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=tree, env={**os.environ, **places}
    )
    ours, everything, spent = json.loads(done.stdout.splitlines()[-1])
    return ours, everything, spent


def measure(trees: list[Path], model: Path, backend: str, library: str, runs: int) -> list[tuple[int, float]]:
    """Print a line per checkout; returns modules of ours and the best time of each."""
    best, counts = [math.inf] * len(trees), [(0, 0)] * len(trees)
    for _ in range(runs + 1):  # the first round fills the caches of files and byte code
        for number, tree in enumerate(trees):
            ours, everything, spent = first_open(tree, model, backend, library)
            counts[number] = len(ours), everything
            best[number] = min(best[number], spent)
    for tree, (ours_count, everything), seconds in zip(trees, counts, best):
        ratio = f"{seconds / best[-1]:6.2f}" if len(trees) > 1 else ""
        print(f"{backend:7} {ours_count:4} of {everything:4} modules {seconds:7.3f} s {ratio}  {tree.name}")
    return [(ours_count, seconds) for (ours_count, _), seconds in zip(counts, best)]


def main() -> None:
    """Print the figures and which targets are met."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--beside", type=Path, help="another checkout, measured in turn")
    parser.add_argument("--runs", type=int, default=9)
    arguments = parser.parse_args()
    trees = [ROOT, *([arguments.beside.resolve()] if arguments.beside else [])]
    found = measure(trees, MODEL, "cpu", "", arguments.runs)
    print(f"modules: {found[0][0]}, at most {MOST_MODULES}")
    if len(found) > 1:
        print(f"time beside {trees[1].name}: {found[0][1] / found[1][1]:.2f}, at most {MOST_TIME}")
    if shutil.which("gcc"):
        from tests.doubles.double import build, model

        path = Path(os.environ.get("TMPDIR", "/tmp")) / f"first_open_{os.getpid()}.rknn"
        path.write_bytes(model(INPUT, "output scores int8 2 1 1000 0.1 5", "op none"))
        try:
            measure(trees, path, "rknnrt", str(build()), arguments.runs)
        finally:
            path.unlink()


if __name__ == "__main__":
    main()
