"""How the output stage of RV1103B puts bytes elsewhere that it only moves: transposed, exchanged, in rows of another length.

Found by comparing files of the same networks for RV1103B and RV1106.
"""

from __future__ import annotations

from typing import Optional

import numpy as np

from . import numbers as n
from .memory import Memory
from .registers import Field, UnitRegisters
from .surfaces import atoms

__all__ = ["check_pools", "group_stride", "is_moved", "is_regrouped", "look_at_moves", "write_moved"]

MODE = Field("MODE", 0x400C)
FORM = Field("FORM", 0x4020)
SURFACE_STRIDE = Field("DST_SURF_STRIDE", 0x4014)
NOTCH = Field("NOTCH_ADDR", 0x4024)
GROUP_NOTCH = Field("GROUP_NOTCH", 0x4028, signed=True)
ROWS = Field("RGP_ROWS", 0x4070, 31, 16)
WAY = Field("RGP_TYPE", 0x4070, 15, 8)
KEPT = Field("RGP_BYTES", 0x4070, 7, 0)
LENGTH = Field("RGP_LENGTH", 0x406C)
SOURCE_COLUMNS = Field("WIDTH", 0x4018, 12, 0)
WRITTEN_CHANNEL = Field("CHANNEL_WDMA", 0x401C, 28, 16)
ADDRESS = Field("DST_BASE_ADDR", 0x4010)
HEIGHT, WIDTH = Field("HEIGHT_WDMA", 0x407C, 28, 16), Field("WIDTH_WDMA", 0x407C, 12, 0)

_MOVES, _REGROUPS = 0x82000215, 0x3051
_POOLS = 0x802530B0
_AS_SURFACES = 0x3010, 0x3011, 0x3031, _POOLS
_PLAIN = 0x37000000
_LENGTHS = 0, 8, 16
_TRANSPOSED, _REGROUPED = 0x30027777, 0x3F000000
_EXCHANGED = {2: 0x33031111, 4: 0x31033333}  # columns -> FORM
_CUT, _PADDED = 9, 8  # RGP_TYPE
_WORD = 2


def is_moved(r: UnitRegisters) -> bool:
    """Whether words of 16 bits go through, whatever they hold."""
    return r[MODE] == _MOVES


def check_pools(r: UnitRegisters, pooled: bool) -> None:
    """Refuse another mode than that of pooled numbers for them, and theirs for others."""
    if pooled != (r[MODE] == _POOLS):
        r.refuse(MODE, "does not go with whether windows are pooled")


def is_regrouped(r: UnitRegisters) -> bool:
    """Whether rows get another length."""
    return r[MODE] == _REGROUPS


def look_at_moves(r: UnitRegisters) -> None:
    """Take note of the fields."""
    for field in (MODE, FORM, GROUP_NOTCH, ROWS, WAY, KEPT, LENGTH):
        r.look(field)


def write_moved(r: UnitRegisters, memory: Memory, stored: n.Values) -> Optional[int]:
    """Write (H, W, C) another way than as surfaces; returns the bytes written, None where they are surfaces."""
    if is_regrouped(r):
        r.need(FORM, _REGROUPED)
        return _regrouped(r, memory, _stream(r, stored))
    if not is_moved(r):
        r.need(MODE, *_AS_SURFACES)
        r.need(FORM, _PLAIN)
        r.need(LENGTH, *_LENGTHS)
        r.need(KEPT, *_LENGTHS)
        for field in (ROWS, WAY):
            r.need(field, 0)
        return None
    if stored.itemsize != _WORD:
        r.refuse(MODE, "words of 16 bits are moved")
    height, width, _ = stored.shape
    rows, columns, atom = r[HEIGHT] + 1, r[WIDTH] + 1, r.design.atom
    stream = _stream(r, stored)
    groups = len(stream) // (height * width)
    if r[FORM] == _TRANSPOSED:  # of every eight atoms the bytes are exchanged with the atoms
        blocks = rows * columns
        if blocks == 1 and height * width < atom:
            return _short_blocks(r, memory, stream.reshape(-1, atom))
        if blocks * atom != height * width:
            r.refuse(FORM, f"{height} x {width} positions do not make {rows} x {columns} blocks of {atom}")
        cells = stream.reshape(groups, rows, columns, atom, atom).transpose(0, 4, 1, 2, 3)
    elif r[FORM] == _EXCHANGED.get(width):  # surfaces become rows, rows columns, columns surfaces
        if (rows, columns) != (groups, height):
            r.refuse(FORM, f"{groups} surfaces of {height} x {width} do not become {rows} x {columns}")
        cells = stream.reshape(1, groups, height, width, atom).transpose(0, 3, 1, 2, 4)
    else:
        r.refuse(FORM)
    row, group = (columns + r[NOTCH]) * atom, group_stride(r)
    surface = r[SURFACE_STRIDE] * atom
    for number, part in enumerate(cells):
        view = atoms(memory, r[ADDRESS] + number * group, part.shape[:3], surface, row, atom)
        view[...] = part
    return int(cells.size)


def group_stride(r: UnitRegisters) -> int:
    """Bytes from one group of rows to the next."""
    row = r[WIDTH] + 1 + r[NOTCH]
    return (r[HEIGHT] * row + r[WIDTH] + 1 + r[GROUP_NOTCH]) * r.design.atom


def _short_blocks(r: UnitRegisters, memory: Memory, stream: n.Values) -> int:
    """Blocks of fewer than eight atoms: lane by lane, their bytes without gaps."""
    if (r[WRITTEN_CHANNEL] + 1) * _WORD != len(stream) or r[NOTCH] or r[GROUP_NOTCH]:
        r.refuse(FORM, f"{len(stream)} atoms do not become rows of {(r[WRITTEN_CHANNEL] + 1) * _WORD} bytes")
    stride = r[SURFACE_STRIDE] * r.design.atom
    for lane, row in enumerate(np.ascontiguousarray(stream.T)):
        memory.view(r[ADDRESS] + lane * stride, len(row))[...] = row
    return int(stream.size)


def _stream(r: UnitRegisters, stored: n.Values) -> n.Values:
    """Atoms of (H, W, C), surface by surface."""
    height, width, channels = stored.shape
    atom, size = r.design.atom, channels * stored.itemsize
    if size % atom:
        r.refuse(MODE, f"{size} bytes of a position are no whole atoms")
    cells = np.ascontiguousarray(stored).view(np.uint8).reshape(height * width, -1, atom)
    return np.ascontiguousarray(cells.transpose(1, 0, 2)).reshape(-1, atom)


def _regrouped(r: UnitRegisters, memory: Memory, stream: n.Values) -> int:
    """Rows of atoms lose the end of their last one; or bytes without gaps become rows of whole atoms."""
    atom, written = r.design.atom, (r[HEIGHT] + 1) * (r[WIDTH] + 1)
    if r.need(WAY, _CUT, _PADDED) == _CUT:
        r.need(ROWS, 0)
        r.need(LENGTH, atom)
        row = r[SOURCE_COLUMNS] + 1
        if not 0 < r[KEPT] <= atom or len(stream) % row:
            r.refuse(KEPT, f"{len(stream)} atoms are no rows of {row}")
        found = stream.reshape(-1, row * atom)[:, : (row - 1) * atom + r[KEPT]]
        found = np.ascontiguousarray(found).reshape(-1)
    else:
        r.need(KEPT, atom)
        rows, length = r[ROWS], r[LENGTH]
        if not 0 < rows * length <= stream.size:
            r.refuse(ROWS, f"{stream.size} bytes have no {rows} rows of {length}")
        padded = np.zeros((rows, -(-length // atom) * atom), np.uint8)
        padded[:, :length] = stream.reshape(-1)[: rows * length].reshape(rows, length)
        found = padded.reshape(-1)
    if -(-found.size // atom) != written:
        r.refuse(WIDTH, f"{found.size} bytes are to be written")
    memory.view(r[ADDRESS], found.size)[...] = found
    return int(found.size)
