"""A byte that changed in a file of a package is an error when the model is opened."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from rknnlite_llm import Chat, Package, checksums, open_llm, verified_files
from rknnlite_llm.container.description import read_llm
from rknnlite_llm.container.safetensors import SafeTensors

from rknnlite.errors import ModelInvalid
from rknnlite.formats import ModelFile
from rknnlite.rknn3 import RKNN3Lite
from tests.llm.conftest import Maker
from tests.support import llm_damage
from tests.support.needs import needs


@pytest.fixture
def copied(example: Path, tmp_path: Path) -> Package:
    """A package that a test may damage."""
    for path in Package.of(example).files():
        shutil.copy(path, tmp_path)
    return Package.of(tmp_path / example.name)


def _flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 0x10
    path.write_bytes(data)


def _places(path: Path) -> dict[str, int]:
    """A byte of every kind in a weight file: length, header, padding, and in the middle of every tensor."""
    data = path.read_bytes()
    size = struct.unpack_from("<Q", data)[0]
    found = SafeTensors(memoryview(data))
    places = {
        name: 8 + size + (found._entries[name].start + found._entries[name].end) // 2 for name in found.names
    }
    return {
        "length": 1,
        "header": 40,
        "package": data.index(b"package") + 14,
        "padding": 8 + size - 1,
        **places,
    }


@pytest.mark.parametrize("weights", ["f32", "f16", "w8", "w4"])
def test_every_kind_of_byte_of_the_weights(package: Maker, tmp_path: Path, weights: str) -> None:
    made = package("qwen3", weights)
    good = made.weight.read_bytes()
    bad = tmp_path / "bad.weight"
    for name, place in _places(made.weight).items():
        bad.write_bytes(good)
        _flip(bad, place)
        with pytest.raises(ModelInvalid, match=r"bad\.weight"):
            open_llm(made.model, bad).close()
            pytest.fail(f"a flipped byte in {name} was not found")
    for wrong in (good[:-1], good + b"x"):
        bad.write_bytes(wrong)
        with pytest.raises(ModelInvalid, match=r"bad\.weight"):
            open_llm(made.model, bad)
    open_llm(made.model, good).close()


@pytest.mark.parametrize("part", ["model", "embed", "tokenizer"])
@pytest.mark.parametrize("where", [0.0, 0.3, 0.6, 1.0])
def test_every_other_file(copied: Package, part: str, where: float) -> None:
    path = getattr(copied, part)
    _flip(path, int(where * (path.stat().st_size - 1)))
    with pytest.raises(ModelInvalid, match=str(path)):
        Chat(copied.model)


@pytest.mark.parametrize("part", ["model", "weight", "embed", "tokenizer"])
@pytest.mark.parametrize("left", [0, 1, 100, -1])
def test_files_that_were_cut(copied: Package, part: str, left: int) -> None:
    path = getattr(copied, part)
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(ModelInvalid, match=str(path)):
        Chat(copied.model)


@pytest.mark.parametrize("part", ["weight", "tokenizer"])
def test_the_vendor_interface_says_so_when_a_model_is_loaded(
    copied: Package, part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = getattr(copied, part)
    _flip(path, path.stat().st_size - 5)
    lite = RKNN3Lite(llm_mode=True)
    assert (
        lite.load_rknn(str(copied.model), str(copied.weight)) != 0 or lite.init_runtime("rk1820", 0xFF) != 0
    )
    assert str(path) in capsys.readouterr().err


def test_a_package_without_checksums_opens(copied: Package) -> None:
    needs("jinja2")
    copied.model.write_bytes(llm_damage.described(copied.model.read_bytes(), ("sums",), None))
    assert read_llm(ModelFile(copied.model)).sums is None
    _flip(copied.weight, copied.weight.stat().st_size - 500)
    with Chat(copied.model) as chat:
        chat.ask("What is 1 + 2?", max_new_tokens=2)


def test_checksums_can_be_left_out(copied: Package) -> None:
    _flip(copied.weight, copied.weight.stat().st_size - 500)
    open_llm(copied.model, verify=False).close()


def test_files_of_several_chunks_name_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksums, "SUM_CHUNK", 1000)
    path = tmp_path / "x"
    path.write_bytes(np.random.default_rng(0).bytes(4500))
    wanted = checksums.file_sum(ModelFile(path))
    assert (wanted.size, len(wanted.crcs)) == (4500, 5)
    checksums.check_sum(ModelFile(path), wanted)
    _flip(path, 4321)
    with pytest.raises(ModelInvalid, match="damaged between byte 4000 and 4500"):
        checksums.check_sum(ModelFile(path), wanted)
    path.write_bytes(b"")
    with pytest.raises(ModelInvalid, match="0 bytes, the package was exported with 4500"):
        checksums.check_sum(ModelFile(path), wanted)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """Bytes of which checksums were computed, call by call; nothing was compared before, and every file is old enough."""
    monkeypatch.setenv("RKNNLITE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(verified_files, "_SETTLED", -1.0)
    found: list[int] = []
    crcs = checksums._crcs

    def counted(data: memoryview) -> object:
        found.append(len(data))
        return crcs(data)

    monkeypatch.setattr(checksums, "_crcs", counted)
    return found


def test_files_that_were_right_are_not_read_again(copied: Package, read: list[int]) -> None:
    open_llm(copied.model).close()
    sizes = sorted(path.stat().st_size for path in (copied.weight, copied.embed, copied.tokenizer))
    assert sorted(read) == sizes
    open_llm(copied.model).close()
    assert sorted(read) == sizes, "the second time something was read"
    open_llm(copied.model, verify=True).close()
    assert sorted(read) == sorted(2 * sizes)
    checksums.check_beside(ModelFile(copied.model), copied, weights=True)  # as rknnlite check does
    assert sorted(read) == sorted(3 * sizes)


@pytest.mark.parametrize("how", ["in place", "time put back", "by rename", "copied over"])
def test_damage_that_happens_later_is_found(copied: Package, read: list[int], how: str) -> None:
    open_llm(copied.model).close()
    weight = copied.weight
    before = weight.stat()
    place = before.st_size - 500
    if how in ("in place", "time put back"):
        with weight.open("r+b") as file:
            file.seek(place)
            byte = file.read(1)[0]
            file.seek(place)
            file.write(bytes([byte ^ 1]))
    else:
        other = weight.with_suffix(".new")
        shutil.copy2(weight, other)
        _flip(other, place)
        if how == "by rename":
            other.replace(weight)
        else:
            shutil.copyfile(other, weight)
    if how != "copied over":
        os.utime(weight, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(ModelInvalid, match="damaged between byte"):
        open_llm(copied.model)
    with pytest.raises(ModelInvalid, match="damaged between byte"):
        open_llm(copied.model)


def test_a_file_that_changed_a_moment_ago_is_not_remembered(
    copied: Package, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verified_files, "_SETTLED", 3600.0)
    open_llm(copied.model).close()
    open_llm(copied.model).close()
    assert len(read) == 6


def test_what_is_remembered_is_bounded_and_survives_rubbish(
    tmp_path: Path, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verified_files, "_MOST", 3)
    kept = tmp_path / "cache" / "verified"
    kept.parent.mkdir(mode=0o700)
    kept.write_bytes(b"\xff\x00rubbish without an end")
    files = []
    for number in range(5):
        path = tmp_path / f"file{number}"
        path.write_bytes(bytes([number]) * 100)
        file = ModelFile(path)
        checksums.check_sum(file, checksums.file_sum(file))
        files.append(file)
    sums = [checksums.file_sum(file) for file in files]
    assert [verified_files.is_known(file, wanted) for file, wanted in zip(files, sums)] == [False] * 2 + [
        True
    ] * 3
    assert not verified_files.is_known(files[4], sums[3]), "other checksums are other contents"
    kept.parent.chmod(0o777)
    assert not verified_files.is_known(files[4], sums[4]), "others may have written there"
    kept.parent.chmod(0o700)
    assert not verified_files.is_known(ModelFile(b"bytes"), sums[4])
