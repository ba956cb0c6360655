"""A copy of the resident interpreter is for its caller what an interpreter started anew is."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.resident import Resident


@pytest.fixture(scope="module")
def resident() -> Iterator[Resident]:
    with Resident("-W", "error") as resident:
        yield resident


@pytest.mark.parametrize(
    "code",
    [
        "import os, sys; print(os.getcwd(), sorted(os.environ), sys.argv, __name__); print('said', file=sys.stderr)",
        "import atexit; atexit.register(print, 'at the end')",
        "import sys; sys.exit(3)",
        "import sys; sys.exit('a sentence')",
        "import sys; sys.stdout.write('unfinished'); print(repr(sys.stdin.read()))",
    ],
)
def test_as_an_interpreter_started_anew(code: str, resident: Resident, tmp_path: Path) -> None:
    words, environment = ["-c", code, "one", "two words"], {"LC_CTYPE": "C.UTF-8", "MORE": "é"}
    anew = subprocess.run(
        [sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True,
        check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    copy = resident.run(*words, cwd=tmp_path, env=environment)
    assert (copy.returncode, copy.stdout, copy.stderr) == (anew.returncode, anew.stdout, anew.stderr)


def test_what_goes_wrong_is_seen(resident: Resident, tmp_path: Path) -> None:
    def ended(code: str) -> tuple[int, str]:
        done = resident.run("-c", code, cwd=tmp_path, env={})
        return done.returncode, done.stderr

    code, said = ended("1 / 0")
    assert code == 1 and said.endswith("ZeroDivisionError: division by zero\n")
    code, said = ended("import warnings; warnings.warn('old', DeprecationWarning)")
    assert code == 1 and said.endswith("DeprecationWarning: old\n")
    assert ended("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")[0] == 128 + 9


def test_modules_and_files_run(resident: Resident, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("WORD = 'beside'\n")
    (tmp_path / "program.py").write_text("import sys, beside\nprint(__name__, beside.WORD, sys.argv[1:])\n")
    for words in (("program.py", "x"), ("-m", "program", "x")):
        done = resident.run(*words, cwd=tmp_path, env={})
        assert (done.returncode, done.stdout) == (0, "__main__ beside ['x']\n"), done.stderr
