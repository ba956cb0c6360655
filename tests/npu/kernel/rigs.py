"""The rig's two kernels, and Python programs on them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.npu.rig import needs_processor, on_rig
from tools.npu_rig.gem import GemDriver
from tools.npu_rig.kernel import Kernel
from tools.npu_rig.rknpu import RknpuDriver
from tools.npu_rig.rocket import RocketDriver

__all__ = ["CHIP", "KERNELS", "Rig", "rig"]

CHIP = {"/proc/device-tree/compatible": b"radxa,rock-5b\0rockchip,rk3588\0"}
KERNELS = {
    "rocket": ("/dev/accel/accel0", RocketDriver),
    "rknpu": ("/dev/dri/renderD129", RknpuDriver),
}


class Rig:
    """One kernel with one device."""

    def __init__(self, kernel: Kernel, driver: GemDriver, folder: Path) -> None:
        self.kernel, self.driver, self.folder = kernel, driver, folder

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run Python with arguments."""
        here = {
            **os.environ,
            **on_rig(self.kernel, needs_processor("x86_64")),
            "RKNNLITE_CACHE": str(self.folder),
        }
        return subprocess.run(
            [sys.executable, *command],
            env={**here, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def python(self, code: str, *words: object, **environment: str) -> str:
        """What a piece of Python prints; it must end well."""
        done = self.run("-c", code, *map(str, words), **environment)
        assert done.returncode == 0, done.stderr
        return done.stdout


@contextmanager
def rig(name: str, folder: Path, driver: GemDriver | None = None) -> Iterator[Rig]:
    """``name``: of ``KERNELS``; ``folder``: what programs keep."""
    device, kind = KERNELS[name]
    driver = driver or kind()
    folder.mkdir(mode=0o700, exist_ok=True)
    with Kernel({device: driver}, CHIP) as kernel:
        yield Rig(kernel, driver, folder)
        assert kernel.errors == []
