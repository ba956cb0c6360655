"""Entry points without ``importlib.metadata`` are those that it finds."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import pytest

from rknnlite import extras


def names(group: str) -> set[tuple[str, str]]:
    return {(entry.name, entry.value) for entry in extras.entry_points(group)}


@pytest.mark.parametrize("group", ["rknnlite", "console_scripts", "pytest11", "no such group"])
def test_they_are_those_of_the_standard_library(group: str) -> None:
    found = metadata.entry_points()
    chosen = found.select(group=group) if hasattr(found, "select") else found.get(group, [])
    assert names(group) == {(entry.name, entry.value.split("[")[0].strip()) for entry in chosen}


def test_of_two_with_one_name_the_first_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place, folder, value in (("a", "My_Pack-2.dist-info", "new"), ("b", "my.pack-1.egg-info", "old")):
        info = tmp_path / place / folder
        info.mkdir(parents=True)
        (info / "entry_points.txt").write_text(
            f"[other]\nx = y\n[ mine ]\n# z = z\nit = {value}:a.b [extra]\n"
        )
    monkeypatch.setattr(sys, "path", [str(tmp_path / "none"), str(tmp_path / "a"), str(tmp_path / "b")])
    assert names("mine") == {("it", "new:a.b")}


def test_archives_are_asked_for_by_metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("pack-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: pack\nVersion: 1\n")
        archive.writestr("pack-1.dist-info/entry_points.txt", "[mine]\nit = os:path.join\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "all.zip"), *sys.path])
    (entry,) = extras.entry_points("mine")
    assert entry.load().__name__ == "join"
