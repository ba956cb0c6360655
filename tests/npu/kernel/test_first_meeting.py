"""A model that meets a device for the first time: what is compared, kept, told, and what follows of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.corpus import genuine
from tools.npu_rig.rocket import RocketDriver

from .rigs import rig

MODEL = genuine("mean_std.rk3588.i8")
OPENED = """
import logging, sys
import rknnlite
logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stdout)
with rknnlite.open(sys.argv[1], **eval(sys.argv[2])) as context:
    print("backend", context.backend_name)
"""


class WrongChip(RocketDriver):
    """It changes a byte of what a job has written."""

    def _run(self, program: Any, *job: Any) -> None:
        super()._run(program, *job)
        for buffer in self.handles_of(program).by_number.values():
            content = buffer.memory.ndarray
            if 256 < len(content) <= 4096 * 4:
                content[0] ^= 0x55


def test_what_agrees_is_kept(tmp_path: Path) -> None:
    with rig("rocket", tmp_path / "cache") as found:
        first = found.python(OPENED, MODEL, {"backend": "npu"})
        jobs = found.driver.jobs
        second = found.python(OPENED, MODEL, {"backend": "npu"})
        assert found.driver.jobs == jobs, "what was found is kept"
    assert "compared layer by layer" in first and "layers equal to the chip's arithmetic" in first
    assert first.splitlines()[-1] == second.splitlines()[-1] == "backend npu"
    assert "compared layer by layer" not in second


def test_what_differs_is_warned_of(tmp_path: Path) -> None:
    with rig("rocket", tmp_path / "cache", WrongChip()) as found:
        told = found.python(OPENED, MODEL, {"backend": "npu"})
    assert told.splitlines()[-1] == "backend npu" and "layer" in told and "differs" in told


def test_it_is_never_chosen_by_itself(tmp_path: Path) -> None:
    with rig("rocket", tmp_path / "cache") as found:
        assert found.python(OPENED, MODEL, {}).splitlines()[-1] == "backend cpu"
        assert found.driver.jobs == 0


def test_another_driver_is_another_device(tmp_path: Path) -> None:
    for version in ((1, 0, 0), (1, 1, 0)):
        with rig("rocket", tmp_path / "cache", RocketDriver(version=version)) as found:
            assert "compared layer by layer" in found.python(OPENED, MODEL, {"backend": "npu"})
