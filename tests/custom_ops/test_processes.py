"""The processes of isolated and of RISC-V plugins: killed, orphaned, forked, interrupted."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import rknnlite
from rknnlite.spi import CustomOpFailed
from tests.support.brothers import slow_unless

from .models import DUAL, dual_golden

Build = Callable[..., Path]

OPEN = """
import logging, os, sys
import rknnlite
from tests.custom_ops.models import DUAL, PlainDual, dual_golden

def opened(kind, *files):
    if kind == "riscv":
        return rknnlite.open(DUAL, custom_ops=[PlainDual()], postprocess=files[0])
    if kind == "kernel":
        from tests.custom_ops.test_gpu_ops import dual_op
        return rknnlite.open(DUAL, custom_ops=[dual_op()])
    options = {"isolate": True, "time_limit": None} if kind == "isolated" else {}
    return rknnlite.open(DUAL, custom_ops=rknnlite.load_custom_ops(files[0], **options))
"""


def start(script: str, *args: object, **popen: Any) -> subprocess.Popen[str]:
    """A Python program of its own, which may be killed and may fork."""
    return subprocess.Popen(
        [sys.executable, "-c", OPEN + script, *map(str, args)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **popen,
    )  # fmt: skip


def needs(kind: str) -> None:
    if kind == "riscv" and shutil.which("riscv64-unknown-elf-gcc") is None:
        pytest.skip("riscv64-unknown-elf-gcc is not installed")
    if kind == "kernel":
        pytest.importorskip("pyopencl")
        pytest.importorskip("rknnlite_opencl.device").unavailable() and pytest.skip("no OpenCL")


def workers() -> set[int]:
    """Living workers of this process."""
    children = [c for c in psutil.Process().children() if c.status() != psutil.STATUS_ZOMBIE]
    return {child.pid for child in children if "rknnlite_cplugin" in str(child.cmdline())}


# -- killed -----------------------------------------------------------------------------------------------------


def test_a_killed_worker_is_an_error_and_the_next_model_has_a_new_one(behaviour: Build) -> None:
    before = workers()
    op = rknnlite.load_custom_ops(behaviour(), isolate=True)
    with rknnlite.open(DUAL, custom_ops=op) as context:
        (pid,) = workers() - before
        os.kill(pid, signal.SIGKILL)
        for _ in range(2):
            with pytest.raises(CustomOpFailed, match=r"signal 9 \(SIGKILL\)"):
                context.infer(dual_golden().inputs)
        context.register_ops(op)
        answers = context.infer(dual_golden().inputs)
    with rknnlite.open(DUAL, custom_ops=op) as context:
        assert all(np.array_equal(a, b) for a, b in zip(answers, context.infer(dual_golden().inputs)))


@pytest.mark.parametrize("kind", ["isolated", "riscv"])
def test_a_plugin_that_hangs_dies_with_its_program(kind: str, request: pytest.FixtureRequest) -> None:
    needs(kind)
    library = request.getfixturevalue("argmax" if kind == "riscv" else "behaviour")("-DHANG")
    program = start(
        "logging.basicConfig(level=logging.DEBUG)\n"  # shows what RISC-V plugins print
        "opened(*sys.argv[1:]).infer(dual_golden().inputs)\n",
        kind, library,
    )  # fmt: skip
    assert program.stderr is not None
    while "hangs" not in program.stderr.readline():
        assert program.poll() is None
    program.kill()
    program.communicate(timeout=20)  # stderr ends when the last process that has it is gone


def test_nothing_is_left_in_shared_memory(behaviour: Build) -> None:
    before = set(Path("/dev/shm").iterdir())
    program = start(
        "context = opened('isolated', sys.argv[1])\n"
        "context.infer(dual_golden().inputs)\n"
        "os.kill(os.getpid(), 9)\n",
        behaviour(),
    )  # fmt: skip
    program.communicate(timeout=60)
    assert program.returncode == -signal.SIGKILL
    assert not {file for file in set(Path("/dev/shm").iterdir()) - before if "rknnlite" in file.name}


# -- forked -----------------------------------------------------------------------------------------------------

FORK = """
context = opened(*sys.argv[1:])
expected = context.infer(dual_golden().inputs)
child = os.fork()
if child == 0:
    try:
        context.infer(dual_golden().inputs)
    except rknnlite.RknnError as error:
        print("child:", error, flush=True)
    sys.exit()  # with all finalizers
os.waitpid(child, 0)
same = [(a == b).all() for a, b in zip(expected, context.infer(dual_golden().inputs))]
context.close()
print("parent:", all(same))
"""


@pytest.mark.parametrize(
    "kind",
    slow_unless(lambda kind: kind in ("isolated", "kernel"), ["compiled", "isolated", "riscv", "kernel"]),
)
def test_a_forked_child_leaves_its_parents_plugins_alone(kind: str, request: pytest.FixtureRequest) -> None:
    needs(kind)
    files = (
        [] if kind == "kernel" else [request.getfixturevalue("argmax" if kind == "riscv" else "behaviour")()]
    )
    output, errors = start(FORK, kind, *files).communicate(timeout=60)
    child, parent = output.splitlines()
    assert "before a fork" in child, errors
    assert parent == "parent: True"


# -- interrupted ------------------------------------------------------------------------------------------------


def test_an_interrupted_call_does_not_spoil_the_next(behaviour: Build) -> None:
    """The answer to the first request would else be taken for the answer to the second."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    op = rknnlite.load_custom_ops(behaviour("-DHANG"), isolate=True)
    with rknnlite.open(DUAL, custom_ops=op) as context:
        previous = signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        try:
            with pytest.raises(KeyboardInterrupt):
                context.infer(dual_golden().inputs)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)
        with pytest.raises(CustomOpFailed, match="was interrupted in compute; open the model again"):
            context.infer(dual_golden().inputs)


# -- surroundings -----------------------------------------------------------------------------------------------


def test_a_worker_imports_nothing_from_the_working_directory(behaviour: Build, tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise SystemExit('the wrong numpy')\n")
    script = tmp_path / "elsewhere" / "program.py"
    script.parent.mkdir()
    script.write_text(
        "import sys, rknnlite\nrknnlite.load_custom_ops(sys.argv[1], isolate=True)\nprint('loaded')\n"
    )
    done = subprocess.run(
        [sys.executable, str(script), str(behaviour())],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "loaded\n", done.stderr


def test_plugins_of_a_directory_share_one_worker_each(
    behaviour: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "op_plugins"
    folder.mkdir(mode=0o755)
    shutil.copy(behaviour(), folder / "librkcst_dual.so")
    monkeypatch.setenv("RKNNLITE_OP_PLUGINS", str(folder))
    monkeypatch.setenv("RKNNLITE_ISOLATE_PLUGINS", "1")
    before = workers()
    for _ in range(3):
        with rknnlite.open(DUAL) as context:
            context.infer(dual_golden().inputs)
    assert len(workers() - before) == 1
