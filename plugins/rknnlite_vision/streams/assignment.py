"""Which row goes with which column, so that the costs together are least: Kuhn's problem, by shortest augmenting paths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["assign"]

Array = NDArray[Any]
Indices = NDArray[np.intp]


def assign(cost: Array, limit: float) -> list[tuple[int, int]]:
    """Pairs (row, column), each of either at most once: those whose costs together, less ``limit`` for each pair, are least.

    So no pair costs ``limit`` or more, and one that is left out saves less than it would cost. NaN is never paired.

    Examples:
        >>> assign(np.array([[0.1, 0.2], [0.1, 0.9]]), 0.8)
        [(0, 1), (1, 0)]
    """
    gain = np.where(cost < limit, np.asarray(cost, np.float64) - limit, 0.0)
    pairs: list[tuple[int, int]] = []
    for rows, columns in _islands(gain < 0):
        part = gain[np.ix_(rows, columns)]
        wide = len(rows) <= len(columns)
        for one, other in enumerate(_columns(part if wide else part.T)):
            row, column = (one, other) if wide else (other, one)
            if part[row, column] < 0:
                pairs.append((int(rows[row]), int(columns[column])))
    return sorted(pairs)


def _islands(linked: NDArray[np.bool_]) -> Iterator[tuple[Indices, Indices]]:
    """Rows and columns that hang together; things far from each other make many small ones."""
    open_rows = np.asarray(linked.any(axis=1))
    while open_rows.any():
        rows = np.zeros(len(linked), bool)
        rows[open_rows.argmax()] = True
        while True:
            columns = linked[rows].any(axis=0)
            more = np.asarray(linked[:, columns].any(axis=1))
            if (more == rows).all():
                break
            rows = more
        yield np.flatnonzero(rows), np.flatnonzero(columns)
        open_rows &= ~rows


def _columns(cost: Array) -> list[int]:
    """For each row its column; there are no more rows than columns.

    Row after row is added along the path of least reduced cost to a column that is free; the prices of rows and columns
    keep all reduced costs at or above zero.
    """
    height, width = cost.shape
    of_rows, of_columns = np.zeros(height), np.zeros(width)
    owner = np.full(width, -1)  # the row of each column
    taken = np.full(height, -1)  # the column of each row
    for new in range(height):
        best, came = np.full(width, np.inf), np.full(width, -1)
        done = np.zeros(width, bool)
        row, reached, length = new, -1, 0.0
        visited = []
        while reached < 0:
            there = length + cost[row] - of_rows[row] - of_columns
            shorter = ~done & (there < best)
            best[shorter], came[shorter] = there[shorter], row
            column = int(np.where(done, np.inf, best).argmin())
            length = best[column]
            done[column] = True
            if owner[column] < 0:
                reached = column
            else:
                row = int(owner[column])
                visited.append(row)
        of_rows[new] += length
        of_rows[visited] += length - best[taken[visited]]
        of_columns[done] -= length - best[done]
        while reached >= 0:
            row = int(came[reached])
            owner[reached] = row
            taken[row], reached = reached, int(taken[row])
    found: list[int] = taken.tolist()
    return found
