"""``rknnlite exec``: a program gets the library, and is otherwise as if it had been started by a shell."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.needs import needs

pytestmark = pytest.mark.slow

LIBRARY = "import ctypes, os; ctypes.CDLL('librknnrt.so').rknn_destroy; print(os.environ['RKNNLITE_PYTHON'])"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    needs("gcc")
    return {
        **{name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"},
        "RKNNLITE_CACHE": str(tmp_path_factory.mktemp("cache")),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }


def run(environment: dict[str, str], *words: Any, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rknnlite", "exec", *map(str, words)]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=240, **more
    )


def test_the_program_finds_the_library_and_the_library_this_python(environment: dict[str, str]) -> None:
    done = run(environment, "--", sys.executable, "-c", LIBRARY)
    assert (done.returncode, done.stdout) == (0, f"{sys.executable}\n"), done.stderr


def test_programs_for_hosts_of_rk182x_find_theirs(environment: dict[str, str]) -> None:
    script = "import ctypes; print(ctypes.CDLL('librknn3_api.so').rknn3_destroy(ctypes.c_uint64(0)))"
    done = run(environment, "--", sys.executable, "-c", script)
    assert (done.returncode, done.stdout) == (0, "-4\n"), done.stderr


def test_programs_for_rv1106_find_theirs(environment: dict[str, str]) -> None:
    """The library, and what stands for the board's where this machine has none."""
    script = (
        "import ctypes; print(ctypes.CDLL('librknnmrt.so').rknn_inputs_set(ctypes.c_uint64(0), 0, None), "
        "*[ctypes.CDLL(name)._name for name in ('librockit.so', 'libmpimmz.so', 'librga.so')])"
    )
    done = run(environment, "--", sys.executable, "-c", script)
    assert (done.returncode, done.stdout) == (0, "-5 librockit.so libmpimmz.so librga.so\n"), done.stderr


def test_words_and_exit_code_pass_unchanged(environment: dict[str, str]) -> None:
    words = ["--json", "--help", "--", "", "a b", "-x", "*"]
    script = "import sys; print(sys.argv[1:]); sys.exit(7)"
    for dashes in (["--"], []):
        done = run(environment, *dashes, sys.executable, "-c", script, *words)
        assert (done.returncode, done.stdout) == (7, f"{words}\n")


def test_what_the_user_has_set_stays(environment: dict[str, str]) -> None:
    theirs = {**environment, "LD_LIBRARY_PATH": "/opt/theirs:/opt/more", "RKNNLITE_PYTHON": "/opt/python3"}
    done = run(theirs, "--", "sh", "-c", 'echo "$LD_LIBRARY_PATH $RKNNLITE_PYTHON"')
    folders, python = done.stdout.split()
    ours, rkllm, board, *rest = folders.split(":")
    assert Path(ours, "librknnrt.so").is_file() and Path(rkllm, "librkllmrt.so").is_file()
    assert Path(board, "librga.so").is_file()
    assert (rest, python) == (["/opt/theirs", "/opt/more"], "/opt/python3")


def test_it_becomes_the_program(environment: dict[str, str]) -> None:
    """One process: signals reach the program, and its end is what the caller sees."""
    command = [sys.executable, "-m", "rknnlite", "exec", "--", "sh", "-c", "echo $$; exec sleep 60"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert int(child.stdout.readline()) == child.pid
        child.terminate()
        assert child.wait(60) == -signal.SIGTERM


def test_signals_are_as_a_shell_hands_them_on(environment: dict[str, str]) -> None:
    """Python ignores SIGPIPE: a program that writes to a closed pipe would go on for ever."""
    done = run(environment, "--", "sh", "-c", "grep SigIgn /proc/self/status")
    ignored = int(done.stdout.split()[1], 16)
    assert not [number for number in (signal.SIGPIPE, signal.SIGXFSZ) if ignored >> (number - 1) & 1]
    command = [sys.executable, "-m", "rknnlite", "exec", "--", "yes"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"y\n"
        child.stdout.close()
        assert child.wait(60) == -signal.SIGPIPE


@pytest.mark.parametrize(
    ("program", "code", "text"),
    [
        ("./no-such-program", 127, "there is no such program; give its path"),
        ("no-such-program", 127, "there is no such program; give its path"),
        ("./data", 126, "with the right to be executed"),
        ("./script", 127, "the interpreter or dynamic linker that it names is not there"),
        ("./empty", 126, "it must be a program of this machine"),
    ],
)
def test_what_cannot_be_run_has_a_shells_code(
    environment: dict[str, str], tmp_path: Path, program: str, code: int, text: str
) -> None:
    (tmp_path / "data").write_text("data")
    for name, content in (("script", "#!/no/such/interpreter\n"), ("empty", "\0")):
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o755)
    done = run(environment, "--", program, "--json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(f"rknnlite: exec: {program}: ") and text in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [[], ["--"], ["--json"]])
def test_without_a_program_it_says_how(environment: dict[str, str], words: list[str]) -> None:
    done = run(environment, *words)
    assert done.returncode == 2 and "exec: name a program" in done.stderr
