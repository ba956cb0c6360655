"""``import rknnlite``: the native API, and how quickly it comes."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import rknnlite


def test_everything_in_all_is_there() -> None:
    for name in rknnlite.__all__:
        assert hasattr(rknnlite, name), name


def test_version() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.?(dev|rc|a|b)\d+)?", rknnlite.__version__)


def test_core_masks_are_the_vendors_numbers() -> None:
    assert {mask.name: int(mask) for mask in rknnlite.CoreMask.__members__.values()} == {
        "AUTO": 0, "CORE_0": 1, "CORE_1": 2, "CORE_2": 4, "CORE_0_1": 3, "CORE_0_1_2": 7, "ALL": 0xFFFF,
    }  # fmt: skip


def cpu_seconds(program: str) -> float:
    """CPU time of a statement in a fresh interpreter, the best of five."""
    script = f"import numpy, time\nstart = time.process_time()\n{program}\nprint(time.process_time() - start)"
    command = [sys.executable, "-c", script]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(5)]
    return min(float(run.stdout) for run in runs)


@pytest.mark.parametrize("program", ["import rknnlite.api", "import rknnlite"])
def test_import_is_quick(program: str) -> None:
    """A bound from the design (0.25 s of CPU time beyond numpy), not a benchmark."""
    assert cpu_seconds(program) < 0.25


def test_import_loads_nothing_heavy() -> None:
    script = (
        "import sys, rknnlite.api\n"
        "heavy = {'cv2', 'ruamel.yaml', 'onnx', 'onnxruntime', 'psutil', 'rknnlite_cpu'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_import_needs_no_plugin() -> None:
    script = (
        "import os; os.environ['RKNNLITE_DISABLE'] = 'cpu,rknnrt,rknn3rt,cplugin,opencl,riscv'\n"
        "import rknnlite, rknnlite.api\n"
        "try:\n    rknnlite.open(b'x')\n"
        "except rknnlite.errors.BackendUnavailable as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("no backend can run models here; ")
    assert "plugin cpu: switched off by RKNNLITE_DISABLE" in done.stdout
