"""What a runtime hands to the kernel for one run: a pure function of the file, the addresses and the way of dividing cores.

Measured: word for word what a real RK3588 was given (runtime 2.3.0) and what the genuine runtime 1.6.0 submits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid
from rknnlite.formats import Model
from rknnlite.formats.slots import TensorKind

from .command_words import (
    DESTINATIONS,
    PC,
    TAIL,
    CommandWord,
    Words,
    numbers_of,
    units_of,
    values_of,
    with_values,
)
from .cores import Job, jobs
from .loop_counters import start_values
from .pixels import pixel_doubts, with_pixels
from .placement import Bases, Placement, place
from .program import COMMAND_KINDS, NpuNode, NpuProgram, read_program
from .program_chain import NEXT_PROGRAM, check_chain
from .relocations import Relocation, strangers
from .row_moves import row_moves
from .task import Task
from .unwritten_tensors import unwritten_tensors

__all__ = ["Submission", "doubts_of", "plan", "plan_program"]

_RECORDED = "RKNPU v2"
_RECORDED_CONTAINER = 6
_WRITTEN_TO, _REGISTER = "RKNPU f2", 0x1064  # heard from people with RK3576


@dataclass(frozen=True, eq=False)
class Submission:
    """A program at its place.

    Attributes:
        words: all command words, as they lie in the weight buffer from ``placement.commands`` on.
        tasks: all records, as they lie in the task buffer.
        pixels: the first layers take uint8 pixels.
        doubts: what of it was never compared with a recording.
    """

    program: NpuProgram
    placement: Placement
    words: Words
    tasks: tuple[Task, ...]
    pixels: bool
    doubts: tuple[str, ...]

    @property
    def cpu_nodes(self) -> tuple[NpuNode, ...]:
        """The nodes that the runtime computes on the CPU."""
        return tuple(n for n in self.program.nodes if n.type and not n.on_npu and n.inputs and n.outputs)

    def jobs(self, mask: int = 0) -> tuple[Job, ...]:
        """What is handed over at once, for the cores of a mask; 0 is one core. See ``cores``."""
        return jobs(self.program, mask, self.pixels)

    def words_of(self, task: int) -> Words:
        """The words of task ``task``, with the four that end it."""
        record = self.program.tasks[task]
        return self.words[record.first : record.first + record.amount + TAIL]

    def weight_image(self) -> NDArray[np.uint8]:
        """The content of the weight buffer; where a model has several sets of shapes, without the command words of the others."""
        image = np.zeros(self.program.weight_size, np.uint8)
        for offset, content in self.program.other_constants:
            image[offset : offset + len(content)] = np.frombuffer(content, np.uint8)
        for tensor in self.program.tensors:
            if tensor.constant and tensor.offset is not None:
                image[tensor.offset : tensor.offset + tensor.size] = np.frombuffer(tensor.content, np.uint8)
        at = self.program.commands_offset
        image[at : at + 8 * len(self.words)] = self.words.astype("<u8").view(np.uint8)
        for start, value in start_values(self.program.counters, self.words, self.placement.commands):
            image[start : start + len(value)] = value
        return image


def plan(model: Model, bases: Bases, pixels: bool = False, shape: Optional[int] = None) -> Submission:
    """The submission of a model.

    Args:
        bases: where the buffers lie.
        pixels: inputs are given as uint8 pixels, which the NPU converts.
        shape: index of a set of shapes, in the order of ``model.shapes``; None: the one that is current after loading.

    Raises:
        ModelUnsupported: nobody has recorded what the runtime does with such a model; the text says what is not known.
        ModelInvalid: the file is damaged.
        InputInvalid: addresses that do not fit the model.
        ParamInvalid: a set of shapes that is not there.
    """
    return plan_program(read_program(model, shape), bases, pixels)


def plan_program(program: NpuProgram, bases: Bases, pixels: bool = False) -> Submission:
    """The submission of a program that was read already; raises as ``plan``."""
    check_chain(program)
    placement = place(program, bases)
    words = _relocated(program, placement)
    doubts = [*doubts_of(program)]
    if pixels:
        words = with_pixels(program, words)
        doubts += pixel_doubts(program)
    tasks = tuple(task._replace(address=task.address + placement.commands) for task in program.tasks)
    return Submission(program, placement, words, tasks, pixels, tuple(doubts))


def _relocated(program: NpuProgram, placement: Placement) -> Words:
    """Every address filled in: those of tensors, and where the next program lies."""
    values = values_of(program.words)
    for relocation in program.relocations:
        values[relocation.word] = (placement.addresses[relocation.tensor] or 0) + relocation.offset
    for word in np.flatnonzero(values >> np.uint64(32))[:1].tolist():
        raise ModelInvalid(
            f"damaged file: command word {word} would hold an address of more than 32 bits: {int(values[word]):#x}"
        )
    chained = (units_of(program.words) == PC) & (numbers_of(program.words) == NEXT_PROGRAM)
    values[chained] += np.uint64(placement.commands)
    return with_values(program.words, values)


def doubts_of(program: NpuProgram) -> Iterator[str]:
    """What of the submission was never compared with a recording."""
    if program.family != _RECORDED or program.container != _RECORDED_CONTAINER:
        buffers = "as its own words assume" if program.moved else "as on RK3588"
        yield (
            f"{program.family}, container {program.container:#x}: nothing was recorded of it; addresses are where its own list "
            f"says, buffers {buffers}"
        )
    if program.family == _WRITTEN_TO and _REGISTER in numbers_of(program.words):
        yield (
            f"{program.family}: people report that the vendor's runtime writes 0x777 into register {_REGISTER:#x}, which is 0 "
            "in the file; it is left as it is"
        )
    if program.batch > 1:
        yield f"a batch of {program.batch}: runs for the items after the first were never recorded; words are those of the first"
    if program.shape is not None:
        yield (
            "models for several sets of shapes were never recorded: that all graphs lie in one weight buffer is told by the "
            "sizes in the file, their order and the size of the task buffer are as if each were alone"
        )
    others = strangers(program.relocations, program.words, program.stored_at())
    if others:
        word, right = others[0]
        yield (
            f"{len(others)} addresses differ between command words and the file's list, which counts: the first is word {word}, "
            f"{CommandWord.of(program.words[word])} instead of {right:#x}"
        )
    for move in row_moves(program):
        node, target = program.nodes[move.node], program.tensors[move.target].name
        when = "before" if move.before else "behind"
        yield f"the runtime itself moves rows into {target}, {when} {node}: how was never recorded, nor whether a job ends there"
    for name in unwritten_tensors(program):
        yield f"nothing writes {name}, which command words read: the runtime arranges it itself"
    own = [r for r in program.relocations if program.tensors[r.tensor].kind == TensorKind.REGISTER_COMMANDS]
    if own:
        yield f"the NPU changes its own command words, at {len(own)} places: words are as they are before a run"
    beyond = [r for r in program.relocations if not _inside(program, r)]
    if beyond:
        tensor, offset, word = beyond[0]
        known = program.tensors[tensor]
        verb = "writes" if int(program.words[word]) & 0xFFFF in DESTINATIONS else "reads"
        more = f", and {len(beyond) - 1} more of the kind" if len(beyond) > 1 else ""
        yield f"command word {word} {verb} {known.name} from byte {offset} on, which has {known.size} bytes{more}"


def _inside(program: NpuProgram, relocation: Relocation) -> bool:
    """Whether an address lies in its tensor; command words are elsewhere."""
    known = program.tensors[relocation.tensor]
    return known.kind in COMMAND_KINDS or relocation.offset < max(1, known.size)
