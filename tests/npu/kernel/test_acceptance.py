"""How many files of RK3588 run whole through a kernel, NPU and CPU nodes, within a step of the chip's arithmetic on the CPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.corpus import DATA, EXAMPLES

from .rigs import KERNELS, rig

SHARE = 0.95
SOFTMAX = "exponentials are a line through the bits of fp16, up to 3 % off"
BEYOND = dict.fromkeys(("mobilenetv3_like.rk3588.i8", "products.rk3588.i8", "softmaxes.rk3588.i8"), SOFTMAX)
"""What is farther than a step, and why: a rule of the chip's that the CPU reference does not have (docs/npu.md)."""


def files() -> list[Path]:
    """All int8 files for RK3588 that this repository has."""
    return [*sorted(DATA.glob("*.rk3588.i8.rknn")), *sorted(EXAMPLES.glob("*/*_for_RK3588.rknn"))]


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
def test_nearly_all_files_run_whole_within_a_step(kernel: str, tmp_path: Path) -> None:
    with rig(kernel, tmp_path / "cache") as found:
        done = found.run("-m", "tests.npu.kernel.whole_files", *map(str, files()))
        found.kernel.idle()
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert len(rows) == len(files()), done.stderr
    assert not [row for row in rows if row[1] is None], "every file runs whole"
    far = {Path(path).stem: steps for path, steps, _ in rows if steps > 1}
    print(f"{kernel}: {len(rows) - len(far)} of {len(rows)} files within a step; farther: {far}")
    assert far.keys() <= BEYOND.keys()
    assert len(rows) - len(far) >= SHARE * len(rows)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_custom_operator_between_two_jobs(kernel: str, tmp_path: Path) -> None:
    with rig(kernel, tmp_path / "cache") as found:
        done = found.run(
            "-m", "tests.npu.kernel.whole_files", str(EXAMPLES / "custom_op" / "dual_for_RK3588.rknn")
        )
        assert found.driver.jobs >= 2
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])[1] <= 1
