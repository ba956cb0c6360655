"""What comes near a limit of the NPU or of its driver."""

from __future__ import annotations

import dataclasses

import pytest
from rknnlite_npu.counts import NodeCount, Work, count
from rknnlite_npu.limits import Limit, limits
from rknnlite_npu.submission import Submission

from .plans import SOCS, planned, plans_of


def with_tasks(found: Submission, **changes: object) -> tuple[NodeCount, ...]:
    """The counts of a plan with another value in every task that multiplies."""
    return tuple(
        dataclasses.replace(
            node, tasks=tuple(dataclasses.replace(t, **changes) if t.work.taps else t for t in node.tasks)
        )
        for node in count(found)
    )


def near(**changes: object) -> list[Limit]:
    """Limits of a small network so changed."""
    found = planned("conv_relu.rk3588.i8")
    return list(limits(found, with_tasks(found, **changes)))


@pytest.mark.parametrize("soc", SOCS)
def test_small_networks_come_near_none(soc: str) -> None:
    for name, found in plans_of(soc):
        if not name.startswith("detect"):
            assert limits(found, count(found)) == (), name


def test_sizes_that_registers_hardly_hold() -> None:
    (one,) = near(sizes=(8, 8, 8, 8000, 8))
    assert (one.name, one.value, one.bound) == ("size", 8000, 8192) and "writes 8000 in a row" in one.text
    (one,) = near(sizes=(2047, 8, 8, 8, 8))
    assert one.bound == 2047 and 'ConvRelu "Conv:/0/Conv" reads 2047' in one.text
    assert near(sizes=(1900, 8, 8, 7000, 8)) == []


def test_groups_that_are_not_whole() -> None:
    (one,) = near(group=(48, False))
    assert one.name == "group" and "ends inside a group of 32 channels (48)" in one.text
    assert near(group=(48, True)) == []
    (one,) = near(group=(96, False), work=Work(64, 96, 9, 96, True))
    assert "a group of 64 channels" in one.text


def test_jobs_that_take_too_long() -> None:
    (one,) = near(work=Work(1 << 24, 1024, 9, 64))
    assert one.name == "time" and one.bound == 0.5 and "job 0 (nodes 0 to 1) takes an estimated" in one.text


def test_jobs_with_more_tasks_than_the_npu_counts() -> None:
    found = planned("conv_relu.rk3588.i8")
    record = found.program.tasks[0]
    many = dataclasses.replace(found.program, tasks=(record,) * 4500, first_tasks=())
    (one,) = limits(dataclasses.replace(found, program=many), count(found))
    assert (one.name, one.value, one.bound) == ("tasks", 4500, 4095)


def test_a_node_whose_commands_are_missing() -> None:
    found = planned("unet_like.rk3588.i8")
    nodes = list(found.program.nodes)
    gone = next(i for i, node in enumerate(nodes) if node.type == "ConvRelu")
    left = dataclasses.replace(
        found.program, tasks=tuple(t for t in found.program.tasks if t.node != gone), first_tasks=()
    )
    told = [
        one for one in limits(dataclasses.replace(found, program=left), count(found)) if one.name == "nothing"
    ]
    assert [one.node for one in told] == [
        str(nodes[gone])
    ] and "has no task and its result lies elsewhere" in told[0].text


def test_of_each_node_the_worst_is_told() -> None:
    found = planned("resnet18_for_RK3588")
    told = limits(found, with_tasks(found, sizes=(8, 8, 8, 8000, 8)))
    assert len(told) == len({one.node for one in told}) == 22
