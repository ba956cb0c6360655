"""Files are written whole or not at all, under a name that nobody foresees, and no planted link is followed."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rknnlite.files import writing as module
from rknnlite.files.writing import write_array, write_file, write_text, writing


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_and_nothing_else(tmp_path: Path) -> None:
    write_file(tmp_path / "a", b"one")
    write_text(tmp_path / "b", "zwölf \udc80")
    write_array(tmp_path / "c.npy", np.arange(6, dtype=np.int8).reshape(2, 3).T)
    write_array(tmp_path / "d.npy", np.float32(1.5).reshape(()))
    assert (tmp_path / "a").read_bytes() == b"one"
    assert (tmp_path / "b").read_text("utf-8") == "zwölf \\udc80"
    assert np.load(tmp_path / "c.npy").tolist() == [[0, 3], [1, 4], [2, 5]]
    assert np.load(tmp_path / "d.npy").shape == ()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b", "c.npy", "d.npy"]


def test_permissions_of_a_new_file_follow_the_umask_those_of_an_old_one_stay(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_file(tmp_path / "new", b"")
        write_file(tmp_path / "program", b"", mode=0o700)
        (tmp_path / "old").write_bytes(b"")
        (tmp_path / "old").chmod(0o666)
        write_file(tmp_path / "old", b"text")
    finally:
        os.umask(before)
    assert [mode(tmp_path / name) for name in ("new", "program", "old")] == [0o640, 0o700, 0o666]


def test_a_secret_file_is_never_readable_by_others(tmp_path: Path) -> None:
    target = tmp_path / "old"
    target.write_bytes(b"")
    target.chmod(0o600)
    with writing(target):
        (partial,) = [path for path in tmp_path.iterdir() if path != target]
        assert mode(partial) == 0o600
    assert mode(target) == 0o600


@pytest.mark.parametrize("there", [True, False])
def test_a_link_at_the_target_is_replaced(tmp_path: Path, there: bool) -> None:
    victim, target = tmp_path / "victim", tmp_path / "target"
    if there:
        victim.write_bytes(b"precious")
    target.symlink_to(victim)
    write_file(target, b"mine")
    assert target.read_bytes() == b"mine"
    assert not target.is_symlink()
    assert victim.read_bytes() == b"precious" if there else not victim.exists()


def test_a_planted_partial_file_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if somebody guessed its random name."""
    monkeypatch.setattr(module.os, "urandom", lambda count: b"\0" * count)
    (tmp_path / "victim").write_bytes(b"precious")
    (tmp_path / f".rknnlite-{'0' * 16}.part").symlink_to(tmp_path / "victim")
    with pytest.raises(FileExistsError):
        write_file(tmp_path / "target", b"mine")
    assert (tmp_path / "victim").read_bytes() == b"precious"


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, OSError])
def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path, error: Any) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")
    with pytest.raises(error), writing(target) as file:
        file.write(b"half")
        raise error
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_contents_reach_the_disk_before_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    sync, replace = os.fsync, Path.replace

    def fsync(handle: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        sync(handle)

    def rename(path: Path, target: Path) -> Path:
        done.append("name")
        return replace(path, target)

    monkeypatch.setattr(module.os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", rename)
    write_file(tmp_path / "file", b"text")
    assert done == ["file", "name", "folder"]


def test_devices_and_pipes_are_written_to(tmp_path: Path) -> None:
    write_file("/dev/null", b"text")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    with pytest.raises(OSError, match="No space left"):
        write_file("/dev/full", b"text")
    with pytest.raises(OSError, match="No space left"):
        write_array("/dev/full", np.zeros(100000))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="pipe"):  # nobody reads
        write_file(tmp_path / "pipe", b"text")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_file(tmp_path / "pipe", b"text")
    assert os.read(reader, 10) == b"text"
    os.close(reader)


def test_errors_name_the_file_that_was_wanted(tmp_path: Path) -> None:
    for target in (tmp_path, tmp_path / "none" / "file", Path("/proc/none"), tmp_path / ("x" * 300)):
        with pytest.raises(OSError, match=r".") as caught:
            write_file(target, b"")
        assert caught.value.filename == str(target)
        assert caught.value.strerror


def test_a_protected_file_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")
    target.chmod(0o444)
    if os.geteuid() == 0:  # who may write everything
        monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(PermissionError, match="write-protected"):
        write_file(target, b"new")
    assert target.read_bytes() == b"old"
