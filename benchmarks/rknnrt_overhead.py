"""What an inference on librknnrt costs beyond the bare C calls: instructions (valgrind) and time, on the double.

    python benchmarks/rknnrt_overhead.py            # needs gcc; instructions only where valgrind is installed

``bare C`` is a C program that makes the same calls. ``face`` is ``RKNNLite.inference``, ``infer`` the native API,
``prealloc`` the native API with arrays that are written again and again, ``zerocopy`` a run on bound memory,
``naive`` a plain ctypes loop, ``planes`` ``infer`` with an NCHW picture, which the library does not take. Instructions are exact: callgrind closes a count at each call of ``getppid``,
and the loops call it before and after; a model that moves no data is used, so that memcpy does not count. Time is
taken on one that does, all loops in turn, the best of several rounds.

Without OpenCV the limits of ``planes`` cannot be met. The library refuses NCHW of rank 4, so bytes are interleaved here, and
numpy stores with a stride at 3.5 instructions per element whatever it is told: 0.52 M for the 150528 bytes of 224x224x3.
Measured on numpy 2.4, one picture of that size, millions: channel by channel 0.54 (what we do), as fields of a record 0.52,
np.stack 0.56, four pixels at a time as three words put together by shifts 0.67, pixels as words stored over each other 0.69 (of
it 0.31 for 50176 stores at odd places), np.take 1.8, slices of a bytearray 1.4, numpy's own transposed copy 3.6. Wider stores
are fewer, but forming them costs an instruction per word and step, and the stores alone pass 0.25.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "plugins")]

import numpy as np  # noqa: E402

from tests.doubles.double import build, compile_c, model  # noqa: E402

NINE = [(1, 64, 80, 80), (1, 80, 80, 80), (1, 1, 80, 80), (1, 64, 40, 40), (1, 80, 40, 40), (1, 1, 40, 40),
        (1, 64, 20, 20), (1, 80, 20, 20), (1, 1, 20, 20)]  # fmt: skip
BARE = {
    "face": "prealloc",
    "infer": "prealloc",
    "prealloc": "prealloc",
    "naive": "common",
    "zerocopy": "zerocopy",
    "planes": "prealloc",
}
"""Loop -> the bare C loop that makes the same calls."""


@dataclass(frozen=True)
class Case:
    """A model to measure with."""

    side: int  # of the square uint8 image, pixels
    lines: tuple[str, ...]
    turns: int  # inferences per round of the clock

    def write(self, path: Path, op: str) -> Path:
        """The model with an operator: ``idle`` moves no data, ``none`` converts inputs and outputs."""
        path.write_bytes(model(*self.lines, f"op {op}"))
        return path


CASES = {
    "small": Case(
        224, ("input image int8 4 1 224 224 3 0.0078 -3", "output scores int8 2 1 1000 0.1 5"), 2000
    ),
    "nine": Case(
        640,
        (
            "input image int8 4 1 640 640 3 0.0039 -128",
            *(f"output o{i} int8 4 {' '.join(map(str, dims))} 0.1 5" for i, dims in enumerate(NINE)),
        ),
        40,
    ),
}
COUNTED = 200  # inferences under valgrind
FACE_LIMIT, ZEROCOPY_LIMIT = 60_000, 15_000  # instructions over bare C, model "small"
NAIVE_RATIO, NCHW_RATIO = 1.3, 1.2
NCHW_LIMITS = {"small": 250_000, "nine": 2_200_000}  # instructions of an inference, with OpenCV
NCHW_PER_BYTE = 4  # instructions over NHWC input, without OpenCV


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


def planes(path: str, image: np.ndarray) -> Callable[[], Any]:
    """The native API with an NCHW picture; its channels are interleaved on the way."""
    import rknnlite

    context = rknnlite.open(path)
    picture = np.ascontiguousarray(image.transpose(0, 3, 1, 2))
    return lambda: context.infer(picture, layout="nchw")


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


LOOPS = {loop.__name__: loop for loop in (face, infer, prealloc, naive, zerocopy, planes)}


# -- the measured process ----------------------------------------------------------------------------------


def count(path: str, image: np.ndarray, loops: Sequence[str]) -> None:
    """Run each loop between two marks that callgrind sees."""
    mark = os.getppid
    for name in loops:
        once = LOOPS[name](path, image)
        for _ in range(20):
            once()
        mark()
        for _ in range(COUNTED):
            once()
        mark()


def clock(onces: dict[str, Callable[[], Any]], turns: int, rounds: int = 9) -> dict[str, float]:
    """Microseconds per call of each, taken in turn; the best round counts."""
    best = dict.fromkeys(onces, math.inf)
    for _ in range(rounds):
        for name, once in onces.items():
            started = time.perf_counter()
            for _ in range(turns):
                once()
            best[name] = min(best[name], (time.perf_counter() - started) / turns * 1e6)
    return best


def conversions(path: str, image: np.ndarray) -> dict[str, Callable[[], Any]]:
    """An NCHW image set as input, natively and by numpy's own transposed copy."""
    import rknnlite
    from rknnlite.spi import Input
    from rknnlite.tensor import Layout

    context = rknnlite.open(path)
    nchw = np.ascontiguousarray(image.transpose(0, 3, 1, 2))
    inputs = [Input(0, nchw, Layout.NCHW)]
    context.set_inputs(inputs)
    feed: Any = context._feed  # type: ignore[attr-defined]  # without the library's own copy of the data
    return {"nchw": lambda: feed.put(inputs), "numpy": lambda: nchw.transpose(0, 2, 3, 1).copy(order="C")}


def child(task: str, kind: str, path: str) -> None:
    """What runs in a process of its own; prints microseconds as JSON."""
    case = CASES[kind]
    image = np.zeros((1, case.side, case.side, 3), np.uint8)
    if task == "count":
        count(path, image, list(LOOPS))
        return
    onces = {name: loop(path, image) for name, loop in LOOPS.items()}
    times = clock(onces, case.turns)
    times.update(clock(conversions(path, image), 20))
    print(json.dumps(times))


# -- the measuring process ---------------------------------------------------------------------------------


def environment() -> dict[str, str]:
    """Same hashes in every process, and our double as the library."""
    ours = {"PYTHONHASHSEED": "0", "RKNNLITE_LIBRARY": str(build()), "RKNNLITE_BACKEND": "rknnrt"}
    return {**os.environ, **ours, "RKNNLITE_DISABLE": "cpu,cplugin,opencl,riscv,rknn3rt"}


def callgrind(command: list[str]) -> list[float]:
    """Instructions per inference between each pair of marks, in user space, the library's own included."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--tool=callgrind", f"--callgrind-out-file={folder}/out", "--dump-before=getppid"]
        run = subprocess.run(
            ["valgrind", *options, *command], capture_output=True, text=True, env=environment()
        )
        if run.returncode:
            raise SystemExit(run.stderr)
        parts = sorted(Path(folder).glob("out.*"), key=lambda part: int(part.suffix[1:]))
        totals = [int(re.findall(r"^totals: (\d+)", part.read_text(), re.M)[-1]) for part in parts]
    return [total / COUNTED for total in totals[1::2]]  # the even parts lie before the first mark of a loop


def bare(path: Path, kind: str) -> float:
    """Instructions of one inference of the C program."""
    lib = build()
    program = compile_c(
        [ROOT / "benchmarks/rknnrt_bare.c", lib], ("-O2", f"-Wl,-rpath,{lib.parent}"), "rknnrt_bare"
    )
    (spent,) = callgrind([str(program), str(path), kind, str(COUNTED)])
    return spent


def process(task: str, kind: str, path: Path) -> list[str]:
    """Command line of a measured process."""
    return [sys.executable, __file__, "--task", task, "--kind", kind, "--model", str(path)]


def measure(kind: str, counting: bool, timing: bool, folder: Path) -> list[str]:
    """Print the figures of one model; returns what missed its target."""
    case, spent, over, times = CASES[kind], {}, {}, {}
    if counting:
        path = case.write(folder / f"{kind}.rknn", "idle")
        bares = {name: bare(path, name) for name in sorted(set(BARE.values()))}
        spent = dict(zip(LOOPS, callgrind(process("count", kind, path))))
        over = {name: spent[name] - bares[BARE[name]] for name in LOOPS}
        for name, figure in bares.items():
            print(f"{kind:6} {'C ' + name:11} {figure:12.0f}")
    if timing:
        path = case.write(folder / f"{kind}-busy.rknn", "none")
        command = process("clock", kind, path)
        run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment())
        times = json.loads(run.stdout.splitlines()[-1])
    none = math.nan
    for name in LOOPS:
        figures = f"{spent.get(name, none):12.0f} {over.get(name, none):12.0f} {times.get(name, none):9.1f}"
        print(f"{kind:6} {name:11} {figures}")
    return missed(kind, spent, over, times)


def missed(kind: str, spent: dict[str, float], over: dict[str, float], times: dict[str, float]) -> list[str]:
    """Print each target with its figure; returns the lines of those that are missed."""
    targets: list[tuple[str, float, float]] = []
    if kind == "small" and over:
        targets.append(("face, instructions over bare C", over["face"], FACE_LIMIT))
        targets.append(("zerocopy, instructions over bare C", over["zerocopy"], ZEROCOPY_LIMIT))
    if spent:
        side, numpy_only = CASES[kind].side, importlib.util.find_spec("cv2") is None
        most = spent["infer"] + NCHW_PER_BYTE * 3 * side * side if numpy_only else NCHW_LIMITS[kind]
        targets.append(("NCHW picture, instructions", spent["planes"], most))
    if kind == "nine" and spent:
        targets.append(("face / naive, instructions", spent["face"] / spent["naive"], NAIVE_RATIO))
    if kind == "nine" and times:
        targets.append(("face / naive, time", times["face"] / times["naive"], NAIVE_RATIO))
    if times:
        targets.append(
            ("NCHW input / numpy's transposed copy, time", times["nchw"] / times["numpy"], NCHW_RATIO)
        )
    lines = []
    for what, figure, limit in targets:
        line = f"{kind:6} {what}: {figure:.5g}, at most {limit:g}"
        print(line)
        if figure > limit:
            lines.append(line)
    return lines


def main() -> None:
    """Print one line per model and loop, then the targets."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for option in ("--task", "--kind", "--model"):
        parser.add_argument(option, help=argparse.SUPPRESS)
    parser.add_argument("--check", action="store_true", help="fail when a target is missed")
    parser.add_argument("--instructions", action="store_true", help="instructions only, no clock")
    arguments = parser.parse_args()
    if arguments.task:
        child(arguments.task, arguments.kind, arguments.model)
        return
    counting = shutil.which("valgrind") is not None
    print(f"{'model':6} {'loop':11} {'instructions':>12} {'over bare C':>12} {'us':>9}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        failed = [
            line
            for kind in CASES
            for line in measure(kind, counting, not arguments.instructions, Path(folder))
        ]
    if arguments.check and failed:
        raise SystemExit("\n".join(["missed:", *failed]))


if __name__ == "__main__":
    main()
