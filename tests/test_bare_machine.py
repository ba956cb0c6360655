"""Where something is missing tests are skipped, none fails, and the last line says what was left out and how to get it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.corpus import ROOT
from tests.support.needs import by_reason, needs, skip_for_want, summary, wanted


@pytest.mark.parametrize(
    ("reason", "package"),
    [
        ("could not import 'onnx.helper': No module named 'onnx'", "onnx"),
        ("Skipped: could not import 'cv2': No module named 'cv2'", "opencv-python-headless"),
        ("Skipped: needs the package tokenizers (extra llm)", "tokenizers"),
        ("Skipped: needs jinja2", "jinja2"),
        ("could not import 'codespell_lib': No module named 'codespell_lib'", "codespell"),
        ("could not import 'rich': No module named 'rich'", "rich"),
        ("no C compiler is installed", "gcc"),
        ("the double is written in C: install gcc", "gcc"),
        ("Skipped: needs gcc-riscv64-unknown-elf", "gcc-riscv64-unknown-elf"),
        ("no OpenCL: no platform", "pocl-opencl-icd"),
        ("x.rknn is not there: set RKNNLITE_FIXTURES to the folder of third-party files", "model files of third parties"),
        ("numpy uses another BLAS here", None),
    ],
)  # fmt: skip
def test_reasons_are_packages(reason: str, package: str | None) -> None:
    assert wanted(reason) == package


def test_the_last_line_names_one_command() -> None:
    assert summary(["no C compiler is installed"] * 3 + ["Skipped: needs jinja2"], slow=True) == (
        "not tested for want of: gcc (3), jinja2 (1); all of it: sudo make packages && make test"
    )
    assert summary(["Skipped: needs jinja2"], slow=False).endswith("slow tests; all of it: make test SLOW=1")
    assert (
        summary(["numpy uses another BLAS here"], slow=True) == "nothing was left out for want of a package"
    )


def test_one_line_per_reason() -> None:
    tests = [
        "no C compiler is installed",
        "Skipped: needs gcc",
        "Skipped: needs jinja2",
        "Skipped: another BLAS here",
    ]
    files = [
        "Skipped: could not import 'jinja2': No module named 'jinja2'",
        "Skipped: no OpenCL: no platform",
    ]
    assert by_reason(tests, files, slow=True) == [
        "not tested: 2 tests: for want of gcc (apt install gcc)",
        "not tested: 1 test and 1 file of tests: for want of jinja2 (pip install jinja2)",
        "not tested: 1 test: another BLAS here",
        "not tested: 1 file of tests: for want of pocl-opencl-icd (apt install pocl-opencl-icd)",
    ]
    assert by_reason([], [], slow=True) == []
    assert by_reason([], [], slow=False) == ["not tested: what is slow (make test SLOW=1)"]


def test_only_what_is_really_missing_excuses() -> None:
    skip_for_want("ModuleNotFoundError: No module named 'numpy'\npip install nothing"[:47])
    with pytest.raises(pytest.skip.Exception, match="needs no_such_module"):
        skip_for_want("ModuleNotFoundError: No module named 'no_such_module'")


@pytest.mark.slow
def test_without_a_compiler_a_run_is_green_and_says_so(tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": str(tmp_path), "PYTEST_ADDOPTS": ""}
    environment.pop("CC", None)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "tests/rknn3rt/test_loader.py"],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    *_, why, last = done.stdout.splitlines()
    assert why == "not tested: what is slow (make test SLOW=1)" or why.endswith(
        ": for want of gcc (apt install gcc)"
    )
    assert last.startswith("not tested for want of: gcc (")
    assert last.endswith("sudo make packages && make test")


def test_a_command_that_is_there_is_no_want(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    needs("gcc")
    compiler.unlink()
    with pytest.raises(pytest.skip.Exception, match="needs gcc"):
        needs("gcc")


def test_pip_is_one_that_chooses_quickly(tmp_path: Path) -> None:
    """23.0, which Debian 12 has, was still choosing after four minutes; 23.1 is the first with backjumping."""
    if not (ROOT / "tools" / "venv.sh").exists():
        pytest.skip("an installed package has no tools")
    python = tmp_path / "python3.99"
    python.write_text(
        '#!/bin/sh\n[ "$1" = -m ] || exit 0\n'
        'if [ "$2" = venv ]; then mkdir -p "$4/bin" && cp "$0" "$4/bin/python"; else echo "$@"; fi\n'
    )
    python.chmod(0o755)
    done = subprocess.run(
        ["bash", str(ROOT / "tools" / "venv.sh"), str(tmp_path / "venv"), str(python)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "-m pip install --quiet pip>=23.1\n"


def test_a_python_without_venv_is_told_its_package(tmp_path: Path) -> None:
    if not (ROOT / "tools" / "venv.sh").exists():
        pytest.skip("an installed package has no tools")
    python = tmp_path / "python3.99"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    done = subprocess.run(
        ["bash", str(ROOT / "tools" / "venv.sh"), str(tmp_path / "venv"), str(python)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.endswith("or on Debian: apt install python3.99-venv\n")
