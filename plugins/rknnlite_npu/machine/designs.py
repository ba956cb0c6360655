"""What each NPU family has in another place, or of another size, than RK3588: one row per fact.

Rows of RK3566 and RK3568 were found by comparing the words of the same networks for both designs, and hold as far as files give
the simulator's numbers; nobody has measured their arithmetic on a chip.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rknnlite_graph.reading.npu_families import family_of

from ..command_words import CNA, CORE, DPU, DPU_RDMA, PPU, PPU_RDMA
from . import cna, core, dpu, elementwise, ppu, rdma, scaling, writer
from . import numbers as n
from .designs_rv110x import RV1106, RV1106B
from .designs_v2 import RK3562, RK3576
from .registers import STARTED, Design

__all__ = ["DESIGNS"]

_SEQUENCE = 0x0401
"""A unit between CNA and CORE, which RK3588 counts among the CORE."""
_ALL = 0xFFFFFFFF

_RK356X = Design(
    atom=8,
    group=family_of("RKNPU lite").bias_group,
    rows=16,
    lanes=32,
    depthwise=32,
    precisions=(n.INT8, n.INT16, n.FP16, n.INT32, n.FP32),
    algorithms=(0, 1, 2),  # largest, least, sum; 3 is seen, and is not RK3588's quotient
    counts_last=0,
    operand_bytes={0: 1, 1: 2},
    streams=8,
    bits={**STARTED, CORE: 0x06},
    parts={_SEQUENCE: CORE},
    line_strides=True,
    flow_by_rdma=True,
    places={
        cna.NONALIGN: 0,
        cna.GROUP_LINE_OFF: 0,
        cna.PROC_PRECISION: cna.PROC_PRECISION.at(0x100C, 10, 8),
        cna.IN_PRECISION: cna.IN_PRECISION.at(0x100C, 6, 4),
        cna.CONVERT_BYPASS: cna.CONVERT_BYPASS.at(0x104C, 0, 0, inverted=True),
        cna.CONVERTED: 0,
        cna.PAD_VALUE: cna.PAD_VALUE.at(0x1068, 31, 16),
        core.PROC_PRECISION: core.PROC_PRECISION.at(0x200C, 14, 12),
        core.DEPTHWISE: core.DEPTHWISE.at(0x200C, 1, 1),
        core.OUT_HEIGHT: core.OUT_HEIGHT.at(0x3010, 31, 16),
        core.OUT_WIDTH: core.OUT_WIDTH.at(0x3010, 15, 0),
        core.OUT_CHANNEL: core.OUT_CHANNEL.at(0x3014, 15, 0),
        core.TRUNCATE: core.TRUNCATE.at(0x302C, 4, 0),
        core.TRUNCATE_ROUND: 0,
        dpu.OUTPUT_MODE: dpu.OUTPUT_MODE.at(0x400C, 3, 2),
        dpu.MODE: dpu.MODE.at(0x400C, 5, 4),
        writer.SURFACE_STRIDE: writer.SURFACE_STRIDE.at(0x4024, 31, 3),
        writer.SURFACE_ADD: writer.SURFACE_ADD.at(0x40C0, 31, 3),
        writer.SURFACE_LENGTH: writer.SURFACE_LENGTH.at(0x400C, 24, 11),
        writer.REGROUPED: 0,
        writer.WRITTEN_CHANNEL: writer.WRITTEN_CHANNEL.at(0x403C, 12, 0),
        writer.WRITTEN_WIDTH: writer.WRITTEN_WIDTH.at(0x4030, 12, 0),
        writer.WRITTEN_HEIGHT: writer.WRITTEN_HEIGHT.at(0x4034, 12, 0),
        writer.GROUPS: 0,
        writer.OF_16_BITS: 0,
        scaling.BS.algorithm: scaling.BS.algorithm.at(0x4040, 3, 2),
        scaling.BN.algorithm: scaling.BN.algorithm.at(0x4060, 3, 2),
        elementwise.ALGORITHM: elementwise.ALGORITHM.at(0x4070, 4, 3),
        rdma.EW_SURFACE_STRIDE: rdma.EW_SURFACE_STRIDE.at(0x5040, 31, 3),
        rdma.SURFACE_NOTCH: rdma.SURFACE_NOTCH.at(0x504C, 31, 3),
        rdma.SOURCE_DISABLE: rdma.SOURCE_DISABLE.at(0x5044, 0, 0, inverted=True),
        ppu.OUT_SURFACE: ppu.OUT_SURFACE.at(0x607C, 31, 3),
        ppu.PAD_VALUE: ppu.PAD_VALUE.at(0x6044, 18, 0, signed=True),
        ppu.PAD_SIGN: 0,
        ppu.SOURCE_LINE: ppu.SOURCE_LINE.at(0x7024, 31, 3),
        ppu.SOURCE_SURFACE: ppu.SOURCE_SURFACE.at(0x7028, 31, 3),
        ppu.SOURCE_SIZE: ppu.SOURCE_SIZE.at(0x7030, 0, 0, inverted=True),  # of int8; others were never seen
    },
    idle={
        CNA: {
            **cna.WITHOUT_EFFECT,
            0x1010: 0x00000FF0,  # FEATURE_GRAINS
            0x1018: _ALL,  # rows x columns x 9 of pictures
            **dict.fromkeys(
                range(0x1114, 0x1130, 4), _ALL
            ),  # where streams 1 to 7 of compressed weights begin
            0x1044: 0x00FF0FFF,  # entries of the buffer
            0x1078: _ALL,  # lengths of bursts
        },
        CORE: {
            0x2004: _ALL,  # S_POINTER
            0x200C: 0x00000001,  # QD_EN
            0x3004: _ALL,  # S_POINTER
            0x300C: 0x00002002,  # precision and depthwise once more
        },
        DPU: {0x4004: _ALL, 0x400C: 0x00000100},  # S_POINTER; length of bursts
        DPU_RDMA: {
            0x5004: _ALL,  # S_POINTER
            0x501C: 0x00000001,  # nothing is fetched for BS, as its uses say, too
            0x5024: _ALL,  # channels of the numbers for BS
            0x5028: 0x00000001,  # nothing is fetched for BN
            0x5030: _ALL,  # channels of the numbers for BN
            0x503C: _ALL,  # a length beside the stride of the operand's surfaces
            0x5044: 0x00004000,  # length of bursts
            0x5068: _ALL,  # how the fetchers share the bus
        },
        PPU: {
            **ppu.WITHOUT_EFFECT,
            0x6048: _ALL,  # the pad value for 2, 3, 4 positions outside, which lies in one register per number
            0x604C: _ALL,
            0x6050: _ALL,
            0x6084: 0xFFFFFFF8,
        },
        PPU_RDMA: {0x7004: _ALL, 0x7018: 0x00000001},
    },
)

DESIGNS: Mapping[str, Design] = {
    "RKNPU v2": Design(group=family_of("RKNPU v2").bias_group),  # rk3588
    "RKNPU lite": _RK356X,  # rk3566, rk3568
    "RKNPU t3": RV1106,  # rv1103, rv1106
    "RKNPU w1": RV1106B,  # rv1103b, rv1106b
    "RKNPU t4": RK3562,
    "RKNPU f2": RK3576,
    "RKNPU f3": replace(RK3576, precisions=(n.INT8,)),  # rv1126b; half floats came out wrong
}
"""Designs by the container's family word."""
