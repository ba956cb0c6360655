"""What is built on first use: kept whole, built anew when damaged, and possible where nothing can be kept."""

from __future__ import annotations

import ctypes
import logging
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from rknnlite_programs import buildcache

from rknnlite.errors import BackendUnavailable, ParamInvalid
from tests.support.needs import needs

COPY = ["cp", "source", "{out}"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RKNNLITE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def build(content: bytes = b"content", command: list[str] = COPY) -> Path:
    return buildcache.build("result", {"source": content}, command, "the test")


def test_the_same_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = build()
    assert buildcache.fetch(first) == b"content"
    assert first.read_bytes().startswith(b"content")
    monkeypatch.setattr("subprocess.run", lambda *a, **k: pytest.fail("built again"))
    assert build() == first


def test_other_sources_and_other_commands_are_other_results() -> None:
    assert len({build(), build(b"other"), build(command=["cp", "-p", "source", "{out}"])}) == 3


def test_a_shared_cache_keeps_what_other_systems_built_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A home on several machines, a cache that a container of another C library gets."""
    results = {build()}
    monkeypatch.setattr(os, "confstr", lambda name: "glibc 2.17")
    results.add(build())
    monkeypatch.setattr(os, "confstr", lambda name: None)
    results.add(build())
    monkeypatch.setattr("rknnlite.native.processors.machine", lambda: "another")
    results.add(build())
    assert len(results) == 4


MONTHS = 70 * 86400


def aged(entry: Path) -> Path:
    """An entry as if it had been used months ago, by a process that has ended."""
    os.close(buildcache._held.pop(entry))
    os.utime(entry, (time.time() - MONTHS,) * 2)
    return entry


def test_entries_that_nobody_uses_go_when_something_new_comes(cache: Path) -> None:
    stale, used, fresh = (build(bytes([number])).parent for number in range(3))
    aged(stale), aged(used)
    stranger = cache / "notes"
    stranger.mkdir()
    os.utime(stranger, (0, 0))
    assert buildcache.fetch(used / "result") == b"\1"
    new = build(b"new").parent
    assert {entry for entry in (stale, used, fresh, new, stranger) if entry.exists()} == {
        used,
        fresh,
        new,
        stranger,
    }
    assert build(bytes([0])).parent == stale, "it is built again when it is needed"


def test_entries_that_another_process_holds_stay(cache: Path) -> None:
    held = aged(build(b"held").parent)
    script = (
        "import os, sys, pathlib; from rknnlite_programs import buildcache\n"
        "entry = pathlib.Path(sys.argv[1]); buildcache.fetch(entry / 'result'); os.utime(entry, (0, 0))\n"
        "print('ready', flush=True); sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script, str(held)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline() == b"ready\n"
        build(b"new")
        assert held.exists()
        other.communicate()
    build(b"newer")
    assert not held.exists()


@pytest.mark.parametrize("damage", [b"", b"conte", b"content" + bytes(32)])
def test_a_damaged_entry_is_built_anew(damage: bytes) -> None:
    build().write_bytes(damage)
    assert buildcache.fetch(build()) == b"content"


def test_several_may_build_at_once(cache: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: build(), range(16)))
    assert [buildcache.fetch(file) for file in found] == [b"content"]
    assert len([file for file in cache.rglob("*") if file.is_file()]) == 1  # no parts are left


def test_where_nothing_can_be_kept_a_temporary_folder_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("RKNNLITE_CACHE", str(tmp_path / "file" / "cache"))
    with caplog.at_level(logging.WARNING):
        assert buildcache.fetch(build()) == b"content"
        assert build() == build()
    assert caplog.text.count("cannot be kept") == 1
    assert "name a folder in RKNNLITE_CACHE" in caplog.text


def test_a_user_without_a_home_can_build(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("RKNNLITE_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    assert buildcache.fetch(build()) == b"content"


def test_a_folder_that_others_can_write_is_refused(cache: Path) -> None:
    cache.mkdir()
    cache.chmod(0o777)
    with pytest.raises(ParamInvalid, match=r"can be written by other users.*chmod go-w"):
        build()


def test_what_goes_wrong_is_said() -> None:
    with pytest.raises(BackendUnavailable, match="the test needs the compiler no-such-compiler"):
        build(command=["no-such-compiler"])
    with pytest.raises(ParamInvalid, match=r"the test: cp ended with status 1:\n.*nowhere"):
        build(command=["cp", "nowhere", "{out}"])
    with pytest.raises(ParamInvalid, match=r"the test cannot be built in .*result"):
        build(command=["true"])


def test_what_is_to_last_is_not_put_where_it_goes_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RKNNLITE_CACHE", str(tmp_path / "file" / "cache"))
    assert buildcache.cache_dir().is_dir()
    with pytest.raises(ParamInvalid, match="name a folder in RKNNLITE_CACHE"):
        buildcache.cache_dir(lasting=True)


def test_a_library_of_several_files(tmp_path: Path) -> None:
    needs("gcc")
    (tmp_path / "five.h").write_text("int five(void);\n")
    (tmp_path / "five.c").write_text('#include "five.h"\nint five(void) { return 5; }\n')
    (tmp_path / "ten.c").write_text('#include "five.h"\nint ten(void) { return 2 * five(); }\n')
    library = buildcache.build_library("libten.so", sorted(tmp_path.glob("*.[ch]")), "the test")
    assert ctypes.CDLL(str(library)).ten() == 10


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o077])
def test_folders_are_for_this_user_alone_whatever_the_umask_is(
    umask: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o755)
    monkeypatch.setenv("RKNNLITE_CACHE", str(tmp_path / "shared" / "of" / "rknnlite"))
    before = os.umask(umask)
    try:
        entry = buildcache.cache_dir() / "deep" / "entry"
        buildcache.keep(entry / "program", b"code")
    finally:
        os.umask(before)
    places = [place for place in (entry, *entry.parents) if tmp_path in place.parents]
    assert len(places) == 5 and {place.stat().st_mode & 0o777 for place in places} == {0o700}


def test_folders_that_others_can_write_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path / "shared"
    cache = shared / "rknnlite"
    monkeypatch.setenv("RKNNLITE_CACHE", str(cache))
    program = buildcache.cache_dir() / "entry" / "program"
    buildcache.keep(program, b"code")
    shared.chmod(0o777)  # whoever may write there can put another folder in the place of ours
    with pytest.raises(ParamInvalid, match=r"shared can be written by other users.*chmod \+t"):
        buildcache.cache_dir()
    shared.chmod(0o1777)  # as /tmp
    assert buildcache.cache_dir() == cache and buildcache.fetch(program) == b"code"
    for mode in (0o770, 0o707):
        program.parent.chmod(mode)
        assert buildcache.fetch(program) is None, "its checksum does not tell who wrote it"
        with pytest.raises(ParamInvalid, match="chmod go-w"):
            buildcache.keep(program, b"code")
