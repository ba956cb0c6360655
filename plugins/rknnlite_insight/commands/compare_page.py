"""The page of ``rknnlite compare --html``: whether two runs are the same, and where an error is born."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Optional

from rknnlite_pages.chart import Chart, Series
from rknnlite_pages.report import Bar, Cell, HtmlReport

from .. import Comparison, Distance, Kind, TensorError, Verdict

__all__ = ["page"]

_MOODS = ("good", "doubtful", "bad")
_FLOAT = ("model", "reference")
_UNITS = ("1 - cosine", "Euclidean")
_MANY = 6  # names that are shown without being asked for
_LEAST = 1e-7  # of 1 - cosine: below is what summing up leaves
_RELATIVE = (
    "A relative error is the Euclidean distance divided by the length of the reference's tensor. Alone: the layer computes on "
    "the reference's values; after a whole run the errors of all layers before are in it. Lost in storing: what rounding to the "
    "model's integers, with their range, takes from the reference's own values."
)


def page(
    found: Comparison, verdict: Verdict, there: Verdict | None = None, coarse: Sequence[str] = ()
) -> HtmlReport:
    """The report of a comparison, of the verdict on it and of that on the board; ``coarse``: what channels lose in the file."""
    lines = [*verdict.lines, *coarse]
    if there is not None:
        lines += [f"On the board: {there.headline}", *there.lines]
    lines += found.board.lines(len(found.tensors)) if found.board else []
    if found.unmatched:
        lines.append(
            f"{len(found.unmatched)} tensors of the model have no counterpart and were not compared; they are listed below."
        )
    worse = there if there is not None and _MOODS.index(there.mood) > _MOODS.index(verdict.mood) else verdict
    headline = f"On the simulator: {verdict.headline}" if found.board else verdict.headline
    report = HtmlReport("Accuracy analysis", _facts(found), headline, lines, worse.mood)
    if verdict.kind is not Kind.IDENTICAL or found.board:
        _add_birth(report, verdict)
        _add_charts(report, found, verdict)
    if there is not None:
        _add_birth(report, there, "Where the error is born on the board")
        _add_board_chart(report, found)
    _add_tables(report, found)
    return report


def _facts(found: Comparison) -> list[tuple[str, str]]:
    facts = [("model", found.model), ("reference", found.reference)]
    facts += [("board", found.board.title)] if found.board else []
    facts += [("network in float", found.floating)] if found.floating else []
    facts += [("tensors compared", str(len(found.tensors)))]
    facts += [("errors of", "the runtime on a board")] if found.runtime else []
    return [*facts, ("lowest cosine", found.worst.label)] if found.worst else facts


def _add_board_chart(report: HtmlReport, found: Comparison) -> None:
    """Both machines after a whole run, layer by layer."""
    labels = [tensor.label for tensor in found.tensors]
    both = [
        Series("simulator", [_away(tensor.entire) for tensor in found.tensors]),
        Series("board", [_away(tensor.runtime_entire) for tensor in found.tensors]),
    ]
    report.chart(
        Chart(
            "Simulator and board over depth",
            "1 - cosine after a whole run, logarithmic",
            labels,
            both,
            logarithmic=True,
        )
    )


def _add_birth(report: HtmlReport, verdict: Verdict, title: str = "Where the error is born") -> None:
    """The layers where the error is born, or else the largest, each with the error that it found and the one that it left."""
    shown = verdict.born or verdict.largest
    if not shown:
        return
    numbers = {id(layer): number for number, layer in enumerate(verdict.layers)}
    rows: list[list[Cell]] = []
    for layer in shown:
        number = numbers[id(layer)]
        before = _percent(verdict.layers[number - 1].entire) if number else None
        rows.append(
            [
                number + 1,
                layer.tensor.label,
                _percent(layer.own),
                _rounded(layer.times, 1),
                _rounded(layer.steps, 2),
                _percent(layer.stored),
                before,
                _percent(layer.entire),
            ]
        )
    note = "" if verdict.born else " No layer stands out, all add a little; these are the largest."
    report.table(
        title,
        (
            "layer",
            "tensor",
            "relative error alone (%)",
            "times the typical layer",
            "error (steps, rms)",
            "lost in storing (%)",
            "whole run, layer before (%)",
            "whole run, this layer (%)",
        ),
        rows,
        _RELATIVE + note,
    )


def _add_charts(report: HtmlReport, found: Comparison, verdict: Verdict) -> None:
    labels = [tensor.label for tensor in found.tensors]
    marked = [number for number, layer in enumerate(verdict.layers) if layer in verdict.born]
    about: dict[str, Any] = {"logarithmic": True, "marked": marked, "marked_name": "where the error is born"}
    alone = verdict.alone
    errors = [Series("after a whole run", [_percent(layer.entire) for layer in verdict.layers])]
    errors += [Series("alone", [_percent(layer.own) for layer in verdict.layers])] if alone else []
    cosines = [Series("after a whole run", [_away(tensor.entire) for tensor in found.tensors])]
    cosines += [Series("alone", [_away(tensor.single) for tensor in found.tensors])] if alone else []
    report.chart(Chart("Relative error over depth", "%, logarithmic", labels, errors, **about))
    report.chart(Chart("Cosine over depth", "1 - cosine, logarithmic", labels, cosines, **about))


def _add_tables(report: HtmlReport, found: Comparison) -> None:
    headers = ["layer", "tensor", "shape", *(f"{unit}{of}" for of in _columns(found) for unit in _UNITS)]
    rows = [_row(number, tensor, found) for number, tensor in enumerate(found.tensors, 1)]
    outputs = {tensor.name for tensor in found.outputs}
    report.table("Outputs", headers, [r for r, t in zip(rows, found.tensors) if t.name in outputs])
    report.table("All tensors in order of execution", headers, rows)
    for title, names in (("Only in the model", found.unmatched), ("Only in the reference", found.missing)):
        if names:
            report.table(
                f"{title} ({len(names)})", ["tensor"], [[name] for name in names], folded=len(names) > _MANY
            )


def _row(number: int, tensor: TensorError, found: Comparison) -> list[Any]:
    optional = list(_columns(found, tensor).values())
    cells = [cell for one in optional for cell in (_cells(one) if one else [None, None])]
    return [number, tensor.label, str(list(tensor.shape)), *cells]


def _columns(found: Comparison, tensor: TensorError | None = None) -> dict[str, Distance | None]:
    """What is said of a tensor, by what the heads of the columns add to their unit."""
    columns: dict[str, Distance | None] = {"": tensor.entire if tensor else None}
    if found.mode == "single":
        columns[", alone"] = tensor.single if tensor else None
    if found.board is not None:
        columns[", board"] = tensor.runtime_entire if tensor else None
        if found.board.single:
            columns[f", board {found.board.single}"] = tensor.runtime_single if tensor else None
    if found.floating:
        columns.update(
            zip(
                (f", {side} to float" for side in _FLOAT),
                ((tensor.to_float, tensor.reference_to_float) if tensor else (None, None)),
            )
        )
    return columns


def _cells(found: Distance) -> list[Any]:
    """The bar is logarithmic: none at 1e-7, full at 1."""
    away = 1.0 if math.isnan(found.cosine) else max(0.0, 1 - found.cosine)
    length = -math.log10(_LEAST)
    return [Bar(f"{away:.2e}", (math.log10(max(away, _LEAST)) + length) / length, away), found.euclidean]


def _away(found: Optional[Distance]) -> Optional[float]:
    if found is None:
        return None
    away = 1 - found.cosine
    return math.inf if math.isnan(away) else away if away >= _LEAST else 0.0


def _percent(share: Optional[float]) -> Optional[float]:
    return None if share is None else 100 * share


def _rounded(value: Optional[float], digits: int) -> Optional[float]:
    return None if value is None else round(value, digits)
