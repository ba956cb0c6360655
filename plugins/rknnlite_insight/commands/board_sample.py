"""What ``top`` reads of a machine at one moment, and that as one line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from rknnlite.native.board import Board

__all__ = ["Sample", "line", "memory_text", "read"]


@dataclass(frozen=True)
class Sample:
    """What was read at one moment; None and empty where the kernel does not say. Hertz, bytes, degrees Celsius."""

    load: Optional[list[int]]
    npu_hz: Optional[int]
    governor: str
    temperatures: dict[str, float]
    memory: dict[str, int]
    sram_used: Optional[int]
    sram_total: Optional[int]
    note: str = ""


def read(board: Board, note: str = "") -> Sample:
    """Read everything once, also where there is no driver."""
    load, clock, sram = board.load(), board.npu_clock(), board.sram()
    return Sample(
        load.value,
        clock.current if clock else None,
        clock.governor if clock else "",
        board.temperatures(),
        board.memory(),
        sram.value.used if sram.value else None,
        sram.value.total if sram.value else None,
        note,
    )


def line(found: Sample) -> str:
    """One look as one line."""
    parts = [f"core{i} {load}%" for i, load in enumerate(found.load or [])]
    parts += [f"{found.npu_hz / 1e6:.0f} MHz"] if found.npu_hz is not None else []
    parts += [f"{name} {value:.1f} C" for name, value in found.temperatures.items() if "npu" in name]
    parts += [memory_text(found)] if found.memory else []
    return "  ".join(parts)


def memory_text(found: Sample) -> str:
    """Memory in use, of how much."""
    total, available = found.memory.get("MemTotal", 0), found.memory.get("MemAvailable", 0)
    return f"memory {(total - available) / 2**20:.0f}/{total / 2**20:.0f} MiB"
