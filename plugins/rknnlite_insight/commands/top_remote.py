"""``rknnlite top --device``: boards from afar, side by side."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Optional

from rknnlite.errors import DeviceUnavailable
from rknnlite.spi import Backend
from rknnlite.spi.command import Column, Line, Part, Table, Tone

from ..remote_board import devices_of, far_board
from .board_sample import Sample, line, memory_text, read

__all__ = ["Boards"]

_BAR = 10


@dataclass(frozen=True)
class _Seen:
    """A board at one moment, or why nothing was seen."""

    device: str
    sample: Optional[Sample] = None
    problem: str = ""


class Boards:
    """The boards that a device stands for; raises as ``devices_of`` does."""

    def __init__(self, device: str) -> None:
        self._boards = devices_of(device)
        self._seen_any = False

    def look(self, live: bool, interval: float) -> tuple[Any, list[Part], str]:
        """All at once: data, what to show, and nothing to remark; raises DeviceUnavailable where none has ever answered."""
        if len(self._boards) == 1:
            seen = [_seen(*self._boards[0])]
        else:
            # one that is off takes its time to say nothing
            with ThreadPoolExecutor(len(self._boards)) as pool:
                seen = list(pool.map(lambda board: _seen(*board), self._boards))
        self._seen_any = self._seen_any or any(one.sample for one in seen)
        if not self._seen_any:
            raise DeviceUnavailable("; ".join(one.problem for one in seen))
        data = [
            {"device": one.device, "problem": one.problem, **vars(one.sample or _NOTHING)} for one in seen
        ]
        return data, _screen(seen, interval) if live else [_line(one) for one in seen], ""


_NOTHING = Sample(None, None, "", {}, {}, None, None)


def _seen(device: str, backend: Backend) -> _Seen:
    try:
        board = far_board(device, backend)
    except DeviceUnavailable as error:
        return _Seen(device, None, str(error))
    load = board.load()
    note = (
        f"{load.file} may be read by root only there"
        if load.problem == "permission"
        else "no load is told there"
    )
    return _Seen(device, read(board, "" if load.value is not None else note))


def _line(one: _Seen) -> str:
    if one.sample is None:
        return f"{one.device}  {one.problem}"
    return "  ".join(filter(None, (one.device, line(one.sample), one.sample.note)))


def _screen(seen: list[_Seen], interval: float) -> list[Part]:
    """A column per board, a row per thing."""
    columns = [_column(one.sample or _NOTHING) for one in seen]
    rows = list(dict.fromkeys(name for column in columns for name in column))
    table = [[name, *(column.get(name, "-") for column in columns)] for name in rows]
    heads = [Column(one.device, least=12, drop=number) for number, one in enumerate(seen)]
    parts: list[Part] = [Line(f"rknnlite top, every {interval:g} s, Ctrl-C ends", Tone.HEAD), ""]
    parts.append(Table([Column("", least=6), *heads], table))
    return [*parts, *(Line(one.problem, Tone.BAD, 2) for one in seen if one.problem)]


def _column(found: Sample) -> dict[str, str]:
    cells = {f"NPU core {core}": _bar(load) for core, load in enumerate(found.load or [])}
    if found.note:
        cells["NPU"] = found.note
    if found.npu_hz is not None:
        cells["frequency"] = f"{found.npu_hz / 1e6:.0f} MHz ({found.governor or 'unknown governor'})"
    total = found.memory.get("MemTotal", 0)
    if total:
        cells["memory"] = (
            f"{_bar(100 * (total - found.memory.get('MemAvailable', 0)) // total)} {_amount(found)}"
        )
    if found.sram_total:
        cells["SRAM"] = _bar(100 * (found.sram_used or 0) // found.sram_total)
    return {**cells, **{name: f"{value:.1f} C" for name, value in found.temperatures.items()}}


def _amount(found: Sample) -> str:
    return memory_text(found).partition(" ")[2]


def _bar(share: int) -> str:
    return f"[{'#' * (_BAR * min(100, share) // 100):<{_BAR}}] {share:3d}%"
