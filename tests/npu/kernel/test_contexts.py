"""The tests of the machine's contexts, on both kernels of the rig: numbers, memory, masks, pools, the vendor's face, C programs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .rigs import KERNELS, rig

SUITES = {
    "contexts": ("tests/npu/test_machine_backend.py", 40),
    "face and pool": ("tests/npu/test_face_and_pool.py", 20),
    "memory": ("tests/npu/test_zero_copy_rules.py", 30),
    "drop-in library": ("tests/npu/test_drop_in_library.py", 7),
}


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_passes_on_a_kernel(suite: str, kernel: str, tmp_path: Path) -> None:
    file, least = SUITES[suite]
    with rig(kernel, tmp_path / "cache") as found:
        done = found.run(
            *("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", file),
            RKNNLITE_TEST_NPU_BACKEND="npu",
        )
        found.kernel.idle()
    assert done.returncode == 0, done.stdout[-5000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed and int(passed[1]) >= least
