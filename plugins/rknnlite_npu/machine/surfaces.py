"""How tensors lie in memory: surfaces of rows of atoms, 16 bytes with the channels of one position each."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import as_strided

from .memory import Bytes, Memory
from .numbers import SIZES, Values, decoded
from .refused import MachineRefused

__all__ = ["ATOM", "MOST_ELEMENTS", "atoms", "check_size", "numbers"]

ATOM = 16
MOST_ELEMENTS = 1 << 26
"""Of one cube. Registers could ask for far more by reading the same bytes again and again; no task of a file comes near."""


def check_size(unit: str, task: int, *extents: int) -> None:
    """Refuse cubes that are larger than any of a file, or have no size."""
    total = 1
    for extent in extents:
        total *= extent
    if not 0 < total <= MOST_ELEMENTS:
        raise MachineRefused(
            unit, None, "size", max(total, 0), task, f"a cube of {' x '.join(map(str, extents))}"
        )


def atoms(
    memory: Memory,
    address: int,
    shape: tuple[int, int, int],
    surface_bytes: int,
    row_bytes: int,
    atom: int = ATOM,
) -> Bytes:
    """A view of a cube's bytes: (surfaces, rows, columns, atom).

    Args:
        shape: surfaces, rows, columns.
        surface_bytes, row_bytes: from one to the next.

    Raises:
        MachineRefused: some of it lies in no buffer.
    """
    surfaces, rows, columns = shape
    strides = (surface_bytes if surfaces > 1 else 0, row_bytes if rows > 1 else 0)
    if min(strides) < 0:
        raise MachineRefused("memory", None, "stride", min(strides) & 0xFFFFFFFF, why="goes backwards")
    size = (surfaces - 1) * strides[0] + (rows - 1) * strides[1] + columns * atom
    plain = memory.view(address, size)
    return as_strided(plain, (surfaces, rows, columns, atom), (*strides, atom, 1))


def numbers(view: Bytes, precision: int, kind: type[np.floating]) -> Values:
    """The numbers of a view of atoms: (rows, columns, channels), as ``kind``."""
    surfaces, rows, columns, atom = view.shape
    values = decoded(view, precision)
    out = np.empty((rows, columns, surfaces, atom // SIZES[precision]), kind)
    out[...] = values.transpose(1, 2, 0, 3)
    return out.reshape(rows, columns, -1)
