"""Models through both kernels of the rig: numbers, and what goes wrong."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.support.corpus import EXAMPLES, genuine
from tools.npu_rig.driver import Fault
from tools.npu_rig.rocket import RocketDriver

from .rigs import KERNELS, rig

MODELS = [
    EXAMPLES / "resnet18" / "resnet18_for_RK3588.rknn",
    *map(
        genuine,
        (
            "mean_std.rk3588.i8", "pooling.rk3588.i8", "dynamic_three.rk3588.i8", "batch_four.rk3588.i8",
            "arithmetic.rk3588.i8", "act_silu.rk3588.i8", "conv_relu.rk3588.fp16", "two_images.rk3588.i8",
        ),
    ),
]  # fmt: skip
SMALL = genuine("resnet_like.rk3588.i8")
IMAGE = genuine("mean_std.rk3588.i8")

BESIDE_THE_MACHINE = """
import sys
import numpy as np
import rknnlite
from rknnlite_npu.kernel.self_test import random_inputs
for path in sys.argv[1:]:
    with rknnlite.open(path, backend="npu") as npu, rknnlite.open(path, backend="npu-machine") as machine:
        inputs = random_inputs(npu.inputs, 3)
        for _ in range(2):
            found, wanted = (context.infer(*inputs, raw=True) for context in (npu, machine))
        print(all(np.array_equal(a.data, b.data) for a, b in zip(found, wanted)))
"""
FRAMES = """
import sys
import numpy as np
import rknnlite
from rknnlite.errors import RknnError
from rknnlite_npu.kernel.self_test import random_inputs
with rknnlite.open(sys.argv[1], backend="npu") as npu:
    inputs = random_inputs(npu.inputs, 3)
    first = None
    for _ in range(int(sys.argv[2])):
        try:
            found = npu.infer(*inputs, raw=True)[0].data
            first = found if first is None else first
            print("equal" if np.array_equal(found, first) else "wrong")
        except RknnError as error:
            print(type(error).__name__, error)
"""


@pytest.mark.parametrize("kernel", KERNELS)
def test_numbers_are_those_of_the_machine(kernel: str, tmp_path: Path) -> None:
    with rig(kernel, tmp_path / "cache") as found:
        told = found.python(BESIDE_THE_MACHINE, *MODELS)
        found.kernel.idle()
    assert told.split() == ["True"] * len(MODELS)
    assert found.driver.refusals == []


def test_pools_are_jobs_of_their_own_where_the_driver_sees_them_end(tmp_path: Path) -> None:
    driver = RocketDriver(version=(1, 3, 0))
    with rig("rocket", tmp_path / "cache", driver) as found:
        assert found.python(BESIDE_THE_MACHINE, genuine("pooling.rk3588.i8")).split() == ["True"]
    assert driver.given_up == []


# -- faults -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [0, 3, 7])
@pytest.mark.parametrize("told", [errno.ETIMEDOUT, 0])
def test_a_task_that_is_lost_is_found(told: int, after: int, tmp_path: Path) -> None:
    """With an error the job ends there, and is told as done; without one the others go on."""
    driver = RocketDriver()
    with rig("rocket", tmp_path / "cache", driver) as found:
        found.python(FRAMES, SMALL, 1)  # what the first meeting finds is kept
        driver.faults.add(Fault("TASK", error=told, after=after))
        lines = found.python(FRAMES, SMALL, 3).splitlines()
    assert lines[0].startswith("RunTimeout") and "wrote nothing, though the kernel told success" in lines[0]
    assert lines[1:] == ["equal", "equal"]


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENODEV, "DeviceUnavailable"),
        (errno.ETIMEDOUT, "RunTimeout"),
        (errno.ENOMEM, "OutOfMemory"),
        (errno.EINVAL, "RknnError"),
        (errno.EACCES, "DeviceUnavailable"),
    ],
)
def test_a_job_that_is_refused_is_a_typed_error(number: int, kind: str, kernel: str, tmp_path: Path) -> None:
    with rig(kernel, tmp_path / "cache") as found:
        found.python(FRAMES, IMAGE, 1)
        found.driver.faults.add(Fault("SUBMIT", error=number))
        lines = found.python(FRAMES, IMAGE, 2).splitlines()
    assert lines[0].split()[0] == kind and KERNELS[kernel][0] in lines[0] and "SUBMIT" in lines[0]
    assert lines[1] == "equal"


@pytest.mark.parametrize(("kernel", "call"), [("rocket", "CREATE_BO"), ("rknpu", "MEM_CREATE")])
def test_no_memory_for_a_model(kernel: str, call: str, tmp_path: Path) -> None:
    code = "import sys, rknnlite\nrknnlite.open(sys.argv[1], backend='npu')"
    with rig(kernel, tmp_path / "cache") as found:
        found.driver.faults.add(Fault(call, error=errno.ENOMEM, after=2))
        done = found.run("-c", code, str(IMAGE))
        found.kernel.idle()
        assert "OutOfMemory" in done.stderr and call in done.stderr
        assert found.python(FRAMES, IMAGE, 1) == "equal\n"


CHILD = """
import os, sys
import rknnlite
from rknnlite.errors import ContextInvalid
from rknnlite_npu.kernel.self_test import random_inputs
with rknnlite.open(sys.argv[1], backend="npu") as npu:
    inputs = random_inputs(npu.inputs, 3)
    npu.infer(*inputs)
    child = os.fork()
    if not child:
        try:
            npu.infer(*inputs)
        except ContextInvalid as error:
            os._exit(7)
        os._exit(1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(npu.infer(*inputs)))
"""


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_child_is_told_that_the_device_is_its_parents(kernel: str, tmp_path: Path) -> None:
    with rig(kernel, tmp_path / "cache") as found:
        assert found.python(CHILD, IMAGE).split() == ["7", "1"]


MANY = """
import os, resource, sys
import rknnlite
from rknnlite_npu.kernel.self_test import random_inputs
def held():
    return len(os.listdir("/proc/self/fd"))
with rknnlite.open(sys.argv[1], backend="npu") as npu:
    inputs = random_inputs(npu.inputs, 3)
    for _ in range(20):
        npu.infer(*inputs)
    descriptors, size = held(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(int(sys.argv[2])):
        npu.infer(*inputs)
    print(held() - descriptors, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - size)
"""


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("frames", [200, pytest.param(4_000, marks=pytest.mark.slow)])
def test_frames_leave_nothing(kernel: str, frames: int, tmp_path: Path) -> None:
    with rig(kernel, tmp_path / "cache") as found:
        descriptors, kilobytes = map(int, found.python(MANY, IMAGE, frames).split())
    assert descriptors == 0 and kilobytes < 512
