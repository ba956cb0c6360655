"""A plan holds together, in every family: addresses lie in their buffers, programs lead to programs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from rknnlite_npu.command_words import DPU, PC, TAIL, CommandWord, numbers_of, units_of, values_of
from rknnlite_npu.pixels import with_pixels
from rknnlite_npu.placement import Bases
from rknnlite_npu.submission import plan, plan_program

from rknnlite.errors import InputInvalid, ModelInvalid, ModelUnsupported
from rknnlite.formats import ModelFile
from rknnlite.formats.slots import TensorKind
from tests.support.classic import downgrade
from tests.support.corpus import EXAMPLES, genuine

from .plans import BASES, SOCS, planned, plans_of

ADDRESS_REGISTERS = {
    "rk3588": {0x1070, 0x1110, 0x4020, 0x6070, 0x701C},
    "rk3576": {0x1088, 0x1110, 0x4018, 0x6070, 0x701C},
    "rv1106": {0x1070, 0x1110, 0x4020, 0x6070, 0x701C},
}
"""Registers that hold an address wherever they are written; others do where their unit reads something."""


@pytest.mark.parametrize("soc", SOCS)
def test_every_address_lies_in_the_buffer_of_its_tensor(soc: str) -> None:
    count = 0
    for name, found in plans_of(soc):
        values = values_of(found.words).tolist()
        for relocation in found.program.relocations:
            tensor = found.program.tensors[relocation.tensor]
            base, size = (
                (BASES.weight, found.program.weight_size)
                if tensor.constant or tensor.kind == TensorKind.TABLE
                else (BASES.internal, found.program.internal_size)
            )
            assert base <= values[relocation.word] < base + size, (name, tensor.name, relocation)
        count += len(found.program.relocations)
    assert count > 2


@pytest.mark.parametrize("soc", SOCS)
def test_every_program_leads_to_one_ahead_of_it(soc: str) -> None:
    for name, found in plans_of(soc):
        starts = {task.address: task for task in found.tasks}
        for index, task in enumerate(found.tasks):
            words = list(map(CommandWord.of, found.words_of(index)[-TAIL:]))
            if words[0].unit == PC:
                assert words[0].value in starts and words[0].value > task.address, name
                following = starts[words[0].value].amount
                half, whole = (following + TAIL + 1) // 2 - 1, following + TAIL - 1
                assert words[1].value & 0xFFFF in (half, whole), (name, index)


@pytest.mark.parametrize("soc", sorted(ADDRESS_REGISTERS))
def test_no_address_is_left_out(soc: str) -> None:
    for name, found in plans_of(soc):
        listed = {relocation.word for relocation in found.program.relocations}
        registers = numbers_of(found.program.words).tolist()
        units = units_of(found.program.words).tolist()
        used = {i for i, register in enumerate(registers) if register in ADDRESS_REGISTERS[soc] and units[i]}
        assert used <= listed, name


def test_nothing_but_addresses_moves() -> None:
    here = planned("unet_like.rk3588.i8")
    there = plan_program(here.program, Bases(BASES.weight + 0x4000, BASES.internal + 0x700, BASES.task))
    moved = values_of(there.words).astype(np.int64) - values_of(here.words).astype(np.int64)
    assert set(moved.tolist()) == {0, 0x4000, 0x700}
    inside = {r.word for r in here.program.relocations if not here.program.tensors[r.tensor].constant}
    tables = {
        r.word for r in here.program.relocations if here.program.tensors[r.tensor].kind == TensorKind.TABLE
    }
    assert set(np.flatnonzero(moved == 0x700).tolist()) == inside - tables
    registers, units = numbers_of(here.words), units_of(here.words)
    assert (registers == numbers_of(there.words)).all() and (units == units_of(there.words)).all()


def test_inputs_and_outputs_have_buffers_of_their_own_or_places_among_the_activations() -> None:
    inside = planned("three_outputs.rk3588.i8")
    program = inside.program
    apart = plan_program(
        program, Bases(BASES.weight, BASES.internal, io=[1 << 12, 2 << 12, 3 << 12, 4 << 12])
    )
    assert [buffer.name for buffer in inside.placement.buffers] == ["task", "weight", "internal"]
    assert [buffer.name for buffer in apart.placement.buffers[3:]] == ["in0", "out0", "out1", "out2"]
    assert apart.placement.sizes[3:] == (576, 3840, 1024, 64)
    named = [*program.inputs, *program.outputs]
    assert [apart.placement.addresses[i] for i in named] == [1 << 12, 2 << 12, 3 << 12, 4 << 12]
    assert all(inside.placement.addresses[i] >= BASES.internal for i in named)  # type: ignore[operator]


def test_the_weight_buffer_has_constants_and_words_at_their_places() -> None:
    found = planned("conv_relu.rk3588.i8")
    image = found.weight_image()
    weight = next(tensor for tensor in found.program.tensors if tensor.kind == TensorKind.WEIGHT)
    assert weight.offset is not None and weight.offset % 64 == 0
    assert image[weight.offset : weight.offset + weight.size].tobytes() == bytes(weight.content)
    assert (
        image[found.program.commands_offset :][: found.words.nbytes].view("<u8").tolist()
        == found.words.tolist()
    )


def test_tables_are_uploaded_over_words_that_copy_themselves() -> None:
    found = planned("act_silu.rk3588.i8")
    words = list(map(CommandWord.of, found.words_of(0)))
    assert CommandWord(DPU, 0x4020, found.placement.commands) in words
    assert found.placement.commands == BASES.weight + found.program.commands_offset


def test_nodes_of_the_cpu_are_named() -> None:
    assert [node.type for node in planned("resize.rk3588.i8").cpu_nodes] == ["Resize", "Resize"]
    assert [str(node) for node in planned("pooling.rk3588.i8").cpu_nodes] == [
        'AveragePool "AveragePool:/branches.5/AveragePool"'
    ]


def test_what_was_never_recorded_is_said() -> None:
    assert planned("conv_relu.rk3588.i8").doubts == ()
    for name in ("conv_relu.rk3576.i8", "unet_like.rv1106.i8", "conv_1x1.rv1103b.i8"):
        assert "nothing was recorded of it" in planned(name).doubts[0]
    assert "writes 0x777 into register 0x1064" in planned("conv_relu.rk3576.i8").doubts[1]
    assert planned("batch_four.rk3588.i8").doubts == (
        "a batch of 4: runs for the items after the first were never recorded; words are those of the first",
    )
    beyond = plan(ModelFile(EXAMPLES / "detect" / "detect_for_RK3566_RK3568.rknn").model, BASES).doubts
    assert "writes sides8 from byte 393216 on, which has 102400 bytes" in beyond[1]


def test_what_would_be_a_guess_is_refused() -> None:
    old = downgrade(genuine("conv_relu.rk3588.i8"), 2)
    with pytest.raises(
        ModelUnsupported, match=r"container 2: how the runtime makes command words.*not what ends a program"
    ):
        plan(ModelFile(old).model, BASES)
    program = planned("conv_relu.rk3576.i8").program
    with pytest.raises(ModelUnsupported, match="RKNPU x0: how this NPU family converts uint8 pixels"):
        with_pixels(replace(program, family="RKNPU x0"), program.words)
    with pytest.raises(ModelUnsupported, match="input in0 is float16"):
        planned("conv_relu.rk3588.fp16", pixels=True)
    with pytest.raises(ModelInvalid, match=r"no bytes of 3.weight.* plan the model that lends them"):
        planned("removed.rk3588.i8")


@pytest.mark.parametrize(
    ("bases", "said"),
    [
        (Bases(0, 0, io=[1, 2, 3]), "3 addresses for the 1 inputs and 1 outputs"),
        (Bases(0xFFFF_F000, 0), "the weight buffer of 13632 bytes at 0xfffff000 leaves the 32 bits"),
        (Bases(0, -1), "the internal buffer"),
        (Bases(0, 0, io=[1 << 32, 0]), "the in0 buffer of 2304 bytes"),
    ],
)
def test_addresses_that_do_not_fit_are_refused(bases: Bases, said: str) -> None:
    with pytest.raises(InputInvalid, match=said):
        plan_program(planned("conv_relu.rk3588.i8").program, bases)


def test_nodes_with_several_outputs_write_each_of_them() -> None:
    """No recording has such a node: their addresses are in the list, one for each output."""
    checked = 0
    for soc in SOCS:
        for name, found in plans_of(soc):
            program = found.program
            for number, node in enumerate(program.nodes):
                words = {
                    word
                    for task in program.tasks
                    if task.node == number
                    for word in range(task.first, task.first + task.amount)
                }
                outputs = {index for index in node.outputs if program.tensors[index].shape}
                if len(outputs) < 2 or not words:
                    continue
                checked += 1
                named = {r.tensor for r in program.relocations if r.word in words}
                assert outputs <= named, (name, str(node))
    assert checked > 0
