"""One file computed in several ways side by side: in float, as the vendor's simulator, as a chip, and by the machine that executes
its command words; tensor by tensor, which values part and by how many steps."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import BackendUnavailable, RknnError
from rknnlite.formats import ModelFile
from rknnlite.runtime import open_model
from rknnlite.spi import Context
from rknnlite.spi.inputs import collect

from .dumps import Dump

__all__ = ["WAYS", "Parted", "Ways", "WaysRow", "compare_ways"]

Array = NDArray[Any]
WAYS = {
    "simulator": {"backend": "cpu", "fidelity": "simulator"},
    "float": {"backend": "cpu", "fidelity": "float"},
    "alone": {"backend": "cpu", "fidelity": "silicon"},
    "silicon": {"backend": "cpu", "fidelity": "silicon", "inputs": "board"},
    "machine": {"backend": "npu-machine"},
}
"""How each is opened; ``alone`` computes each layer on the simulator's values."""
_HALF = 0.5


@dataclass(frozen=True)
class Parted:
    """Of how many elements the values part, and by how many steps at most (of floats: by what part of the largest)."""

    count: int
    most: float


@dataclass(frozen=True)
class WaysRow:
    """A tensor. ``floating``, ``alone`` (the layer fed with the simulator's values) and ``silicon`` are told from the simulator,
    ``machine`` from silicon; None where a way has no such tensor."""

    name: str
    op: str
    role: str
    size: int
    floating: Optional[Parted]
    alone: Optional[Parted]
    silicon: Optional[Parted]
    machine: Optional[Parted]


@dataclass(frozen=True)
class Ways:
    """What was found, in order of computation; ``absent`` says why a way could not be gone."""

    model: str
    rows: list[WaysRow]
    absent: dict[str, str]

    def totals(self, way: str, role: str = "") -> tuple[int, int, float]:
        """(elements, how many part, most steps) of a column, over all tensors or those of a role."""
        picked = [(row, getattr(row, way)) for row in self.rows if role in ("", row.role)]
        there = [(row, parted) for row, parted in picked if parted is not None]
        return (
            sum(row.size for row, _ in there),
            sum(parted.count for _, parted in there),
            max((parted.most for _, parted in there), default=0.0),
        )


def compare_ways(
    model: str | os.PathLike[str],
    inputs: Any,
    layout: Optional[str] = None,
    progress: Optional[Callable[[int, int, str], None]] = None,
    **options: Any,
) -> Ways:
    """Compute a ``.rknn`` file in all ways that are there.

    Args:
        inputs, layout: as for ``Context.infer``.
        progress: called with what is done, of how much, and what comes next.
        options: for opening the file, as for ``rknnlite.open``; what ``WAYS`` says goes before.

    Raises:
        ModelInvalid, ModelUnsupported, InputInvalid: of the simulator's way; other ways are ``absent`` then.
    """
    dumps: dict[str, Dump] = {}
    absent: dict[str, str] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rknnlite-ways-")))
        for number, (way, how) in enumerate(WAYS.items()):
            if progress is not None:
                progress(number, len(WAYS), way)
            try:
                with open_model(ModelFile(Path(model)), **{**options, **how}) as context:
                    _feed(context, inputs, layout)
                    golden = dumps["simulator"] if way == "alone" else None
                    dumps[way] = context.dump(folder / way, golden=golden)
            except RknnError as error:
                if way == "simulator":
                    raise
                absent[way] = _why(error, way)
        rows = list(_rows(dumps))
    return Ways(Path(model).name, rows, absent)


def _why(error: RknnError, way: str) -> str:
    if way == "machine" and isinstance(error, BackendUnavailable):
        return "the machine is not installed (Debian: python3-rknnlite-npu)"
    return str(error)


def _feed(context: Context, inputs: Any, layout: Optional[str]) -> None:
    items = collect(inputs, context.inputs, layout, False, shapes=context.shapes)
    context.set_inputs(items)
    context.run()


def _rows(dumps: dict[str, Dump]) -> Iterator[WaysRow]:
    base = dumps["simulator"]
    for name in base.names:
        entry = base.entry(name)
        here = _values(base, name)
        assert here is not None
        step = entry.scale
        there = {way: _values(dump, name) for way, dump in dumps.items()}
        yield WaysRow(
            name=name,
            op=entry.op,
            role=entry.role,
            size=int(here.size),
            floating=_parted(there.get("float"), here, step),
            alone=_parted(there.get("alone"), here, step),
            silicon=_parted(there.get("silicon"), here, step),
            machine=_parted(there.get("machine"), there.get("silicon"), step),
        )


def _values(dump: Dump, name: str) -> Optional[Array]:
    return dump.value(name) if name in dump.names else None


def _parted(values: Optional[Array], other: Optional[Array], step: Optional[float]) -> Optional[Parted]:
    if values is None or other is None or values.size != other.size:
        return None
    a, b = (array.astype(np.float64).ravel() for array in (values, other))
    with np.errstate(invalid="ignore"):
        apart = np.nan_to_num(np.abs(a - b))
    if step:
        return Parted(int(np.count_nonzero(apart > _HALF * step)), float(apart.max(initial=0) / step))
    largest = float(np.nan_to_num(np.abs(b)).max(initial=0)) or 1.0
    return Parted(int(np.count_nonzero(apart)), float(apart.max(initial=0) / largest))
