"""A board as programs see it that look for one before they start: its files, and what tells ``client/played`` where they are.

Programs read the SoC from the device tree, the machine from ``uname``, whether there is an NPU from its nodes, its driver's version
and its clock. Where this machine has such files itself (processors, graphics) they stay, and those of the board come beside them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from rknnlite_programs import buildcache

from rknnlite import socs
from rknnlite.errors import ParamInvalid
from rknnlite.files.reading import open_file
from rknnlite.files.writing import write_file
from rknnlite.native.board import ROOT, Board
from rknnlite.native.processors import machine
from rknnlite.socs import Soc

from . import build, recipe

__all__ = ["VARIABLE", "environment", "files", "playable", "told"]

VARIABLE = "RKNNLITE_PLAYED_BOARD"
"""MACHINE:FOLDER, for ``played_board.c`` alone."""
_MOST = 1 << 20  # bytes of what is said of processors
_DRIVER, _HERTZ = "0.9.8", 1_000_000_000
_NPU = {
    "rk3588": "fdab0000.npu",
    "rk3576": "27700000.npu",
    "rk3566": "fde40000.npu",
    "rk3568": "fde40000.npu",
    "rk3562": "ff300000.npu",
}
"""Where the NPU is, as far as it is known: the name of its clock in ``/sys/class/devfreq``."""
_NODES = ("card0", "card1", "renderD128", "renderD129")
"""Of graphics and NPU, as boards with the vendor's kernel have them."""


def playable(name: str) -> Soc:
    """The SoC to play; raises ParamInvalid where it is none of a board, or this machine is a board itself."""
    soc, board = socs.get(name), Board()
    if not soc.compatible:
        able = ", ".join(each.name for each in socs.table().values() if each.compatible)
        raise ParamInvalid(f"{soc.name} is a coprocessor: name the SoC of a board ({able})")
    own = board.soc()
    if own or "rockchip," in board.compatible() or board.nodes():
        raise ParamInvalid(
            f"this machine is a board itself ({own.name.upper() if own else board.model() or 'Rockchip'}): its device tree is "
            "never covered; leave --soc out"
        )
    return soc


def told(soc: Soc) -> str:
    """The one line that the log has of it."""
    return (
        f"this program and its children see an {soc.name.upper()} board: device tree, uname -m {soc.machine}, nodes and driver of "
        "the NPU are played; models run on the CPU reference"
    )


def environment(soc: Soc, found: build.Found, before: Mapping[str, str]) -> dict[str, str]:
    """Variables that make a program see the board. pip goes on to install what is for this machine."""
    library = str(build.beside(found, recipe.PLAYED_LIBRARY))
    folder = build.own_folder() / "boards" / soc.name
    _write(folder, soc)
    others = [name for name in before.get("LD_PRELOAD", "").replace(":", " ").split() if name != library]
    return {
        "LD_PRELOAD": ":".join([library, *others]),
        VARIABLE: f"{soc.machine}:{folder}",
        "RKNNLITE_SOC": soc.name,
        "_PYTHON_HOST_PLATFORM": before.get("_PYTHON_HOST_PLATFORM", f"linux-{machine()}"),
    }


def files(soc: Soc) -> Iterator[tuple[str, str]]:
    """Path and text of each file that is played."""
    tree = "sys/firmware/devicetree/base"
    yield f"{tree}/compatible", f"rknnlite,played-board\0rockchip,{soc.name}\0"
    yield f"{tree}/model", f"{soc.names[0]} board, played by rknnlite\0"
    yield "proc/cpuinfo", f"{_processors()}Hardware\t: Rockchip {soc.names[0]}\n"
    loads = [f"Core{core}:  0%," for core in range(soc.cores)] if soc.cores > 1 else ["0%"]
    yield "sys/kernel/debug/rknpu/load", f"NPU load:  {' '.join(loads)}\n"
    yield "sys/kernel/debug/rknpu/version", f"RKNPU driver: v{_DRIVER}\n"
    clock = {"load": f"0@{_HERTZ}Hz", "governor": "rknpu_ondemand", "available_governors": "rknpu_ondemand userspace performance",
             "available_frequencies": f"{_HERTZ}", **dict.fromkeys(("cur_freq", "min_freq", "max_freq"), f"{_HERTZ}")}  # fmt: skip
    for name, text in clock.items() if soc.name in _NPU else ():
        yield f"sys/class/devfreq/{_NPU[soc.name]}/{name}", f"{text}\n"


def _processors() -> str:
    """What this machine says of its processors: programs take instructions from there."""
    try:
        with open_file(ROOT / "proc/cpuinfo") as file:
            return file.read(_MOST).decode("utf-8", "replace").rstrip("\n") + "\n\n"
    except OSError:
        return ""


def _write(folder: Path, soc: Soc) -> None:
    """The files, and links to the nodes that there are; each is there whole while other programs read it."""
    for name, text in files(soc):
        place = folder / name
        buildcache.make_private(place.parent)
        write_file(place, text.encode(), 0o444)
    own = ROOT / "dev/dri"
    nodes = sorted(os.listdir(own)) if own.is_dir() else []  # noqa: PTH208
    buildcache.make_private(folder / "sys/class/devfreq")  # also where no clock is known
    _link(folder / "proc/device-tree", "../sys/firmware/devicetree/base")
    for name in {*nodes, *_NODES}:
        _link(folder / "dev/dri" / name, f"/dev/dri/{name}" if name in nodes else "/dev/null")


def _link(place: Path, target: str) -> None:
    """A symbolic link, which replaces another one at once."""
    buildcache.make_private(place.parent)
    new = place.with_name(f".{os.urandom(8).hex()}.part")
    new.symlink_to(target)
    new.replace(place)
