"""A plugin of somebody else is imported in another process first, and what came of it is remembered."""

from __future__ import annotations

import stat
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from rknnlite.native import first_import
from rknnlite.native.first_import import why_not_here

DIES = "import os\nos.abort()\n"
SAYS = "open({log!r}, 'a').write('x')\n"
HOOK = "import rknnlite\n\n@rknnlite.hookimpl\ndef rknnlite_register_commands(register):\n    {}\n"
ABORTED = "ends the process with signal 6 (SIGABRT)"

Written = Callable[[str], Path]


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Written:
    """Writes ``its_plugin``, a package of one module."""
    monkeypatch.setenv("RKNNLITE_CACHE", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(tmp_path)

    def write(text: str) -> Path:
        file = tmp_path / "its_plugin" / "__init__.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        return file

    return write


def asked() -> tuple[str, str]:
    return why_not_here("its", "its_plugin")


@pytest.mark.parametrize(
    ("text", "step", "end"),
    [
        ("", "", ""),
        (DIES, "import", ABORTED),
        ("import os\nos._exit(3)\n", "import", "ends the process with status 3"),
        (HOOK.format("import os; os.abort()"), "rknnlite_register_commands", ABORTED),
        ("raise ValueError('told where it is imported')\n", "", ""),
        ("import sys\nsys.exit(1)\n", "", ""),
        ("syntax error", "", ""),
        ("import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()\n", "", ""),
    ],
)
def test_what_ends_a_process_is_known_before_this_one_imports_it(
    plugin: Written, text: str, step: str, end: str
) -> None:
    plugin(text)
    assert asked() == (step, end)


def test_one_that_hangs_is_given_up_with_what_it_started(
    plugin: Written, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(first_import, "_TIME_LIMIT", 2.0)
    pid = tmp_path / "pid"
    plugin(
        f"import subprocess, time\np = subprocess.Popen(['sleep', '600'])\nopen({str(pid)!r}, 'w').write(str(p.pid))\n"
        "time.sleep(600)\n"
    )
    assert asked() == ("import", "did not return within 2 s")
    end = time.monotonic() + 30
    while not _is_gone(int(pid.read_text())):
        assert time.monotonic() < end
        time.sleep(0.05)


def _is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_it_is_tried_once_and_again_when_its_files_change(plugin: Written, tmp_path: Path) -> None:
    log = tmp_path / "log"
    plugin(SAYS.format(log=str(log)) + DIES)
    assert asked() == asked() == ("import", ABORTED)
    assert log.read_text() == "x"
    plugin(SAYS.format(log=str(log)) + "# mended\n")
    assert asked() == asked() == ("", "")
    assert log.read_text() == "xx"
    (tmp_path / "its_plugin" / "more.py").write_text("")
    assert asked() == ("", "")
    assert log.read_text() == "xxx"


@pytest.mark.parametrize("kept", ["", "[]", '{"its": 3}', '{"its": ["x", 1]}', "\udcff", "[" * 3000])
def test_what_was_remembered_may_be_damaged(plugin: Written, tmp_path: Path, kept: str) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "plugins.json").write_bytes(kept.encode(errors="surrogateescape"))
    plugin(DIES)
    assert asked() == ("import", ABORTED)


def test_where_nothing_can_be_kept_it_is_tried_every_time(
    plugin: Written, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RKNNLITE_CACHE", str(tmp_path / "its_plugin" / "__init__.py" / "below"))
    plugin(DIES)
    assert asked() == asked() == ("import", ABORTED)


def test_what_is_kept_is_this_users_alone(plugin: Written, tmp_path: Path) -> None:
    plugin("")
    asked()
    assert stat.S_IMODE((tmp_path / "cache" / "plugins.json").stat().st_mode) == 0o600


def test_what_is_not_there_is_nobodys_danger() -> None:
    assert why_not_here("it", "no_such_package_at_all") == ("", "")
    assert why_not_here("it", "sys") == ("", "")
