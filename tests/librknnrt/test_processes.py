"""The library's process: forks, threads, signals, deaths; nothing hangs, and nothing outlives the program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rknnlite_librknnrt.protocol import PROTOCOL_VERSION

from tests.librknnrt.clients import PROGRAMS, environment, errors, library, program, run
from tests.support.needs import needs

pytestmark = pytest.mark.slow

CLIENT = PROGRAMS / "client.py"
Small = tuple[Path, Path]


@pytest.mark.parametrize(
    "task",
    [
        "many",
        "fork",
        "wait_loop",
        pytest.param("ignored", marks=pytest.mark.slow),
        pytest.param("interrupted", marks=pytest.mark.slow),
        pytest.param("alarms", marks=pytest.mark.slow),
        "killed",
    ],
)
def test_life(small: Small, task: str) -> None:
    run([sys.executable, CLIENT, task, *small])


@pytest.mark.parametrize("leave", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_unloaded_and_loaded_again(small: Small, leave: int) -> None:
    mark = f"reload-{os.getpid()}"
    run([program("reload.c", "-Wl,--as-needed", "-ldl"), *small, leave], env=environment(RKNN_CLIENT=mark))
    assert not [path for path in Path("/proc").glob("[0-9]*/environ") if mark in _text(path)]


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def test_contexts_left_open(small: Small) -> None:
    """A program may end without destroying anything."""
    done = run([sys.executable, CLIENT, "left_open", *small])
    _gone(done.stdout)


def test_a_killed_program(small: Small) -> None:
    with subprocess.Popen(
        [sys.executable, CLIENT, "stays", *map(str, small)],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        pids = process.stdout.readline()
        assert pids.split()
        process.send_signal(signal.SIGKILL)
    _gone(pids)


def _gone(pids: str, seconds: float = 2.0) -> None:
    """No process of these is left, shortly after."""
    assert pids.split()
    end = time.monotonic() + seconds
    while any(map(_alive, pids.split())):
        assert time.monotonic() < end, f"processes {pids} outlive the program"
        time.sleep(0.01)


def _alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize(
    "named",
    [
        "/nowhere/python3",
        "/bin/false",
        "/etc/passwd",
        pytest.param("empty", marks=pytest.mark.slow),
    ],
)
def test_an_interpreter_that_does_not_start(small: Small, named: str, tmp_path: Path) -> None:
    """-3 and one line that says why; ``empty`` is a Python without rknnlite."""
    if named == "empty":
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "empty")], check=True)
        named = str(tmp_path / "empty" / "bin" / "python3")
    done = run([sys.executable, CLIENT, "no_interpreter", *small], env=environment(RKNNLITE_PYTHON=named))
    lines = done.stderr.splitlines()
    assert len(lines) == 2 and errors(done.stderr) == lines  # one of each call
    assert all(named in line and "RKNNLITE_PYTHON" in line and "(error -3)" in line for line in lines)


def test_an_interpreter_with_another_version(small: Small, tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\nprintf '\\143\\0\\0\\0\\1\\0\\0\\0' >&3\nexec sleep 60\n")
    python.chmod(0o755)
    done = run(
        [sys.executable, CLIENT, "no_interpreter", *small], env=environment(RKNNLITE_PYTHON=str(python))
    )
    lines = errors(done.stderr)
    assert lines and all(
        f"{python} speaks version 99 of the protocol, this library {PROTOCOL_VERSION}" in line
        for line in lines
    )
    assert all("(error -3)" in line for line in lines)


def test_a_file_system_that_is_read_only(small: Small) -> None:
    """Nothing is written: everything but /proc and /dev is read only, without a home."""
    inner = (
        "mount --make-rprivate / && "
        "for m in / /tmp /dev/shm $(awk '{print $2}' /proc/self/mounts | grep -v -e ^/proc -e ^/dev -e ^/sys); "
        'do mount -o remount,bind,ro "$m" 2>/dev/null; done; '
        'if touch /tmp/.rknnlite /var/tmp/.rknnlite 2>/dev/null; then exit 77; fi; exec "$@"'
    )
    spaces = [["unshare", "--mount"], ["unshare", "--user", "--map-root-user", "--mount"]]
    space = next((words for words in spaces if _works([*words, "true"])), None)
    if space is None:
        pytest.skip("this user may not have a mount name space of its own (unshare)")
    env = {
        name: value
        for name, value in environment().items()
        if name not in ("HOME", "TMPDIR", "RKNNLITE_CACHE")
    }
    run([*space, "sh", "-c", inner, "sh", program("threads.c"), *small, 2, 2], env=env)


def _works(command: list[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def test_descriptors_that_are_closed(small: Small) -> None:
    """A daemon without stdin, stdout and stderr."""
    command = " ".join(f"'{word}'" for word in (program("threads.c"), *small, 2, 2))
    run(["sh", "-c", f"exec {command} 0<&- 1>&- 2>&-"])


def test_no_descriptor_is_left_behind(small: Small) -> None:
    """Contexts that come and go leave descriptors and threads of the program as they were."""
    script = (
        f"import sys; sys.argv[1:1] = ['none']; sys.path.insert(0, {str(PROGRAMS)!r}); import client, os\n"
        "def once():\n"
        "    context = client.opened(); client.frames(context, 2); client.check(client.LIB.rknn_destroy(context))\n"
        "def held(): return len(os.listdir('/proc/self/fd')), len(os.listdir('/proc/self/task'))\n"
        "once(); before = held()\n"
        "for _ in range(5): once()\n"
        "assert held() == before, (before, held())\n"
        "(pid,) = client.server(); fds = lambda: len(os.listdir('/proc/%d/fd' % pid))\n"
        "import time; time.sleep(0.3); before = fds()\n"
        "for _ in range(5): once()\n"
        "for _ in range(200):\n"
        "    if fds() <= before: break\n"
        "    time.sleep(0.01)\n"
        "assert fds() <= before, (before, [os.readlink('/proc/%d/fd/%s' % (pid, n)) for n in os.listdir('/proc/%d/fd' % pid)])\n"
    )
    run([sys.executable, "-c", script, *small])


@pytest.mark.slow
def test_valgrind_finds_nothing(small: Small) -> None:
    needs("valgrind")
    run(
        [
            "valgrind", "--quiet", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite,indirect",
            program("threads.c"), *small, 8, 3,
        ]
    )  # fmt: skip


@pytest.mark.slow
def test_helgrind_finds_nothing(small: Small) -> None:
    needs("valgrind")
    run(["valgrind", "--quiet", "--tool=helgrind", "--error-exitcode=9", program("threads.c"), *small, 8, 3])


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_sanitizers_find_nothing(small: Small, sanitizer: str) -> None:
    flags = (f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
    env = environment(library(*flags), ASAN_OPTIONS="abort_on_error=0:exitcode=9", TSAN_OPTIONS="exitcode=9")
    for arguments in ([program("threads.c", *flags), *small, 8, 3], [program("faults.c", *flags), *small]):
        done = run(arguments, env=env)
        assert "Sanitizer" not in done.stderr and "runtime error" not in done.stderr


@pytest.mark.slow
def test_valgrind_and_faults(small: Small) -> None:
    needs("valgrind")
    run(["valgrind", "--quiet", "--error-exitcode=9", program("faults.c"), *small])


def test_the_environment_of_the_tests_is_clean() -> None:
    assert "PYTHONPATH" not in environment() and "VIRTUAL_ENV" not in environment()
    assert os.access(environment()["RKNNLITE_PYTHON"], os.X_OK)
