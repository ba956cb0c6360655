"""Clients in Go, Rust and Python: the same numbers, several threads with a context each."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.librknnrt.clients import PROGRAMS, environment, program, run

CLIENT = PROGRAMS / "client.py"
Small = tuple[Path, Path]


@pytest.mark.slow
def test_go(small: Small) -> None:
    run([program("go_client.go"), *small])


@pytest.mark.slow
def test_rust(small: Small) -> None:
    run([program("rust_client.rs"), *small])


def test_the_calls_of_the_vendor_s_wheel(small: Small) -> None:
    """In a Python without packages, which is not the one that computes."""
    run([_plain(), "-I", "-S", CLIENT, "wheel", *small])


def _plain() -> str:
    """The system's Python where there is one, else the one below this environment."""
    return (
        "/usr/bin/python3"
        if Path("/usr/bin/python3").exists()
        else str(Path(sys.base_prefix, "bin", "python3"))
    )


@pytest.mark.slow
def test_every_python_that_is_here(small: Small) -> None:
    pythons = _pythons()
    assert sys.version_info[:2] in pythons
    for python in pythons.values():
        run([python, "-I", "-S", CLIENT, "wheel", *small])


def _pythons() -> dict[tuple[int, int], str]:
    """Interpreters by version: on the path, and those that pyenv keeps."""
    found = {sys.version_info[:2]: sys.executable}
    for minor in range(7, 16):
        name = f"python3.{minor}"
        kept = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/{name}"))
        for candidate in (*map(str, kept), shutil.which(name)):
            if candidate and _runs(candidate):
                found.setdefault((3, minor), candidate)
    return found


def _runs(python: str) -> bool:
    return (
        subprocess.run([python, "-I", "-c", "import ctypes"], capture_output=True, check=False).returncode
        == 0
    )


def test_the_home_of_another_python(small: Small, tmp_path: Path) -> None:
    """Variables that make the client's interpreter do not reach the one that computes."""
    (tmp_path / "encodings.py").write_text("raise SystemExit('the wrong library')")
    env = environment(
        PYTHONHOME=str(tmp_path), PYTHONPATH=str(tmp_path), PYTHONSTARTUP="/nowhere", PYTHONUTF8="7"
    )
    run([program("threads.c"), *small, 2, 2], env=env)


def test_the_interpreter_of_a_virtual_environment(small: Small, tmp_path: Path) -> None:
    """Without RKNNLITE_PYTHON, and with no interpreter recorded beside the library, VIRTUAL_ENV counts."""
    env = environment()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(env.pop("RKNNLITE_PYTHON"))
    run([program("threads.c"), *small, 2, 2], env={**env, "VIRTUAL_ENV": str(tmp_path)})


def test_the_interpreter_beside_the_library(small: Small, tmp_path: Path) -> None:
    env = environment()
    shutil.copy(Path(env["LD_LIBRARY_PATH"]) / "librknnrt.so", tmp_path)
    (tmp_path / "interpreter").write_text(env.pop("RKNNLITE_PYTHON") + "\n")
    run(
        [program("threads.c"), *small, 2, 2],
        env={**env, "LD_LIBRARY_PATH": str(tmp_path), "VIRTUAL_ENV": "/nowhere"},
    )


def test_without_home_and_in_another_folder(small: Small, tmp_path: Path) -> None:
    model, folder = small
    env = {
        name: value
        for name, value in environment().items()
        if name not in ("HOME", "TMPDIR", "RKNNLITE_CACHE")
    }
    relative = os.path.relpath(model, tmp_path)
    run([program("threads.c"), relative, folder, 2, 2], env=env, cwd=tmp_path)
