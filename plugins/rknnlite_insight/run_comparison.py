"""Runs the two sides of a comparison and brings their tensors together."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from rknnlite.errors import ParamInvalid
from rknnlite.log import logger
from rknnlite.runtime import resolve_ops
from rknnlite.spi.arguments import typed

from .board_comparison import BoardSide
from .compared_run import Run, Side
from .comparison import Comparison
from .tensor_matching import Steps, match

__all__ = ["Side", "compare"]

Array = NDArray[Any]
_MODES = ("entire", "single")


@typed
def compare(
    model: Side,
    reference: Side,
    inputs: Any = None,
    mode: str = "entire",
    *,
    layout: str | None = None,
    reference_inputs: Mapping[str, Array] | None = None,
    floating: str | os.PathLike[str] | None = None,
    board: Side | None = None,
    plot: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int, str], None] | None = None,
    **options: Any,
) -> Comparison:
    """Compare two runs of a network, tensor by tensor. Tensors of the same name are compared.

    Where the model is a folder that the vendor's runtime wrote on a board (``RKNN_LOG_LEVEL=5``), the errors are the
    runtime's, as the manual's table has them; ``"single"`` then runs each layer of the reference on the board's values.

    Each side is the path of a ``.rknn`` file, an open context, the path of an ``.onnx`` file (run by onnxruntime,
    extra ``fast``), or a folder of dumps (or a ``Dump``).

    Args:
        model: what is judged.
        reference: what it is judged by, the golden values.
        inputs: as for ``Context.infer``; None where both sides are dumps.
        mode: ``"entire"``: errors add up from layer to layer. ``"single"``: also each layer alone, computed on the
            reference's values; the model's backend must be able to do that (the CPU reference is).
        layout: of the inputs, ``"nhwc"`` (default) or ``"nchw"``.
        reference_inputs: what the ONNX file gets, by name. Without it: the inputs with mean and standard deviation
            of the ``.rknn`` file on the other side, or the input tensors of the context or dump there.
        floating: path of a network that is run in float, an ``.onnx`` file or the ``.rknn`` file itself (its dequantised
            layers then): how far the model and the reference are from it stands beside how far they are apart.
        board: the same model on a board: a context that is open there, or the folder that the vendor's runtime dumped. The
            model is the simulator then, and the manual's columns ``runtime_error`` stand beside ``simulator_error``.
        plot: where to draw distance and time per layer, a PNG (extra ``plot``).
        progress: called with what is done, of how much, and what comes next: first the runs, then the tensors.
        options: for opening ``.rknn`` files, as for ``rknnlite.open`` (``backend``, ``fidelity``, ...); the operators
            in ``custom_ops``, and those of plugins, also compute the custom nodes of an ONNX file.

    Raises:
        ParamInvalid: a side or mode that is none. InputInvalid, ModelInvalid, BackendUnavailable and the like.
    """
    if mode not in _MODES:
        raise ParamInvalid(f"mode must be 'entire' or 'single', not {mode!r}")
    ops = resolve_ops(options.pop("custom_ops", ()))
    options["custom_ops"] = ops  # compiled ones are loaded once for both sides
    with ExitStack() as stack:
        runs = [Run(side, stack, options) for side in (model, reference)]
        order = sorted(runs, key=lambda run: run.is_onnx)  # an ONNX file may need what the other side was fed
        there = None if board is None else BoardSide(board, stack)
        passes = 1 + (mode == "single")
        steps = Steps(progress, 1 + passes * (1 + (there is not None)) + (floating is not None))
        for run in order:
            steps.next(run.label)
            run.make(inputs, layout, runs[1] if run is runs[0] else runs[0], reference_inputs, ops)
        for run in (run for run in runs if run.lacks):
            logger.warning("%s: only its outputs are compared: %s", run.label, run.lacks)
        dumped = runs[0].dump.of_board
        if dumped and there is not None:
            raise ParamInvalid(
                f"{runs[0].label} was dumped on a board already; give the .rknn file as the model"
            )
        if dumped:
            runs[0].take_names(runs[1].dump)
        judge, golden = (runs[1], runs[0]) if dumped else (runs[0], runs[1])
        if mode == "single":
            steps.next(f"layers of {judge.label} alone")
        alone = judge.make_single(golden.dump, inputs, layout) if mode == "single" else None
        if there is not None:
            steps.next(f"{there.label} on the board")
            there.make(inputs, layout, runs[0])
            if mode == "single":
                steps.next("layers on the board alone")
                there.make_single(runs[0], runs[1].dump, inputs, layout)
        third = _floating(floating, stack, options)
        if third is not None:
            steps.next(f"{third.label} in float")
            third.make(
                inputs, layout, next((r for r in runs if not r.is_onnx), runs[0]), reference_inputs, ops
            )
        own = third is not None and _same_file(model, floating)
        found = match(runs[0], runs[1], mode, alone, third, own, there, progress)
    if plot is not None:
        found.plot(plot)
    return found


def _floating(
    path: str | os.PathLike[str] | None, stack: ExitStack, options: Mapping[str, Any]
) -> Run | None:
    """The network in float; raises ParamInvalid for what is no file of a network."""
    if path is None:
        return None
    if Path(path).is_dir():
        raise ParamInvalid(f"{path} is a folder; the network in float is an .onnx or .rknn file")
    return Run(Path(path), stack, {**options, "backend": "cpu", "fidelity": "float"})


def _same_file(side: Side, path: str | os.PathLike[str] | None) -> bool:
    """Whether the network in float is the file of a side."""
    return isinstance(side, (str, os.PathLike)) and path is not None and Path(side).samefile(path)
