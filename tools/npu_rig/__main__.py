"""Runs a program with an NPU of the rig:

    python -m tools.npu_rig [--library LIBRKNNRT.SO] [--soc rk3588] [--bind NAME=FOLDER ...] [--trace] COMMAND...

The devices are /dev/dri/card0 and /dev/dri/renderD128 with the vendor's driver. With a library for another processor the command
runs in the userland of tools/arm64 (root, see there), where the library is /rig-library/LIBRKNNRT.SO; RKNNLITE_LIBRARY names it.
FOLDER is mounted there at NAME. Jobs that the machine refuses are told at the end, and make the status 3.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

from .build import PROCESSORS, Processor, built, processor_of
from .kernel import Kernel
from .rknpu import RknpuDriver

__all__ = ["main"]

DEVICES = ("/dev/dri/card0", "/dev/dri/renderD128")
_FAMILIES = {"rk3588": "RKNPU v2"}
_ROOT = Path(__file__).resolve().parents[2]
_REFUSED = 3


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """The status of the command."""
    parser = argparse.ArgumentParser(prog="python -m tools.npu_rig", description=__doc__.partition(":")[0])
    parser.add_argument("--library", type=Path)
    parser.add_argument("--soc", default="rk3588", choices=sorted(_FAMILIES))
    parser.add_argument("--bind", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--trace", action="store_true", help="say what is created and submitted")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        parser.error("name a command")
    say = (lambda line: print(f"rig: {line}", file=sys.stderr)) if options.trace else (lambda line: None)
    driver = RknpuDriver(_FAMILIES[options.soc], say)
    compatible = f"rockchip,{options.soc}-evb\0rockchip,{options.soc}\0".encode()
    with Kernel(dict.fromkeys(DEVICES, driver), {"/proc/device-tree/compatible": compatible}) as kernel:
        status = _run(kernel, command, options.library, options.bind)
        for line in (*driver.refusals, *kernel.errors):
            print(f"rig: refused: {line}", file=sys.stderr)
        print(f"rig: {driver.jobs} jobs done, {len(driver.refusals)} refused", file=sys.stderr)
        return status or (_REFUSED if driver.refusals or kernel.errors else 0)


def _run(kernel: Kernel, command: list[str], library: Optional[Path], binds: list[str]) -> int:
    processor = PROCESSORS["x86_64"] if library is None else processor_of(library)
    if processor.is_here or library is None:
        given = {"LD_PRELOAD": str(built("preload.c", processor)), "RIG_ROOT": str(kernel.root)}
        if library is not None:
            given["RKNNLITE_LIBRARY"] = str(library.resolve())
        return subprocess.run(command, env={**os.environ, **given}, check=False).returncode
    return subprocess.run(
        [str(_ROOT / "tools" / "arm64" / "run.sh"), "env", *_inside(processor, library), *command],
        env={
            **os.environ,
            "ARCH": processor.name,
            "ARM64_BIND": " ".join(
                [
                    f"/rig={kernel.root}",
                    f"/rig-preload={built('preload.c', processor).parent}",
                    f"/rig-library={library.resolve().parent}",
                    *binds,
                ]
            ),
        },
        check=False,
    ).returncode


def _inside(processor: Processor, library: Path) -> list[str]:
    """The variables of a command in the userland."""
    return [
        f"LD_PRELOAD=/rig-preload/{built('preload.c', processor).name}",
        "RIG_ROOT=/rig",
        f"RKNNLITE_LIBRARY=/rig-library/{library.resolve().name}",
        "PYTHONPATH=/src:/src/plugins",
        *(f"{name}={os.environ[name]}" for name in ("RKNN_LOG_LEVEL", "RIG_EXPECTED") if name in os.environ),
    ]


if __name__ == "__main__":
    sys.exit(main())
