"""Compiled operators that crash: the command line isolates them, and elsewhere the last words name who it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rknnlite
from rknnlite import config
from tests.support.brothers import slow_unless

from .conftest import CUSTOM_OP
from .models import DUAL, dual_golden
from .test_python_ops import assert_close_to_simulator

WHO = 'librkcst_test.so", line '
WHERE = 'in operator cstDualResidual at node "cstDualResidual:dual"'


@pytest.fixture(scope="module")
def crashing(behaviour: Callable[..., Path]) -> Path:
    return behaviour("-DCRASH")


def python(*args: object, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **variables}
    command = [sys.executable, *map(str, args)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def commands(library: Path) -> list[list[object]]:
    op = ["--custom-op", library]
    return [["run", DUAL, *op], ["perf", DUAL, *op], ["compare", DUAL, DUAL, *op]]


COMMANDS = pytest.mark.parametrize(
    "number", slow_unless(lambda number: number == 0, range(3)), ids=["run", "perf", "compare"]
)


@COMMANDS
def test_commands_isolate_compiled_operators(number: int, crashing: Path) -> None:
    done = python("-m", "rknnlite", *commands(crashing)[number])
    assert done.returncode == 1
    assert 'failed in compute at node "cstDualResidual:dual"' in done.stderr
    assert "signal 11 (SIGSEGV)" in done.stderr


@COMMANDS
def test_unless_told_otherwise(number: int, crashing: Path) -> None:
    done = python("-m", "rknnlite", *commands(crashing)[number], "--no-isolate", RKNNLITE_ISOLATE_PLUGINS="1")
    assert done.returncode == -signal.SIGSEGV
    assert WHO in done.stderr
    assert WHERE in done.stderr


@pytest.mark.parametrize("variables", [{}, {"PYTHONFAULTHANDLER": "1"}], ids=["ours", "the program's"])
def test_the_last_words_of_a_program_name_plugin_operator_and_node(
    variables: dict[str, str], crashing: Path
) -> None:
    script = (
        "import sys, rknnlite\n"
        "from tests.custom_ops.models import dual_golden\n"
        "rknnlite.open(sys.argv[1], custom_ops=[sys.argv[2]]).infer(dual_golden().inputs)\n"
    )
    done = python("-c", script, DUAL, crashing, **variables)
    assert done.returncode == -signal.SIGSEGV
    assert str(crashing) in done.stderr
    assert WHERE in done.stderr


def test_a_library_that_crashes_while_it_is_loaded_is_named(
    compiled: Callable[..., Path], tmp_path: Path
) -> None:
    source = tmp_path / "bad.c"
    source.write_text(
        "#include <stdlib.h>\n__attribute__((constructor)) static void first(void) { abort(); }\n"
    )
    library = compiled(source, name="librkcst_bad.so")
    done = python("-c", "import sys, rknnlite; rknnlite.load_custom_ops(sys.argv[1])", library)
    assert f"{library}: loading it in a process of its own ended with signal 6 (SIGABRT)" in done.stderr
    assert done.returncode == 1, "and this one lives"


def test_where_possible_means_every_other_operator_runs_here(
    behaviour: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """librknnrt calls operators in this process: it gets the structure of the library, loaded here."""
    with config.overriding("isolate_plugins", "auto"):
        (op,) = rknnlite.load_custom_ops(behaviour())
    assert "isolated" in op.describe()
    assert op.native.op_type == b"cstDualResidual"
    with rknnlite.open(DUAL, custom_ops=[op]) as context:
        assert_close_to_simulator(context.infer(dual_golden().inputs), context)


def test_gpu_operators_run_here_where_possible_is_asked_for(compiled: Callable[..., Path]) -> None:
    pytest.importorskip("pyopencl")
    if not Path("/usr/include/CL/cl.h").is_file():
        pytest.skip("opencl-headers is not installed")
    library = compiled(CUSTOM_OP / "librkcst_dual_residual_gpu.c", "-lOpenCL", name="librkcst_gpu.so")
    with config.overriding("isolate_plugins", "auto"):
        (op,) = rknnlite.load_custom_ops(library)
    assert op.describe() == "librkcst_gpu.so"


def test_a_name_is_made_once_and_not_per_call() -> None:
    """The name is that of a function that exists already when the operator is called."""
    from rknnlite_backend.crash import caller

    call: Any = caller("librkcst_x.so", 'operator cstX at node "a"')
    assert call(divmod, 7, 2) == (3, 1)
    assert call.__code__.co_name == 'operator cstX at node "a"'
