"""What the layers of a network tell, and how each kind of layer fares over all networks."""

from __future__ import annotations

from collections.abc import Sequence

from cells import percent
from data_file import DataTable
from layers import RELATIVE, Layer
from measure import Measured

__all__ = ["kinds", "told"]


def told(result: Measured) -> str:
    """The finding of a network that is not good, from its layers."""
    return _told_int8(result) if result.layers[0].quantised else _told_float(result)


def _told_float(result: Measured) -> str:
    odd, layers = result.odd, result.layers
    assert odd is not None
    most = f"most {odd.op}: {odd.error:.1e}"
    if result.explained:
        return f"each of {len(layers)} layers alone within {RELATIVE:g} of its largest magnitude; {most}"
    off = sum(not layer.fits for layer in layers)
    return f"not explained yet: {off} of {len(layers)} layers; {most} (`{odd.tensor}`)"


def _told_int8(result: Measured) -> str:
    odd, layers = result.odd, result.layers
    assert odd is not None
    same = f"{_count(layers, 'even')} equal, {_count(layers, 'proven')} with the simulator's roundings"
    least = f"least {odd.op}: {percent(odd.same)} equal, {percent(odd.near)} within 1 LSB, largest {odd.error:.0f}"
    near = sum(layer.fits and not layer.even and not layer.proven for layer in layers)
    if result.explained:
        rest = f", {near} within 1 LSB; {least}" if near else ""
        return f"each of {len(layers)} layers alone: {same}{rest}"
    off = sum(not layer.fits for layer in layers)
    return f"not explained yet: {off} of {len(layers)} layers ({same}, {near} within 1 LSB); {least} (`{odd.tensor}`)"


def _count(layers: Sequence[Layer], what: str) -> int:
    return sum(bool(getattr(layer, what)) for layer in layers)


def kinds(results: Sequence[Measured]) -> DataTable:
    """How many int8 layers of each kind are equal, proven, near, and none of these."""
    found: dict[str, list[Layer]] = {}
    for result in results:
        for layer in result.layers:
            if layer.quantised:
                found.setdefault(layer.op, []).append(layer)
    total = [layer for layers in found.values() for layer in layers]
    rows = [_kind(op, found[op]) for op in sorted(found, key=lambda op: (-len(found[op]), op))]
    columns = ["layer", "number", "equal", "with its roundings", "within 1 LSB", "not explained", "least equal"]  # fmt: skip
    return DataTable(columns, [], [*rows, _kind("all", total)] if total else [])


def _kind(op: str, layers: Sequence[Layer]) -> list[str]:
    even, proven, fits = (_count(layers, what) for what in ("even", "proven", "fits"))
    least = min(layer.same for layer in layers)
    counts = len(layers), even, proven, fits - even - proven, len(layers) - fits
    return [op, *map(str, counts), percent(least)]
