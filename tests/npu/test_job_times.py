"""Jobs that end before a kernel gives them up."""

from __future__ import annotations

import pytest
from rknnlite_npu.counts import count_tasks
from rknnlite_npu.cycles import WIDTHS, task_cycles
from rknnlite_npu.job_times import node_seconds, short_jobs

from .plans import planned


def test_nodes_stay_together_as_long_as_they_may() -> None:
    seconds = {0: 0.1, 1: 0.1, 2: 0.2, 3: 0.01, 7: 0.3}
    assert [list(job) for job in short_jobs([3, 2, 1, 0, 7], seconds, 0.5)] == [[0, 1], [2, 3], [7]]
    assert [list(job) for job in short_jobs([0, 1, 2], seconds, 0.0)] == [[0, 1, 2]]
    assert [list(job) for job in short_jobs([0, 1, 2], {}, 0.5)] == [[0, 1, 2]]


def test_an_estimate_is_longer_than_at_the_vendors_clock() -> None:
    plan = planned("resnet18_for_RK3588")
    seconds = node_seconds(plan)
    cycles = sum(task_cycles(task, WIDTHS["RKNPU v2"]).total for task in count_tasks(plan))
    assert 2 * cycles / 1e9 < sum(seconds.values()) < 10 * cycles / 1e9 + 400e-6 * 30
    assert max(node_seconds(plan, 7).values()) < max(seconds.values())


@pytest.mark.parametrize("name", ["mobilenetv2_like.rk3588.i8", "conv_relu.rk3576.i8", "conv_relu.rk3566.i8"])
def test_small_networks_are_one_job(name: str) -> None:
    seconds = node_seconds(planned(name))
    assert seconds and len(short_jobs(seconds, seconds, 0.5)) == 1
