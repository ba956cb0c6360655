"""How programs follow each other in memory: the words behind a task name the next one."""

from __future__ import annotations

from rknnlite.errors import ModelInvalid

from .command_words import PC, TAIL, CommandWord
from .program import NpuProgram

__all__ = ["NEXT_PROGRAM", "check_chain", "leads_to"]

NEXT_PROGRAM = 0x10
"""Register of ``PC``: where the next program begins, in a file counted from the first word of all."""


def check_chain(program: NpuProgram) -> None:
    """Raise ModelInvalid where a task does not lead to one behind it, or leads into nowhere.

    In every genuine file the next program lies further on, so there can be no circle.
    """
    starts = {task.address for task in program.tasks}
    ends = {task.first + task.amount for task in program.tasks}
    for at in sorted(ends):
        for index in range(at, min(at + TAIL, len(program.words))):
            word = CommandWord.of(program.words[index])
            if (
                word.unit == PC
                and word.register == NEXT_PROGRAM
                and not (word.value in starts and word.value > 8 * index)
            ):
                raise ModelInvalid(
                    f"damaged file: command word {index} goes on at byte {word.value}, where no program lies ahead"
                )


def leads_to(program: NpuProgram, task: int) -> int:
    """Where the program begins that the words behind a task name, counted from the first word of all; 0: none."""
    record = program.tasks[task]
    end = record.first + record.amount
    found = (CommandWord.of(word) for word in program.words[end : end + TAIL])
    return next((word.value for word in found if word.unit == PC and word.register == NEXT_PROGRAM), 0)
