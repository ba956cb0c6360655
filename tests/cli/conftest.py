"""Calling the command as a program is called, and machines made of files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rknnlite import hookimpl, plugins
from rknnlite.cli import main
from rknnlite.spi import Backend
from tests.support.corpus import EXAMPLES
from tests.support.entry_points import EntryPoint

RESNET = EXAMPLES / "resnet18" / "resnet18_for_RK3588.rknn"
DIGIT = EXAMPLES / "resnet18" / "digit_224.png"


class Offer:
    """A plugin with a backend."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    @hookimpl
    def rknnlite_register_backends(self, register: Any) -> None:
        register(self._backend)


@dataclass(frozen=True)
class Done:
    """What a call left behind."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """The last document of ``--json``."""
        return json.loads(self.out.splitlines()[-1])


Call = Callable[..., Done]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """``call("info", path)`` as ``rknnlite info PATH``; no terminal, the CPU reference."""
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("TERM", "dumb")

    def run(*words: Any) -> Done:
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return Done(int(code), captured.out, captured.err)

    return run


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``install(mine=plugin)``: plugins in addition to our own; an exception is one that cannot be imported."""
    own = plugins._entry_points()

    def forget() -> None:
        for cached in (plugins.manager, plugins.backends, plugins.commands, plugins.op_hosts):
            cached.cache_clear()

    def put(**found: Any) -> None:
        entries = [*own, *(EntryPoint(name, plugin) for name, plugin in found.items())]
        monkeypatch.setattr(plugins, "_entry_points", lambda: entries)
        forget()

    yield put
    forget()


BOARD = {
    "proc/device-tree/compatible": "vendor,board\0rockchip,rk3588\0",
    "proc/device-tree/model": "Test Board 5\0",
    "proc/sys/kernel/osrelease": "6.1.75-rk\n",
    "proc/meminfo": "MemTotal: 8000000 kB\nMemFree: 1 kB\nMemAvailable: 6000000 kB\nCmaTotal: 8192 kB\n",
    "sys/kernel/debug/rknpu/version": "RKNPU driver: v0.9.8\n",
    "sys/kernel/debug/rknpu/load": "NPU load:  Core0: 12%, Core1:  0%, Core2: 97%,\n",
    "sys/kernel/debug/rknpu/mm": "SRAM bitmap: ...\nSRAM total size: 978944, used: 4096, free: 974848\n",
    "sys/class/devfreq/fdab0000.npu/cur_freq": "1000000000\n",
    "sys/class/devfreq/fdab0000.npu/max_freq": "1000000000\n",
    "sys/class/devfreq/fdab0000.npu/min_freq": "300000000\n",
    "sys/class/devfreq/fdab0000.npu/governor": "rknpu_ondemand\n",
    "sys/class/devfreq/fdab0000.npu/available_governors": "rknpu_ondemand userspace performance\n",
    "sys/class/devfreq/dmc/cur_freq": "2112000000\n",
    "sys/class/devfreq/dmc/governor": "performance\n",
    "sys/class/devfreq/dmc/available_governors": "performance\n",
    "sys/devices/system/cpu/cpufreq/policy4/related_cpus": "4 5\n",
    "sys/devices/system/cpu/cpufreq/policy4/scaling_cur_freq": "2256000\n",
    "sys/devices/system/cpu/cpufreq/policy4/scaling_max_freq": "2256000\n",
    "sys/devices/system/cpu/cpufreq/policy4/scaling_governor": "performance\n",
    "sys/class/thermal/thermal_zone0/type": "soc-thermal\n",
    "sys/class/thermal/thermal_zone0/temp": "41615\n",
    "sys/class/thermal/thermal_zone1/type": "npu-thermal\n",
    "sys/class/thermal/thermal_zone1/temp": "91000\n",
    "dev/dri/renderD129": "",
}
"""An RK3588 as a kernel 6.1 shows it."""


@pytest.fixture
def machine(tmp_path: Path) -> Callable[..., Path]:
    """``machine(BOARD, **{"sys/x": None})``: a root folder with these files; None leaves one out."""

    def make(files: dict[str, str], **changes: str | None) -> Path:
        root = tmp_path / "root"
        for name, text in {**files, **changes}.items():
            if text is not None:
                place = root / name
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(text)
        if "dev/dri/renderD129" in files:
            driver = root / "sys/bus/platform/drivers/RKNPU"
            driver.mkdir(parents=True)
            device = root / "sys/class/drm/renderD129/device"
            device.mkdir(parents=True)
            (device / "driver").symlink_to(driver)
        root.mkdir(exist_ok=True)
        return root

    return make
