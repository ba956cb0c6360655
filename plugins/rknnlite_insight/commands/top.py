"""``rknnlite top``: load, frequency and temperature of the NPU and memory, live, from the kernel's files; or what a server does."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Union

from rknnlite.commandline.devices import DEVICE
from rknnlite.commandline.options import between
from rknnlite.errors import DeviceUnavailable, ParamInvalid
from rknnlite.native.board import ROOT, Board, Reading
from rknnlite.spi.command import Command, Console, Exit, Part

from .board_sample import Sample, line, read
from .server_figures import address_of, key_of
from .top_remote import Boards
from .top_server import ServerLooks

__all__ = ["COMMAND", "sample"]

_NO_DRIVER = (
    "this machine has no RKNPU driver: nothing to watch. On a board, look at dmesg | grep -i rknpu; 'rknnlite doctor' "
    "says more"
)
_DAY = 86400  # seconds
_CLEAR = "\033[H\033[J"


def sample(board: Board) -> Sample:
    """Read everything once.

    Raises:
        DeviceUnavailable: there is no driver, or nothing of it may be read.
    """
    load = board.load()
    forbidden = _forbidden(load) if load.problem == "permission" else ""
    if load.value is None and board.npu_clock() is None:
        raise DeviceUnavailable(forbidden or _NO_DRIVER)
    return read(board, "" if load.value is not None else forbidden or "this driver tells no load")


def _forbidden(reading: Reading[list[int]]) -> str:
    return f"{reading.file} may be read by root only: run sudo rknnlite top"


class Top(Command):
    """See the module."""

    name = "top"
    help = "live load and temperature of the NPU, or figures of a server"
    examples = (
        "rknnlite top",
        "rknnlite top --count 10 --interval 0.5 --json",
        "rknnlite top --device board1:8001,board2:8001",
        "rknnlite top http://board1:8000 --key-file key.txt",
        "rknnlite top localhost:8080 --once --json",
    )
    common = ("--interval", "--count", "--once", "--device")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "url",
            nargs="?",
            metavar="URL",
            help="a server that keeps figures (rknnlite serve --metrics): HOST:PORT",
        )
        parser.add_argument(
            "--interval",
            type=between(float, 0, _DAY),
            default=1.0,
            metavar="S",
            help="seconds between two looks",
        )
        parser.add_argument(
            "--count",
            type=between(int, 0, 10**9),
            default=0,
            metavar="N",
            help="looks to take; 0: until Ctrl-C",
        )
        parser.add_argument(
            "--once", dest="count", action="store_const", const=1, help="the same as --count 1"
        )
        parser.add_argument("--key-file", metavar="FILE", help="holds a key of the server")
        parser.add_argument("--device", metavar="NAME", help=f"look at other machines instead: {DEVICE}")
        parser.add_argument("--root", type=Path, default=ROOT, metavar="FOLDER", help=argparse.SUPPRESS)

    def run(self, args: argparse.Namespace, console: Console) -> int:
        if args.url and args.device:
            raise ParamInvalid("URL is of a server, --device of boards; give one of them")
        boards: Union[Boards, ServerLooks, None] = Boards(args.device) if args.device else None
        if args.url:
            key = key_of(args.key_file) if args.key_file else ""
            boards = ServerLooks(address_of(args.url), key)
        board, live = Board(args.root), console.live(console.out) and not console.json
        looks = 0
        try:
            while True:
                data, parts, note = (
                    boards.look(live, args.interval) if boards else _look(board, live, console, args)
                )
                if live:
                    console.out.write(_CLEAR)
                console.report(data, *parts)
                if note and not looks and not live:
                    console.note(note)
                looks += 1
                if looks == args.count:
                    return Exit.OK
                time.sleep(max(0.05, args.interval))
        except KeyboardInterrupt:  # the usual way out
            return Exit.OK


def _look(
    board: Board, live: bool, console: Console, args: argparse.Namespace
) -> tuple[Sample, list[Part], str]:
    found = sample(board)
    return found, [_screen(found, console.width, args.interval) if live else line(found)], found.note


def _screen(found: Sample, width: int, interval: float) -> str:
    bars = [(f"NPU core {core}", load, "") for core, load in enumerate(found.load or [])]
    total, available = found.memory.get("MemTotal", 0), found.memory.get("MemAvailable", 0)
    if total:
        share = 100 * (total - available) // total
        bars.append(("memory", share, f"{(total - available) / 2**20:.0f}/{total / 2**20:.0f} MiB"))
    if found.sram_total:
        used = found.sram_used or 0
        share = 100 * used // found.sram_total
        bars.append(("SRAM", share, f"{used // 1024}/{found.sram_total // 1024} KiB"))
    facts = [(name, f"{value:.1f} C") for name, value in found.temperatures.items()]
    if found.npu_hz is not None:
        governor = found.governor or "unknown governor"
        facts.insert(0, ("frequency", f"{found.npu_hz / 1e6:.0f} MHz ({governor})"))
    label = max((len(name) + 1 for name, *_ in bars), default=0)
    tail = max((len(text) + 1 for _, _, text in bars if text), default=0)
    room = max(5, min(60, width - label - tail - 8))
    lines = [f"rknnlite top, every {interval:g} s, Ctrl-C ends", ""]
    lines += [
        f"{name:<{label}}[{'#' * (room * min(100, share) // 100):<{room}}] {share:3d}% {text}".rstrip()
        for name, share, text in bars
    ]
    lines += [found.note] if found.note else []
    wide = max((len(name) + 2 for name, _ in facts), default=0)
    return "\n".join([*lines, *(f"{name:<{wide}}{text}" for name, text in facts)])


COMMAND = Top()
