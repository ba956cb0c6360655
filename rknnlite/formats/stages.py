"""Output stage of a node, decoded from its registers; one set of places per NPU family.

Register meanings are facts measured on converted models (docs/rknn-format.md, DPU parameters).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Optional

import numpy as np

from ..errors import ModelInvalid
from ..graph import Lut, Stage
from .registers import Program

__all__ = ["ConstBytes", "DataUse", "Family", "data_use", "deconv_geometry", "family_of", "read_stage"]

ConstBytes = Callable[[str], Optional[memoryview]]
"""Looks up the bytes of a constant tensor by name, None when there is none."""


class Family(Enum):
    """Where the registers keep their values: three generations of the same design."""

    V1 = "v1"  # rk3588, rk3566, rk3568
    V2A = "v2a"  # rk3562
    V2B = "v2b"  # rk3576, rv1126b


_FAMILIES = {
    "RKNPU v2": Family.V1,
    "RKNPU lite": Family.V1,
    "RKNPU t4": Family.V2A,
    "RKNPU f2": Family.V2B,
    "RKNPU f3": Family.V2B,
}


def family_of(word: str) -> Family:
    """The register family for the container's family word; raises ModelInvalid."""
    try:
        return _FAMILIES[word]
    except KeyError:
        raise ModelInvalid(f"unknown NPU family {word!r}; known: {', '.join(_FAMILIES)}") from None


@dataclass(frozen=True)
class DataUse:
    """Which per-channel operands the output stage reads, and the common ones used in their place."""

    bias: bool
    zero_point: bool
    multiplier: bool
    common_zero_point: int
    common_multiplier: float


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _f32(value: int) -> float:
    return float(np.uint32(value).view(np.float32))


def _f16(value: int) -> float:
    return float(np.uint16(value & 0xFFFF).view(np.float16))


def _small_tensor(consts: ConstBytes, output: str, kind: str) -> bytes:
    """The BS or BN parameter tensor that v2b keeps instead of registers; zeros when it is absent."""
    for name in (f"{output}_{kind}Cfg_{kind.upper()}cfgTensor", f"{output}_{kind.upper()}cfgTensor"):
        data = consts(name)
        if data is not None and len(data) >= 64:
            return bytes(data[:64])
    return bytes(64)


def data_use(family: Family, regs: Mapping[int, int], consts: ConstBytes, output: str) -> DataUse:
    """Which operands the bias blob of a node holds."""
    word = regs.get(0x501C, 0)
    bits = (word >> 8 if family is Family.V2B else word >> 1) & 7
    if family is Family.V2B:
        common = struct.unpack_from("<h", _small_tensor(consts, output, "Bs"))[0]
        multiplier = 1.0
    else:
        common = _signed(regs.get(0x4054, 0), 16)
        multiplier = 1.0
        if family is Family.V1 and not regs.get(0x4040, 0x10) & 0x10:
            multiplier = float(_signed(regs.get(0x4048, 0) >> 16, 16))
    return DataUse(bool(bits & 1), bool(bits & 2), bool(bits & 4), -common, multiplier)


def _bs_shift(family: Family, regs: Mapping[int, int], consts: ConstBytes, output: str) -> int:
    if family is Family.V1:
        return regs.get(0x4048, 0) >> 8 & 0x3F
    if family is Family.V2A:
        return regs.get(0x4038, 0) >> 8 & 0x3F
    return _small_tensor(consts, output, "Bs")[0] & 0x3F


def read_stage(
    family: Family, program: Program, node: int, op: str, output: str, consts: ConstBytes, floating: bool
) -> Stage:
    """Decode the output stage of one node.

    Args:
        floating: the node computes in fp16 (its first input is float16), where slopes and limits are floats.
    """
    regs = program.first(node)
    offset, scale, shift = (0x4080, 0x4084, 0x4088) if family is Family.V1 else (0x40AC, 0x40B0, 0x40B4)
    truncated = regs.get(0x3024, 0) & 0x1F if family is not Family.V1 else 0
    stage = Stage(
        scale=(regs.get(scale, 0) & 0xFFFF) * 2.0 ** -(regs.get(shift, 0) & 0xFFF),
        zero_point=_signed(regs.get(offset, 0), 32),
        pre_scale=2.0 ** -(_bs_shift(family, regs, consts, output) + truncated),
    )
    if "LeakyRelu" in op:
        _read_slope(stage, family, regs, op, output, consts, floating)
    elif op.endswith(("Clip", "ClipAdd")):
        stage.clip = _clip(family, regs)
    lut_register = 0x4070 if family is Family.V1 else 0x407C
    if lut_register in regs and not regs[lut_register] & 0x80:
        stage.lut, stage.float_line = _lut(family, regs, program, node, output, consts)
    return stage


def _read_slope(
    stage: Stage, family: Family, regs: Mapping[int, int], op: str, output: str, consts: ConstBytes, floating: bool
) -> None:
    if family is Family.V2B:
        small = _small_tensor(consts, output, "Bs" if floating else "Bn")
        raw, shift = struct.unpack_from("<H", small)[0], _small_tensor(consts, output, "Bn")[16]
    else:
        raw, shift = regs.get(0x4068, 0) >> 16, regs.get(0x4068, 0) >> 8 & 0x3F
    stage.slope = _f16(raw) if floating else _signed(raw, 16) / 16384
    if op == "ConvLeakyReluAdd" and not floating:
        stage.slope_scale = 2.0**-shift


def _clip(family: Family, regs: Mapping[int, int]) -> tuple[float, float]:
    if family is Family.V2B:
        return _f32(regs.get(0x4074, 0)), _f32(regs.get(0x4078, 0))
    if family is Family.V2A:
        a = _f32(regs.get(0x4040, 0))
        return _f32(regs.get(0x406C, 0)) - a, _f32(regs.get(0x4070, 0)) - a
    a = 0.0 if regs.get(0x4060, 0) & 2 else _f32(regs.get(0x4064, 0))
    return -a, _f32(regs.get(0x406C, 0)) - a


def _lut(
    family: Family, regs: Mapping[int, int], program: Program, node: int, output: str, consts: ConstBytes
) -> tuple[Optional[Lut], Optional[tuple[float, float]]]:
    """The table of a LUT node, and the straight line (slope, offset in index units) of its fp16 form."""
    tables = program.tables(node)
    if family is Family.V2B:
        small = _small_tensor(consts, output, "Bn")
        raw_multiplier, shift = struct.unpack_from("<H", small, 32)[0], small[48] & 0x3F
        raw_offset = struct.unpack_from("<I", small)[0]
    else:
        word = regs.get(0x4068, 0)
        raw_multiplier, shift, raw_offset = word >> 16, word >> 8 & 0x3F, regs.get(0x4064, 0)
    half, single = _f16(raw_multiplier), _f32(raw_offset)
    line = (half, single if family is Family.V1 else single * half)
    if tables is None:
        return None, line
    multiplier = raw_multiplier * 2.0**-shift
    offset = _signed(raw_offset, 32) * (2.0**-shift if family is Family.V1 else multiplier)
    steps = regs.get(0x410C, 0)
    if family is Family.V2B:
        low_slope = 0.0
        high_slope = _signed(regs.get(0x4170, 0), 16) * 2.0 ** -(regs.get(0x4184, 0) & 0x1F)
    else:
        low_slope = _signed(regs.get(0x4120, 0), 16) * 2.0 ** -(regs.get(0x4124, 0) & 0x1F)
        high_slope = _signed(regs.get(0x4128, 0) >> 16, 16) * 2.0 ** -(regs.get(0x412C, 0) >> 5 & 0x1F)
    starts = (-16384, 0)
    if family is Family.V1 and 0x4110 in regs:
        starts = (_signed(regs[0x4110], 32), _signed(regs.get(0x4118, 0), 32))
    lut = Lut(
        low=tables[0], high=tables[1], multiplier=multiplier, offset=offset,
        low_step=1 << (steps >> 8 & 0x1F), high_step=1 << (steps >> 16 & 0x1F),
        low_start=starts[0], high_start=starts[1], low_slope=low_slope, high_slope=high_slope,
    )  # fmt: skip
    return lut, line


def deconv_geometry(
    family: Family, regs: Mapping[int, int], kernel: tuple[int, int]
) -> tuple[tuple[int, int], tuple[int, int]]:
    """((stride y, x), (pad top, left)) of a transposed convolution; pads as ONNX counts them."""
    word = regs.get(0x1014, 0)
    strides = ((word >> 11 & 7) + 1, (word >> 8 & 7) + 1)
    if family is Family.V1:
        pads = regs.get(0x1068, 0)
        left, top = pads & 0xF, pads >> 4 & 0xF
    else:
        pads = regs.get(0x1080, 0)
        left, top = pads & 0xFF, pads >> 8 & 0xFF
    return strides, (kernel[0] - 1 - top, kernel[1] - 1 - left)
