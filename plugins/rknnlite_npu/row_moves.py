"""What the runtime itself moves around recurrent nodes: rows of vectors, from the form of one tensor into that of another.

The units read and write such rows in whole atoms, one behind the other. Where the rows of the input are no whole atoms, command
words read a copy (``..._exSecondary1``), with the first states behind it; where the output lies in another form, they write
one (``..._exSecondary2``). Nobody has recorded the runtime's part; both ends are known from the words, and in files for RV1106
tasks of the NPU make the same copy of an input. There as here the words read the first states from the beginning of the copy,
where the input lies, not from behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import RknnError

from .command_words import DESTINATIONS
from .program import NpuNode, NpuProgram, NpuTensor
from .tensor_bytes import TensorBytes

__all__ = ["RowMove", "recurrent", "row_moves"]

Bytes = NDArray[np.uint8]
_RECURRENT = ("exLSTM", "exGRU", "LSTM", "GRU")
_ROWS_READ, _ROWS_WRITTEN = "_exSecondary1", "_exSecondary2"
_STATES, _RANK = slice(5, 7), 3  # among the operands: the first states, and their rank


class RowMove(NamedTuple):
    """Rows of ``sources`` (each a tensor, its form) one behind the other into ``target``, before or behind a node.

    ``forms`` are those of the sides whose rows are no whole atoms: of the sources before the node, of the target behind it.
    ``atom``: its bytes, on the other side.
    """

    node: int
    before: bool
    sources: tuple[int, ...]
    target: int
    forms: tuple[TensorBytes, ...]
    atom: int

    def run(self, view: Callable[[int], Bytes]) -> None:
        """Move them; ``view`` gives the bytes of a tensor."""
        if self.before:
            at, target = 0, view(self.target)
            for source, form in zip(self.sources, self.forms):
                rows = form.unpack(view(source)).reshape(-1, form.shape[-1])
                padded = np.zeros((len(rows), _whole(form, self.atom)), np.uint8)
                padded[:, : rows.shape[1] * form.dtype.itemsize] = np.ascontiguousarray(rows).view(np.uint8)
                target[at : at + padded.size] = padded.reshape(-1)
                at += padded.size
            return
        form = self.forms[0]
        whole, count = _whole(form, self.atom), prod(form.shape[:-1])
        stored = view(self.sources[0])[: count * whole].reshape(count, whole)
        row = form.shape[-1] * form.dtype.itemsize
        form.pack(
            np.ascontiguousarray(stored[:, :row]).view(form.dtype).reshape(form.shape), view(self.target)
        )


def recurrent(node: NpuNode) -> bool:
    """Whether tasks of the NPU compute a recurrent node."""
    return node.on_npu and node.type in _RECURRENT


def row_moves(program: NpuProgram) -> tuple[RowMove, ...]:
    """Those of a program, as far as it is clear what belongs where."""
    written = {r.tensor for r in program.relocations if int(program.words[r.word]) & 0xFFFF in DESTINATIONS}
    read = {r.tensor for r in program.relocations} - written
    found = []
    for number, node in enumerate(program.nodes):
        if not recurrent(node):
            continue
        found += [*_before(program, number, read), *_behind(program, number, written)]
    return tuple(found)


def _before(program: NpuProgram, number: int, read: set[int]) -> Iterator[RowMove]:
    node = program.nodes[number]
    target = _named(program, node, _ROWS_READ, read)
    if target is None:
        return
    known = range(len(program.tensors))
    states = (i for i in node.inputs[_STATES] if i in known and len(program.tensors[i].shape) == _RANK)
    sources = (*node.inputs[:1], *states)
    forms = _forms(program, sources)
    atom, size = _atom(program.tensors[target]), program.tensors[target].size
    if forms and atom and sum(prod(f.shape[:-1]) * _whole(f, atom) for f in forms) == size:
        yield RowMove(number, True, sources, target, forms, atom)


def _behind(program: NpuProgram, number: int, written: set[int]) -> Iterator[RowMove]:
    node = program.nodes[number]
    source = _named(program, node, _ROWS_WRITTEN, written)
    target = node.outputs[0] if node.outputs else -1
    if source is None or target < 0 or target in written:
        return
    known, forms = program.tensors[source], _forms(program, (target,))
    atom = _atom(known)
    if forms and atom and prod(forms[0].shape[:-1]) * _whole(forms[0], atom) == known.size:
        yield RowMove(number, False, (source,), target, forms, atom)


def _named(program: NpuProgram, node: NpuNode, ending: str, used: set[int]) -> Optional[int]:
    """The operand of a node whose name has this ending, if command words use it so."""
    return next((i for i in node.inputs if i in used and program.tensors[i].name.endswith(ending)), None)


def _forms(program: NpuProgram, numbers: Sequence[int]) -> tuple[TensorBytes, ...]:
    """How the tensors lie; empty where it is not known of one."""
    tensors = program.tensors_of(numbers)
    try:
        found = [TensorBytes.of(t, t.shape, t.dtype) for t in tensors if t.dtype is not None and t.shape]
    except RknnError:
        return ()
    return tuple(found) if len(found) == len(numbers) else ()


def _atom(tensor: NpuTensor) -> int:
    """Bytes of an atom, from the form of a tensor of rows."""
    if len(tensor.native) != 5 or tensor.dtype is None:
        return 0
    return tensor.native[-1] * tensor.dtype.numpy.itemsize


def _whole(form: TensorBytes, atom: int) -> int:
    """Bytes of a row in whole atoms."""
    return -(-form.shape[-1] * form.dtype.itemsize // atom) * atom
