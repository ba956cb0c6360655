"""A picture of a comparison: distance and time per layer, and what pictures of layers share. Needs the extra ``plot``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rknnlite.extras import missing
from rknnlite.files.writing import writing

from .tensor_error import TensorError

__all__ = ["draw", "height_of", "need_figures", "save"]

_LEAST = 1e-7  # cosine distances below this are noise, and 0 has no place on a logarithmic axis
_INCHES_PER_LAYER = 0.22
_SMALLEST, _TALLEST = 3.0, 200.0  # inches


def need_figures() -> Any:
    """matplotlib's class of figures; raises BackendUnavailable without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing("plot", "plots need matplotlib", error) from None
    return Figure


def height_of(layers: int) -> float:
    """Inches for so many layers."""
    return min(_TALLEST, max(_SMALLEST, 1.5 + _INCHES_PER_LAYER * layers))


def save(figure: Any, path: Path) -> None:
    """Write a figure as PNG, whole or not at all."""
    with writing(path) as file:
        figure.savefig(file, format="png", dpi=100)


def draw(tensors: Sequence[TensorError], title: str, path: str | os.PathLike[str]) -> Path:
    """Write the PNG with a row per tensor; raises BackendUnavailable without matplotlib."""
    figure_class = need_figures()
    timed = any(tensor.time_us is not None for tensor in tensors)
    figure = figure_class(figsize=(14 if timed else 10, height_of(len(tensors))), layout="constrained")
    axes = figure.subplots(1, 3 if timed else 2, sharey=True, squeeze=False)[0]
    _distances(axes[0], axes[1], tensors)
    if timed:
        axes[2].barh(np.arange(len(tensors)), [tensor.time_us or 0.0 for tensor in tensors], color="tab:gray")
        axes[2].set_xlabel("time (us)")
    axes[0].set_yticks(np.arange(len(tensors)), [tensor.label for tensor in tensors], fontsize=7)
    axes[0].invert_yaxis()
    figure.suptitle(title, fontsize=9)
    target = Path(path)
    save(figure, target)
    return target


_KINDS = {
    "entire": "entire",
    "single": "single",
    "runtime_entire": "board, entire",
    "runtime_single": "board, single",
}


def _distances(cosines: Any, lengths: Any, tensors: Sequence[TensorError]) -> None:
    places = np.arange(len(tensors))
    columns = {label: [getattr(tensor, kind) for tensor in tensors] for kind, label in _KINDS.items()}
    shown = {label: found for label, found in columns.items() if any(found)}
    height = 0.8 / max(2, len(shown))
    for number, (label, found) in enumerate(shown.items()):
        shift = (number - (len(shown) - 1) / 2) * height
        away = [max(_LEAST, 1 - d.cosine) if d else _LEAST for d in found]
        cosines.barh(places + shift, away, height, label=label)
        lengths.barh(places + shift, [d.euclidean if d else 0.0 for d in found], height, label=label)
    cosines.set_xscale("log")
    cosines.set_xlabel("1 - cosine")
    lengths.set_xlabel("Euclidean distance")
    cosines.legend()
