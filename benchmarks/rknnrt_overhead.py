"""What an inference on librknnrt costs beyond the bare C calls: instructions (valgrind) and time, on the double.

    python benchmarks/rknnrt_overhead.py            # needs gcc; instructions only where valgrind is installed

Each figure is the difference between a long and a short loop in a process of its own, so that start-up does
not count; instructions are counted on a model that moves no data (memcpy counts differ with alignment), time is
taken on one that does. ``face`` is ``RKNNLite.inference``, ``infer`` the native API, ``prealloc`` the native API with
arrays that are written again and again, ``zerocopy`` a run on bound memory, ``naive`` a plain ctypes loop.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "plugins")]

import numpy as np  # noqa: E402

from tests.native.double import build, compile_c, model  # noqa: E402

NINE = [(1, 64, 80, 80), (1, 80, 80, 80), (1, 1, 80, 80), (1, 64, 40, 40), (1, 80, 40, 40), (1, 1, 40, 40),
        (1, 64, 20, 20), (1, 80, 20, 20), (1, 1, 20, 20)]  # fmt: skip
MODELS = {
    "small": ("input image int8 4 1 224 224 3 0.0078 -3", "output scores int8 2 1 1000 0.1 5"),
    "nine": (
        "input image int8 4 1 640 640 3 0.0039 -128",
        *(f"output o{i} int8 4 {' '.join(map(str, dims))} 0.1 5" for i, dims in enumerate(NINE)),
    ),
}
SIDES = {"small": 224, "nine": 640}
LIMITS = {("small", "face"): 60_000, ("small", "zerocopy"): 15_000}
BARE = {
    "face": "prealloc",
    "infer": "prealloc",
    "prealloc": "prealloc",
    "naive": "common",
    "zerocopy": "zerocopy",
}


# -- loops -------------------------------------------------------------------------------------------------


def face(path: str, image: np.ndarray) -> Callable[[], Any]:
    """The vendor-compatible class."""
    from rknnlite.api import RKNNLite

    rknn = RKNNLite()
    if rknn.load_rknn(path) or rknn.init_runtime():
        raise SystemExit("the face did not start")
    inputs = [image]
    return lambda: rknn.inference(inputs=inputs)


def infer(path: str, image: np.ndarray) -> Callable[[], Any]:
    """The native API, fresh outputs."""
    import rknnlite

    context = rknnlite.open(path)
    return lambda: context.infer(image)


def prealloc(path: str, image: np.ndarray) -> Callable[[], Any]:
    """The native API step by step, outputs overwritten."""
    import rknnlite
    from rknnlite.spi import Input

    context = rknnlite.open(path)
    inputs = [Input(0, image)]
    arrays = [np.empty(attr.dims, np.float32) for attr in context.outputs]

    def once() -> None:
        context.set_inputs(inputs)
        context.run()
        context.get_outputs_into(arrays)

    return once


def zerocopy(path: str, image: np.ndarray) -> Callable[[], Any]:
    """A run on bound memory."""
    import rknnlite

    context = rknnlite.open(path)
    for attr in (*context.native_inputs, *context.native_outputs):
        context.bind(attr, context.create_mem(attr.size_with_stride))
    return context.run


def naive(path: str, image: np.ndarray) -> Callable[[], Any]:
    """What people write by hand: structures anew, outputs of the library copied."""
    from rknnlite_rknnrt import abi

    lib = ctypes.CDLL(str(build()))
    context = abi.CONTEXT(0)
    assert lib.rknn_init(ctypes.byref(context), path.encode(), 0, 0, None) == 0
    number = abi.InputOutputNum()
    lib.rknn_query(context, 0, ctypes.byref(number), ctypes.sizeof(number))
    shapes = []
    for index in range(number.n_output):
        attr = abi.TensorAttrStruct(index=index)
        lib.rknn_query(context, 2, ctypes.byref(attr), ctypes.sizeof(attr))
        shapes.append(tuple(attr.dims[: attr.n_dims]))

    def once() -> list[Any]:
        inputs = (abi.InputStruct * 1)()
        inputs[0].buf, inputs[0].size = image.ctypes.data_as(ctypes.c_void_p), image.nbytes
        inputs[0].type, inputs[0].fmt = 3, 1
        lib.rknn_inputs_set(context, 1, inputs)
        lib.rknn_run(context, None)
        outputs = (abi.OutputStruct * len(shapes))()
        for index, output in enumerate(outputs):
            output.index, output.want_float = index, 1
        lib.rknn_outputs_get(context, len(shapes), outputs, None)
        results = []
        for output, shape in zip(outputs, shapes):
            data = ctypes.cast(output.buf, ctypes.POINTER(ctypes.c_float))
            results.append(np.ctypeslib.as_array(data, shape).copy())
        lib.rknn_outputs_release(context, len(shapes), outputs)
        return results

    return once


LOOPS = {loop.__name__: loop for loop in (face, infer, prealloc, naive, zerocopy)}


# -- measuring ---------------------------------------------------------------------------------------------


def command(kind: str, loop: str, path: Path, count: int) -> list[str]:
    """The process that runs a loop: Python, or (``bare``) a C program."""
    if loop == "bare":
        lib = build()
        flags = ("-O2", f"-Wl,-rpath,{lib.parent}")
        program = compile_c([ROOT / "benchmarks/rknnrt_bare.c", lib], flags, "rknnrt_bare")
        return [str(program), str(path), kind, str(count)]
    return [
        sys.executable,
        __file__,
        "--loop",
        loop,
        "--kind",
        kind,
        "--model",
        str(path),
        "--count",
        str(count),
    ]


def instructions(kind: str, loop: str, path: Path, few: int = 100, many: int = 1100) -> float:
    """Instructions per inference, in user space, the library's own included."""
    totals = []
    for count in (few, many):
        valgrind = ["setarch", "-R", "valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
        run = subprocess.run(
            [*valgrind, *command(kind, loop, path, count)], capture_output=True, text=True, env=environment()
        )
        found = re.search(r"Collected : (\d+)", run.stderr)
        if run.returncode or found is None:
            raise SystemExit(run.stderr)
        totals.append(int(found.group(1)))
    return (totals[1] - totals[0]) / (many - few)


def environment() -> dict[str, str]:
    """Same hashes in every process, and our double as the library."""
    ours = {"PYTHONHASHSEED": "0", "RKNNLITE_LIBRARY": str(build()), "RKNNLITE_BACKEND": "rknnrt"}
    return {**os.environ, **ours, "RKNNLITE_DISABLE": "cpu,cplugin,opencl,riscv,rknn3rt"}


def microseconds(kind: str, loop: str, path: Path) -> float:
    """The best of five loops, per inference."""
    count = 2000 if kind == "small" else 100
    run = subprocess.run(
        [*command(kind, loop, path, count), "--time"],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )
    return float(run.stdout.split()[-1])


def child(arguments: argparse.Namespace) -> None:
    """Run one loop; with ``--time`` print the microseconds of one inference."""
    side = SIDES[arguments.kind]
    once = LOOPS[arguments.loop](arguments.model, np.zeros((1, side, side, 3), np.uint8))
    rounds = 5 if arguments.time else 1
    best = float("inf")
    for _ in range(rounds):
        started = time.perf_counter()
        for _ in range(arguments.count):
            once()
        best = min(best, time.perf_counter() - started)
    if arguments.time:
        print(best / arguments.count * 1e6)


def main() -> None:
    """Print one line per model and loop."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for option in ("--loop", "--kind", "--model"):
        parser.add_argument(option)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--check", action="store_true", help="fail when a limit is exceeded")
    arguments = parser.parse_args()
    if arguments.loop:
        child(arguments)
        return
    counting = shutil.which("valgrind") is not None
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'model':6} {'loop':9} {'instructions':>13} {'over bare C':>12} {'us':>9}")
        for kind, lines in MODELS.items():
            path, busy = Path(folder) / f"{kind}.rknn", Path(folder) / f"{kind}-busy.rknn"
            path.write_bytes(model(*lines, "op idle"))
            busy.write_bytes(model(*lines, "op none"))
            bare = {c: instructions(c, "bare", path) for c in set(BARE.values())} if counting else {}
            for loop in LOOPS:
                spent = instructions(kind, loop, path) if counting else float("nan")
                over = spent - bare.get(BARE[loop], 0) if counting else float("nan")
                print(
                    f"{kind:6} {loop:9} {spent:13.0f} {over:12.0f} {microseconds(kind, loop, busy):9.1f}",
                    flush=True,
                )
                if over > LIMITS.get((kind, loop), float("inf")):
                    failed.append(f"{kind} {loop}: {over:.0f} instructions over bare C")
    if arguments.check and failed:
        raise SystemExit("\n".join(failed))


if __name__ == "__main__":
    main()
