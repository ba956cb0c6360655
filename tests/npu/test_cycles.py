"""The estimate: cycles as the converter's log has them, of convolutions that were converted for every family."""

from __future__ import annotations

import pytest
from rknnlite_npu.counts import TaskCount, Work, count
from rknnlite_npu.cycles import WIDTHS, Cycles, node_cycles, task_cycles
from rknnlite_npu.task_sizes import SIZE_MAPS

from .plans import planned

CONVOLUTIONS = (
    Work(1024, 32, 49, 3),
    Work(1024, 16, 9, 1),
    Work(1024, 64, 25, 4),
    Work(1024, 16, 1, 16),
    Work(400, 40, 9, 24),
    Work(323, 64, 9, 48),
    Work(196, 96, 9, 96, depthwise=True),
    Work(1, 1000, 1, 512),
)
LOG = (
    ("RKNPU v2", 8, (50176, 9216, 51200, 4096, 7200, 12096, 3744, 8192)),
    ("RKNPU v2", 16, (100352, 9216, 102400, 2048, 10800, 24192, 3744, 16128)),
    ("RKNPU f2", 8, (50176, 9216, 51200, 4096, 7200, 12096, 3744, 8192)),
    ("RKNPU f2", 16, (100352, 9216, 102400, 2048, 10800, 24192, 3744, 16128)),
    ("RKNPU lite", 8, (100352, 9216, 102400, 4096, 10800, 24192, 5616, 16128)),
    ("RKNPU lite", 16, (200704, 9216, 204800, 4096, 36000, 72576, 5616, 64000)),
    ("RKNPU t4", 8, (100352, 9216, 102400, 4096, 10800, 24192, 3744, 16128)),
    ("RKNPU t4", 16, (200704, 9216, 204800, 4096, 18000, 48384, 3744, 32000)),
    ("RKNPU t3", 8, (100352, 9216, 102400, 4096, 10800, 24192, 5616, 16128)),
    ("RKNPU w1", 8, (200704, 9216, 204800, 8192, 36000, 72576, 11232, 64000)),
)
"""Family, bits, and the NPU cycles of each convolution that rknn-toolkit2 2.5.0 printed."""


def alone(work: Work, moved: int = 0) -> TaskCount:
    """A task that computes this and fetches so many bytes."""
    return TaskCount(0, 0, 0, 0, work, moved, 0, 0, 0, (0, 0, 0, 0, 0))


@pytest.mark.parametrize(("family", "bits", "cycles"), LOG)
def test_the_converter_reckons_the_same(family: str, bits: int, cycles: tuple[int, ...]) -> None:
    widths = WIDTHS[family]
    assert tuple(task_cycles(alone(w._replace(bits=bits)), widths).computing for w in CONVOLUTIONS) == cycles


def test_every_family_has_widths_and_sizes() -> None:
    assert WIDTHS.keys() == SIZE_MAPS.keys()
    assert WIDTHS["RKNPU v2"].macs == 1024  # three of them at 1 GHz are 6 TOPS


def test_memory_and_multipliers_work_at_the_same_time() -> None:
    assert Cycles(10, 20).total == 20 and Cycles(10, 20).bound == "memory"
    assert Cycles(20, 10).total == 20 and Cycles(20, 10).bound == "computing"
    found = task_cycles(alone(Work(1024, 16, 1, 16), 236500), WIDTHS["RKNPU v2"])
    assert found == (4096, 10000)


def test_what_multiplies_nothing_goes_at_the_speed_of_the_output_stage() -> None:
    assert task_cycles(alone(Work(1600, 64)), WIDTHS["RKNPU v2"]).computing == 1600 * 64 / 8


def test_cores_share_the_memory() -> None:
    widths = WIDTHS["RKNPU v2"]
    one, three = (node_cycles(count(planned("resnet18_for_RK3588"), mask)[13], widths) for mask in (1, 7))
    assert one.computing == 3 * three.computing == 208 * 9 * 3 * 3
    assert three.memory > one.memory  # each core fetches rows and words of its own
    assert three.bound == "memory" and one.bound == "computing"
