"""Output stage of a node, decoded from its registers; one set of places per NPU family.

Register meanings are facts measured on converted models (docs/rknn-format.md, DPU parameters).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Optional

import numpy as np

from ..errors import ModelInvalid, ModelUnsupported
from ..graph import Lut, Node, Stage
from ..tensor import DType
from .mini_registers import T3, W1
from .registers import RegisterProgram

__all__ = [
    "ConstBytes", "DataUse", "Family", "conv_geometry", "data_use", "deconv_geometry", "family_of",
    "hidden_attributes", "read_stage",
]  # fmt: skip

ConstBytes = Callable[[str], Optional[memoryview]]
"""Looks up the bytes of a constant tensor by name, None when there is none."""


class Family(Enum):
    """Where the registers keep their values: generations of the same design."""

    V1 = "v1"  # rk3588, rk3566, rk3568
    V2A = "v2a"  # rk3562
    V2B = "v2b"  # rk3576, rv1126b
    T3 = "t3"  # rv1103, rv1106
    W1 = "w1"  # rv1103b, rv1106b


_FAMILIES = {
    "RKNPU v2": Family.V1,
    "RKNPU lite": Family.V1,
    "RKNPU t4": Family.V2A,
    "RKNPU f2": Family.V2B,
    "RKNPU f3": Family.V2B,
    "RKNPU t3": Family.T3,
    "RKNPU w1": Family.W1,
}
_MINI = {Family.T3: T3, Family.W1: W1}


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


def _bf16(value: int) -> float:
    return _f32((value & 0xFFFF) << 16)


def _small_tensor(consts: ConstBytes, output: str, kind: str) -> bytes:
    """The BS or BN parameter tensor that v2b keeps instead of registers; zeros when it is absent."""
    for name in (f"{output}_{kind}Cfg_{kind.upper()}cfgTensor", f"{output}_{kind.upper()}cfgTensor"):
        data = consts(name)
        if data is not None and len(data) >= 64:
            return bytes(data[:64])
    return bytes(64)


def data_use(family: Family, regs: Mapping[int, int], consts: ConstBytes, output: str) -> DataUse:
    """Which operands the bias blob of a node holds."""
    if family in _MINI:
        return DataUse(*_MINI[family].data_use(regs), common_multiplier=1.0)
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
    family: Family, program: RegisterProgram, node: int, op: str, output: str, consts: ConstBytes, source: DType,
    operand: str = "",
) -> Stage:  # fmt: skip
    """Decode the output stage of one node.

    Args:
        source: element type of the node's first input; with float types and int16, limits are real values.
        operand: name of the tensor that is added.
    """
    if family in _MINI:
        return _MINI[family].stage(program, node, op)
    regs = program.first(node)
    offset, scale, shift = (0x4080, 0x4084, 0x4088) if family is Family.V1 else (0x40AC, 0x40B0, 0x40B4)
    truncated = regs.get(0x3024, 0) & 0x1F if family is not Family.V1 else 0
    stage = Stage(
        scale=(regs.get(scale, 0) & 0xFFFF) * 2.0 ** -(regs.get(shift, 0) & 0xFFF),
        zero_point=_signed(regs.get(offset, 0), 32),
        pre_scale=2.0 ** -(_bs_shift(family, regs, consts, output) + truncated),
        bias_scale=2.0**truncated,
    )
    if "LeakyRelu" in op:
        _read_slope(stage, family, regs, op, output, consts, source)
    elif op.endswith(("Clip", "ClipAdd")) and source is not DType.INT8:
        stage.clip = _clip(family, regs)
        if source is DType.INT16 and family is not Family.V1 and not regs.get(0x4060, 2) & 2:
            raise ModelUnsupported(
                f'the limits of {op} that gives "{output}" are incomplete: for this SoC the converter leaves the lower '
                "limit of an int16 layer out when it is not 0; convert this layer in int8 or float16"
            )
    elif op.endswith(("Add", "AddRelu")) and source is DType.INT8:
        stage.second_scale = _second_scale(family, regs, consts, operand)
    lut_register = 0x4070 if family is Family.V1 else 0x407C
    if lut_register in regs and not regs[lut_register] & 0x80:
        _read_table(stage, family, regs, program, node, output, consts, source)
    return stage


def _second_scale(family: Family, regs: Mapping[int, int], consts: ConstBytes, operand: str) -> float:
    """Multiplier of the unit behind the one with a multiplier per channel, 1 where it is switched off.

    The converter uses it where the scale of the added operand would not fit its register otherwise.
    """
    unused = 0x901 if family is Family.V2B else 0x11
    if regs.get(0x4060, unused) & unused:
        return 1.0
    if family is Family.V2B:
        small = _small_tensor(consts, operand, "Bn")
        factor, shift = struct.unpack_from("<h", small)[0], small[16] & 0x3F
    else:
        factor, shift = _signed(regs.get(0x4068, 0) >> 16, 16), regs.get(0x4068, 0) >> 8 & 0x3F
    return float(factor) * 2.0**-shift if factor > 0 else 1.0


def _read_slope(
    stage: Stage,
    family: Family,
    regs: Mapping[int, int],
    op: str,
    output: str,
    consts: ConstBytes,
    source: DType,
) -> None:
    floating = source.is_float or (source is DType.INT16 and family is Family.V2B)
    if family is Family.V2B:
        early = source.is_float and consts(f"{output}_BsCfg_BScfgTensor") is not None
        small = _small_tensor(consts, output, "Bs" if early else "Bn")
        raw, shift = struct.unpack_from("<H", small)[0], _small_tensor(consts, output, "Bn")[16]
    else:
        raw, shift = regs.get(0x4068, 0) >> 16, regs.get(0x4068, 0) >> 8 & 0x3F
    stage.slope = _f16(raw) if floating else _signed(raw, 16) / 16384
    if op == "ConvLeakyReluAdd" and not floating:
        stage.second_scale = 2.0**-shift


def _clip(family: Family, regs: Mapping[int, int]) -> tuple[float, float]:
    if family is Family.V2B:
        return _f32(regs.get(0x4074, 0)), _f32(regs.get(0x4078, 0))
    if family is Family.V2A:
        a = _f32(regs.get(0x4040, 0))
        return _f32(regs.get(0x406C, 0)) - a, _f32(regs.get(0x4070, 0)) - a
    a = 0.0 if regs.get(0x4060, 0) & 2 else _f32(regs.get(0x4064, 0))
    return -a, _f32(regs.get(0x406C, 0)) - a


def _read_table(
    stage: Stage, family: Family, regs: Mapping[int, int], program: RegisterProgram, node: int, output: str,
    consts: ConstBytes, source: DType,
) -> None:  # fmt: skip
    """The table of a LUT node, its index scale, and the straight line (slope, offset) of its fp16 form."""
    tables = program.tables(node)
    if family is Family.V2B:
        small = _small_tensor(consts, output, "Bn")
        raw_multiplier, shift = struct.unpack_from("<H", small, 32)[0], small[48] & 0x3F
        raw_offset = struct.unpack_from("<I", small)[0]
    else:
        word = regs.get(0x4068, 0)
        raw_multiplier, shift, raw_offset = word >> 16, word >> 8 & 0x3F, regs.get(0x4064, 0)
    half, single = (_bf16 if source is DType.BFLOAT16 else _f16)(raw_multiplier), _f32(raw_offset)
    stage.float_line = (half, single if family is Family.V1 else single * half)
    stage.index_scale = multiplier = raw_multiplier * 2.0**-shift
    stage.index_offset = offset = _signed(raw_offset, 32) * (
        2.0**-shift if family is Family.V1 else multiplier
    )
    if tables is None:
        return
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
    stage.lut = Lut(
        low=tables[0], high=tables[1], multiplier=multiplier, offset=offset,
        low_step=1 << (steps >> 8 & 0x1F), high_step=1 << (steps >> 16 & 0x1F),
        low_start=starts[0], high_start=starts[1], low_slope=low_slope, high_slope=high_slope,
    )  # fmt: skip


def deconv_geometry(
    family: Family, regs: Mapping[int, int], kernel: tuple[int, int]
) -> tuple[tuple[int, int], tuple[int, int]]:
    """((stride y, x), (pad top, left)) of a transposed convolution; pads as ONNX counts them."""
    if family in _MINI:
        return _MINI[family].deconv_geometry(regs, kernel)
    word = regs.get(0x1014, 0)
    strides = ((word >> 11 & 7) + 1, (word >> 8 & 7) + 1)
    if family is Family.V1:
        pads = regs.get(0x1068, 0)
        left, top = pads & 0xF, pads >> 4 & 0xF
    else:
        pads = regs.get(0x1080, 0)
        left, top = pads & 0xFF, pads >> 8 & 0xFF
    return strides, (kernel[0] - 1 - top, kernel[1] - 1 - left)


def conv_geometry(
    family: Family, regs: Mapping[int, int]
) -> Optional[tuple[tuple[int, int], tuple[int, int], tuple[int, int]]]:
    """(strides, dilations, (top, left) pads) where the registers are the only place for them, else None."""
    return _MINI[family].geometry(regs) if family in _MINI else None


def hidden_attributes(family: Family, program: RegisterProgram, node: Node) -> dict[str, Any]:
    """Attributes of a node that only its registers hold. Raises ModelUnsupported where they do not tell."""
    if family not in _MINI:
        return {}
    if node.op == "exSDPAttention":
        return {"scale": _MINI[family].attention_scale(program, node.index)}
    if node.op == "exMatMul" and len(node.inputs) > 2:
        tail = _MINI[family].product_tail(program, node.index)
        if tail is None:
            raise ModelUnsupported(
                f"node {node.label()}: its registers do not tell what becomes of its third operand; separate "
                "the product from what follows it (an Identity in between) and convert again"
            )
        return {"c_type": tail}
    return {}
