"""``import rknnlite``: the native API, and how little it loads."""

from __future__ import annotations

import os
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


MOST = {"rknnlite": 58, "rknnlite.api": 75}
"""Modules that an import may load beyond numpy's and pluggy's: what a program on a board waits for."""


@pytest.mark.parametrize("module", MOST)
def test_import_loads_few_modules(module: str) -> None:
    script = (
        "import numpy, numpy.typing, pluggy, sys\nbefore = set(sys.modules)\n"
        f"import {module}\nprint(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert len(loaded) <= MOST[module], loaded


def test_import_loads_nothing_heavy() -> None:
    """Beyond pluggy, whose release in Debian 12 loads ``importlib.metadata`` itself."""
    script = (
        "import pluggy, sys\nbefore = set(sys.modules)\nimport numpy, rknnlite.api\n"
        "heavy = {'cv2', 'PIL', 'ruamel.yaml', 'onnx', 'onnxruntime', 'psutil', 'rknnlite_cpu', 'email', 'zipfile',"
        "'importlib.metadata',"
        " 'socket', 'tempfile', 'subprocess', 'asyncio'} & (set(sys.modules) - before)\n"
        "assert not heavy, heavy"
    )
    subprocess.run(
        [sys.executable, "-S", "-c", script],
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_choosing_a_backend_reads_no_yaml() -> None:
    """The table of SoCs and the plugins are there without a parser and without ``importlib.metadata``."""
    script = (
        "import pluggy, sys\nbefore = set(sys.modules)\nfrom rknnlite import plugins, socs\n"
        "socs.get('rk3588')\nplugins.backends()\n"
        "heavy = {'ruamel', 'ruamel.yaml', 'importlib.metadata', 'email'} & (set(sys.modules) - before)\n"
        "assert not heavy, heavy"
    )
    subprocess.run(
        [sys.executable, "-S", "-c", script],
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_import_needs_no_plugin() -> None:
    script = (
        "import os; os.environ['RKNNLITE_DISABLE'] = 'cpu,rknnrt,rknn1rt,rknn3rt,cplugin,opencl,riscv,npu'\n"
        "import rknnlite, rknnlite.api\n"
        "try:\n    rknnlite.open(b'x')\n"
        "except rknnlite.errors.BackendUnavailable as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("no backend can run models here; ")
    assert "plugin cpu: switched off by RKNNLITE_DISABLE" in done.stdout
