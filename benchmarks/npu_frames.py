"""What a prepared frame of the backend ``npu`` costs beyond the kernel's calls: instructions (valgrind), on the kernels of tools/npu_rig.

    python benchmarks/npu_frames.py            # needs gcc and valgrind

``run`` is a frame whose inputs were set before, ``bound`` one on memory that the NPU itself reads and writes, ``infer`` a whole
inference of uint8 pixels. Counting stops in ``ioctl``: what the rig's preloaded part does there is the kernel's. callgrind closes a
count at each call of ``getppid``. Both kernels look after every job: stamps before, a look behind it.
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "plugins")]

from tools.npu_rig.build import PROCESSORS, built  # noqa: E402
from tools.npu_rig.gem import GemDriver  # noqa: E402
from tools.npu_rig.kernel import Kernel  # noqa: E402
from tools.npu_rig.rknpu import RknpuDriver  # noqa: E402
from tools.npu_rig.rocket import RocketDriver  # noqa: E402

LIMIT = 120_000
"""Instructions of a frame whose inputs were prepared."""
MODELS = {
    "resnet18": ROOT / "examples/resnet18/resnet18_for_RK3588.rknn",
    "mean_std": ROOT / "tests/data/mean_std.rk3588.i8.rknn",
}
KERNELS: dict[str, tuple[str, Callable[[], GemDriver]]] = {
    "rocket": ("/dev/accel/accel0", RocketDriver),
    "rocket 1.3": ("/dev/accel/accel0", lambda: RocketDriver(version=(1, 3, 0))),
    "rknpu": ("/dev/dri/renderD129", RknpuDriver),
}
LIMITED = ("mean_std",)
"""ResNet-18 has a node for the CPU, which is computed in the frame, on rocket its pool as well; and 15 jobs there, each looked after."""
BY_WORDS = "glibc.cpu.x86_rep_movsb_threshold=1073741824:glibc.cpu.x86_rep_stosb_threshold=1073741824"
"""Bytes are copied by vector instructions: callgrind counts each byte of a repeated one."""
COUNTED = 10
CHIP = {"/proc/device-tree/compatible": b"rockchip,rk3588\0"}


class Figure(NamedTuple):
    """Instructions of one loop on one kernel."""

    kernel: str
    model: str
    loop: str
    instructions: float
    jobs: float


KEPT = ("PATH", "HOME", "LD_LIBRARY_PATH", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
"""Variables that a measured process gets: what looks one up walks through all, so a long environment would cost instructions."""


# -- the measured process ----------------------------------------------------------------------------------


def loops(path: str) -> dict[str, Callable[[], Any]]:
    """What is counted, each on a context of its own."""
    import dataclasses

    import numpy as np

    import rknnlite
    from rknnlite.spi import Input
    from rknnlite.tensor import DType

    opened = [rknnlite.open(path, backend="npu") for _ in range(3)]
    picture = np.random.default_rng(0).integers(0, 256, opened[0].inputs[0].dims).astype(np.uint8)
    prepared, bound, whole = opened
    prepared.set_inputs([Input(0, picture)])
    attr = dataclasses.replace(bound.native_inputs[0], dtype=DType.UINT8, pass_through=False)
    for each in (attr, *bound.native_outputs):
        bound.bind(each, bound.create_mem(max(each.size_with_stride, each.n_elems)))
    return {"run": prepared.run, "bound": bound.run, "infer": lambda: whole.infer(picture)}


def child(path: str) -> None:
    """Run each loop between two marks that callgrind sees."""
    found = loops(path)
    gc.collect()
    gc.disable()  # a collection of what opening left would fall into one loop by chance
    for once in found.values():
        for _ in range(3):
            once()
        os.getppid()
        for _ in range(COUNTED):
            once()
        os.getppid()


# -- the measuring process ---------------------------------------------------------------------------------


def measure(kernel: str, model: str) -> list[Figure]:
    """The figures of one model on one kernel."""
    path, (device, kind) = MODELS[model], KERNELS[kernel]
    driver = kind()
    with tempfile.TemporaryDirectory() as folder, Kernel({device: driver}, CHIP) as rig:
        environment = {
            **{name: os.environ[name] for name in KEPT if name in os.environ},
            "PYTHONHASHSEED": "0",
            "GLIBC_TUNABLES": BY_WORDS,
            "RKNNLITE_CACHE": folder,
            "RIG_ROOT": str(rig.root),
            "LD_PRELOAD": str(built("preload.c", PROCESSORS["x86_64"])),
        }
        command = [sys.executable, __file__, "--child", str(path)]
        options = [f"--callgrind-out-file={folder}/out", "--dump-before=getppid", "--toggle-collect=ioctl"]
        options.append("--collect-atstart=yes")  # behind --toggle-collect, which turns it off
        subprocess.run(command, env=environment, check=True)  # what the first meeting finds is kept
        before = driver.jobs
        counted = ["valgrind", "--tool=callgrind", *options, *command]
        done = subprocess.run(counted, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        parts = sorted(Path(folder).glob("out.*"), key=lambda part: int(part.suffix[1:]))
        totals = [int(re.findall(r"^totals: (\d+)", part.read_text(), re.M)[-1]) for part in parts]
        jobs = (driver.jobs - before) / (len(LOOPS) * (COUNTED + 3))
    return [Figure(kernel, model, loop, total / COUNTED, jobs) for loop, total in zip(LOOPS, totals[1::2])]


LOOPS = ("run", "bound", "infer")


def main() -> None:
    """Print one line per kernel, model and loop."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--check", action="store_true", help="fail when a frame costs more than it may")
    parser.add_argument("--models", nargs="+", choices=sorted(MODELS), default=sorted(MODELS))
    parser.add_argument("--kernels", nargs="+", choices=sorted(KERNELS), default=sorted(KERNELS))
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child)
        return
    missed = False
    print(f"{'kernel':10} {'model':10} {'loop':6} {'jobs':>5} {'instructions':>12}", flush=True)
    for kernel in arguments.kernels:
        for model in arguments.models:
            for figure in measure(kernel, model):
                late = figure.loop != "infer" and model in LIMITED and figure.instructions > LIMIT
                missed = missed or late
                word = f"  more than {LIMIT}" if late else ""
                print(
                    f"{kernel:10} {model:10} {figure.loop:6} {figure.jobs:5.1f} {figure.instructions:12.0f}{word}",
                    flush=True,
                )
    if arguments.check and missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
