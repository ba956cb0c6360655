"""Load time, inference time and peak memory of the CPU reference beside OpenCV's dnn module.

    python benchmarks/cpu_reference.py FOLDER [--only 'resnet18*'] [--runs 15]

FOLDER holds pairs ``<network>.<soc>.<type>.rknn`` and ``<network>.onnx`` (README.md says how to make them).
OpenCV computes the ONNX network in float; both take turns in one process. What counts are the ratios. On a busy
machine compare single threads: ``RKNNLITE_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/cpu_reference.py ...``
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable
from fnmatch import fnmatch
from math import prod
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import cv2
import numpy as np
from rknnlite_graph.graph import TensorRole
from rknnlite_graph.read import read_graph

import rknnlite
from rknnlite.formats import ModelFile

TARGET_RATIO = {"resnet18": 1.5, "mobilenetv2": 2.0, "yolov5s_640": 2.0}
TARGET_LOAD, TARGET_LOAD_MB = 1.5, 12.0  # seconds for a file of so many MB
TARGET_MEMORY = 6  # times the file, plus the two largest activations
TARGET_PROCESS = (3, 150e6)  # the whole process: times the ONNX file, plus bytes
MB = 1e6
WARM_UP = Path(__file__).resolve().parent.parent / "tests/data/mobilenetv2_like.rk3588.i8.rknn"


def seconds(call: Callable[[], object]) -> tuple[float, float]:
    """Wall-clock time of one call, and the CPU time of all its threads."""
    started, used = perf_counter(), process_time()
    call()
    return perf_counter() - started, process_time() - used


def verdict(value: float, limit: float | None, unit: str = "") -> str:
    """``value`` with its target beside it."""
    if limit is None:
        return f"{value:.2f}{unit}"
    return f"{value:.2f}{unit} (target {limit:.2f}{unit}: {'met' if value <= limit else 'MISSED'})"


def pictures(context: rknnlite.Context) -> list[np.ndarray[Any, Any]]:
    """One random array of bytes per input, NHWC for rank 4."""
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, attr.dims, np.uint8) for attr in context.inputs]


def blobs(context: rknnlite.Context, arrays: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """The same as float32 NCHW, for OpenCV."""
    return [
        np.ascontiguousarray(a.transpose(0, 3, 1, 2) if a.ndim == 4 else a, np.float32) / 255 for a in arrays
    ]


def inference(model: Path, onnx: Path, runs: int) -> None:
    """Both engines in turns; prints medians, and the ratios of medians and of minima."""
    with rknnlite.open(model, backend="cpu") as context:
        arrays = pictures(context)
        net = cv2.dnn.readNetFromONNX(str(onnx))
        names, feeds = net.getUnconnectedOutLayersNames(), blobs(context, arrays)
        inputs = [attr.name for attr in context.inputs]

        def theirs() -> None:
            for name, feed in zip(inputs, feeds):
                net.setInput(feed, name)
            net.forward(names)

        def ours() -> None:
            context.infer(arrays)

        for call in (ours, theirs) * 2:
            call()
        pairs = [(seconds(ours), seconds(theirs)) for _ in range(runs)]
    mine, other = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])  # columns: wall clock, CPU
    target = TARGET_RATIO.get(model.name.split(".")[0]) if ".i8." in model.name else None
    medians, least = np.median(mine, 0) / np.median(other, 0), mine.min(0) / other.min(0)
    print(f"  inference  {np.median(mine[:, 0]) * 1e3:.1f} ms, cv2.dnn {np.median(other[:, 0]) * 1e3:.1f} ms")
    print(f"  ratio      {verdict(medians[0], target)} of medians; {least[0]:.2f} of minima")
    print(f"  CPU time   ratio {medians[1]:.2f} of medians; {least[1]:.2f} of minima")


def loading(model: Path, onnx: Path, runs: int) -> None:
    """Opening the file until it is ready to run."""
    opened: list[rknnlite.Context] = []
    times = []
    for _ in range(runs):
        times.append(seconds(lambda: opened.append(rknnlite.open(model, backend="cpu")))[0])
        opened.pop().close()
    theirs = statistics.median(seconds(lambda: cv2.dnn.readNetFromONNX(str(onnx)))[0] for _ in range(runs))
    limit = TARGET_LOAD * max(1.0, model.stat().st_size / MB / TARGET_LOAD_MB)
    print(f"  load       {verdict(statistics.median(times), limit, ' s')}; cv2.dnn {theirs:.2f} s")


def largest_activations(model: Path) -> tuple[int, int]:
    """Bytes of the two largest activations together: (as stored by the NPU, as float32)."""
    graph = read_graph(ModelFile(model).model)
    roles = (TensorRole.INPUT, TensorRole.OUTPUT, TensorRole.ACTIVATION)
    counts = sorted(
        ((prod(t.shape), t.dtype.bits // 8) for t in graph.tensors if t.role in roles), reverse=True
    )
    return sum(n * size for n, size in counts[:2]), sum(4 * n for n, _ in counts[:2])


def peak(model: Path, onnx: Path) -> None:
    """Resident set of a fresh process that opens the model and runs it three times: its growth and its peak."""
    command = [sys.executable, __file__, "--child", str(model)]
    before, after = map(
        int, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    )
    size = model.stat().st_size
    stored, floats = largest_activations(model)
    limit = TARGET_MEMORY * size + stored
    whole = TARGET_PROCESS[0] * onnx.stat().st_size + TARGET_PROCESS[1]
    print(f"  memory     {verdict((after - before) / MB, limit / MB, ' MB')}")
    print(f"  process    {verdict(after / MB, whole / MB, ' MB')}")
    sizes = f"file {size / MB:.1f} MB, two largest activations {stored / MB:.1f} (float32: {floats / MB:.1f})"
    print(f"             {sizes}")


def child(model: Path) -> None:
    """Runs in the fresh process: prints the resident set before the model is opened, and its later peak.

    A tiny model runs first, so that the interpreter's modules and the BLAS buffers do not count.
    """
    run(WARM_UP)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts over
    before = high_water()
    run(model)
    print(before, high_water())


def run(model: Path) -> None:
    """Open a model and run it three times."""
    with rknnlite.open(model, backend="cpu") as context:
        arrays = pictures(context)
        for _ in range(3):
            context.infer(arrays)


def high_water() -> int:
    """Peak resident set of this process in bytes.

    Not from getrusage: its figure outlives exec and so starts at the size of the parent.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise OSError("no VmHWM in /proc/self/status")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="*", help="shell pattern of model files")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return child(args.folder)
    threads = os.environ.get("RKNNLITE_THREADS", "")
    if threads.isdigit():
        cv2.setNumThreads(int(threads))
    found = False
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs, {threads or 'all'} threads"
    print(f"{machine}, numpy {np.__version__}, OpenCV {cv2.__version__}")
    for model in sorted(args.folder.glob("*.rknn")):
        onnx = args.folder / f"{model.name.split('.')[0]}.onnx"
        if not onnx.exists() or not fnmatch(model.name, args.only):
            continue
        found = True
        print(model.name, flush=True)
        peak(model, onnx)
        loading(model, onnx, max(3, args.runs // 3))
        inference(model, onnx, args.runs)
    if not found:
        sys.exit(f"no pair of .rknn and .onnx files in {args.folder} matches {args.only!r}")
    return None


if __name__ == "__main__":
    main()
