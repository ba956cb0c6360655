#!/usr/bin/env python3
"""Run a model with a custom operator four times: the operator in Python, in C, as an OpenCL kernel, and in C + OpenCL.

    python test.py                 # all four
    python test.py python c        # some of: python, c, opencl, gpu

On a board librknnrt runs the model, elsewhere the CPU reference does; nothing here depends on which.
c and gpu need a C compiler, opencl and gpu need pyopencl and an OpenCL driver (pocl-opencl-icd on a PC),
gpu also the packages ocl-icd-opencl-dev and opencl-headers.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from dual_residual import cstDualResidual

import rknnlite
from rknnlite.abi import include_dir

HERE = Path(__file__).resolve().parent
BOARDS = {
    "rk3588": "RK3588",
    "rk3566": "RK3566_RK3568",
    "rk3568": "RK3566_RK3568",
    "rk3562": "RK3562",
    "rk3576": "RK3576",
}


def model() -> Path:
    """The file for this board; on a PC the one for RK3588."""
    try:
        names = Path("/proc/device-tree/compatible").read_text()
    except OSError:
        names = ""
    chip = next((name for soc, name in BOARDS.items() if soc in names), "RK3588")
    return HERE / f"dual_for_{chip}.rknn"


def compiled(name: str, folder: str, *flags: str) -> Path:
    if shutil.which("cc") is None:
        sys.exit("There is no C compiler: apt install gcc libc6-dev")
    library = Path(folder) / f"{name}.so"
    command = [
        "cc",
        "-shared",
        "-fPIC",
        "-O2",
        f"-I{include_dir()}",
        "-o",
        library,
        HERE / f"{name}.c",
        *flags,
    ]
    if subprocess.run(command, check=False).returncode:
        sys.exit(f"{name}.c cannot be compiled; OpenCL needs: apt install ocl-icd-opencl-dev opencl-headers")
    return library


def operator(kind: str, folder: str):
    """What is given to ``custom_ops``."""
    if kind == "python":
        return cstDualResidual()
    if kind == "c":
        return compiled("librkcst_dual_residual", folder)
    if kind == "gpu":
        shutil.copy(HERE / "dual_residual.cl", folder)
        return compiled("librkcst_dual_residual_gpu", folder, "-lOpenCL")
    from rknnlite_opencl import Attr, In, OpenClOp, Out

    start = np.int32(0)
    return OpenClOp(
        "cstDualResidual",
        source=HERE / "dual_residual.cl",
        kernel="dual_residual",
        args=[In(0), start, In(1), start, Out(0), start, Out(1), start, Attr("alpha")],
        fallback=cstDualResidual(),
    )


def main() -> None:
    rng = np.random.default_rng(1)
    left, right = (rng.integers(0, 256, (1, 32, 32, 3), dtype=np.uint8) for _ in range(2))
    with tempfile.TemporaryDirectory() as folder:
        for kind in sys.argv[1:] or ["python", "c", "opencl", "gpu"]:
            try:
                with rknnlite.open(model(), custom_ops=[operator(kind, folder)]) as context:
                    outputs = context.infer([left, right])
            except rknnlite.RknnError as error:  # no pyopencl, or no driver
                sys.exit(f"{kind}: {error}")
            sums = "  ".join(f"{a.name} {o.sum():.4f}" for a, o in zip(context.outputs, outputs))
            print(f"{kind:7} {sums}")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads our output may have enough of it
    main()
