"""How the output stage puts results into memory: surfaces of atoms, or transposed in blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from . import numbers as n
from .memory import Memory
from .moves import group_stride, look_at_moves, write_moved
from .registers import Field, UnitRegisters
from .surfaces import atoms

__all__ = ["ADDRESS", "write"]

COMBINED = Field("COMB_USE", 0x400C, 31, 31)
TRANSPOSED = Field("TP_EN", 0x400C, 30, 30)
NONALIGN = Field("NONALIGN", 0x400C, 25, 25)
SURFACE_LENGTH = Field("SURF_LEN", 0x400C, 24, 9)
REGROUPED = Field("RGP_TYPE", 0x400C, 29, 26)
OUT_PRECISION = Field("OUT_PRECISION", 0x4010, 31, 29)
MULTIPLE_SURFACES = Field("MC_SURF_OUT", 0x4010, 3, 3)
FILL = Field("OFFSET_PEND", 0x4014, 15, 0)
ADDRESS = Field("DST_BASE_ADDR", 0x4020)
SURFACE_STRIDE = Field("DST_SURF_STRIDE", 0x4024, 31, 4)
WIDTH = Field("WIDTH", 0x4030, 12, 0)
HEIGHT = Field("HEIGHT", 0x4034, 12, 0)
NOTCH = Field("NOTCH_ADDR_0", 0x4038, 12, 0)
SECOND_NOTCH = Field("NOTCH_ADDR_1", 0x4038, 28, 16)
ORIGINAL_CHANNEL = Field("ORIG_CHANNEL", 0x403C, 28, 16)
TRANSPOSED_ORIGIN = Field("TP_ORG_EN", 0x4050, 27, 27)
REGROUP_COUNT = Field("RGP_CNTER", 0x4050, 31, 28)
SIZE_E = Field("SIZE_E_2", 0x4050, 10, 8), Field("SIZE_E_1", 0x4050, 7, 5), Field("SIZE_E_0", 0x4050, 4, 2)
WRITTEN_CHANNEL = Field("CHANNEL_WDMA", 0x4058, 12, 0)
GROUPS = Field("SIZE_C_WDMA", 0x4058, 26, 16)
OF_16_BITS = Field("TP_PRECISION", 0x4058, 27, 27)
WRITTEN_HEIGHT = Field("HEIGHT_WDMA", 0x405C, 28, 16)
WRITTEN_WIDTH = Field("WIDTH_WDMA", 0x405C, 12, 0)
SURFACE_ADD = Field("SURF_ADD", 0x40C0, 31, 4)
KEPT = Field("RGP_EN", 0x4050, 20, 20)
TRANSPOSED_GROUPS = Field("SIZE_C_WDMA", 0x4058, 26, 16)
ROWS = Field("RGP_ROWS", 0x40C4, 31, 16)
ATOM_WIDTH = Field("ATOM_WDMA", 0x4030, 28, 16)
_WORD = 2  # bytes of what is transposed
_UNDERSTOOD = 16  # bytes of atoms whose order in transposed blocks is known
_KEPT = {2: 1, 3: 2}  # RGP_TYPE -> bytes of an atom


def write(
    r: UnitRegisters,
    memory: Memory,
    values: n.Values,
    precision: int,
    repeated: int,
    without_effect: Mapping[int, int],
) -> int:
    """Write (H, W, C); returns the bytes written.

    Args:
        precision: of the elements that are written.
        repeated: surfaces that unpooling makes of one.
        without_effect: bits of registers that change no result.

    Raises:
        MachineRefused: a way that is not understood, or a place in no buffer.
    """
    _look(r)
    if r.design.regroups:
        _look_at_more(r)
    stored = n.encoded(values, precision)
    if r[TRANSPOSED] and r[TRANSPOSED_ORIGIN]:
        r.refuse(TRANSPOSED, "together with TP_ORG_EN")
    packed = r.need(NONALIGN, 1) if r[REGROUPED] else r[NONALIGN]
    if r.design.joined:
        look_at_moves(r)
    r.finish(without_effect)
    if r.design.joined:
        moved = write_moved(r, memory, stored)
        if moved is not None:
            return moved
    if r[REGROUPED]:
        return _first_bytes(r, memory, stored)
    if packed:
        regrouped = r.design.regroups and r[KEPT]
        return (_whole_rows if regrouped else _packed)(r, memory, stored)
    if r[TRANSPOSED]:
        return _exchanged(r, memory, stored)
    if r[TRANSPOSED_ORIGIN]:
        return _transposed(r, memory, stored)
    if _is_spread(r, stored):
        stored = (
            stored[..., : r[ORIGINAL_CHANNEL] + 1]
            if r.design.whole_surfaces and r.design.counts_spread
            else stored
        )
        return _spread(r, memory, stored)
    return _surfaces(r, memory, stored, repeated)


def _look_at_more(r: UnitRegisters) -> None:
    """The same of fields that RK3588 has elsewhere or not at all."""
    _ = r[TRANSPOSED_GROUPS], r[ATOM_WIDTH], r[ROWS]
    if r[REGROUPED]:
        r.need(KEPT, 1, why="does not go with RGP_TYPE")
    if not r[KEPT]:
        r.need(ROWS, 0)
    if r[REGROUPED] or not r[KEPT]:
        r.need(ATOM_WIDTH, 0, r.design.atom, why="atoms of another length")


def _is_spread(r: UnitRegisters, stored: n.Values) -> bool:
    """Whether positions get gaps between."""
    height, width, channels = stored.shape
    if not r.design.counts_spread:
        return bool((height, width) != (width, 1) == (r[WRITTEN_HEIGHT] + 1, r[WRITTEN_WIDTH] + 1))
    if r.design.whole_surfaces:
        if r[WRITTEN_CHANNEL] < r[ORIGINAL_CHANNEL]:
            r.refuse(WRITTEN_CHANNEL, "differs from the channels of the stage")
        return bool(r[WRITTEN_CHANNEL] > r[ORIGINAL_CHANNEL])
    lanes = r.design.atom_of(stored.itemsize) // stored.itemsize
    return bool(r[WRITTEN_CHANNEL] >= -(-channels // lanes) * lanes)


def _packed(r: UnitRegisters, memory: Memory, stored: n.Values) -> int:
    """Write (H, W, C) without gaps: all numbers of a position, position by position."""
    height, width, _ = stored.shape
    if (r[WRITTEN_HEIGHT], r[WRITTEN_WIDTH]) != (height - 1, width - 1):
        r.refuse(WRITTEN_HEIGHT, f"{height} x {width} positions are to be written")
    packed = np.ascontiguousarray(stored).view(np.uint8).reshape(-1)
    if -(-packed.size // r.design.atom) != r[SURFACE_LENGTH]:
        r.refuse(SURFACE_LENGTH, f"{packed.size} bytes are to be written")
    memory.view(r[ADDRESS], packed.size)[...] = packed
    return packed.size


def _whole_rows(r: UnitRegisters, memory: Memory, stored: n.Values) -> int:
    """Bytes surface by surface are rows of a length of their own, and get as many atoms as each needs."""
    height, width, channels = stored.shape
    atom, rows, length = r.design.atom, r[ROWS], r[ATOM_WIDTH]
    size = channels * stored.itemsize
    if size % atom or not 0 < rows * length <= height * width * size:
        r.refuse(ROWS, f"{height} x {width} positions of {size} bytes have no {rows} rows of {length}")
    cells = np.ascontiguousarray(stored).view(np.uint8).reshape(height * width, -1, atom)
    stream = np.ascontiguousarray(cells.transpose(1, 0, 2)).reshape(-1)[: rows * length]
    atoms_of_row = -(-length // atom)
    r.need(SURFACE_LENGTH, rows * atoms_of_row, why=f"{rows} rows of {length} bytes are to be written")
    view = memory.view(r[ADDRESS], rows * atoms_of_row * atom).reshape(rows, -1)
    view[...] = 0
    view[:, :length] = stream.reshape(rows, length)
    return view.size


def _look(r: UnitRegisters) -> None:
    """Look at the fields of all ways to write; refuse what none of them understands."""
    _ = r[REGROUPED]
    r.need(REGROUP_COUNT, 0)
    r.need(MULTIPLE_SURFACES, 0)
    used = (
        COMBINED,
        *SIZE_E,
        SURFACE_ADD,
        SURFACE_LENGTH,
        GROUPS,
        OF_16_BITS,
        NOTCH,
        SECOND_NOTCH,
        WRITTEN_HEIGHT,
    )
    more = (
        WRITTEN_WIDTH,
        WRITTEN_CHANNEL,
        ORIGINAL_CHANNEL,
        ADDRESS,
        SURFACE_STRIDE,
        FILL,
        TRANSPOSED,
        TRANSPOSED_ORIGIN,
    )
    _ = [r[field] for field in (*used, *more)]
    r.need(OUT_PRECISION, *n.SIZES)


def _atoms_of(r: UnitRegisters, stored: n.Values, channels: int) -> n.Values:
    """(H, W, surfaces, bytes of an atom) of as many surfaces as ``channels`` need; lanes without a channel hold OFFSET_PEND."""
    atom = r.design.atom_of(stored.itemsize)
    lanes = atom // stored.itemsize
    height, width, there = stored.shape
    surfaces = -(-channels // lanes)
    out = np.full((height, width, surfaces * lanes), _fill(r, stored.dtype), stored.dtype)
    out[..., : min(channels, there)] = stored[..., :channels]
    return out.view(np.uint8).reshape(height, width, surfaces, atom)


def _fill(r: UnitRegisters, kind: np.dtype[Any]) -> n.Values:
    """OFFSET_PEND as a number of the output, (1,)."""
    bits = np.array([r[FILL]], "<u4").view(np.uint8)
    number: n.Values = bits[: kind.itemsize].view(kind)
    return number


def _surfaces(r: UnitRegisters, memory: Memory, stored: n.Values, repeated: int) -> int:
    """Surfaces of atoms, but not those that only fill up a group. Positions may come in other rows than they are written in."""
    channels = (min(r[WRITTEN_CHANNEL], r[ORIGINAL_CHANNEL]) + 1) * repeated
    rows, columns = r[WRITTEN_HEIGHT] + 1, r[WRITTEN_WIDTH] + 1
    if rows * columns != stored.shape[0] * stored.shape[1]:
        r.refuse(
            WRITTEN_HEIGHT, f"{rows} x {columns} are to be written of {stored.shape[0]} x {stored.shape[1]}"
        )
    cells = _atoms_of(r, stored, channels)
    surfaces = cells.shape[2]
    atom, unit = cells.shape[3], r.design.atom
    row = columns * atom + r[NOTCH] * unit
    stride = r[SURFACE_STRIDE]
    if r.design.joined and surfaces > 1 and group_stride(r) != stride * unit:
        r.refuse(SURFACE_STRIDE, f"differs from the {group_stride(r)} bytes that rows take")
    if surfaces > 1 and r[GROUPS]:
        # every surface is a group: weights that are computed, of more than one block of inputs
        r.need(GROUPS, surfaces - 1, why=f"{surfaces} surfaces do not make such groups")
        stride = r[SURFACE_ADD]
    elif surfaces > 1 and r.design.whole_surfaces and not r.design.as_stored and stride < rows * columns:
        stride = r[SURFACE_ADD] + (rows * columns if r.design.in_memory else 0)
    view = atoms(memory, r[ADDRESS], (surfaces, rows, columns), stride * unit, row, atom)
    view[...] = cells.reshape(rows, columns, surfaces, atom).transpose(2, 0, 1, 3)
    return view.size


def _first_bytes(r: UnitRegisters, memory: Memory, stored: n.Values) -> int:
    """The first byte, or the first two, of every atom without gaps between: a cube of one channel as plain rows."""
    if r.design.regroups:
        return _cut_rows(r, memory, stored)
    kept = _KEPT[r.need(REGROUPED, *_KEPT)]
    height, width, channels = stored.shape
    one = channels * stored.itemsize == r.design.atom
    if not one or (r[WRITTEN_HEIGHT], r[WRITTEN_WIDTH]) != (height - 1, width - 1):
        r.refuse(REGROUPED, "positions of one atom are expected")
    first = np.ascontiguousarray(np.ascontiguousarray(stored).view(np.uint8)[..., :kept])
    view = memory.view(r[ADDRESS], first.size)
    view[...] = first.reshape(-1)
    return view.size


def _cut_rows(r: UnitRegisters, memory: Memory, stored: n.Values) -> int:
    """Rows of atoms, surface by surface, without gaps between: of the last atom of each row the first bytes alone."""
    kept, atom = r[REGROUPED], r.design.atom
    height, width, channels = stored.shape
    if channels * stored.itemsize % atom or (r[WRITTEN_HEIGHT], r[WRITTEN_WIDTH]) != (height - 1, width - 1):
        r.refuse(REGROUPED, "rows of whole atoms are expected")
    cells = np.ascontiguousarray(stored).view(np.uint8).reshape(height, width, -1, atom).transpose(2, 0, 1, 3)
    rows = np.ascontiguousarray(cells).reshape(-1, width * atom)[:, : (width - 1) * atom + kept]
    found = np.ascontiguousarray(rows).reshape(-1)
    r.need(SURFACE_LENGTH, -(-found.size // atom), why=f"{found.size} bytes are to be written")
    memory.view(r[ADDRESS], found.size)[...] = found
    return found.size


def _spread(r: UnitRegisters, memory: Memory, stored: n.Values) -> int:
    """Positions with gaps between: columns are written as rows of one atom, rows as channels."""
    height, width, channels = stored.shape
    counted = r[WRITTEN_CHANNEL] + 1 if r.design.counts_spread or r.design.joined else channels * height
    if (r[WRITTEN_HEIGHT] + 1, r[WRITTEN_WIDTH], counted) != (width, 0, channels * height):
        r.refuse(WRITTEN_CHANNEL, f"{height} x {width} positions of {channels} channels are not spread so")
    cells = _atoms_of(r, stored, r[ORIGINAL_CHANNEL] + 1)
    surfaces, atom = cells.shape[2], r.design.atom
    if atom != cells.shape[3]:
        r.refuse(WRITTEN_CHANNEL, "positions are spread whose atoms are longer")
    step = r[SURFACE_ADD] * atom
    if r.design.joined:
        step = group_stride(r)
    elif r.design.in_memory:  # counted from the end of what is written of a row
        step += (width * (1 + r[NOTCH]) - r[NOTCH]) * atom
    for y in range(height):
        at = r[ADDRESS] + y * step
        row = (1 + r[NOTCH]) * atom
        view = atoms(memory, at, (surfaces, width, 1), r[SURFACE_STRIDE] * atom, row, atom)
        view[...] = cells[y].transpose(1, 0, 2)[:, :, None]
    return cells.size


def _transposed(r: UnitRegisters, memory: Memory, stored: n.Values) -> int:
    """Atoms come surface by surface; a run of them becomes a block: lane by lane, the numbers of the run.

    Of 8 numbers of 16 bits: 8 atoms give one, those of a lane lie in rows and columns. Of 16 bytes, which come as 8 numbers of
    16 bits: 16 atoms give one, lanes 8 and up are the second row.
    """
    height, width, channels = stored.shape
    atom, lanes = r.design.atom, r.design.atom // _WORD
    of_words = stored.itemsize == _WORD or (r.design.regroups and stored.itemsize == 2 * _WORD)
    if not of_words or channels * stored.itemsize % atom or atom != _UNDERSTOOD:
        r.refuse(OUT_PRECISION, "whole atoms of eight 16-bit numbers are transposed")
    stored = np.ascontiguousarray(stored).view("<i2")
    channels = stored.shape[2]
    words = r[OF_16_BITS]
    groups = TRANSPOSED_GROUPS if r.design.regroups else GROUPS
    rows, columns, count = r[WRITTEN_HEIGHT] + 1, r[WRITTEN_WIDTH] + 1, r[groups] + 1
    run = lanes * rows * columns if words else atom
    surfaces = stored.reshape(height * width, channels // lanes, lanes).transpose(1, 0, 2)
    stream = np.ascontiguousarray(surfaces).reshape(-1, lanes)
    if len(stream) != count * run or not (words or (rows, columns) == (2, 1)):
        r.refuse(groups, f"{height} x {width} positions of {channels} channels do not make such blocks")
    if words:
        cells = stream.reshape(count, rows, columns, lanes, lanes).transpose(0, 4, 1, 2, 3)
    else:
        of_bytes = stream.view(np.uint8).reshape(count, atom, 2, lanes)
        cells = of_bytes.transpose(0, 3, 2, 1)[:, :, :, None]
    return _put(r, memory, np.ascontiguousarray(cells).view(np.uint8))


def _exchanged(r: UnitRegisters, memory: Memory, stored: n.Values) -> int:
    """Atoms change places: surfaces become rows, rows columns, columns surfaces."""
    height, width, channels = stored.shape
    if r.design.regroups and stored.itemsize == 2 * _WORD:  # whole atoms are moved, whatever they hold
        stored = np.ascontiguousarray(stored).view("<i2")
        channels = stored.shape[2]
    atom, lanes = r.design.atom, r.design.atom // _WORD
    if stored.itemsize != _WORD or channels % lanes or not r[OF_16_BITS] or atom != _UNDERSTOOD:
        r.refuse(OUT_PRECISION, "whole atoms of eight 16-bit numbers change places")
    groups, rows, columns = channels // lanes, r[WRITTEN_HEIGHT] + 1, r[WRITTEN_WIDTH] + 1
    if (rows, columns) != (groups, height) or r[GROUPS] or any(r[field] + 1 != width for field in SIZE_E):
        r.refuse(
            WRITTEN_WIDTH,
            f"{height} rows of {width} positions of {channels} channels do not change places so",
        )
    cells = np.ascontiguousarray(stored).view(np.uint8).reshape(height, width, groups, atom)
    return _put(r, memory, cells.transpose(1, 2, 0, 3)[None])


def _put(r: UnitRegisters, memory: Memory, cells: n.Values) -> int:
    """Write atoms (group, surface, row, column, bytes)."""
    groups, surfaces, rows, columns, _ = cells.shape
    atom = r.design.atom
    row = (columns + r[NOTCH]) * atom
    for group in range(groups):
        at = r[ADDRESS] + group * r[SURFACE_ADD] * atom
        view = atoms(memory, at, (surfaces, rows, columns), r[SURFACE_STRIDE] * atom, row, atom)
        view[...] = cells[group]
    return cells.size
