"""What the kernel says about this machine and its NPU, read from files below a root folder.

Nothing is written and nothing raises: a file that is missing or that this user may not read is a ``Reading`` without
value that says so. Places differ between kernels; all known ones are tried (drivers 0.8 to 0.9, debugfs or procfs).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Optional, TypeVar

from .. import socs

__all__ = ["ROOT", "Board", "Clock", "DeviceNode", "Reading", "Sram"]

T = TypeVar("T")

ROOT = Path("/proc/self/root" if os.path.isdir("/proc/self/root") else "/")  # noqa: PTH112
"""This machine's own files, also where ``rknnlite exec --soc`` plays those of a board."""
_VERSION = (
    "sys/kernel/debug/rknpu/version",
    "proc/rknpu/version",
    "proc/debug/rknpu/version",
    "sys/module/rknpu/version",
)
_LOAD = ("sys/kernel/debug/rknpu/load", "proc/rknpu/load", "proc/debug/rknpu/load")
_SRAM = ("sys/kernel/debug/rknpu/mm", "proc/rknpu/mm", "proc/debug/rknpu/mm")
_DRIVERS = ("rknpu", "RKNPU")
_CLASSES = {"drm": "dri", "accel": "accel", "misc": ""}
_TABLE_NUMBER = re.compile(r"(\d+)\s*%")
_SRAM_LINE = re.compile(r"total size:\s*(\d+),\s*used:\s*(\d+),\s*free:\s*(\d+)")
_LARGEST = 1 << 16


@dataclass(frozen=True)
class Reading(Generic[T]):
    """A value and the file it is from; without a value ``problem`` is ``missing`` or ``permission``."""

    value: Optional[T] = None
    file: str = ""
    problem: str = ""


@dataclass(frozen=True)
class Clock:
    """A frequency that the kernel scales, in hertz; ``set_by`` is the file that takes a governor."""

    name: str
    current: Optional[int]
    lowest: Optional[int]
    highest: Optional[int]
    governor: str
    governors: tuple[str, ...]
    set_by: str


@dataclass(frozen=True)
class DeviceNode:
    """A node under /dev with its group; ``usable``: this user may read and write it."""

    path: str
    group: str
    exists: bool
    usable: bool


@dataclass(frozen=True)
class Sram:
    """Bytes of the SRAM that the kernel gives to the NPU."""

    total: int
    used: int
    free: int


@dataclass
class Board:
    """Everything is read when it is asked for. ``root`` and ``may_use`` are replaced in tests."""

    root: Path = ROOT
    may_use: Callable[[Path], bool] = field(default=lambda path: os.access(path, os.R_OK | os.W_OK))

    # -- the machine --------------------------------------------------------------------------------------

    def compatible(self) -> str:
        """What the device tree says the machine is, in lower case; empty without one."""
        return (self._text("proc/device-tree/compatible").value or "").lower()

    def tree_is_covered(self) -> bool:
        """Whether the kernel has a device tree that cannot be seen here, as in containers."""
        tree = self.root / "proc/device-tree"
        return tree.is_symlink() and not self.compatible()

    def soc(self) -> socs.Soc | None:
        """The SoC by the device tree; None on anything that is no Rockchip board."""
        words = set(re.split(r"[,\0\s]+", self.compatible()))
        return next((soc for soc in socs.table().values() if words & set(soc.compatible)), None)

    def model(self) -> str:
        """The board's name in the device tree."""
        return (self._text("proc/device-tree/model").value or "").strip("\0 \n")

    def kernel(self) -> str:
        """The kernel's release."""
        return (self._text("proc/sys/kernel/osrelease").value or "").strip()

    def memory(self) -> dict[str, int]:
        """``MemTotal``, ``MemAvailable``, ``CmaTotal``, ``CmaFree`` in bytes, those that are known."""
        text = self._text("proc/meminfo").value or ""
        found = re.findall(r"^(MemTotal|MemAvailable|CmaTotal|CmaFree):\s+(\d+) kB", text, re.MULTILINE)
        return {name: int(number) * 1024 for name, number in found}

    # -- the NPU ------------------------------------------------------------------------------------------

    def driver(self) -> Reading[str]:
        """Version of the kernel driver, e.g. ``0.9.8``."""
        reading = self._first(_VERSION)
        found = re.search(r"(\d+\.\d+\.\d+)", reading.value or "")
        return (
            Reading(found.group(1), reading.file)
            if found
            else Reading(None, reading.file, reading.problem or "missing")
        )

    def load(self) -> Reading[list[int]]:
        """Load per core in percent."""
        reading = self._first(_LOAD)
        cores = [int(number) for number in _TABLE_NUMBER.findall(reading.value or "")]
        return (
            Reading(cores, reading.file)
            if cores
            else Reading(None, reading.file, reading.problem or "missing")
        )

    def sram(self) -> Reading[Sram]:
        """SRAM of the NPU, where the SoC has it and the kernel is set up for it."""
        reading = self._first(_SRAM)
        found = _SRAM_LINE.search(reading.value or "")
        if found is None:
            return Reading(None, reading.file, reading.problem or "missing")
        return Reading(Sram(*(int(number) for number in found.groups())), reading.file)

    def npu_clock(self) -> Clock | None:
        """The NPU's frequency; None without a driver that scales it."""
        return next((self._devfreq(folder) for folder in self._folders("sys/class/devfreq", "npu")), None)

    def memory_clock(self) -> Clock | None:
        """The frequency of the DDR memory."""
        return next((self._devfreq(folder) for folder in self._folders("sys/class/devfreq", "dmc")), None)

    def cpu_clocks(self) -> list[Clock]:
        """One per group of CPUs that is scaled together, the big ones last."""
        found = []
        for folder in sorted((self.root / "sys/devices/system/cpu/cpufreq").glob("policy*")):
            cpus = (self._under(folder, "related_cpus") or "").split()
            name = f"CPU {cpus[0]}-{cpus[-1]}" if len(cpus) > 1 else f"CPU {''.join(cpus) or folder.name[6:]}"
            found.append(
                Clock(
                    name,
                    self._number(folder, "scaling_cur_freq", 1000),
                    self._number(folder, "scaling_min_freq", 1000),
                    self._number(folder, "scaling_max_freq", 1000),
                    self._under(folder, "scaling_governor") or "",
                    tuple((self._under(folder, "scaling_available_governors") or "").split()),
                    self._shown(folder / "scaling_governor"),
                )
            )
        return found

    def temperatures(self) -> dict[str, float]:
        """Degrees Celsius per thermal zone."""
        found = {}
        for folder in sorted((self.root / "sys/class/thermal").glob("thermal_zone*")):
            value = self._number(folder, "temp", 1)
            if value is not None:
                found[self._under(folder, "type") or folder.name] = value / 1000
        return found

    def nodes(self) -> list[DeviceNode]:
        """Device nodes of the NPU, found by the name of the driver: their numbers differ from board to board."""
        names = []
        for kind, prefix in _CLASSES.items():
            for entry in sorted((self.root / "sys/class" / kind).glob("*")):
                names += [f"{prefix}/{entry.name}".lstrip("/")] if self._driver_of(entry) in _DRIVERS else []
        if not names and (self.root / "dev/rknpu").exists():
            names = ["rknpu"]
        return [self._node(name) for name in names]

    # -- files --------------------------------------------------------------------------------------------

    def _node(self, name: str) -> DeviceNode:
        place = self.root / "dev" / name
        try:
            gid = place.stat().st_gid
        except OSError:
            return DeviceNode(self._shown(place), "", False, False)
        return DeviceNode(self._shown(place), _group(gid), True, self.may_use(place))

    @staticmethod
    def _driver_of(entry: Path) -> str:
        try:
            return (entry / "device" / "driver").resolve(strict=True).name
        except (OSError, RuntimeError):
            return ""

    def _folders(self, place: str, word: str) -> list[Path]:
        try:
            return sorted(folder for folder in (self.root / place).iterdir() if word in folder.name)
        except OSError:
            return []

    def _devfreq(self, folder: Path) -> Clock:
        return Clock(
            folder.name,
            self._number(folder, "cur_freq", 1),
            self._number(folder, "min_freq", 1),
            self._number(folder, "max_freq", 1),
            self._under(folder, "governor") or "",
            tuple((self._under(folder, "available_governors") or "").split()),
            self._shown(folder / "governor"),
        )

    def _under(self, folder: Path, name: str) -> str | None:
        value = self._read(folder / name).value
        return None if value is None else value.strip()

    def _number(self, folder: Path, name: str, factor: int) -> int | None:
        text = self._under(folder, name) or ""
        return int(text) * factor if re.fullmatch(r"-?\d{1,15}", text) else None

    def _text(self, name: str) -> Reading[str]:
        return self._read(self.root / name)

    def _first(self, names: Sequence[str]) -> Reading[str]:
        """The first file that can be read; without one, the first that may not be."""
        readings = [self._text(name) for name in names]
        return next(
            (r for r in readings if r.value is not None),
            next(
                (r for r in readings if r.problem == "permission"), Reading(None, readings[0].file, "missing")
            ),
        )

    def _read(self, file: Path) -> Reading[str]:
        try:
            with file.open("rb") as opened:
                return Reading(opened.read(_LARGEST).decode("utf-8", "replace"), self._shown(file))
        except PermissionError:
            return Reading(None, self._shown(file), "permission")
        except OSError:
            return Reading(None, self._shown(file), "missing")

    def _shown(self, file: Path) -> str:
        return "/" + file.relative_to(self.root).as_posix()


def _group(gid: int) -> str:
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
