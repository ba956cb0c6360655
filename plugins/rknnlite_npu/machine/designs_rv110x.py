"""RV1103 and RV1106, whose registers are near RK3588's; RV1103B and RV1106B, with fewer units and all registers elsewhere.

Found by comparing words of the same networks for RK3588; results of RV1103 and RV1106 are byte for byte those of the formulas that
people proved on an RV1103.
"""

from __future__ import annotations

from collections.abc import Mapping

from rknnlite_graph.reading.npu_families import family_of

from ..command_words import CNA, CORE, DPU, DPU_RDMA, PPU, PPU_RDMA
from . import cna, core, dpu, elementwise, lut, ppu, rdma, scaling, writer
from . import numbers as n
from .registers import Design, Field, Mode

__all__ = ["RV1106", "RV1106B"]

_SEQUENCE = 0x0401
"""A unit between CNA and CORE."""
_ALL = 0xFFFFFFFF


def _limits(fields: tuple[Field, ...], first: int, second: int) -> Mapping[Field, Field]:
    """Where the two of a limit lie."""
    return {field: field.at(place) for field, place in zip(fields, (first, second))}


RV1106 = Design(
    group=family_of("RKNPU t3").bias_group,
    rows=16,
    lanes=32,
    depthwise=32,
    precisions=(n.INT8, n.INT32),
    counts_last=0,
    operand_bytes={1: 1},
    parts={_SEQUENCE: CORE},
    whole_surfaces=True,
    limits=True,
    offset_first=True,
    adds_first=True,
    offset_in_products=True,
    modes={0: Mode.DENSE, 3: Mode.DEPTHWISE, 7: Mode.DEPTHWISE},
    run=1,
    apart=True,
    regroups=True,
    as_stored=True,
    pictures_in_line=True,
    counts_spread=False,
    places={
        cna.WEIGHT_ZERO: cna.WEIGHT_ZERO.at(0x1074, 7, 0),
        cna.NONALIGN: 0,
        cna.CONVERT_SCALE[0]: cna.CONVERT_SCALE[0].at(0x1050, 15, 0),
        cna.CONVERT_SCALE[1]: cna.CONVERT_SCALE[1].at(0x1050, 31, 16),
        cna.CONVERT_SCALE[2]: cna.CONVERT_SCALE[2].at(0x1054, 15, 0),
        cna.CONVERT_SCALE[3]: cna.CONVERT_SCALE[3].at(0x1054, 31, 16),
        **{
            field: field.at(register, signed=True)
            for field, register in zip(cna.CONVERT_OFFSET, (0x1058, 0x105C, 0x101C, 0x106C))
        },
        cna.CONVERTED: 0,
        cna.PAD[0]: cna.PAD[0].at(0x1068, 7, 0),
        cna.PAD[1]: cna.PAD[1].at(0x1068, 15, 8),
        dpu.ZERO_BYPASS: dpu.ZERO_BYPASS.at(0x4040, 1, 1),
        dpu.ZERO_PER_CHANNEL: dpu.ZERO_PER_CHANNEL.at(0x4048, 0, 0),
        dpu.ZERO: dpu.ZERO.at(0x4054, 16, 0, signed=True),
        scaling.BS.algorithm: 2,
        scaling.BS.alu_off: 0,
        scaling.BS.alu_fetched: scaling.BS.alu_fetched.at(0x4040, 7, 7),
        scaling.BS.alu: scaling.BS.alu.at(0x4018),
        scaling.BS.multiplier_off: scaling.BS.multiplier_off.at(0x4050, 1, 1),
        scaling.BS.multiplier_fetched: scaling.BS.multiplier_fetched.at(0x4050, 0, 0),
        scaling.BS.shift: scaling.BS.shift.at(0x4040, 14, 9),
        scaling.BS.shift_negative: scaling.BS.shift_negative.at(0x4054, 29, 24),
        **_limits(scaling.BS.low, 0x404C, 0x40D8),
        **_limits(scaling.BS.high, 0x401C, 0x40DC),
        **_limits(scaling.BN.low, 0x406C, 0x40E0),
        **_limits(scaling.BN.high, 0x4028, 0x40E4),
        **_limits(elementwise.LOW, 0x407C, 0x40E8),
        **_limits(elementwise.HIGH, 0x402C, 0x40EC),
        scaling.BS.relu_off: 1,
        scaling.BS.limited: 0,
        scaling.BS.limit: 0,
        scaling.BN.relu_off: 1,
        scaling.BN.limited: 0,
        scaling.BN.limit: 0,
        **{
            field: field.at(0x4070, field.high, field.low)
            for field in (
                elementwise.ALU_FETCHED,
                elementwise.MUL_FETCHED,
                elementwise.ALU_OFF,
                elementwise.MUL_OFF,
                elementwise.DIVIDE_OFF,
            )
        },
        **dict.fromkeys(
            (
                elementwise.MODE,
                elementwise.SIZE,
                elementwise.EQUAL,
                elementwise.BINARY,
                elementwise.LIMITED,
                elementwise.FETCHED,
                elementwise.PRELU,
                elementwise.MULTIPLIES,
                elementwise.OPERATION_BYPASS,
                elementwise.LIMIT,
            ),
            0,
        ),
        elementwise.RELU_BYPASS: 1,
        elementwise.SHIFT_NEGATIVE: 0,
        writer.WRITTEN_CHANNEL: writer.WRITTEN_CHANNEL.at(0x403C, 12, 0),
        writer.GROUPS: 0,
        writer.REGROUP_COUNT: 0,
        writer.TRANSPOSED: writer.TRANSPOSED.at(0x4050, 27, 27),
        writer.TRANSPOSED_ORIGIN: writer.TRANSPOSED_ORIGIN.at(0x4050, 21, 21),
        ppu.PAD_VALUE: ppu.PAD_VALUE.at(0x6044, 18, 0, signed=True),
        ppu.PAD_SIGN: 0,
        ppu.SOURCE_SIZE: ppu.SOURCE_SIZE.at(0x7030, 7, 6),
    },
    idle={
        CNA: {
            **cna.WITHOUT_EFFECT,
            0x1010: 0x000003FF,  # how much is fetched at a time
            0x103C: _ALL,  # entries of the buffer
            0x1044: _ALL,
            0x1048: 0xFC000000,
            0x1078: _ALL,  # lengths of bursts
            0x108C: _ALL,  # lanes that are converted
            0x1188: _ALL,  # bytes of the weights of two kernels
            0x118C: _ALL,  # width of the features, twice
        },
        CORE: {
            0x3004: _ALL,  # S_POINTER
            0x3010: 0x00000009,  # QD_EN: sums of windows; 8 with depthwise
            0x301C: 0x00000020,  # set for pictures
            0x8028: 0x0000000C,  # always
            0x802C: _ALL,
        },
        DPU: {
            0x4004: _ALL,  # S_POINTER
            0x400C: 0x000001E0,  # length of bursts
            0x4010: 0x03C00000,  # bytes of an element, as a power of two
            0x4050: 0xF0000000,  # bytes of an element that is written
            0x4040: 0x00100040,  # that there are limits
            0x4060: 0x00000040,
            0x4070: 0x00000004,  # comes with products
            0x4058: 0x07FF0007,  # surfaces, and groups of four channels in each
        },
        DPU_RDMA: {
            0x5004: _ALL,  # S_POINTER
            0x5034: 0x00000002,
            0x5040: _ALL,  # stride of the operand's surfaces
            0x5044: 0x00F87800,  # length of bursts
            0x5068: _ALL,
        },
        PPU: {
            **ppu.WITHOUT_EFFECT,
            0x6048: _ALL,  # the pad value for 2, 3, 4 positions outside
            0x604C: _ALL,
            0x6050: _ALL,
            0x6084: 0xFFFFFFF8,
        },
        PPU_RDMA: {0x7004: _ALL},
    },
)

RV1106B = Design(
    atom=8,
    group=family_of("RKNPU w1").bias_group,
    rows=8,
    lanes=16,
    depthwise=8,
    precisions=(n.INT8,),  # words of 16 bits are moved alone
    counts_last=0,
    operand_bytes={1: 1, 2: 2, 3: 4},
    bits={CNA: 0x01, DPU: 0x08, DPU_RDMA: 0x10},
    whole_surfaces=True,
    limits=True,
    offset_in_products=True,
    modes={0: Mode.DENSE, 1: Mode.DEPTHWISE},
    run=8,
    as_stored=True,
    core=False,
    joined=True,
    rows_stay=True,
    counts_spread=False,
    places={
        cna.NONALIGN: 0,
        cna.GROUP_LINE_OFF: 1,
        cna.DECONV: 0,
        cna.PIXELS: cna.PIXELS.at(0x1014, 26, 26),
        cna.PROC_PRECISION: 0,
        cna.IN_PRECISION: 0,
        cna.MODE: cna.MODE.at(0x1014, 24, 24),
        cna.DILATION[0]: cna.DILATION[0].at(0x100C, 31, 24),
        cna.DILATION[1]: cna.DILATION[1].at(0x100C, 23, 16),
        cna.GROWTH[0]: cna.GROWTH[0].at(0x100C, 15, 12),
        cna.GROWTH[1]: cna.GROWTH[1].at(0x100C, 11, 8),
        cna.STRIDE[0]: cna.STRIDE[0].at(0x100C, 7, 4),
        cna.STRIDE[1]: cna.STRIDE[1].at(0x100C, 3, 0),
        cna.WIDTH: cna.WIDTH.at(0x101C, 31, 16, more=1),
        cna.HEIGHT: cna.HEIGHT.at(0x101C, 15, 0, more=1),
        cna.CHANNEL_REAL: cna.CHANNEL_REAL.at(0x1020, 15, 0),
        cna.CHANNEL: cna.CHANNEL.at(0x1080, 15, 0, more=1),
        cna.OUT_WIDTH: cna.OUT_WIDTH.at(0x1024, 15, 0, more=1),
        cna.OUT_ATOMS: cna.OUT_ATOMS.at(0x1028, 21, 0, more=1),
        cna.WEIGHT_BYTES: cna.WEIGHT_BYTES.at(0x1010),
        cna.KERNEL_BYTES: cna.KERNEL_BYTES.at(0x1014, 19, 0),
        cna.KERNEL[0]: cna.KERNEL[0].at(0x1018, 20, 16, more=1),
        cna.KERNEL[1]: cna.KERNEL[1].at(0x1018, 28, 24, more=1),
        cna.KERNELS: cna.KERNELS.at(0x1018, 13, 0, more=1),
        **{
            old: new
            for lane in range(4)
            for old, new in (
                (cna.CONVERT_SHIFT[lane], cna.CONVERT_SHIFT[lane].at(0x1050 + 4 * lane, 31, 26)),
                (
                    cna.CONVERT_OFFSET[lane],
                    cna.CONVERT_OFFSET[lane].at(0x1050 + 4 * lane, 24, 0, signed=True),
                ),
                (
                    cna.CONVERT_SCALE[lane],
                    cna.CONVERT_SCALE[lane].at(
                        0x1060 + 4 * (lane // 2), 31 if lane % 2 else 15, 16 * (lane % 2)
                    ),
                ),
            )
        },
        cna.DATA_SIGN: 0,
        cna.CONVERT_ROUND: 0,
        cna.CONVERT_TYPE: 0,
        cna.CONVERT_BYPASS: cna.CONVERT_BYPASS.at(0x1100, 24, 24, inverted=True),
        cna.CONVERTED: cna.CONVERTED.at(0x1100, 31, 25),
        cna.PAD[0]: cna.PAD[0].at(0x1028, 28, 24),
        cna.PAD[1]: cna.PAD[1].at(0x1084, 15, 8),
        cna.FEATURES: cna.FEATURES.at(0x1034),
        cna.LINE_STRIDE: cna.LINE_STRIDE.at(0x1090),
        cna.SURFACE_STRIDE: cna.SURFACE_STRIDE.at(0x1094),
        cna.READ_WIDTH: cna.READ_WIDTH.at(0x107C, 31, 16, more=1),
        cna.READ_HEIGHT: cna.READ_HEIGHT.at(0x107C, 15, 0, more=1),
        cna.READ_CHANNEL: cna.READ_CHANNEL.at(0x1080, 15, 0, more=1),
        cna.WEIGHTS: cna.WEIGHTS.at(0x1038),
        cna.PAD_VALUE: cna.PAD_VALUE.at(0x1088),
        cna.WEIGHT_ZERO: cna.WEIGHT_ZERO.at(0x1078, 15, 0),
        core.PROC_PRECISION: 0,
        core.DEPTHWISE: core.DEPTHWISE.at(0x1014, 24, 24),
        core.OUT_CHANNEL: core.OUT_CHANNEL.at(0x1020, 31, 16),
        core.TRUNCATE: core.TRUNCATE.at(0x1048, 12, 8),
        core.TRUNCATE_ROUND: 0,
        dpu.OUTPUT_MODE: 2,
        dpu.MODE: 0,
        dpu.OUT_PRECISION: 0,
        dpu.IN_PRECISION: 0,
        dpu.PROC_PRECISION: 0,
        dpu.WIDTH: dpu.WIDTH.at(0x4018, 12, 0),
        dpu.HEIGHT: dpu.HEIGHT.at(0x4018, 28, 16),
        dpu.LARGEST: 0,
        dpu.CHANNEL: dpu.CHANNEL.at(0x401C, 12, 0),
        dpu.ZERO_BYPASS: 0,
        dpu.ZERO_PER_CHANNEL: 0,
        dpu.ZERO: 0,
        dpu.OUT_OFFSET: dpu.OUT_OFFSET.at(0x408C, signed=True),
        dpu.OUT_HALF: 0,
        dpu.OUT_SCALE: dpu.OUT_SCALE.at(0x4090, 15, 0, signed=True),
        dpu.OUT_TYPE: 0,
        dpu.OUT_ROUND: 0,
        dpu.OUT_EXPONENT: 0,
        dpu.OUT_SHIFT: dpu.OUT_SHIFT.at(0x4090, 21, 16),
        **dict.fromkeys(
            (
                writer.COMBINED,
                writer.TRANSPOSED,
                writer.NONALIGN,
                writer.SURFACE_LENGTH,
                writer.REGROUPED,
                writer.OUT_PRECISION,
                writer.MULTIPLE_SURFACES,
                writer.SECOND_NOTCH,
                writer.TRANSPOSED_ORIGIN,
                writer.REGROUP_COUNT,
                writer.GROUPS,
                writer.OF_16_BITS,
                *writer.SIZE_E,
            ),
            0,
        ),
        writer.FILL: writer.FILL.at(0x4078, 15, 0),
        writer.ADDRESS: writer.ADDRESS.at(0x4010),
        writer.SURFACE_STRIDE: writer.SURFACE_STRIDE.at(0x4014),
        writer.WIDTH: writer.WIDTH.at(0x4018, 12, 0),
        writer.HEIGHT: writer.HEIGHT.at(0x4018, 28, 16),
        writer.NOTCH: writer.NOTCH.at(0x4024),
        writer.ORIGINAL_CHANNEL: writer.ORIGINAL_CHANNEL.at(0x401C, 12, 0),
        writer.WRITTEN_CHANNEL: writer.WRITTEN_CHANNEL.at(0x401C, 28, 16),
        writer.WRITTEN_HEIGHT: writer.WRITTEN_HEIGHT.at(0x407C, 28, 16),
        writer.WRITTEN_WIDTH: writer.WRITTEN_WIDTH.at(0x407C, 12, 0),
        writer.SURFACE_ADD: 0,
        scaling.BS.algorithm: scaling.BS.algorithm.at(0x4030, 19, 16),
        scaling.BS.alu_fetched: scaling.BS.alu_fetched.at(0x4030, 6, 6),
        scaling.BS.limited: 0,
        scaling.BS.relu_off: 1,
        scaling.BS.prelu: 0,
        scaling.BS.multiplier_off: scaling.BS.multiplier_off.at(0x4030, 5, 5),
        scaling.BS.alu_off: scaling.BS.alu_off.at(0x4030, 4, 4),
        scaling.BS.off: scaling.BS.off.at(0x4030, 0, 0),
        scaling.BS.alu: scaling.BS.alu.at(0x4034),
        scaling.BS.multiplier: scaling.BS.multiplier.at(0x4038, 15, 0),
        scaling.BS.multiplier_fetched: scaling.BS.multiplier_fetched.at(0x4030, 7, 7),
        scaling.BS.limit: 0,
        scaling.BS.shift: scaling.BS.shift.at(0x4080, 5, 0),
        scaling.BS.shift_negative: scaling.BS.shift_negative.at(0x4080, 13, 8),
        **_limits(scaling.BS.low, 0x403C, 0x4044),
        **_limits(scaling.BS.high, 0x4040, 0x4048),
        rdma.WIDTH: rdma.WIDTH.at(0x500C, 12, 0),
        rdma.HEIGHT: rdma.HEIGHT.at(0x500C, 28, 16),
        lut.BYPASS: lut.BYPASS.at(0x404C, 11, 11),
        lut.LE_END: 0,
        lut.LO_START: 0,
        lut.LO_END: lut.LO_END.at(0x4140, signed=True),
        lut.LE_SLOPE: lut.LE_SLOPE.at(0x4154, 31, 16, signed=True),
        lut.LE_SLOPE_SHIFT: lut.LE_SLOPE_SHIFT.at(0x4160, 31, 24),
        lut.LO_SLOPE: lut.LO_SLOPE.at(0x4174, 31, 16, signed=True),
        lut.LO_SLOPE_SHIFT: lut.LO_SLOPE_SHIFT.at(0x4184, 31, 24),
        **dict.fromkeys((*lut.UNUSED, *lut.UNUSED_TOO), 0),
        rdma.EW_LINE_NOTCH: 0,
        rdma.EW_SURFACE_MODE: 0,
        rdma.EW_NONALIGN: 0,
        rdma.BS_USE: rdma.BS_USE.at(0x501C, 3, 0),
        rdma.BN_USE: 0,
        rdma.EW_SURFACE_STRIDE: rdma.EW_SURFACE_STRIDE.at(0x5040),
        rdma.IN_PRECISION: rdma.IN_PRECISION.at(0x5044, 16, 16),
        rdma.COMBINED: 0,
        rdma.PROC_PRECISION: 0,
        rdma.WIDENED: 0,
        rdma.MODE: 0,
        rdma.LINE_NOTCH: rdma.LINE_NOTCH.at(0x5078),
        rdma.UNPOOL: 0,
        rdma.SURFACE_NOTCH: rdma.SURFACE_NOTCH.at(0x504C, signed=True),
        rdma.EW_SURFACE_NOTCH: rdma.EW_SURFACE_NOTCH.at(0x506C, signed=True),
    },
    idle={
        CNA: {
            0x1004: _ALL,  # S_POINTER
            0x1014: 0x90900000,
            0x1020: 0xFFFF0000,  # channels of the output
            0x1024: 0xFFFF0000,  # bytes of a kernel
            0x1028: 0xC0400000,
            **dict.fromkeys((0x102C, 0x1030, 0x103C, 0x1040, 0x1044, 0x104C, 0x108C), _ALL),  # the buffer
            0x1048: 0x80000008,
            0x1074: _ALL,  # the pad value of pictures again
            0x1084: 0xFFFF0000,  # pads behind
        },
        CORE: dict.fromkeys(range(0x1000, 0x1200, 4), _ALL),  # the CNA's
        DPU: {
            0x4004: _ALL,  # S_POINTER
            0x402C: _ALL,  # bytes or atoms that are written, where they are moved
            0x4030: 0x40000002,
            0x404C: 0x00004008,
            0x4074: 0x003000FF,
            0x4078: 0xFFFF0000,  # OFFSET_PEND again
        },
        DPU_RDMA: {
            0x5004: _ALL,  # S_POINTER
            0x5010: _ALL,  # rows and columns of the operand
            0x5034: 0x30000002,
            0x5044: 0x00000008,
            0x5068: _ALL,
            0x5080: _ALL,
        },
    },
)
