"""CPU time of ``import rknnlite.api`` beyond that of ``import numpy``.

    python benchmarks/import_time.py [--runs 11]

Fresh interpreters take turns; the medians count. Target: at most 0.25 s.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys

TARGET = 0.25
PROGRAM = "import time; import {}; print(time.process_time())"


def cpu_time(module: str) -> float:
    """Seconds of CPU time that a fresh interpreter has used when ``module`` is imported."""
    command = [sys.executable, "-c", PROGRAM.format(module)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=11)
    runs = parser.parse_args().runs
    cpu_time("rknnlite.api")  # fills the caches of files and byte code
    pairs = [(cpu_time("numpy"), cpu_time("rknnlite.api")) for _ in range(runs)]
    numpy, ours = (statistics.median(column) for column in zip(*pairs))
    word = "met" if ours - numpy <= TARGET else "MISSED"
    print(f"import numpy        {numpy:.3f} s of CPU time")
    print(f"import rknnlite.api {ours:.3f} s: {ours - numpy:.3f} s beyond numpy (target {TARGET} s: {word})")


if __name__ == "__main__":
    main()
