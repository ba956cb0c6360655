"""Inference on the engines of the CPU reference beside OpenCV's dnn module and onnxruntime on the source network.

    python benchmarks/engines.py FOLDER [--only 'resnet18*'] [--threads 1 2] [--rounds 40] [--engines numpy onnxruntime openvino]

FOLDER holds pairs ``<network>.<soc>.<type>.rknn`` and ``<network>.onnx`` (README.md says how to make them). All take turns in
one process, a few calls at a time; what counts are ratios of medians and of minima, since other work on the machine falls on
all of them. Ours includes the conversion of uint8 pixels and of outputs to float32. ``open`` is the second process's: what
reading a file costs when an earlier process has proven and kept its islands, less what it costs on the numpy kernels.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from time import perf_counter
from typing import Any

import cv2
import numpy as np

import rknnlite

# of OpenCV's time: (one thread, two threads)
TARGETS = {
    "resnet18": (0.55, 0.7),
    "mobilenetv2": (0.7, 0.9),
    "yolov5s_640": (1.0, 1.0),
    "efficientnet_b0": (1.2, 1.2),
}
TARGET_FP16 = (1.5, 1.5)
FRESH = """
import sys, time, numpy as np, rknnlite
path, engine = sys.argv[1:]
warm = rknnlite.open("{warm}", backend="cpu", engine=engine)
warm.infer([np.zeros(attr.dims, np.uint8) for attr in warm.inputs])
started = time.perf_counter()
context = rknnlite.open(path, backend="cpu", engine=engine, threads=1)
inputs = [np.zeros(attr.dims, np.uint8) for attr in context.inputs]
opened = time.perf_counter()
context.infer(inputs)
first = time.perf_counter()
context.infer(inputs)
print(opened - started, first - opened - (time.perf_counter() - first))
"""


def ours(path: Path, engine: str, threads: int) -> Callable[[], object]:
    """One inference on random pixels."""
    context = rknnlite.open(path, backend="cpu", engine=engine, threads=threads)
    random = np.random.default_rng(0)
    inputs = [random.integers(0, 256, attr.dims, np.uint8) for attr in context.inputs]
    return lambda: context.infer(inputs)


def blobs(path: Path) -> list[np.ndarray[Any, Any]]:
    """Random floats for the inputs of a network."""
    with rknnlite.open(path, backend="cpu", engine="numpy") as context:
        shapes = [(d[0], d[3], d[1], d[2]) for d in (attr.dims for attr in context.inputs)]
    random = np.random.default_rng(0)
    return [random.normal(size=shape).astype(np.float32) for shape in shapes]


def opencv(onnx: Path, path: Path) -> Callable[[], object]:
    """The source network in float on OpenCV."""
    network = cv2.dnn.readNetFromONNX(str(onnx))
    names, arrays = network.getUnconnectedOutLayersNames(), blobs(path)

    def run() -> object:
        network.setInput(arrays[0])
        return network.forward(names)

    return run


def onnxruntime(onnx: Path, path: Path, threads: int) -> Callable[[], object]:
    """The source network in float on onnxruntime."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = ort.InferenceSession(str(onnx), options, providers=["CPUExecutionProvider"])
    feeds = dict(zip([each.name for each in session.get_inputs()], blobs(path)))
    return lambda: session.run(None, feeds)


def rounds(calls: dict[str, Callable[[], object]], count: int) -> dict[str, list[float]]:
    """Seconds per call, all taking turns; the first call of each is not counted."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(count):
        for name, call in calls.items():
            call()  # wakes the caches that the others have emptied
            started = perf_counter()
            call()
            times[name].append(perf_counter() - started)
    return times


def second_open(path: Path, engine: str) -> tuple[float, float]:
    """Seconds to open and of the first inference beyond the second one, in a fresh process; the smallest of three."""
    warm = str(Path(__file__).resolve().parent.parent / "tests/data/conv_relu.rk3588.i8.rknn")
    command = [sys.executable, "-c", FRESH.replace("{warm}", warm), str(path), engine]
    subprocess.run(command, check=True, capture_output=True)
    found = []
    for _ in range(3):
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found.append([float(part) for part in text.split()])
    return min(a for a, _ in found), min(b for _, b in found)


def judge(path: Path, args: argparse.Namespace, threads: int) -> None:
    """One line per engine."""
    name = path.name.split(".")[0]
    onnx, half = path.with_name(f"{name}.onnx"), ".fp16." in path.name
    cv2.setNumThreads(threads)
    calls = {engine: ours(path, engine, threads) for engine in args.engines}
    calls["OpenCV float"] = opencv(onnx, path)
    calls["onnxruntime float"] = onnxruntime(onnx, path, threads)
    times = rounds(calls, args.rounds)
    beside = times["OpenCV float"]
    print(f"{path.name}, {threads} thread{'s' * (threads > 1)}")
    for each, found in times.items():
        median = statistics.median(found) / statistics.median(beside)
        least = min(found) / min(beside)
        target = (TARGET_FP16 if half else TARGETS.get(name, (None, None)))[min(threads, 2) - 1]
        verdict = ""
        if each in ("onnxruntime", "openvino") and target is not None:
            verdict = f"   target {target}: {'met' if min(median, least) <= target else 'MISSED'}"
        numpy = statistics.median(times["numpy"]) / statistics.median(found) if "numpy" in times else 0
        print(
            f"  {each:18} median {1e3 * statistics.median(found):8.2f} ms, least {1e3 * min(found):8.2f} ms; of OpenCV "
            f"{median:5.2f} / {least:5.2f}; numpy kernels take {numpy:5.2f} times as long{verdict}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="*")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, min(2, os.cpu_count() or 1)])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--engines", nargs="+", default=["numpy", "onnxruntime"])
    parser.add_argument("--open", action="store_true", help="what a second open costs")
    args = parser.parse_args()
    for path in sorted(args.folder.glob("*.rknn")):
        if not fnmatch(path.name, args.only):
            continue
        for threads in args.threads:
            judge(path, args, threads)
        if args.open:
            for engine in args.engines:
                opened, more = second_open(path, engine)
                print(
                    f"  second process, {engine:12} open {1e3 * opened:.0f} ms, first inference {1e3 * more:+.0f} ms"
                )


if __name__ == "__main__":
    main()
