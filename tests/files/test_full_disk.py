"""A full disk is a typed error that names the file; the old file stays, and nothing is left. Planted links are not followed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Callable

import numpy as np
import pytest

from rknnlite.errors import OutOfMemory, RknnError
from rknnlite.files import writing as module
from rknnlite.files.writing import DiskFull, GrowingFile, write_array, write_file, write_text, writing

resource = pytest.importorskip("resource")
LARGE = 1 << 16


def pieces(path: Path) -> None:
    with writing(path) as file:
        for _ in range(16):
            file.write(bytes(LARGE // 16))


WRITERS: dict[str, Callable[[Path], None]] = {
    "file": lambda path: write_file(path, bytes(LARGE)),
    "program": lambda path: write_file(path, bytes(LARGE), mode=0o700),
    "text": lambda path: write_text(path, "x" * LARGE),
    "array": lambda path: write_array(path, np.zeros(LARGE, np.uint8)),
    "quick array": lambda path: write_array(path, np.zeros(LARGE, np.uint8), lasting=False),
    "pieces": pieces,
}
each = pytest.mark.parametrize("writer", WRITERS)


@contextlib.contextmanager
def little_room() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGE // 2, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@each
@pytest.mark.parametrize("there", [True, False])
def test_no_room(tmp_path: Path, writer: str, there: bool) -> None:
    target = tmp_path / "target"
    if there:
        target.write_bytes(b"old")
    with little_room(), pytest.raises(RknnError) as error:
        WRITERS[writer](target)
    assert isinstance(error.value, (OutOfMemory, OSError))
    assert str(error.value).startswith(f"{target} cannot be written: ")
    assert "make room" in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == (["target"] if there else [])
    assert not there or target.read_bytes() == b"old"


@each
def test_a_full_device(writer: str) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    with pytest.raises(DiskFull, match="/dev/full cannot be written: No space left"):
        WRITERS[writer](Path("/dev/full"))


def test_a_growing_file(tmp_path: Path) -> None:
    growing = GrowingFile(tmp_path / "part")
    with little_room(), pytest.raises(DiskFull, match="part cannot be written"):
        growing.append(bytes(LARGE))
    growing.discard()
    growing.close()
    assert not list(tmp_path.iterdir())


@each
@pytest.mark.parametrize("place", ["target", "partial"])
def test_links_in_a_shared_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: str, place: str
) -> None:
    """Even where somebody guessed the random name."""
    shared, victim = tmp_path / "shared", tmp_path / "victim"
    shared.mkdir()
    shared.chmod(0o1777)
    victim.write_bytes(b"precious")
    monkeypatch.setattr(module.os, "urandom", lambda count: b"\0" * count)
    (shared / {"target": "target", "partial": f".rknnlite-{'0' * 16}.part"}[place]).symlink_to(victim)
    with contextlib.suppress(FileExistsError):
        WRITERS[writer](shared / "target")
    assert victim.read_bytes() == b"precious"
    assert place == "partial" or not (shared / "target").is_symlink()


def test_a_growing_file_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"precious")
    (tmp_path / "part").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic links"):
        GrowingFile(tmp_path / "part")
    assert (tmp_path / "victim").read_bytes() == b"precious"
