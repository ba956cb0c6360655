"""Register programs for the machine, and memory to run them on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from rknnlite_npu.command_words import CNA, CORE, DPU, DPU_RDMA, PPU, PPU_RDMA, CommandWord
from rknnlite_npu.machine.machine import Machine
from rknnlite_npu.machine.memory import Memory
from rknnlite_npu.task import Task

Array = NDArray[np.generic]
Registers = Mapping[int, Mapping[int, int]]
"""Unit -> register -> value."""

RK3588 = "RKNPU v2"
CONVOLUTION, WITH_OPERANDS, ELEMENTWISE, POOLING = 0x0D, 0x1D, 0x18, 0x60
"""Units that start together."""
CODES = {"int8": 0, "int16": 1, "float16": 2, "int32": 4, "float32": 5}
"""Precision fields by numpy's names."""
PLAIN = {0x4040: 0x53, 0x4060: 0x53, 0x4070: 0x383, 0x4078: 1, 0x4084: 1, 0x4050: 2}
"""All stages of the DPU are off."""
_FIRST, _ROOM = 0x1000_0000, 0x0100_0000


class Board:
    """A machine with memory."""

    def __init__(self, family: str = RK3588) -> None:
        self.memory, self.machine = Memory(), Machine(family)
        self._next = _FIRST

    def place(self, content: Array) -> int:
        """Put numbers into a buffer of their own; returns its address."""
        address, self._next = self._next, self._next + _ROOM
        self.memory.map(address, np.frombuffer(bytearray(content.tobytes()), np.uint8))
        return address

    def room(self, size: int) -> int:
        """A buffer of zeros."""
        return self.place(np.zeros(size, np.uint8))

    def read(self, address: int, dtype: str, count: int) -> Array:
        """Numbers at an address."""
        size = count * np.dtype(dtype).itemsize
        return self.memory.view(address, size).view(dtype).copy()

    def task(self, registers: Registers, enable: int, writes: Sequence[tuple[int, int]] = ()) -> Task:
        """Place the words of a task, behind them (register, value) of tables; returns its record."""
        words = [
            CommandWord(unit, register, value & 0xFFFFFFFF).number
            for unit, values in registers.items()
            for register, value in values.items()
        ]
        words += [CommandWord(DPU, register, value).number for register, value in writes]
        address = self.place(np.array(words, "<u8"))
        return Task(0, 0, enable, 0x300, 0x1FFFF, 0, len(words), 0, address)

    def run(self, registers: Registers, enable: int, writes: Sequence[tuple[int, int]] = ()) -> None:
        """Run one task."""
        self.machine.run(self.memory, [self.task(registers, enable, writes)])

    def upload(self, writes: Sequence[tuple[int, int]]) -> None:
        """Run a task that uploads tables, and copies 16 bytes onto themselves as the vendor's do."""
        place = self.room(16)
        self.run(copying((1, 1, 16), "int8", place, place), ELEMENTWISE, writes)


def cube(values: Array) -> Array:
    """(H, W, C) as surfaces of 16 bytes: (surfaces, H, W, lanes)."""
    lanes = 16 // values.itemsize
    height, width, channels = values.shape
    filled = np.zeros((height, width, -(-channels // lanes) * lanes), values.dtype)
    filled[..., :channels] = values
    return np.ascontiguousarray(filled.reshape(height, width, -1, lanes).transpose(2, 0, 1, 3))


def plane(surfaces: Array, channels: int) -> Array:
    """What ``cube`` made, as (H, W, C)."""
    _, height, width, _ = surfaces.shape
    return surfaces.transpose(1, 2, 0, 3).reshape(height, width, -1)[..., :channels]


def blocks(weights: Array) -> Array:
    """(OC, kh, kw, C) as the NPU keeps weights; OC is a multiple of 32 bytes, C of 32."""
    outputs, height, width, inputs = weights.shape
    group = 32 // weights.itemsize
    parts = weights.reshape(outputs // group, group, height, width, inputs // 32, 32)
    return np.ascontiguousarray(parts.transpose(0, 4, 2, 3, 1, 5))


def convolution(
    features: Array, weights: Array, out: tuple[int, int], precision: int, **addresses: int
) -> dict[int, dict[int, int]]:
    """Registers of a convolution without pads and stages.

    Args:
        features: (H, W, C), C a multiple of the lanes of an atom.
        weights: (OC, kh, kw, C).
        out: (H, W).
        precision: of the output.
        addresses: ``source``, ``kernels`` and ``target``.
    """
    height, width, channels = features.shape
    outputs, taps_y, taps_x, _ = weights.shape
    code = CODES[features.dtype.name]
    size = features.itemsize
    rows, columns = out
    real = (channels - 1) % 64
    return {
        CNA: {
            0x100C: code << 7 | code << 4,
            0x1014: 9,
            0x1020: width << 16 | height,
            0x1024: real << 16 | channels,
            0x1028: columns,
            0x102C: rows * columns,
            0x1030: weights.nbytes,
            0x1034: weights.nbytes // outputs,
            0x1038: taps_x << 24 | taps_y << 16 | outputs,
            0x104C: 0xB,
            0x1070: addresses["source"],
            0x107C: 4 * width,
            0x1080: width * (height - 4) & 0xFFFFFFF,
            0x1084: width << 16 | height,
            0x1088: channels,
            0x1110: addresses["kernels"],
        },
        CORE: {
            0x3010: code << 8 | (size == 1),
            0x3014: (rows - 1) << 16 | (columns - 1),
            0x3018: outputs - 1,
        },
        DPU: {
            **PLAIN,
            0x400C: 0x1E4,
            0x4010: precision << 29 | code << 26 | code,
            0x4020: addresses["target"],
            0x4024: rows * columns * 16,
            0x4030: columns - 1,
            0x4034: rows - 1,
            0x403C: (outputs - 1) << 16 | (outputs - 1),
            0x4058: outputs - 1,
            0x405C: (rows - 1) << 16 | (columns - 1),
        },
    }


def copying(shape: tuple[int, int, int], dtype: str, source: int, target: int) -> dict[int, dict[int, int]]:
    """Registers of a task that moves (H, W, C) through the stages of the DPU."""
    height, width, channels = shape
    code = CODES[dtype]
    return {
        DPU: {
            **PLAIN,
            0x400C: 0x1E5,
            0x4010: code << 29 | code << 26 | code,
            0x4020: target,
            0x4024: height * width * 16,
            0x4030: width - 1,
            0x4034: height - 1,
            0x403C: (channels - 1) << 16 | (channels - 1),
            0x4058: channels - 1,
            0x405C: (height - 1) << 16 | (width - 1),
        },
        DPU_RDMA: {
            0x500C: width - 1,
            0x5010: height - 1,
            0x5014: channels - 1,
            0x5018: source,
            0x5034: 1,
            0x5044: code << 15 | 15 << 11 | code << 5 | (code == CODES["float16"]) << 3 | 1,
        },
    }


def pooling(
    shape: tuple[int, int, int],
    out: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    method: int,
    dtype: str,
    source: int,
    target: int,
) -> dict[int, dict[int, int]]:
    """Registers of a pool without pads; averages need their reciprocals besides."""
    height, width, channels = shape
    size = 1 if dtype == "int8" else 2
    return {
        PPU: {
            0x600C: width - 1,
            0x6010: height - 1,
            0x6014: channels - 1,
            0x6018: out[1] - 1,
            0x601C: out[0] - 1,
            0x6020: channels - 1,
            0x6024: 1 << 4 | method,
            0x6034: (stride[0] - 1) << 20 | (stride[1] - 1) << 16 | (kernel[0] - 1) << 8 | (kernel[1] - 1),
            0x6070: target,
            0x607C: out[0] * out[1] << 4,
            0x6084: out[0] * out[1] << 4 | CODES[dtype],
            0x60DC: 3,
        },
        PPU_RDMA: {
            0x700C: width - 1,
            0x7010: height - 1,
            0x7014: channels - 1,
            0x701C: source,
            0x7024: width << 4,
            0x7028: height * width << 4,
            0x7030: size,
        },
    }
