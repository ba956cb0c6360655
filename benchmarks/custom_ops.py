"""Overhead per call of custom operators, beyond the operator's own work and the copies it cannot avoid.

    python benchmarks/custom_ops.py [--count 2000] [--size 4096] [--growth 20000]

A dual residual on small tensors (``--size`` elements each) is called through its host in every way there is; its own
work, the same loop called straight by ctypes, is subtracted. The median of the calls is printed, with the goal.
``--growth`` repeats each way that often and prints what memory, descriptors, mappings and GPU buffers gained.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from rknnlite import load_custom_ops
from rknnlite.abi import include_dir
from rknnlite.plugins import load_postprocess
from rknnlite.spi import OpContext, OpNode
from rknnlite.tensor import DType, Layout, TensorAttr

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "custom_op"
RISCV = ROOT / "tests" / "custom_ops" / "c" / "argmax_riscv.c"
GOALS = {"C": 30, "C, isolated": 200, "OpenCL": 300, "OpenCL, compiled": 300, "RISC-V": 1000}
"""Microseconds."""

Call = Callable[[], Any]


def compiled(folder: Path, name: str, *flags: str) -> Path:
    library = folder / f"{name}.so"
    command = ["cc", "-shared", "-fPIC", "-O2", f"-I{include_dir()}", "-o", library, EXAMPLE / f"{name}.c"]
    subprocess.run([*command, *flags], check=True)
    return library


@contextmanager
def operator(op: Any, size: int) -> Iterator[Call]:
    """One call of an operator on two inputs and two outputs."""
    attrs = [TensorAttr(i, f"t{i}", (size,), DType.FLOAT32, Layout.UNDEFINED) for i in range(2)]
    ctx = OpContext(OpNode("cstDualResidual", "node", {"alpha": 0.5}), attrs, attrs)
    arrays = [np.zeros(size, np.float32) for _ in range(4)]
    op.init(ctx, arrays[:2], arrays[2:])
    try:
        yield lambda: op.compute(ctx, arrays[:2], arrays[2:])
    finally:
        op.destroy(ctx)


@contextmanager
def postprocess(plugin: Path, size: int) -> Iterator[Call]:
    """One call of a post-process plugin on an int8 tensor of four channels."""
    side = max(1, int((size / 4) ** 0.5))
    picture = TensorAttr(0, "in", (1, 32, 32, 3), DType.UINT8, Layout.NHWC)
    heads = TensorAttr(0, "out", (1, 4, side, side), DType.INT8, Layout.NCHW)
    process = load_postprocess(plugin)
    process.open([picture], [heads])
    data = [np.zeros(heads.dims, np.int8)]
    try:
        yield lambda: process.compute(data)
    finally:
        process.close()


def ways(folder: Path, size: int) -> Iterator[tuple[str, Any]]:
    """Name and context manager of every way that this machine has."""
    library = compiled(folder, "librkcst_dual_residual")
    yield "C", operator(load_custom_ops(library)[0], size)
    yield "C, isolated", operator(load_custom_ops(library, isolate=True)[0], size)
    try:
        from rknnlite_opencl import Attr, In, OpenClOp, Out

        start = np.int32(0)
        args = [In(0), start, In(1), start, Out(0), start, Out(1), start, Attr("alpha")]
        yield (
            "OpenCL",
            operator(OpenClOp("cstDualResidual", EXAMPLE / "dual_residual.cl", "dual_residual", args), size),
        )
        shutil.copy(EXAMPLE / "dual_residual.cl", folder)
        gpu = compiled(folder, "librkcst_dual_residual_gpu", "-lOpenCL")
        yield "OpenCL, compiled", operator(load_custom_ops(gpu)[0], size)
    except ImportError:
        print("OpenCL: pyopencl is not installed")
    if shutil.which("riscv64-unknown-elf-gcc"):
        plugin = folder / "libpostprocess_argmax.so"
        flags = [
            "--specs=picolibc.specs", "-march=rv64gc", "-mabi=lp64d", "-mcmodel=medany", "-fpic", "-O2", "-w", "-c",
        ]  # fmt: skip
        include = f"-I{include_dir()}"
        subprocess.run(["riscv64-unknown-elf-gcc", *flags, include, "-o", plugin, RISCV], check=True)
        yield "RISC-V", postprocess(plugin, size)


def own_work(folder: Path, size: int, count: int) -> float:
    """Microseconds of the operator's loop, called straight by ctypes."""
    source = folder / "own.c"
    source.write_text(
        "void own(const float *x, const float *y, float *l, float *r, int n, float a)"
        "{ for (int i = 0; i < n; i++) { l[i] = x[i] * a - y[i]; r[i] = y[i] * a - x[i]; } }"
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", folder / "own.so", source], check=True)
    function = ctypes.CDLL(str(folder / "own.so")).own
    arrays = [np.zeros(size, np.float32) for _ in range(4)]
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in arrays]
    return median(lambda: function(*pointers, size, ctypes.c_float(0.5)), count)


def median(call: Call, count: int) -> float:
    """Median of ``count`` calls in microseconds, warm."""
    times = []
    for _ in range(max(50, count // 10)):
        call()
    for _ in range(count):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return statistics.median(times) * 1e6


def held() -> dict[str, int]:
    """What this process and its children hold."""
    gc.collect()
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    figures = {
        "memory kB": sum(p.memory_info().rss for p in processes) // 1024,
        "descriptors": sum(p.num_fds() for p in processes),
        "mappings": sum(len(Path(f"/proc/{p.pid}/maps").read_text().splitlines()) for p in processes),
    }
    try:
        from rknnlite_opencl.buffers import imports

        figures["GPU buffers"] = imports()
    except Exception:  # no OpenCL here
        figures["GPU buffers"] = 0
    return figures


def growth(call: Call, count: int) -> dict[str, int]:
    """What ``count`` calls add, after as many that warm up as make a tenth."""
    held()  # the first look itself loads and maps things
    for _ in range(max(200, count // 10)):
        call()
    before = held()
    for _ in range(count):
        call()
    after = held()
    return {name: after[name] - before[name] for name in before}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--growth", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        own = own_work(folder, args.size, args.count)
        print(f"own work: {own:.1f} us for {args.size} elements; load {os.getloadavg()[0]:.1f}")
        for way, opened in ways(folder, args.size):
            with opened as call:
                spent = median(call, args.count) - own
                verdict = "ok" if spent <= GOALS[way] else "TOO SLOW"
                print(f"{way:17} {spent:7.1f} us, goal {GOALS[way]:5} us  {verdict}")
                if args.growth:
                    print(" " * 17, "growth:", growth(call, args.growth))


if __name__ == "__main__":
    main()
