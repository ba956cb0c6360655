"""Columns of a batch as the inputs of a model, and its outputs as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid, OutputInvalid, ParamInvalid
from rknnlite.tensor import TensorAttr

__all__ = ["Columns", "column", "joined", "named", "part", "stacked"]

Array = NDArray[Any]
Columns = Union[None, str, Sequence[str], Mapping[str, str]]


def named(given: Columns, names: Sequence[str], what: str) -> list[str]:
    """One column for each of the model's ``names``; ``given`` is one name, names in order, or ``{name: column}``.

    Raises:
        ParamInvalid: number or names do not fit the model.
    """
    if given is None:
        return list(names)
    if isinstance(given, Mapping):
        if set(given) != set(names):
            raise ParamInvalid(f"{what} has {sorted(given)}, but the model's {what} are {list(names)}")
        return [given[name] for name in names]
    columns = [given] if isinstance(given, str) else list(given)
    if len(columns) != len(names) or len(set(columns)) != len(columns):
        raise ParamInvalid(
            f"{what} has the columns {columns}, but the model's {what} are {list(names)}; name one for each"
        )
    return columns


def column(batch: Mapping[str, Any], name: str) -> Any:
    """A column of a batch; raises InputInvalid for one that it does not have."""
    try:
        return batch[name]
    except KeyError:
        raise InputInvalid(f"there is no column {name!r}; the rows have {sorted(batch)}") from None


def joined(rows: Sequence[Array], attr: TensorAttr, batch: int) -> Array:
    """The rows of one call as an input; missing ones of a batch are the last one again.

    Raises:
        InputInvalid: the rows do not fit together.
    """
    rank = len(attr.dims)
    if batch == 1:
        (row,) = rows
        return row[None] if row.ndim == rank - 1 else row
    bare = [row[0] if row.ndim == rank and row.shape[0] == 1 else row for row in rows]
    shapes = {row.shape for row in bare}
    if len(shapes) > 1:
        raise InputInvalid(
            f"input {attr.name}: rows of one batch must have one shape, these have {sorted(shapes)}"
        )
    return np.stack([*bare, *[bare[-1]] * (batch - len(bare))])


def part(output: Array, row: int, batch: int) -> Array:
    """What belongs to a row, without the leading axis of 1.

    Raises:
        OutputInvalid: an output cannot be divided among the rows.
    """
    if batch == 1:
        return output[0] if output.ndim and output.shape[0] == 1 else output
    each, rest = divmod(output.shape[0] if output.ndim else 0, batch)
    if rest or not each:
        raise OutputInvalid(f"an output of shape {list(output.shape)} cannot be divided among {batch} rows")
    return output[row] if each == 1 else output[row * each : (row + 1) * each]


def stacked(values: Sequence[Any]) -> Array:
    """A column: one array where the values are of one shape and type, else one object per row."""
    arrays = [value for value in values if isinstance(value, (np.ndarray, np.generic))]
    if len(arrays) < len(values):
        found = np.asarray(values) if all(np.isscalar(value) for value in values) else None
    else:
        found = np.stack(arrays) if len({(a.shape, a.dtype) for a in arrays}) == 1 else None
    if found is None:
        found = np.empty(len(values), object)
        found[:] = values
    return found
