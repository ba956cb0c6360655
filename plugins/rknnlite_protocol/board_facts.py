"""What a board from afar tells of itself: its machine, its backends, its models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Optional

from rknnlite.native.board import Clock, DeviceNode, Reading, Sram
from rknnlite.spi.types import Device, Probe

__all__ = ["BackendFacts", "Facts"]


@dataclass(frozen=True)
class BackendFacts:
    """A backend of the board: what it says of itself, and the coprocessors that it can name."""

    name: str
    probe: Probe
    devices: tuple[Device, ...] = ()


@dataclass(frozen=True)
class Facts:
    """A board: what its kernel tells (see ``rknnlite.native.board.Board``), what is installed, what is loaded.

    ``soc`` is empty on anything that is no Rockchip board; ``temperatures`` are degrees Celsius, ``memory`` is in bytes.

    Examples:
        >>> Facts(rknnlite="1.0.0", models=("resnet",)).soc
        ''
    """

    rknnlite: str
    soc: str = ""
    model: str = ""
    kernel: str = ""
    driver: Reading[str] = field(default_factory=Reading)
    load: Reading[list[int]] = field(default_factory=Reading)
    sram: Reading[Sram] = field(default_factory=Reading)
    npu_clock: Optional[Clock] = None
    memory_clock: Optional[Clock] = None
    cpu_clocks: tuple[Clock, ...] = ()
    temperatures: Mapping[str, float] = field(default_factory=dict)
    memory: Mapping[str, int] = field(default_factory=dict)
    nodes: tuple[DeviceNode, ...] = ()
    backends: tuple[BackendFacts, ...] = ()
    models: tuple[str, ...] = ()
    uploads: bool = False
