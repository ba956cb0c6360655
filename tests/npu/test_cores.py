"""Which core gets which tasks."""

from __future__ import annotations

import dataclasses

import pytest
from rknnlite_npu.cores import jobs, legal_masks, tasks_of_cores

from rknnlite.errors import ModelInvalid, ParamInvalid

from .plans import planned, plans_of


def test_three_cores_of_rk3588() -> None:
    program = planned("resnet18_for_RK3588").program
    assert legal_masks(program) == (1, 2, 4, 3, 7)
    for mask in (0, 1, 2, 4):
        assert tasks_of_cores(program, mask) == (range(25),)
    assert tasks_of_cores(program, 3) == (range(25, 51), range(51, 74))
    assert tasks_of_cores(program, 7) == (range(74, 99), range(99, 121), range(121, 143))
    assert [program.tasks[task].node for task in (25, 51, 74, 99, 121)] == [1] * 5


def test_two_cores_of_rk3576_have_lists_of_their_own() -> None:
    program = planned("resnet18_for_RK3576").program
    assert [tasks_of_cores(program, mask) for mask in (0, 1, 2)] == [
        (range(24),), (range(24),), (range(24, 48),),
    ]  # fmt: skip
    assert tasks_of_cores(program, 3) == (range(48, 77), range(77, 102))


def test_a_network_that_was_compiled_for_one_core_runs_on_one() -> None:
    program = planned("act_relu.rk3588.i8").program
    assert tasks_of_cores(program, 7) == tasks_of_cores(program, 3) == (range(1),)
    assert tasks_of_cores(planned("unet_like.rv1106.i8").program) == (range(26),)


def test_another_mask_is_refused() -> None:
    with pytest.raises(
        ParamInvalid, match="core mask 0x5: the file has tasks for the masks 0x1, 0x2, 0x4, 0x3, 0x7"
    ):
        tasks_of_cores(planned("resnet18_for_RK3588").program, 5)
    with pytest.raises(ParamInvalid, match=r"for the masks 0x1$"):
        tasks_of_cores(planned("unet_like.rv1106.i8").program, 2)


@pytest.mark.parametrize(
    "starts", [(0, 0, 0, 25, 73), (0, 0, 0, 26, 74), (0, 0, 0, 144, 144), (1, 1, 1, 25, 74)]
)
def test_lists_that_contradict_themselves_are_refused(starts: tuple[int, ...]) -> None:
    damaged = dataclasses.replace(planned("resnet18_for_RK3588").program, first_tasks=starts)
    with pytest.raises(ModelInvalid, match="damaged file"):
        tasks_of_cores(damaged, 3)


def test_each_task_of_a_list_is_in_one_job() -> None:
    for soc in ("rk3588", "rk3576"):
        for name, found in plans_of(soc):
            for mask in legal_masks(found.program):
                handed = [i for job in found.jobs(mask) for core in job.cores for i in core]
                assert sorted(handed) == sorted(
                    i for core in tasks_of_cores(found.program, mask) for i in core
                ), name
                assert len(set(handed)) == len(handed), name


def test_jobs_end_before_the_cpu_and_keep_tables_apart() -> None:
    found = planned("mobilenetv3_like.rk3588.i8").jobs()
    assert [(job.nodes, job.tables) for job in found] == [
        ((1, 5), False), ((6, 6), True), ((7, 8), False), ((9, 10), True), ((11, 16), False),
    ]  # fmt: skip
    assert [job.nodes for job in planned("iresnet_like.rk3588.i8").jobs()] == [(0, 6), (8, 8)]


def test_pixels_need_nobody_who_arranges_them() -> None:
    program = planned("conv_relu.rk3588.i8").program
    assert jobs(program)[0].cores == ((0, 1),) and jobs(program, pixels=True)[0].cores == ((1,),)
