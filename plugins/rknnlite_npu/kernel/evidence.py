"""What of the NPU is known from chips, by measurements or recordings: whatever else there is runs by name alone."""

from __future__ import annotations

from itertools import chain
from typing import Optional

from rknnlite.errors import RknnError
from rknnlite.formats import ModelFile
from rknnlite.socs import Soc
from rknnlite.tensor import DType

from ..opened_model import soc_of
from ..pixels import pixel_doubts
from ..program import NpuProgram, read_program
from ..submission import doubts_of
from ..unwritten_tensors import borrows_weights

__all__ = ["MEASURED", "lacking_evidence", "needs_master"]

MEASURED = {"rk3588": frozenset({DType.INT8, DType.FLOAT16})}
"""SoC -> element types of activations: its arithmetic was measured, and what a runtime submits was recorded (docs/open-npu.md)."""


def lacking_evidence(file: ModelFile, here: Optional[Soc]) -> str:
    """Why nothing is known of this model on the NPU of this machine; empty where something is.

    Raises nothing: a file that cannot be read has its reason told as well.
    """
    if here is None or here.name not in MEASURED:
        return f"nobody has measured the NPU of {here.name.upper() if here else 'this board'}"
    try:
        soc_of(file, here.name)
        program = read_program(file.model, file.model.default_shape)
    except RknnError as error:
        return str(error)
    others = sorted(dtype.short for dtype in _types(program) - MEASURED[here.name])
    if others:
        return f"nobody has measured layers of {', '.join(others)} on {here.name.upper()}"
    return next(chain(doubts_of(program), pixel_doubts(program)), "")


def needs_master(file: ModelFile) -> bool:
    """Whether its weights are another model's, so that it can run nowhere but beside that one."""
    try:
        return borrows_weights(read_program(file.model, file.model.default_shape))
    except RknnError:
        return False


def _types(program: NpuProgram) -> set[DType]:
    """Of the activations of the NPU's nodes."""
    nodes = [node for node in program.nodes if node.on_npu]
    tensors = [t for node in nodes for t in program.tensors_of((*node.inputs, *node.outputs))]
    return {tensor.dtype for tensor in tensors if tensor.dtype is not None and not tensor.constant}
