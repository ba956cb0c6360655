"""A model that meets a device for the first time: what is compared, kept, told, and who computes then."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rknnlite
from tests.support.corpus import genuine
from tools.npu_rig.driver import Fault
from tools.npu_rig.rocket import RocketDriver

from .rigs import CHIP, KERNELS, Rig, rig

MODEL = genuine("mean_std.rk3588.i8")
OPENED = """
import logging, sys
import rknnlite
logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stdout)
with rknnlite.open(sys.argv[1], **eval(sys.argv[2])) as context:
    print("backend", context.backend_name)
"""
NAMED = {"backend": "npu"}


class WrongChip(RocketDriver):
    """It changes a byte of what a job has written."""

    def _run(self, program: Any, *job: Any) -> None:
        super()._run(program, *job)
        for buffer in self.handles_of(program).by_number.values():
            content = buffer.memory.ndarray
            if 256 < len(content) <= 4096 * 4:
                content[0] ^= 0x55


def backend_of(found: Rig, model: Path = MODEL, options: dict[str, Any] | None = None) -> tuple[str, str]:
    """The backend that opens a model, and all that is told."""
    told = found.python(OPENED, model, options or {})
    return told.split()[-1], told


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_agrees_is_chosen_and_kept(kernel: str, tmp_path: Path) -> None:
    with rig(kernel, tmp_path / "cache") as found:
        first, told = backend_of(found)
        jobs = found.driver.jobs
        second, silent = backend_of(found)
        assert found.driver.jobs == jobs, "what was found is kept"
    assert first == second == "npu" and "experimental" in told
    assert "compared layer by layer" in told and "agree with the chip's arithmetic" in told
    assert "compared layer by layer" not in silent


def test_what_differs_is_refused_and_runs_when_it_is_named(tmp_path: Path) -> None:
    with rig("rocket", tmp_path / "cache", WrongChip()) as found:
        by_itself, told = backend_of(found)
        named, warned = backend_of(found, options=NAMED)
    assert by_itself == "cpu" and named == "npu"
    assert "not on the NPU: on Linux" in told and "layer" in told and "differs" in told
    assert "backend='npu' runs it all the same" in told
    assert "differs" in warned and "compared layer by layer" not in warned


def test_a_run_that_fails_is_kept_as_a_difference(tmp_path: Path) -> None:
    driver = RocketDriver()
    driver.faults.add(Fault("TASK", error=errno.ETIMEDOUT))
    with rig("rocket", tmp_path / "cache", driver) as found:
        first, told = backend_of(found)
        second, again = backend_of(found)
    assert first == second == "cpu"
    assert "a run fails" in told and "wrote nothing, though the kernel told success" in told
    assert "a run fails" in again and "compared layer by layer" not in again


def test_a_device_that_fails_says_nothing_of_the_model(tmp_path: Path) -> None:
    driver = RocketDriver()
    driver.faults.add(Fault("SUBMIT", error=errno.ENODEV))
    with rig("rocket", tmp_path / "cache", driver) as found:
        first, told = backend_of(found)
        second, _ = backend_of(found)
    assert first == "cpu" and "the device has gone" in told
    assert second == "npu"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("batch_four.rk3588.i8", "a batch of 4"),
        ("dynamic_three.rk3588.i8", "several sets of shapes"),
        ("int16_limits.rk3588.i16", "nobody has measured layers of INT16 on RK3588"),
        ("conv_relu.rk3576.i8", "not for rk3588"),
    ],
)
def test_what_nothing_is_known_of_is_left_alone(name: str, why: str, tmp_path: Path) -> None:
    with rig("rocket", tmp_path / "cache") as found:
        backend, told = backend_of(found, genuine(name))
        assert found.driver.jobs == 0
    assert backend == "cpu" and why in told


def test_what_nothing_is_known_of_runs_when_it_is_named(tmp_path: Path) -> None:
    with rig("rocket", tmp_path / "cache") as found:
        backend, told = backend_of(found, genuine("dynamic_three.rk3588.i8"), NAMED)
    assert backend == "npu" and "agree with the chip's arithmetic" in told


@pytest.mark.parametrize("chip", [b"radxa,zero-3\0rockchip,rk3566\0", b"some,board\0"])
def test_a_chip_that_nobody_has_measured_is_tried_by_name_alone(
    chip: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CHIP, "/proc/device-tree/compatible", chip)
    with rig("rocket", tmp_path / "cache") as found:
        assert backend_of(found)[0] == "cpu"
        assert found.driver.jobs == 0


def test_words_for_another_chip_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CHIP, "/proc/device-tree/compatible", b"radxa,zero-3\0rockchip,rk3566\0")
    with rig("rocket", tmp_path / "cache") as found:
        done = found.run("-c", OPENED, str(MODEL), str(NAMED))
        assert found.driver.jobs == 0
    assert "TargetPlatformUnmatch" in done.stderr and "not for rk3566" in done.stderr


@pytest.mark.slow
def test_another_driver_is_another_device(tmp_path: Path) -> None:
    for version in ((1, 0, 0), (1, 1, 0)):
        with rig("rocket", tmp_path / "cache", RocketDriver(version=version)) as found:
            assert "compared layer by layer" in backend_of(found)[1]


# -- what is kept -------------------------------------------------------------------------------------------------

DIES = """
import os, sys
import rknnlite
from rknnlite_npu.kernel import self_test
self_test.compare_layers = lambda *args: os._exit(9)
rknnlite.open(sys.argv[1])
"""


@pytest.mark.slow
def test_a_comparison_that_took_the_program_down_is_not_made_again(tmp_path: Path) -> None:
    with rig("rocket", tmp_path / "cache") as found:
        assert found.run("-c", DIES, str(MODEL)).returncode == 9
        backend, told = backend_of(found)
        assert backend == "cpu" and "went down with its program, or the machine" in told
        assert found.driver.jobs == 0
        assert backend_of(found, options=NAMED)[0] == "npu", "who asks for it has it compared"
        assert backend_of(found)[0] == "npu"


@pytest.mark.slow
@pytest.mark.parametrize("content", ["", "{}", "[1]", "null", '{"format": 2', "\0\0", None])
def test_what_is_damaged_is_made_anew(content: str | None, tmp_path: Path) -> None:
    with rig("rocket", tmp_path / "cache") as found:
        backend_of(found)
        (kept,) = (tmp_path / "cache" / "npu-verdicts").glob("*.json")
        kept.write_text(
            kept.read_text().replace('"layers": 1', '"layers": "1"') if content is None else content
        )
        backend, told = backend_of(found)
    assert backend == "npu" and "compared layer by layer" in told


@pytest.mark.slow
def test_programs_that_meet_it_together_compare_once(tmp_path: Path) -> None:
    code = f"import subprocess, sys\na = [subprocess.Popen([sys.executable, '-c', {OPENED!r}, *sys.argv[1:]]) for _ in range(3)]\n"
    with rig("rknpu", tmp_path / "cache") as found:
        told = found.python(code + "[x.wait() for x in a]", MODEL, {})
    assert told.splitlines().count("backend npu") == 3 and told.count("compared layer by layer") == 1


def test_where_nothing_can_be_kept_it_is_told(tmp_path: Path) -> None:
    with rig("rocket", tmp_path / "cache") as found:
        (tmp_path / "cache" / "npu-verdicts").write_text("in the way")
        backend, told = backend_of(found)
    assert backend == "npu" and "cannot be kept" in told


# -- whoever opens it ---------------------------------------------------------------------------------------------

POOLED = """
import sys
import numpy as np
import rknnlite
with rknnlite.Pool(sys.argv[1], 3) as pool:
    shape = [attr.dims for attr in pool.inputs]
    print(*(len(pool.submit(*(np.zeros(dims, np.uint8) for dims in shape)).result()) for _ in range(4)))
"""
FACE = """
import sys
import numpy as np
from rknnlite.api import RKNNLite
rknn = RKNNLite()
assert rknn.load_rknn(sys.argv[1]) == 0 and rknn.init_runtime() == 0
print(rknn.get_sdk_version())
print(rknn.inference(inputs=[np.zeros((1, 18, 22, 3), np.uint8)])[0].shape)
"""


def test_a_pool_and_the_vendors_face_choose_it_too(tmp_path: Path) -> None:
    with rknnlite.open(MODEL, backend="cpu") as context:
        dims = context.inputs[0].dims
    with rig("rocket", tmp_path / "cache") as found:
        assert found.python(POOLED, MODEL).split()[-4:] == ["1"] * 4
        assert found.driver.jobs > 4
        told = found.python(FACE.replace("(1, 18, 22, 3)", str(dims)), MODEL)
    assert "rknnlite npu" in told and "rocket 1.0.0" in told


@pytest.mark.slow
def test_exec_chooses_it_too(tmp_path: Path) -> None:
    """The vendor's class in a program that ``rknnlite exec`` starts."""
    with rig("rocket", tmp_path / "cache") as found:
        done = found.run("-m", "rknnlite", "exec", "--", sys.executable, "-c", OPENED, str(MODEL), "{}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "npu"


def test_a_kept_verdict_costs_a_program_no_comparison(tmp_path: Path) -> None:
    script = OPENED + "print(sorted(m for m in sys.modules if m.startswith('rknnlite_insight')))"
    with rig("rocket", tmp_path / "cache") as found:
        backend_of(found)
        assert found.python(script, MODEL, {}).splitlines()[-1] == "[]"


def test_nothing_is_loaded_where_no_device_is() -> None:
    code = (
        "import sys\nfrom rknnlite_npu.backend import KernelBackend\nfrom pathlib import Path\n"
        "import rknnlite_npu.backend as b\nb._DEVICES = ('/nowhere',)\nprint(KernelBackend().probe().available, "
        "sorted(m for m in sys.modules if m.startswith('rknnlite_npu.kernel')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False []"


LENT = """
import sys
import rknnlite
with rknnlite.open(sys.argv[1], backend=sys.argv[3] or None) as master, rknnlite.open(sys.argv[2], master=master) as slave:
    print(master.backend_name, slave.backend_name)
"""


@pytest.mark.parametrize("where", ["", "cpu"])
def test_a_model_without_weights_goes_where_its_master_is(where: str, tmp_path: Path) -> None:
    with rig("rknpu", tmp_path / "cache") as found:
        names = found.python(LENT, genuine("kept.rk3588.i8"), genuine("removed.rk3588.i8"), where).split()
    assert names == [where or "npu"] * 2
