"""How work is handed over: one start for many tasks, jobs that are short enough, never two at once where they must not."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from rknnlite_npu.kernel.rocket_abi import JobFlag

from tests.support.corpus import genuine
from tools.npu_rig.rocket import RocketDriver

from .rigs import KERNELS, rig
from .test_kernels import BESIDE_THE_MACHINE, IMAGE

POOLING = genuine("pooling.rk3588.i8")
SMALL = genuine("mobilenetv2_like.rk3588.i8")


@pytest.mark.parametrize("version", [(1, 0, 0), (1, 1, 0), (1, 3, 0)])
def test_what_the_driver_can_is_used(version: tuple[int, int, int], tmp_path: Path) -> None:
    """Tasks that lead to each other begin at once, pools are jobs that end with their unit."""
    driver = RocketDriver(version=version)
    with rig("rocket", tmp_path / "cache", driver) as found:
        assert found.python(BESIDE_THE_MACHINE, POOLING, SMALL).split() == ["True", "True"]
    assert driver.given_up == [] and driver.refusals == []
    assert any(JobFlag.BATCHED in flags for flags in driver.flags) == (version >= (1, 1, 0))
    assert any(JobFlag.PPU_DONE in flags for flags in driver.flags) == (version >= (1, 3, 0))


SHORT = """
import sys
from rknnlite_npu.kernel import rknpu, rocket
for kind in (rknpu.RknpuTransport, rocket.RocketTransport):
    kind.job_seconds = float(sys.argv[1])
del sys.argv[1]
"""


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
def test_jobs_end_before_they_are_given_up(kernel: str, tmp_path: Path) -> None:
    """With a limit of two milliseconds the same network is several jobs, and the same numbers."""
    jobs = []
    for limit in (0.5, 0.002):
        with rig(kernel, tmp_path / f"cache{limit}") as found:
            assert found.python(SHORT + BESIDE_THE_MACHINE, limit, SMALL).split() == ["True"]
            jobs.append(found.driver.jobs)
    assert jobs[1] > jobs[0]


BATCH = """
import os, sys
import numpy as np
import rknnlite
from rknnlite_npu.kernel.self_test import random_inputs
def held():
    return len(os.listdir("/proc/self/fd"))
with rknnlite.open(sys.argv[1], backend="npu") as npu:
    inputs = random_inputs(npu.inputs, 3)
    wanted, before = npu.infer(*inputs, raw=True), held()
    for cores in (2, 3, 1, 3):
        npu.set_batch_core_num(cores)
        for _ in range(2):
            found = npu.infer(*inputs, raw=True)
            assert all(np.array_equal(a.data, b.data) for a, b in zip(found, wanted))
    npu.set_batch_core_num(1)
    npu.infer(*inputs)
    print(npu.batch, held() - before)
"""


@pytest.mark.parametrize("kernel", KERNELS)
def test_items_of_a_batch_run_on_several_cores(kernel: str, tmp_path: Path) -> None:
    """On rocket a core is a device that was opened."""
    with rig(kernel, tmp_path / "cache") as found:
        opened = []
        plain = found.driver.opened
        found.driver.opened = lambda program: (opened.append(program), plain(program))[1]  # type: ignore[method-assign]
        assert found.python(BATCH, genuine("batch_four.rk3588.i8")).split() == ["4", "0"]
        found.kernel.idle()
        assert found.driver.held == 0
    assert len(opened) > 5 if kernel == "rocket" else len(opened) <= 5


ALONE = """
import sys, threading
import numpy as np
import rknnlite
from rknnlite_npu.kernel import devices
from rknnlite_npu.kernel.self_test import random_inputs
devices.FAMILIES = ("RKNPU v2",)
def frames(context, inputs, wanted, found):
    for _ in range(int(sys.argv[2])):
        found.append(np.array_equal(context.infer(*inputs, raw=True)[0].data, wanted))
with rknnlite.open(sys.argv[1], backend="npu") as one, one.dup() as twin, rknnlite.open(sys.argv[1], backend="npu") as two:
    inputs, found = random_inputs(one.inputs, 3), []
    wanted = one.infer(*inputs, raw=True)[0].data
    one.set_core_mask(3)
    threads = [threading.Thread(target=frames, args=(each, inputs, wanted, found)) for each in (one, twin, two)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    print(len(found), all(found))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
def test_jobs_do_not_overlap_where_they_must_not(kernel: str, tmp_path: Path) -> None:
    """Three contexts in each of two processes, as if RK3588 were RK3576."""
    told: list[str] = []
    with rig(kernel, tmp_path / "cache") as found:
        found.python(ALONE, IMAGE, 1)
        threads = [
            threading.Thread(target=lambda: told.append(found.python(ALONE, IMAGE, 12))) for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert told == ["36 True\n"] * 2
    if isinstance(found.driver, RocketDriver):
        assert found.driver.overlaps == 0


KILLED = """
import os, signal, sys
from rknnlite_npu.kernel.one_job import OneJobAtATime
class Inner:
    name, job_seconds = "inner", 0.5
    def submit(self, job): pass
    def wait(self, timeout_ms=0): pass
OneJobAtATime(Inner(), sys.argv[1]).submit(None)
if sys.argv[2] == "die":
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_ends_leaves_the_device_to_others(tmp_path: Path) -> None:
    device = str(tmp_path / "accel0")
    dead = subprocess.run([sys.executable, "-c", KILLED, device, "die"], check=False)
    assert dead.returncode == -9
    assert (
        subprocess.run([sys.executable, "-c", KILLED, device, "live"], check=False, timeout=60).returncode
        == 0
    )
