"""Peak memory of the process that proves an engine, beside that of one on the numpy kernels.

    python benchmarks/proving_memory.py MODEL.rknn [...] [--engines native onnxruntime]

Each figure is a process of its own with a cache of its own: it opens the network, infers three times, and has proven, compiled
and kept everything by then. Told is the largest resident set, interpreter and libraries included, and its ratio to that of the
numpy kernels; beside it that of the process that comes next and finds everything proven, and what a process has that only
imports the libraries which proving takes: no network can be proven in less.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = 1.3
PROGRAM = """
import re, sys
from pathlib import Path
import numpy as np, rknnlite

path, engine = sys.argv[1:]
with rknnlite.open(path, backend="cpu", engine=engine, threads=2) as context:
    inputs = [np.zeros(attr.dims, np.uint8) for attr in context.inputs]
    for _ in range(3):
        context.infer(inputs)
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""
IMPORTS = {"native": "numpy", "onnxruntime": "numpy, onnx, onnxruntime", "openvino": "numpy, onnx, openvino"}
IMPORTED = """
import re
from pathlib import Path
import rknnlite, {}
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""


def peak(path: Path, engine: str, cache: str) -> float:
    """MB."""
    return _peak(PROGRAM, cache, str(path.resolve()), engine)


def imported(engine: str, cache: str) -> float:
    """MB of the libraries alone."""
    return _peak(IMPORTED.format(IMPORTS[engine]), cache)


def _peak(program: str, cache: str, *arguments: str) -> float:
    places = os.pathsep.join([str(ROOT), str(ROOT / "plugins")])
    environment = {**os.environ, "RKNNLITE_CACHE": cache, "PYTHONPATH": places}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return int(done.stdout) * 1024 / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--engines", nargs="+", default=["native", "onnxruntime"])
    options = parser.parse_args()
    for path in options.models:
        with tempfile.TemporaryDirectory() as cache:
            numpy, bare = peak(path, "numpy", cache), imported("native", cache)
        print(f"{path.name}: numpy kernels {numpy:.0f} MB, of them {bare:.0f} before any network")
        for engine in options.engines:
            with tempfile.TemporaryDirectory() as cache:
                proving, next_ = peak(path, engine, cache), peak(path, engine, cache)
                libraries = imported(engine, cache) - bare
            verdict = "met" if proving <= TARGET * numpy else "MISSED"
            print(
                f"  {engine:12} proving {proving:.0f} MB, {proving / numpy:.2f} times (target {TARGET}: {verdict}), afterwards {next_:.0f} MB, its libraries {libraries:.0f}"
            )


if __name__ == "__main__":
    main()
