"""Damaged files: a typed error or a plan, soon and within little memory."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from rknnlite_npu.placement import Bases
from rknnlite_npu.submission import plan

from rknnlite.errors import ModelInvalid, RknnError
from rknnlite.formats import ModelFile
from rknnlite.formats.slots import GraphSlot, NodeSlot, RelocationSlot, RootSlot, TensorKind
from tests.support import damage
from tests.support.corpus import genuine
from tests.support.examples import examples

VICTIMS = (
    "act_silu.rk3588.i8", "conv_grey.rk3588.i8", "conv_relu.rk3576.i8", "conv_relu.rk3588.i8", "conv_uneven.rv1106.i8",
    "conv_1x1.rv1103b.i8", "unet_like.rk3588.i8",
)  # fmt: skip
SECONDS, ALLOWANCE = 20.0, 24 << 20


def planned(data: bytes) -> None:
    """All that a plan is asked for."""
    with damage.limits(SECONDS, ALLOWANCE + 40 * len(data)):
        try:
            for pixels in (False, True):
                found = plan(ModelFile(data).model, Bases(1 << 28, 2 << 28), pixels)
                assert len(found.weight_image()) <= 2 * len(data) + 4096
                for mask in (0, 3, 7):
                    found.jobs(mask)
        except RknnError as error:
            assert str(error)


@pytest.mark.parametrize("name", VICTIMS)
def test_any_damage(name: str) -> None:
    whole = genuine(name).read_bytes()

    @settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))
    @given(damage.mixed(whole))
    def check(data: bytes) -> None:
        planned(data)

    check()


def relocation_at(data: bytes) -> int:
    """Where the first address of the first list entry lies in the file."""
    model = ModelFile(data).model
    graph = next(iter(model.flat.tables(RootSlot.GRAPHS)))  # type: ignore[attr-defined]
    place = int(next(iter(graph.tables(GraphSlot.RELOCATIONS))).u64s(RelocationSlot.PLACES)[0])
    return data.index(struct.pack("<Q", place))


def record_at(data: bytes, record: int = 0) -> int:
    """Where a task record lies in the file."""
    found = plan(ModelFile(data).model, Bases(1 << 28, 2 << 28))
    tasks = next(t for t in found.program.tensors if t.kind == TensorKind.TASKS)
    return data.index(bytes(tasks.content)) + 40 * record


def words_at(data: bytes) -> int:
    """Where the command words begin in the file."""
    return data.index(plan(ModelFile(data).model, Bases(1 << 28, 2 << 28)).program.words.tobytes())


def next_program_at(data: bytes) -> int:
    """Where the words of the first task say what follows them."""
    first = plan(ModelFile(data).model, Bases(1 << 28, 2 << 28)).program.tasks[0]
    return words_at(data) + 8 * (first.first + first.amount)


@pytest.mark.parametrize(
    ("where", "form", "value", "said"),
    [
        (relocation_at, "<Q", 9999 << 32, "there are 1016, it names command word 9999"),
        (relocation_at, "<Q", 0 << 32, "command word 0 .* takes no address|two addresses are for command word"),
        (record_at, "<4xI", 99, "task 0 is of node 99, which the NPU does not run"),
        (record_at, "<4xI", 2, "task 0 is of node 2, which the NPU does not run"),
        (record_at, "<24xI", 5000, "task 0 has 5000 command words at byte 0, of 8128 bytes"),
        (record_at, "<24xI", 1 << 31, "task 0 has 2147483648 command words"),
        (record_at, "<24xI", 100, "a task of 69 command words from word 0 on reaches into another at 0"),
        (record_at, "<24xI", 0, "task 0 has 0 command words"),
        (record_at, "<32xQ", 4, "command words at byte 4"),
        (record_at, "<32xQ", 1 << 60, "command words at byte 1152921504606846976"),
        (next_program_at, "<Q", 0x0101_0000_0000_0010, "goes on at byte 0, where no program lies ahead"),
        (next_program_at, "<Q", 0x0101_0000_0044_0010, "goes on at byte 68, where no program lies ahead"),
        (next_program_at, "<Q", 0x0101_7FFF_FFC0_0010, "goes on at byte 2147483584, where no program"),
    ],
)  # fmt: skip
def test_lies_are_named(where: Callable[[bytes], int], form: str, value: int, said: str) -> None:
    data = bytearray(genuine("conv_relu.rk3588.i8").read_bytes())
    at = where(bytes(data))
    pad = int(form[1:].split("x")[0]) if "x" in form else 0
    struct.pack_into(f"<{form[-1]}", data, at + pad, value)
    if (
        value == 0 and where is relocation_at
    ):  # word 0 is of the first unit, which takes addresses: one that does not
        struct.pack_into("<Q", data, words_at(bytes(data)), 0x0801_0000_0000_3010)
    with pytest.raises(ModelInvalid, match=said):
        plan(ModelFile(bytes(data)).model, Bases(1 << 28, 2 << 28))


def test_a_tensor_that_is_not_there_is_named() -> None:
    data = genuine("conv_relu.rk3588.i8").read_bytes()
    graph = next(iter(ModelFile(data).model.flat.tables(RootSlot.GRAPHS)))  # type: ignore[attr-defined]
    start, size = next(iter(graph.tables(GraphSlot.RELOCATIONS))).span(RelocationSlot.TENSOR)
    at = damage.HEADER + start
    with pytest.raises(ModelInvalid, match=r'use the tensor "\?+", which is not there'):
        plan(ModelFile(data[:at] + b"?" * size + data[at + size :]).model, Bases(1 << 28, 2 << 28))


@pytest.mark.parametrize(("offset", "said"), [(0x10_0000, "from byte 1048576 on"), (0xF000_0000, "32 bits")])
def test_addresses_beyond_the_tensor_are_told(offset: int, said: str) -> None:
    data = bytearray(genuine("conv_relu.rk3588.i8").read_bytes())
    at = relocation_at(bytes(data))
    (place,) = struct.unpack_from("<Q", data, at)
    struct.pack_into("<Q", data, at, place >> 32 << 32 | offset)
    model = ModelFile(bytes(data)).model
    if said == "32 bits":
        with pytest.raises(ModelInvalid, match=r"word \d+ would hold an address of more than 32 bits"):
            plan(model, Bases(1 << 28, 2 << 28))
        return
    doubts = plan(model, Bases(1 << 28, 2 << 28)).doubts
    assert "1 addresses differ between command words and the file's list" in doubts[0]
    assert said in doubts[1]


def test_words_that_the_npu_changes_are_addresses_in_the_words() -> None:
    """As of recurrent nodes: an entry without a name, and the word itself says where."""
    data = bytearray(genuine("conv_relu.rk3588.i8").read_bytes())
    graph = next(iter(ModelFile(bytes(data)).model.flat.tables(RootSlot.GRAPHS)))  # type: ignore[attr-defined]
    entry = next(iter(graph.tables(GraphSlot.RELOCATIONS)))
    start, _ = entry.span(RelocationSlot.TENSOR)
    word = int(entry.u64s(RelocationSlot.PLACES)[0]) >> 32
    at = words_at(bytes(data)) + 8 * word
    struct.pack_into("<I", data, damage.HEADER + start - 4, 0)
    struct.pack_into("<I", data, at + 2, 0x140)
    found = plan(ModelFile(bytes(data)).model, Bases(1 << 28, 2 << 28))
    assert int(found.words[word]) >> 16 & 0xFFFFFFFF == found.placement.commands + 0x140
    assert found.doubts == (
        "the NPU changes its own command words, at 8 places: words are as they are before a run",
    )
    struct.pack_into("<I", data, at + 2, 8 * 1016)
    with pytest.raises(ModelInvalid, match=r"write at byte 8128 of 8128 bytes of command words"):
        plan(ModelFile(bytes(data)).model, Bases(1 << 28, 2 << 28))


def test_records_behind_the_lists_do_not_count() -> None:
    """The converter leaves uninitialised memory there where a network has recurrent nodes."""
    data = bytearray(genuine("conv_relu.rk3588.i8").read_bytes())
    graph = next(iter(ModelFile(bytes(data)).model.flat.tables(RootSlot.GRAPHS)))  # type: ignore[attr-defined]
    conv = list(graph.tables(GraphSlot.NODES))[1]
    counts = conv.i32s(NodeSlot.TASKS).astype("<i4").tobytes()
    start, _ = conv.span(NodeSlot.TASKS)
    last = record_at(bytes(data), 13)
    behind = words_at(bytes(data)) + 8 * (856 + 122)  # what leads to the last task
    data[damage.HEADER + start : damage.HEADER + start + len(counts)] = counts[:20] + b"\1\0\0\0"
    data[behind : behind + 8] = bytes(8)
    data[last : last + 40] = b"\xa5" * 40
    found = plan(ModelFile(bytes(data)).model, Bases(1 << 28, 2 << 28))
    assert len(found.tasks) == 13 and found.placement.sizes[0] == 40 * 14
