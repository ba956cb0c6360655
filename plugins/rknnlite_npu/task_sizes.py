"""Where registers keep the sizes of a task: one row per NPU family.

Found by converting 22 convolutions, pools and sums of known sizes for every family and looking for the fields that follow
them; a test repeats it with the files of the corpus. A size that is stored less one is told by ``less``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Optional

from rknnlite_graph.reading.register_map import Field

from rknnlite.errors import ModelUnsupported

__all__ = ["SIZE_MAPS", "Pair", "Size", "SizeMap", "size_map"]


class Size(NamedTuple):
    """A size, and what it is stored less by."""

    field: Field
    less: int = 0

    def of(self, registers: Mapping[int, int]) -> int:
        """The size; 0 where its register is not set."""
        return self.field.of(registers) + self.less if self.field.register in registers else 0


Pair = tuple[Size, Size]
"""(height, width)."""
_POOL_FETCHED = (Size(Field(0x7010, 0, 13), 1), Size(Field(0x700C, 0, 13), 1))
_POOL_FETCHED_CHANNELS = Size(Field(0x7014, 0, 13), 1)
_POOL_WRITTEN = (Size(Field(0x601C, 0, 13), 1), Size(Field(0x6018, 0, 13), 1))
_POOL_WRITTEN_CHANNELS = Size(Field(0x6020, 0, 13), 1)
_OPERAND = (Size(Field(0x5010, 0, 13), 1), Size(Field(0x500C, 0, 13), 1))
_OPERAND_CHANNELS = Size(Field(0x5014, 0, 16), 1)
_WIDE = Field(0x100C, 4, 3)


@dataclass(frozen=True)
class SizeMap:
    """Pairs are (height, width).

    Attributes:
        features, weights: registers of the addresses that ``CNA`` reads from.
        fetched, fetched_channels: of the features that a task reads. ``stored_channels``: the same channels with their
            padding, where ``fetched_channels`` holds those of the last ``channel_bits`` alone.
        kernel, depthwise: of a convolution.
        written, written_channels: of what ``DPU`` computes. ``stored_outputs``: the channels that it writes, padding among
            them, where a register says so.
        operand, operand_channels: of what ``DPU_RDMA`` reads beside it.
        weights_kept: set where weights stay from the task before.
        together, wide: channels that a convolution computes together, and whether they are wider than 8 bits.
        pool_fetched, pool_fetched_channels, pool_written, pool_written_channels: the same of ``PPU_RDMA`` and ``PPU``.
    """

    features: int
    weights: int
    fetched: Pair
    fetched_channels: Size
    kernel: Pair
    depthwise: Field
    written: Pair
    written_channels: Size
    weights_kept: Field
    pool_fetched: Pair = _POOL_FETCHED
    pool_fetched_channels: Size = _POOL_FETCHED_CHANNELS
    pool_written: Pair = _POOL_WRITTEN
    pool_written_channels: Size = _POOL_WRITTEN_CHANNELS
    stored_channels: Optional[Size] = None
    channel_bits: int = 512
    stored_outputs: Optional[Size] = None
    together: Optional[Size] = None
    wide: Field = _WIDE
    operand: Pair = _OPERAND
    operand_channels: Size = _OPERAND_CHANNELS

    def channels_fetched(self, registers: Mapping[int, int], bits: int) -> int:
        """Channels of the features, padding not counted; ``bits`` are those of an element."""
        channels = self.fetched_channels.of(registers)
        if self.stored_channels is None:
            return channels
        stored = self.stored_channels.of(registers)
        return stored - (stored - channels) % max(1, self.channel_bits // bits)

    def group(self, registers: Mapping[int, int]) -> tuple[int, bool]:
        """(channels that are computed together, whether they are wider than 8 bits); (0, False) where nobody knows."""
        if self.together is None:
            return 0, False
        return self.together.of(registers), bool(self.wide.of(registers))


_V1 = SizeMap(
    features=0x1070,
    weights=0x1110,
    fetched=(Size(Field(0x1020, 0, 16)), Size(Field(0x1020, 16, 16))),
    fetched_channels=Size(Field(0x1024, 16, 16), 1),
    kernel=(Size(Field(0x1038, 16, 5)), Size(Field(0x1038, 24, 5))),
    depthwise=Field(0x100C, 0, 1),
    written=(Size(Field(0x4034, 0, 16), 1), Size(Field(0x4030, 0, 16), 1)),
    written_channels=Size(Field(0x403C, 16, 16), 1),
    weights_kept=Field(0x1040, 13, 1),
)
_RK3588 = replace(
    _V1,
    stored_channels=Size(Field(0x1024, 0, 16)),
    stored_outputs=Size(Field(0x403C, 0, 16), 1),
    together=Size(Field(0x3018, 0, 16), 1),
)
_V2A = replace(
    _V1,
    features=0x1088,
    fetched=(Size(Field(0x102C, 0, 16)), Size(Field(0x102C, 16, 16))),
    fetched_channels=Size(Field(0x1028, 0, 16)),
    kernel=(Size(Field(0x1024, 16, 5)), Size(Field(0x1024, 24, 5))),
    written=(Size(Field(0x4024, 0, 16), 1), Size(Field(0x4020, 0, 16), 1)),
    written_channels=Size(Field(0x4030, 16, 16), 1),
    weights_kept=Field(0x1038, 13, 1),
)
_V2B = replace(
    _V2A,
    fetched=(Size(Field(0x102C, 0, 16), 1), Size(Field(0x102C, 16, 16), 1)),
    fetched_channels=Size(Field(0x107C, 0, 16), 1),
    kernel=(Size(Field(0x1024, 16, 5), 1), Size(Field(0x1024, 24, 5), 1)),
    weights_kept=Field(0x1038, 31, 1),
)
_W1 = SizeMap(
    features=0x1034,
    weights=0x1038,
    fetched=(Size(Field(0x101C, 0, 16), 1), Size(Field(0x101C, 16, 16), 1)),
    fetched_channels=Size(Field(0x1020, 0, 16), 1),
    kernel=(Size(Field(0x1018, 16, 5), 1), Size(Field(0x1018, 24, 5), 1)),
    depthwise=Field(0x1014, 24, 1),
    written=(Size(Field(0x4018, 16, 16), 1), Size(Field(0x4018, 0, 16), 1)),
    written_channels=Size(Field(0x401C, 16, 16), 1),
    weights_kept=Field(0x1048, 31, 1),
    operand=(Size(Field(0x500C, 16, 16), 1), Size(Field(0x500C, 0, 16), 1)),
)
SIZE_MAPS = {
    "RKNPU v2": _RK3588,
    "RKNPU lite": _V1,
    "RKNPU t4": _V2A,
    "RKNPU f2": _V2B,
    "RKNPU f3": _V2B,
    "RKNPU t3": _V1,
    "RKNPU w1": _W1,
}
"""The rows by the container's family word."""


def size_map(family: str) -> SizeMap:
    """The row of a family; raises ModelUnsupported."""
    if family not in SIZE_MAPS:
        raise ModelUnsupported(f"{family}: nobody knows where the registers of this NPU family keep sizes")
    return SIZE_MAPS[family]
