"""The rig's two kernels, and Python programs on them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.npu.rig import needs_processor, on_rig
from tools.npu_rig.build import PROCESSORS, built
from tools.npu_rig.gem import GemDriver
from tools.npu_rig.kernel import Kernel
from tools.npu_rig.rknpu import RknpuDriver
from tools.npu_rig.rocket import RocketDriver

__all__ = ["CHIP", "KERNELS", "Rig", "rig"]

CHIP = {"/proc/device-tree/compatible": b"radxa,rock-5b\0rockchip,rk3588\0"}
ROOT = Path(__file__).resolve().parents[3]
PROCESSOR = os.environ.get("RKNNLITE_TEST_RIG_PROCESSOR", "")
"""``arm64``: programs run under qemu, and the kernel with its machine here."""
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
        if PROCESSOR:
            return self._run_elsewhere(command, environment)
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

    def _run_elsewhere(
        self, command: tuple[str, ...], environment: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Of another processor, in the userland of tools/arm64; this repository is /src there."""
        preload = built("preload.c", PROCESSORS[PROCESSOR])
        given = {
            "LD_PRELOAD": f"/rig-preload/{preload.name}",
            "RIG_ROOT": "/rig",
            "RKNNLITE_CACHE": "/rig-cache",
            "PYTHONPATH": "/src:/src/plugins",
            **environment,
        }
        binds = f"/rig={self.kernel.root} /rig-preload={preload.parent} /rig-cache={self.folder}"
        words = [str(word).replace(str(ROOT), "/src") for word in command]
        return subprocess.run(
            [
                str(ROOT / "tools" / "arm64" / "run.sh"),
                "env",
                *(f"{name}={value}" for name, value in given.items()),
                "python3",
                *words,
            ],
            env={**os.environ, "ARCH": PROCESSOR, "ARM64_BIND": binds},
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
