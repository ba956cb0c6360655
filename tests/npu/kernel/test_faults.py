"""What goes wrong in a kernel, on both: each is told as what it is, buffers go back, and the context works afterwards."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.corpus import genuine
from tools.npu_rig.driver import Fault

from .rigs import KERNELS, Rig, rig

SMALL = genuine("resnet_like.rk3588.i8")
IMAGE = genuine("mean_std.rk3588.i8")
CREATE = {"rocket": "CREATE_BO", "rknpu": "MEM_CREATE"}
FROM_DEVICE = {"rocket": "PREP_BO", "rknpu": "MEM_SYNC"}

FRAMES = """
import os, sys
import numpy as np
import rknnlite
from rknnlite.errors import RknnError
from rknnlite_npu.kernel.self_test import random_inputs
def held():
    return len(os.listdir("/proc/self/fd"))
with rknnlite.open(sys.argv[1], backend="npu") as npu:
    inputs, first, before = random_inputs(npu.inputs, 3), None, None
    for _ in range(int(sys.argv[2])):
        try:
            found = npu.infer(*inputs, raw=True)[0].data
            first = found if first is None else first
            before = before or held()
            print("equal" if np.array_equal(found, first) else "wrong")
        except RknnError as error:
            print(type(error).__name__, error)
    print("descriptors", held() - (before or held()))
"""


def frames(found: Rig, count: int, *faults: Fault) -> list[str]:
    """What frames answer, and how many descriptors they left; the first meeting came before the faults."""
    found.python(FRAMES, SMALL, 1)
    for fault in faults:
        found.driver.faults.add(fault)
    lines = found.python(FRAMES, SMALL, count).splitlines()
    found.kernel.idle()
    assert found.driver.held == 0 and not found.driver.faults.due("NONE")
    return lines


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_time_out_that_is_told_as_success(kernel: str, tmp_path: Path) -> None:
    """Nothing is computed, and nothing is said."""
    with rig(kernel, tmp_path / "cache") as found:
        lines = frames(found, 3, Fault("SUBMIT"))
    assert lines[0].startswith("RunTimeout") and "wrote nothing, though the kernel told success" in lines[0]
    assert lines[1:] == ["equal", "equal", "descriptors 0"]


@pytest.mark.parametrize("kernel", KERNELS)
def test_results_that_do_not_reach_memory(kernel: str, tmp_path: Path) -> None:
    """Stale data: what the CPU sees is what was there before the job."""
    with rig(kernel, tmp_path / "cache") as found:
        lines = frames(found, 3, Fault("STALE"))
    assert lines[0].startswith("RunTimeout") and "wrote nothing" in lines[0]
    assert lines[1:] == ["equal", "equal", "descriptors 0"]


def test_a_core_that_is_not_the_one_that_was_asked_for(tmp_path: Path) -> None:
    """It finds no records of its own."""
    with rig("rknpu", tmp_path / "cache") as found:
        lines = frames(found, 2, Fault("CORE"))
    assert lines[0].startswith("RunTimeout") and lines[1:] == ["equal", "descriptors 0"]


@pytest.mark.parametrize(("kernel", "after"), [("rocket", 0), ("rocket", 2), ("rknpu", 3), ("rknpu", 5)])
def test_the_device_fails_in_the_middle_of_a_frame(kernel: str, after: int, tmp_path: Path) -> None:
    """Calls of one frame; to put the program into memory takes two of them on rknpu."""
    with rig(kernel, tmp_path / "cache") as found:
        lines = frames(found, 2, Fault(FROM_DEVICE[kernel], error=errno.ENODEV, after=after))
    assert [line.split()[0] for line in lines] == ["DeviceUnavailable", "equal", "descriptors"]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("call", ["SUBMIT", "from device"])
def test_an_interrupted_call_is_made_again(kernel: str, call: str, tmp_path: Path) -> None:
    name = FROM_DEVICE[kernel] if call == "from device" else call
    with rig(kernel, tmp_path / "cache") as found:
        lines = frames(found, 2, Fault(name, error=errno.EINTR, times=5))
    assert lines == ["equal", "equal", "descriptors 0"]


VANISHES = """
import sys
import numpy as np
import rknnlite
from rknnlite.errors import RknnError
from rknnlite_npu.kernel.self_test import random_inputs
first = None
for _ in range(2):
    with rknnlite.open(sys.argv[1], backend="npu") as npu:
        inputs = random_inputs(npu.inputs, 3)
        try:
            for _ in range(int(sys.argv[2])):
                found = npu.infer(*inputs, raw=True)[0].data
                first = found if first is None else first
                assert np.array_equal(found, first)
            print("all")
        except RknnError as error:
            print(type(error).__name__, error)
            try:
                npu.infer(*inputs)
            except RknnError as error:
                print(type(error).__name__)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_that_dies_takes_the_context_with_it_and_no_more(kernel: str, tmp_path: Path) -> None:
    """Opened again, the model runs."""
    with rig(kernel, tmp_path / "cache") as found:
        found.python(FRAMES, SMALL, 1)
        jobs = found.driver.jobs
        threading.Thread(target=when(lambda: found.driver.jobs > jobs + 20, found.kernel.die)).start()
        lines = found.python(VANISHES, SMALL, 60).splitlines()
        found.kernel.idle()
        assert found.driver.held == 0
    assert [line.split()[0] for line in lines] == ["DeviceUnavailable", "DeviceUnavailable", "all"]


def when(condition: Callable[[], bool], act: Callable[[], object], seconds: float = 60) -> Callable[[], None]:
    """Act once it is so."""

    def wait() -> None:
        end = time.monotonic() + seconds
        while not condition() and time.monotonic() < end:
            time.sleep(0.002)
        act()

    return wait


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_device_that_cannot_be_opened_any_more(kernel: str, tmp_path: Path) -> None:
    code = "import sys, rknnlite\nrknnlite.open(sys.argv[1], backend='npu')"
    with rig(kernel, tmp_path / "cache") as found:
        found.driver.faults.add(Fault("OPEN", times=-1))
        done = found.run("-c", code, str(IMAGE))
    assert done.returncode and "npu" in done.stderr and KERNELS[kernel][0] in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
def test_no_memory_wherever_it_runs_out(kernel: str, tmp_path: Path) -> None:
    """Each buffer of a model in turn: what was there before goes back."""
    with rig(kernel, tmp_path / "cache") as found:
        found.python(FRAMES, IMAGE, 1)
        for after in range(20):
            found.driver.faults.add(Fault(CREATE[kernel], error=errno.ENOMEM, after=after))
            done = found.run("-c", FRAMES, str(IMAGE), "1")
            found.kernel.idle()
            assert found.driver.held == 0
            if not done.returncode:
                break
            assert "OutOfMemory" in done.stderr and "close other" in done.stderr
        assert 4 <= after < 20
        found.driver.faults.waiting.clear()
        assert found.python(FRAMES, IMAGE, 1).split()[0] == "equal"
