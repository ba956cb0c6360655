"""Folders of dumps: what is written comes back, and a damaged or hostile manifest is an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rknnlite_insight.dumps import MANIFEST, Dump, DumpWriter, default_folder

from rknnlite.errors import ParamInvalid

REAL = np.linspace(-1, 1, 12, dtype=np.float32).reshape(1, 3, 4)


def written(folder: Path) -> Dump:
    writer = DumpWriter(folder, model="m.rknn", backend="cpu")
    writer.add("in0", REAL, dtype="FP32", role="input", op="InputOperator")
    writer.add(
        "a/b", REAL * 2, (REAL * 4).astype(np.int8), dtype="INT8", op="Conv", node="conv", role="output", scale=0.5,
        zero_point=0, time_us=12.34,
    )  # fmt: skip
    return writer.close()


def test_a_dump_comes_back(tmp_path: Path) -> None:
    written(tmp_path / "new" / "folder")
    dump = Dump.read(tmp_path / "new" / "folder")
    assert dump.names == ["in0", "a/b"]
    assert dump.info == {"model": "m.rknn", "backend": "cpu"}
    entry = dump.entry("a/b")
    assert (entry.op, entry.node, entry.dtype, entry.shape) == ("Conv", "conv", "INT8", (1, 3, 4))
    assert (entry.scale, entry.zero_point, entry.time_us, entry.role) == (0.5, 0, 12.3, "output")
    assert np.array_equal(dump.value("a/b"), REAL * 2)
    assert dump.raw("a/b").dtype == np.int8
    with pytest.raises(ParamInvalid, match="not quantised"):
        dump.raw("in0")
    with pytest.raises(ParamInvalid, match="no tensor 'c'"):
        dump.value("c")


def test_items_of_a_batch_are_put_behind_each_other(tmp_path: Path) -> None:
    writer = DumpWriter(tmp_path)
    for item in range(3):
        writer.add("x", np.full((1, 2), item, np.float32), dtype="FP32", item=item)
    dump = writer.close()
    assert dump.names == ["x"]
    assert np.array_equal(dump.value("x"), [[0, 0], [1, 1], [2, 2]])


@given(st.text(max_size=200))
def test_no_name_leaves_the_folder(name: str) -> None:
    assert default_folder(name).parent == Path("rknn_dump")
    assert default_folder(name).name not in ("", ".", "..")


def test_names_become_harmless_files(tmp_path: Path) -> None:
    writer = DumpWriter(tmp_path / "dump")
    for name in ("../../up", "/etc/passwd", "", "..", "x" * 5000, "ä:b\0c"):
        writer.add(name, REAL, dtype="FP32")
    dump = writer.close()
    files = sorted(path.name for path in tmp_path.rglob("*.npy"))
    assert len(files) == 6 and all((tmp_path / "dump" / file).exists() for file in files)
    assert Dump.read(tmp_path / "dump").names == dump.names


def test_where_level_5_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RKNNLITE_DUMP_DIR", raising=False)
    assert default_folder("some/where/net.rknn") == Path("rknn_dump/net")
    monkeypatch.setenv("RKNNLITE_DUMP_DIR", "/elsewhere")
    assert default_folder("model in memory") == Path("/elsewhere/model_in_memory")


def test_no_manifest(tmp_path: Path) -> None:
    with pytest.raises(ParamInvalid, match=r"no folder of dumps.*context\.dump"):
        Dump.read(tmp_path)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ParamInvalid, match="cannot write"):
        DumpWriter(tmp_path / "file" / "below")


def damaged(tmp_path: Path, change: Any) -> None:
    folder = tmp_path / "dump"
    written(folder)
    content = json.loads((folder / MANIFEST).read_text())
    text = change(content)
    (folder / MANIFEST).write_text(text if isinstance(text, str) else json.dumps(content))
    with pytest.raises(ParamInvalid, match="damaged"):
        Dump.read(folder)


@pytest.mark.parametrize("file", ["../x.npy", "/x.npy", "a/b.npy", "..", ""])
def test_a_manifest_cannot_point_out_of_its_folder(tmp_path: Path, file: str) -> None:
    damaged(tmp_path, lambda content: content["tensors"][0].update(file=file))


@pytest.mark.parametrize("key", ["name", "file", "shape", "dtype", "item"])
def test_wrong_types_in_a_manifest(tmp_path: Path, key: str) -> None:
    damaged(tmp_path, lambda content: content["tensors"][1].update({key: {"no": "such thing"}}))


def test_a_manifest_that_is_none(tmp_path: Path) -> None:
    damaged(tmp_path, lambda content: "[1, 2")
    damaged(tmp_path, lambda content: "[]")
    damaged(tmp_path, lambda content: content["tensors"][0].pop("name") and None)


def test_a_missing_or_foreign_array(tmp_path: Path) -> None:
    dump = written(tmp_path)
    (tmp_path / dump.tensors[0].file).unlink()
    with pytest.raises(ParamInvalid, match="cannot be read"):
        dump.value("in0")
    (tmp_path / dump.tensors[1].file).write_bytes(b"junk")
    with pytest.raises(ParamInvalid, match="cannot be read"):
        dump.value("a/b")


def test_tensors_of_one_name_are_told_apart(tmp_path: Path) -> None:
    writer = DumpWriter(tmp_path)
    for item in range(2):
        for size in (2, 3, 2):
            writer.add("x", np.full((1, size), size, np.float32), dtype="FP32", item=item)
        writer.add("x#2", np.zeros((1, 5), np.float32), dtype="FP32", item=item)
    writer.close()
    dump = Dump.read(tmp_path)
    assert dump.names == ["x", "x#2", "x#3", "x#2#2"]
    assert [dump.value(name).shape for name in dump.names] == [(2, 2), (2, 3), (2, 2), (2, 5)]
