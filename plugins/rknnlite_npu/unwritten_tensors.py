"""Tensors that are read and that nothing writes: the runtime arranges them itself, which nobody has recorded.

Seen with weights that are activations, and with recurrent nodes, of which ``row_moves`` knows most.
"""

from __future__ import annotations

from rknnlite.formats.slots import TensorKind

from .command_words import DESTINATIONS
from .program import ACTIVATION_KINDS, COMMAND_KINDS, NpuProgram
from .row_moves import recurrent, row_moves

__all__ = ["borrows_weights", "unwritten_tensors"]

_THERE = (*COMMAND_KINDS, TensorKind.TASKS, TensorKind.HELPER)


def unwritten_tensors(program: NpuProgram) -> list[str]:
    """Their names: no node gives them, no caller, and no command word writes there."""
    return [program.tensors[i].name for i in _unwritten(program)]


def borrows_weights(program: NpuProgram) -> bool:
    """Whether some of these are weights: they were removed, and are those of another model."""
    return any(program.tensors[i].kind not in ACTIVATION_KINDS for i in _unwritten(program))


def _unwritten(program: NpuProgram) -> list[int]:
    read, known = set[int](), {*program.inputs}
    for node in program.nodes:
        (read if recurrent(node) else known).update(i for i in node.outputs if i >= 0)
    known.update(move.target for move in row_moves(program))
    for tensor, _, word in program.relocations:
        (known if int(program.words[word]) & 0xFFFF in DESTINATIONS else read).add(tensor)
    tensors = program.tensors
    return [i for i in sorted(read - known) if not tensors[i].constant and tensors[i].kind not in _THERE]
