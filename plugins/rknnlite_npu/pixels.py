"""uint8 pixels: what the runtime writes into the first layer, so that the NPU converts them while it reads.

Recorded on RK3588 with the runtime 1.6.0, for inputs of one and of three channels: the stored value is
``pixel * scale / 2^shift + offset`` with an integer offset, where the vendor's simulator converts exactly
(``rknnlite_graph.pixel_factors``). Files for RK3566, RK3568, RK3562 and RK3576 have these very factors in their words; there it
is for other inputs that words change.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from rknnlite_graph.pixel_factors import ChannelFactor, channel_factors

from rknnlite.errors import ModelInvalid, ModelUnsupported
from rknnlite.formats import IoTensor
from rknnlite.tensor import DType

from .command_words import CNA, Words, numbers_of, units_of, values_of, with_values
from .program import NpuProgram

__all__ = [
    "ChannelFactor",
    "channel_factors",
    "converts_itself",
    "pixel_doubts",
    "reads_bytes",
    "with_elements",
    "with_pixels",
]

_RECORDED = "RKNPU v2"


class _Conversion(NamedTuple):
    """Where files of a family convert uint8 pixels, and how layers that convert nothing look there."""

    register: int
    converts: int
    """What that bit is where it does."""
    elements: int
    factors: Mapping[int, int]
    features: int = 0x1070
    bit: int = 0
    """Which bit tells whether it does, where it is not the lowest."""


_V2 = _Conversion(
    0x1048, 0, 0xB, {0x104C: 0x10001, 0x1050: 0x10001, **dict.fromkeys(range(0x1054, 0x1064, 4), 0)}, 0x1088
)
_IN_FILES = {
    "RKNPU lite": _Conversion(0x104C, 1, 0xA, dict.fromkeys(range(0x1050, 0x1060, 4), 0x10000)),
    "RKNPU t4": _V2,
    "RKNPU f2": _V2,
    "RKNPU f3": _V2,
    "RKNPU t3": _Conversion(
        0x104C,
        0,
        0x9,
        {0x1050: 0x10001, 0x1054: 0x10001, **dict.fromkeys((0x101C, 0x1058, 0x105C, 0x106C), 0)},
    ),
    "RKNPU w1": _Conversion(
        0x1100,
        1,
        0,
        {0x1060: 0x10001, 0x1064: 0x10001, **dict.fromkeys(range(0x1050, 0x1060, 4), 0)},
        0x1034,
        bit=24,
    ),
}
_FEATURES = 0x1070  # where features begin
_SIZE, _CONVERT, _FACTORS, _LINE, _SURFACE, _LANES = 0x1020, 0x104C, 0x1050, 0x107C, 0x1080, 0x1180
_MOST_CHANNELS = 4
_LONGEST = 2047  # pixels of a row or column: 11 bits
_WIDTH = 16  # rows have a multiple of it, in pixels


def converts_itself(program: NpuProgram) -> bool:
    """Whether the words of the file convert uint8 pixels as they are."""
    return program.moved or program.family in _IN_FILES


def reads_bytes(program: NpuProgram) -> bool:
    """Whether inputs of few channels are int8: for others nobody has recorded how the NPU converts pixels."""
    return all(program.io[number].dtype is DType.INT8 for number, _ in _readers(program))


def with_elements(program: NpuProgram, words: Words) -> Words:
    """The words with every first layer of few channels changed for elements of the input's own type.

    Where those of the file convert pixels, by analogy with layers of more channels, which convert nothing. On RK3588 rows have
    the stride of the input's rows, as they have for pixels; files have the width. No recording has either.
    """
    if program.family == _RECORDED:
        return _with_rows(program, words)
    if program.family not in _IN_FILES:
        return words
    form = _IN_FILES[program.family]
    changed = words.copy()
    for first, amount in _first_layers(program):
        part = changed[first : first + amount]
        registers = numbers_of(part)
        convert = registers == form.register
        if not (
            values_of(part[convert]) >> np.uint64(form.bit) & np.uint64(1) == np.uint64(form.converts)
        ).any():
            continue
        new = values_of(part)
        new[convert] = form.elements
        for register, value in form.factors.items():
            new[registers == register] = value
        of_cna = units_of(part) == CNA
        changed[first : first + amount] = np.where(of_cna, with_values(part, new), part)
    return changed


def _with_rows(program: NpuProgram, words: Words) -> Words:
    """The words with strides of rows as the inputs have them."""
    changed = words.copy()
    for number, nodes in _readers(program):
        tensor = program.tensors[program.inputs[number]]
        width = tensor.native[3]
        whole = max(1, tensor.row // max(1, program.io[number].dtype.numpy.itemsize))
        for first, amount in {(task.first, task.amount) for task in program.tasks if task.node in nodes}:
            part = changed[first : first + amount]
            registers, values = numbers_of(part), values_of(part)
            lines = (units_of(part) == CNA) & (registers == _LINE) & (values == np.uint64(width))
            values[lines] = -(-width // whole) * whole
            changed[first : first + amount] = np.where(lines, with_values(part, values), part)
    return changed


def _first_layers(program: NpuProgram) -> set[tuple[int, int]]:
    """(first word, number of words) of the tasks that read inputs of few channels."""
    readers = {node for _, nodes in _readers(program) for node in nodes}
    return {(task.first, task.amount) for task in program.tasks if task.node in readers}


def with_pixels(program: NpuProgram, words: Words) -> Words:
    """The words with every first layer of few channels changed for uint8 pixels in rows of ``width`` pixels, rounded up to 16.

    Inputs of more channels stay: the runtime converts those itself. So do all words of families whose files convert pixels as
    they are.

    Raises:
        ModelUnsupported: another family than RK3588's, or an input that is no int8 picture: never recorded.
    """
    if converts_itself(program):
        return words
    if program.family != _RECORDED:
        raise ModelUnsupported(
            f"{program.family}: how this NPU family converts uint8 pixels was never recorded; plan without --uint8"
        )
    changed = words.copy()
    for number, nodes in _readers(program):
        io, tensor = program.io[number], program.tensors[program.inputs[number]]
        if io.dtype is not DType.INT8 or io.quant is None:
            raise ModelUnsupported(
                f"input {io.name} is {io.dtype.name.lower()}: how the NPU converts uint8 pixels for it was never recorded; "
                "plan without --uint8"
            )
        for first, amount in {(task.first, task.amount) for task in program.tasks if task.node in nodes}:
            part = slice(first, first + amount)
            changed[part] = _converting(changed[part], tensor.native, io)
    return changed


def pixel_doubts(program: NpuProgram) -> Iterator[str]:
    """What of the conversion of this model is by analogy: no recording had it."""
    for number, _ in () if converts_itself(program) else _readers(program):
        channels = program.tensors[program.inputs[number]].native[-1]
        if channels not in (1, 3):
            yield f"input {program.io[number].name}: pixels of {channels} channels, by analogy; recorded were one and three"


def _readers(program: NpuProgram) -> Iterator[tuple[int, set[int]]]:
    """(number of each input of few channels, the nodes that read its features)."""
    nodes_of: dict[int, set[int]] = {}
    for task in program.tasks:
        nodes_of.setdefault(task.first, set()).add(task.node)
    starts = [first for first, _ in program.extents]
    features = _IN_FILES[program.family].features if program.family in _IN_FILES else _FEATURES
    for number, index in enumerate(program.inputs):
        native = program.tensors[index].native
        if len(native) != 5 or native[1] != 1 or not 0 < native[4] <= _MOST_CHANNELS:
            continue
        found: set[int] = set()
        for tensor, _, word in program.relocations:
            if tensor == index and int(program.words[word]) & 0xFFFF == features:
                found |= nodes_of.get(starts[bisect_right(starts, word) - 1], set())
        if found:
            yield number, found


def _converting(words: Words, native: tuple[int, ...], io: IoTensor) -> Words:
    """The words of one task of the first layer."""
    height, width, channels = native[2:]
    padded = -(-width // _WIDTH) * _WIDTH
    if not (0 < height <= _LONGEST and 0 < padded <= _LONGEST):
        raise ModelInvalid(
            f"input {io.name}: the NPU converts no picture of {height} x {padded} pixels, it counts to {_LONGEST}"
        )
    factors = channel_factors(io, channels)
    shifts = sum(factor.shift << 4 + 6 * lane for lane, factor in enumerate(factors))
    values = {
        _CONVERT: shifts,
        _LINE: padded,
        _SURFACE: padded * (height - 1),
        _LANES: (1 << 4 * len(factors)) - 1,
    }
    for lane, factor in enumerate(factors):
        values[_FACTORS + 4 * lane] = (factor.scale & 0xFFFF) << 16 | factor.offset & 0xFFFF
    registers, old = numbers_of(words), values_of(words)
    new = old.copy()
    for register, value in values.items():
        new[registers == register] = value
    sizes = registers == _SIZE
    new[sizes] = old[sizes] & np.uint64(_LONGEST) | np.uint64(padded << 16)
    return np.where(units_of(words) == CNA, with_values(words, new), words)
