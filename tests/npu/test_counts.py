"""What a submission costs: products as the graph has them, elements and bytes as the converter counts them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
from rknnlite_graph.read import read_graph
from rknnlite_npu.counts import NodeCount, count
from rknnlite_npu.placement import Bases
from rknnlite_npu.submission import Submission, plan

from rknnlite.errors import ModelInvalid, ModelUnsupported, ParamInvalid, RknnError
from rknnlite.formats import Model, ModelFile
from rknnlite.formats.slots import GraphSlot, RootSlot
from tests.support.corpus import DATA, EXAMPLES

from .plans import SOCS, planned

WORK = 12
"""Slot of a node: elements written by each core, for one, two and three of them."""


def files_of(soc: str) -> Iterator[tuple[str, Model, Submission]]:
    """Files with one graph."""
    for path in sorted([*DATA.glob(f"*.{soc}.*.rknn"), *EXAMPLES.glob(f"*/*_{soc.upper()}.rknn")]):
        model = ModelFile(path).model
        try:
            yield path.stem, model, plan(model, Bases())
        except RknnError:
            continue


@pytest.mark.parametrize("soc", SOCS)
def test_products_are_those_of_the_graph(soc: str) -> None:
    """Output positions times kernels times channels, in every convolution, whatever it was divided into."""
    equal = 0
    for name, model, found in files_of(soc):
        try:
            graph = read_graph(model, model.default_shape)
        except RknnError:  # lacks what a CPU needs
            continue
        counts = {node.name: node for node in count(found) if node.tasks and node.name}
        for node in graph.nodes:
            shape = graph.tensors[node.outputs[0]].shape if node.outputs else ()
            if node.conv is None or node.name not in counts or len(shape) != 4 or node.overflow:
                continue
            outputs, inputs, *kernel = node.conv.weight_shape
            products = shape[0] * shape[2] * shape[3] * outputs * kernel[0] * kernel[1]
            assert counts[node.name].macs == products * (1 if node.conv.depthwise else inputs), (
                name,
                node.name,
            )
            equal += 1
    assert equal >= 3


def written(node: NodeCount) -> list[int]:
    """Elements of a byte per core."""
    return [sum(task.written for task in node.tasks if task.core == core) for core in range(3)]


@pytest.mark.parametrize("mask", [1, 3, 7])
def test_what_cores_write_is_what_the_file_says(mask: int) -> None:
    """The converter notes how many elements each core writes; ours come from registers.

    Of nodes with one task for each core: it leaves out rows that were cut off, and counts more for cores that join.
    """
    way, checked = (1, 3, 7).index(mask), 0
    for name, model, found in files_of("rk3588"):
        if ".i8" not in name and "_for_" not in name:
            continue
        graph = next(iter(model.flat.tables(RootSlot.GRAPHS)))  # type: ignore[attr-defined]
        notes = [table.i32s(WORK).tolist() for table in graph.tables(GraphSlot.NODES)]
        for node in count(found, mask):
            told = notes[node.node][3 * way : 3 * way + 3] if len(notes[node.node]) == 9 else []
            told = told if any(told) else notes[node.node][:3]
            alone = len(node.tasks) == sum(map(bool, node.tasks_of_cores)) and node.tasks
            if alone and node.tasks[0].work.taps and node.tasks[0].work.bits == 8 and any(told):
                checked += 1
                assert written(node) == told, (name, node.name)
    assert checked > 150


def test_each_core_of_three_does_a_third() -> None:
    one, three = (count(planned("resnet18_for_RK3588"), mask)[3] for mask in (1, 7))
    assert one.cores == 1 and three.cores == 3 and three.tasks_of_cores == (1, 1, 1)
    assert one.macs == three.macs == 56 * 56 * 24 * 24 * 9
    assert one.written == three.written == 56 * 56 * 32
    weights = 24 * 32 * 9 + 256
    assert [sum(t.constants for t in node.tasks) for node in (one, three)] == [weights, 3 * weights]
    assert one.fetched == 56 * 56 * 32 + weights + 8 * one.words
    # each of three needs rows of its neighbours as well
    assert sum(t.features for t in three.tasks) == (56 + 2 * 2) * 56 * 32


def test_weights_that_stay_are_fetched_once() -> None:
    first = count(planned("resnet18_for_RK3588"))[1]
    assert [task.constants for task in first.tasks] == [19072, 256, 256]
    assert sum(task.features for task in first.tasks) == (100 + 99 + 35) * 224 * 3


def test_a_sum_reads_its_operand_once() -> None:
    both = count(planned("resnet18_for_RK3588"))[4]
    assert both.type == "ConvAddRelu" and [task.operands for task in both.tasks] == [56 * 56 * 32]


def test_what_copies_and_what_pools_multiplies_nothing() -> None:
    for node in count(planned("unet_like.rv1103b.i8")):
        if node.type == "MaxPool":
            assert node.macs == 0 and node.fetched > node.written > 0
    pool = count(planned("resnet18_for_RK3588"))[2]
    assert (pool.macs, pool.fetched, pool.written) == (0, 112 * 112 * 32 + 8 * 30, 56 * 56 * 32)


def test_a_table_is_words_alone() -> None:
    upload = count(planned("act_silu.rk3588.i8"))[1].tasks[0]
    assert upload.words > 1024 and upload.work.macs == 0
    assert (upload.features, upload.constants, upload.operands, upload.written) == (0, 0, 16, 16)


def test_what_cannot_be_counted_is_refused() -> None:
    found = planned("conv_relu.rk3588.i8")
    with pytest.raises(ParamInvalid, match="core mask 0x5"):
        count(found, 5)
    other = dataclasses.replace(found.program, family="RKNPU x9")
    with pytest.raises(ModelUnsupported, match="RKNPU x9: nobody knows where the registers"):
        count(dataclasses.replace(found, program=other))
    many = dataclasses.replace(found.program, tasks=found.program.tasks[:1] * 9000, first_tasks=())
    with pytest.raises(ModelInvalid, match="its 9000 tasks run"):
        count(dataclasses.replace(found, program=many))
