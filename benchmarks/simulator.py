"""Inference time beside the vendor's simulator on the same network.

    python benchmarks/simulator.py TOOLKIT_PYTHON MODEL.rknn MODEL.onnx [--runs 9]

TOOLKIT_PYTHON is the interpreter of an environment with the vendor's PC toolkit. It builds the network in a process of
its own; then both take turns on the same input, so that a busy machine slows both.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

TARGET = 1.0
"""Our time over the simulator's."""


def simulate(onnx: Path, folder: Path, soc: str) -> None:
    """Runs under the toolkit: build, then one timed inference per line of standard input."""
    from rknn.api import RKNN

    samples = folder / "dataset.txt"
    samples.write_text(f"{folder / 'sample.npy'}\n")
    rknn = RKNN(verbose=False)
    steps = (
        lambda: rknn.config(target_platform=soc),
        lambda: rknn.load_onnx(str(onnx)),
        lambda: rknn.build(do_quantization=True, dataset=str(samples)),
        lambda: rknn.init_runtime(),
    )
    for step in steps:
        if step():
            sys.exit(f"the toolkit refused {onnx}")
    image = np.load(folder / "input.npy")
    rknn.inference([image], data_format=["nhwc"])
    print("ready", flush=True)
    for _ in sys.stdin:
        started = perf_counter()
        rknn.inference([image], data_format=["nhwc"])
        print(f"took {perf_counter() - started}", flush=True)
    rknn.release()


def answer(simulator: subprocess.Popen[str], word: str) -> str:
    """The rest of the next line that begins with ``word``; the toolkit prints other things between."""
    assert simulator.stdout is not None
    for line in simulator.stdout:
        if line.startswith(word):
            return line[len(word) :].strip()
    sys.exit(f"the simulator ended with status {simulator.wait()}")


def compare(python: str, model: Path, onnx: Path, runs: int) -> None:
    """Print medians and the ratio."""
    import rknnlite

    with rknnlite.open(model, backend="cpu") as context, tempfile.TemporaryDirectory() as name:
        (attr,) = context.inputs
        image: np.ndarray[Any, Any] = np.random.default_rng(0).integers(0, 256, attr.dims, np.uint8)
        folder = Path(name)
        np.save(folder / "input.npy", image)
        np.save(folder / "sample.npy", image.transpose(0, 3, 1, 2).astype(np.float32))
        command = [python, __file__, "--child", str(folder), str(onnx), context.soc.name]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as simulator:
            assert simulator.stdin is not None
            answer(simulator, "ready")
            context.infer(image)
            mine, theirs = [], []
            for _ in range(runs):
                started = perf_counter()
                context.infer(image)
                mine.append(perf_counter() - started)
                simulator.stdin.write("\n")
                simulator.stdin.flush()
                theirs.append(float(answer(simulator, "took")))
            simulator.stdin.close()
    ratio = np.median(mine) / np.median(theirs)
    verdict = "met" if ratio <= TARGET else "MISSED"
    print(f"{model.name}: {np.median(mine) * 1e3:.1f} ms, simulator {np.median(theirs) * 1e3:.1f} ms")
    print(f"  ratio {ratio:.3f} (target {TARGET:.1f}: {verdict})")


def main() -> None:
    """Command line."""
    if sys.argv[1:2] == ["--child"]:
        return simulate(Path(sys.argv[3]), Path(sys.argv[2]), sys.argv[4])
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("python", help="interpreter with the vendor's PC toolkit")
    parser.add_argument("model", type=Path)
    parser.add_argument("onnx", type=Path)
    parser.add_argument("--runs", type=int, default=9)
    args = parser.parse_args()
    return compare(args.python, args.model, args.onnx, args.runs)


if __name__ == "__main__":
    main()
