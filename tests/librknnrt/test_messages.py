"""What the library says where the process that computes cannot be started: whose right, which limit."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.librknnrt.clients import environment, errors, program, run
from tests.support.corpus import genuine

NOBODY = 65534
SYSTEM_PYTHON = Path("/usr/bin/python3")


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that everybody may enter."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    for name in folder.rglob("*"):
        name.chmod(0o755) if name.is_dir() and not name.is_symlink() else None
    shutil.rmtree(folder)


def close(folder: Path) -> dict[str, Any]:
    """Take the right to it from the user who is to be run as: what ``run`` needs for that."""
    if os.getuid():
        folder.chmod(0)
        return {}
    folder.chmod(0o700)
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []}


def told(env: dict[str, str], **options: Any) -> str:
    (line,) = errors(run([program("opens.c"), "model.rknn", 1], env=env, cwd="/", **options).stderr)
    return line


@pytest.mark.parametrize("variable", ["RKNNLITE_PYTHON", "VIRTUAL_ENV"])
def test_an_environment_in_the_home_of_another_user(home: Path, variable: str) -> None:
    """It is there and may not be entered: installing would change nothing."""
    python = home / "theirs" / "venv" / "bin" / "python3"
    python.parent.mkdir(parents=True)
    python.symlink_to(SYSTEM_PYTHON)
    env = environment()
    del env["RKNNLITE_PYTHON"]
    env[variable] = str(python if variable == "RKNNLITE_PYTHON" else python.parents[1])
    line = told(env, **close(home / "theirs"))
    assert f"this user has no permission for {python}: " in line and "install" not in line


def test_packages_that_may_not_be_read(home: Path) -> None:
    """Python passes over such a folder, as if it were empty."""
    if not SYSTEM_PYTHON.exists():
        pytest.skip(f"needs {SYSTEM_PYTHON}")
    made = [SYSTEM_PYTHON, "-m", "venv", "--without-pip", home / "venv"]
    subprocess.run(made, check=True, umask=0o022)  # everybody may read all but the one folder
    (packages,) = home.glob("venv/lib/python3*/site-packages")
    env = environment(RKNNLITE_PYTHON=str(home / "venv" / "bin" / "python3"))
    line = told(env, **close(packages))
    assert (
        f"Permission denied: '{packages}'; this user has no permission for" in line and "install" not in line
    )


def test_the_limit_of_open_files() -> None:
    """Too low for the first context, and for the fifth."""
    model, made = genuine("conv_relu.rk3588.i8"), program("opens.c")
    for limit, codes in ((16, [-3, -3]), (22, [0, 0, 0, 0, -3])):
        done = run(["sh", "-c", f'ulimit -n {limit} && exec "$@"', "sh", made, model, len(codes)])
        assert [int(code) for code in done.stdout.split()] == codes, done.stderr
        lines = errors(done.stderr)
        assert len(lines) == codes.count(-3)
        assert all(
            "Too many open files; the limit of open files is too low: raise it (ulimit -n 256)" in line
            for line in lines
        )
