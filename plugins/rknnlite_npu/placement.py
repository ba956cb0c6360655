"""Where everything lies in the memory that the NPU sees: buffers, and the address of each tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Optional

from rknnlite.errors import InputInvalid, ModelInvalid

from .program import COMMAND_KINDS, NpuProgram

__all__ = ["Bases", "Buffer", "Placement", "place"]

_END = 1 << 32  # addresses have 32 bits


@dataclass(frozen=True)
class Bases:
    """Addresses of the buffers, as the NPU sees them.

    Attributes:
        weight: constants and command words.
        internal: activations.
        task: the records; only the kernel reads them.
        io: one per input and output, in the model's order; empty: they lie in the internal buffer.
        commands: the first command word, where words have a buffer of their own; None: among the constants.
    """

    weight: int = 0
    internal: int = 0
    task: int = 0
    io: Sequence[int] = ()
    commands: Optional[int] = None


class Buffer(NamedTuple):
    """A piece of memory; ``address`` is where it begins."""

    name: str
    address: int
    size: int


@dataclass(frozen=True)
class Placement:
    """Attributes:
    buffers: task, weight, internal, then inputs and outputs where they have buffers of their own.
    addresses: of each tensor of the program; None where it lies in no buffer.
    commands: address of the first command word.
    """

    buffers: tuple[Buffer, ...]
    addresses: tuple[Optional[int], ...]
    commands: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of the buffers."""
        return tuple(buffer.size for buffer in self.buffers)


def place(program: NpuProgram, bases: Bases) -> Placement:
    """Put a program at addresses.

    Raises:
        InputInvalid: not one address per input and output, or addresses beyond the 32 bits that registers hold.
        ModelInvalid: a tensor that command words use lies nowhere.
    """
    named = (*program.inputs, *program.outputs)
    if bases.io and len(bases.io) != len(named):
        raise InputInvalid(
            f"{len(bases.io)} addresses for the {len(program.inputs)} inputs and {len(program.outputs)} outputs of the "
            "model; give one each, in this order, or none"
        )
    io = dict(zip(named, bases.io))
    buffers = [
        Buffer("task", bases.task, program.record_bytes),
        Buffer("weight", bases.weight, program.weight_size),
        Buffer("internal", bases.internal, program.internal_size),
        *(
            Buffer(program.tensors[i].name, address, program.tensors[i].size)
            for i, address in zip(named, bases.io)
        ),
    ]
    for buffer in buffers:
        if not 0 <= buffer.address <= _END - buffer.size:
            raise InputInvalid(
                f"the {buffer.name} buffer of {buffer.size} bytes at {buffer.address:#x} leaves the 32 bits of an address"
            )
    commands = bases.weight + program.commands_offset if bases.commands is None else bases.commands
    addresses: list[Optional[int]] = []
    for index, tensor in enumerate(program.tensors):
        if index in io:
            addresses.append(io[index])
        elif tensor.kind in COMMAND_KINDS:
            addresses.append(commands)
        elif tensor.offset is None:
            addresses.append(None)
        else:
            addresses.append((bases.weight if tensor.constant else bases.internal) + tensor.offset)
    for relocation in program.relocations:
        if addresses[relocation.tensor] is None:
            name = program.tensors[relocation.tensor].name
            raise ModelInvalid(
                f"the file has no bytes of {name}, which its command words use; if its weights were removed, plan the model "
                "that lends them"
            )
    return Placement(tuple(buffers), tuple(addresses), commands)
