"""Pulling models: what comes is whole and what was announced, or nothing of it is there."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
from rknnlite_llm import Chat, Package, transfer
from rknnlite_llm.fetching import Fetch, fetch_model, sums_in
from rknnlite_llm.model_folder import ModelKind, as_package, model_at, model_name, models_in
from rknnlite_llm.model_placing import STAGING

from rknnlite.errors import BackendUnavailable, ContextInvalid, ModelInvalid, OutOfMemory, ParamInvalid
from rknnlite.files.writing import GrowingFile
from tests.support.file_server import serving

EXAMPLE = Path(__file__).parents[2] / "examples" / "llm_chat"
TINY, TRAINED = EXAMPLE / "models" / "tiny.rknn", EXAMPLE / "trained"


def seen(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir()
    return tmp_path / "models"


@pytest.mark.parametrize("kind", ["package", "folder"])
def test_a_model_comes_whole_from_a_path_and_from_a_url(folder: Path, kind: str) -> None:
    pytest.importorskip("jinja2")
    source = TINY if kind == "package" else TRAINED
    near = fetch_model(Fetch(str(source), "near"), folder)
    with serving(source.parent) as files:
        far = fetch_model(Fetch(f"{files.url}/{source.name}", "far:1"), folder)
    assert (near.kind, far.kind) == (ModelKind.PACKAGE if kind == "package" else ModelKind.HF,) * 2
    assert set(models_in(folder)) == {"near", "far:1"} and near.size == far.size
    path = as_package(far)
    assert as_package(far) == path  # made once
    with Chat(path) as chat:
        assert "5" in chat.ask("What is 2 + 3?", max_new_tokens=16)
    far.remove()
    assert set(models_in(folder)) == {"near"} and not path.exists()


def test_a_cut_download_goes_on_with_the_next_call(folder: Path) -> None:
    with serving(TINY.parent) as files:
        files.cuts["tiny.weight"] = 4  # as many as one call tries
        with pytest.raises(BackendUnavailable, match="goes on behind"):
            fetch_model(Fetch(f"{files.url}/tiny.rknn"), folder)
        assert seen(folder) == []
        files.asked.clear()
        fetch_model(Fetch(f"{files.url}/tiny.rknn"), folder)
        (asked,) = [given for name, given in files.asked if name == "tiny.weight"]
        assert int(asked[6:-1]) > 1_600_000 and not [name for name, _ in files.asked if name == "tiny.rknn"]
    assert set(models_in(folder)) == {"tiny"}


def test_a_file_that_changed_meanwhile_begins_anew(folder: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(TRAINED, source)
    with serving(tmp_path) as files:
        files.cuts["tokenizer.json"] = 4
        with pytest.raises(BackendUnavailable):
            fetch_model(Fetch(f"{files.url}/source"), folder)
        changed = source / "tokenizer.json"
        changed.write_bytes(changed.read_bytes() + b"\n")
        fetch_model(Fetch(f"{files.url}/source"), folder)
    assert (folder / "source" / "tokenizer.json").read_bytes() == changed.read_bytes()


def test_files_of_two_states_of_a_folder_do_not_mix(folder: Path, tmp_path: Path) -> None:
    """Files that came whole with a former call are asked about again; those that are the same do not come again."""
    source = tmp_path / "source"
    shutil.copytree(TRAINED, source)
    with serving(tmp_path) as files:
        files.cuts["model.safetensors"] = 4
        with pytest.raises(BackendUnavailable):
            fetch_model(Fetch(f"{files.url}/source"), folder)
        config = json.loads((source / "config.json").read_text())
        (source / "config.json").write_text(json.dumps({**config, "use_cache": False}), "utf-8")
        files.sent.clear()
        fetch_model(Fetch(f"{files.url}/source"), folder)
        assert sorted(files.sent) == ["config.json", "config.json", "model.safetensors"]
    made = folder / "source"
    assert sorted(path.name for path in made.iterdir()) == sorted(path.name for path in source.iterdir())
    assert all((made / path.name).read_bytes() == path.read_bytes() for path in source.iterdir())


def test_checksums_that_lie(folder: Path, tmp_path: Path) -> None:
    right = hashlib.sha256(TINY.read_bytes()).hexdigest()
    sums = tmp_path / "SHA256SUMS"
    sums.write_text(f"{right}  tiny.rknn\n{'1' * 64} *tiny.weight\n", "utf-8")
    with serving(TINY.parent) as files:
        address = f"{files.url}/tiny.rknn"
        for fetch in (Fetch(f"{address}#sha256={'0' * 64}"), Fetch(address, sums=sums_in(sums))):
            with pytest.raises(ModelInvalid, match="SHA-256"):
                fetch_model(fetch, folder)
        with pytest.raises(ParamInvalid, match="no file of the model"):
            fetch_model(Fetch(address, sums=(("other.bin", right),)), folder)
        assert seen(folder) == []
        fetch_model(Fetch(f"{address}#sha256={right}"), folder)
    sums.write_text("no sum\n", "utf-8")
    with pytest.raises(ParamInvalid, match="no line of sha256sum"):
        sums_in(sums)


def test_a_list_of_checksums_may_have_more_but_not_less_than_what_comes(folder: Path, tmp_path: Path) -> None:
    sums = [(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in TRAINED.iterdir()]
    short = [(name, value) for name, value in sums if name != "model.safetensors"]
    with serving(TRAINED.parent) as files:
        address = f"{files.url}/trained"
        with pytest.raises(ParamInvalid, match=r"model\.safetensors is not in the list"):
            fetch_model(Fetch(address, sums=tuple(short), listed=True), folder)
        assert "model.safetensors" not in files.sent
        more = [*sums, ("README.md", "0" * 64)]
        fetch_model(Fetch(address, sums=tuple(more), listed=True), folder)
        few = [(name, value) for name, value in sums if name != "generation_config.json"]
        files.sent.clear()
        fetch_model(Fetch(address, "few", tuple(few), listed=True), folder)
        assert "generation_config.json" not in files.sent and set(models_in(folder)) == {"trained", "few"}
    (tmp_path / "SUMS").write_text("".join(f"{value}  ./{name}\n" for name, value in more), "utf-8")
    words = [sys.executable, "-m", "rknnlite", "pull", str(TRAINED), "--into", str(folder), "--name", "again"]
    ended = subprocess.run([*words, "--sums", str(tmp_path / "SUMS")], capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_parts_that_do_not_belong_together_are_told_and_the_former_model_stays(
    folder: Path, tmp_path: Path
) -> None:
    fetch_model(Fetch(str(TINY), "m"), folder)
    before = {path: (folder / path).read_bytes() for path in seen(folder)}
    source = tmp_path / "source"
    shutil.copytree(TINY.parent, source)
    weight = bytearray((source / "tiny.weight").read_bytes())
    weight[1000] ^= 1
    (source / "tiny.weight").write_bytes(weight)
    with pytest.raises(ModelInvalid, match=r"tiny\.weight: damaged"):
        fetch_model(Fetch(str(source / "tiny.rknn"), "m"), folder)
    assert {path: (folder / path).read_bytes() for path in seen(folder)} == before


@pytest.mark.parametrize(
    ("file", "content", "why"),
    [
        ("a.gguf", b"<!DOCTYPE html><p>sign in", "a web page"),
        ("a.gguf", b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
        ("a.gguf", b"PK\3\4" * 9, "no GGUF"),
        ("a.rknn", b"\x7fELF" * 9, "no .rknn"),
        ("a.rknn", b"RKNN" + bytes(100), "a.weight"),
        ("a.rkllm", b"GGUF" + bytes(100), "a GGUF file"),
        ("a.rkllm", b"", "truncated"),
        ("a.tokenizer.gguf", b"GGUF" + bytes(100), "no language model"),
        ("a.zip", b"PK", "no language model"),
        ("a", b"#!/bin/sh", "no language model"),
    ],
)
def test_what_is_no_model_is_refused(
    folder: Path, tmp_path: Path, file: str, content: bytes, why: str
) -> None:
    (tmp_path / file).write_bytes(content)
    with serving(tmp_path) as files:
        for source in (f"{files.url}/{file}", str(tmp_path / file)):
            with pytest.raises(ModelInvalid, match=why):
                fetch_model(Fetch(source, "m"), folder)
    assert seen(folder) == [] and models_in(folder) == {}


@pytest.mark.parametrize(
    "name", ["../x.safetensors", "/etc/passwd", "a/b.safetensors", "x.py", "", 3, ".safetensors"]
)
def test_an_index_of_tensors_names_nothing_outside(folder: Path, tmp_path: Path, name: Any) -> None:
    source = tmp_path / "source"
    shutil.copytree(TRAINED, source)
    (source / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}), "utf-8")
    with pytest.raises(ModelInvalid, match=r"no name of a file|no index"):
        fetch_model(Fetch(str(source)), folder)
    assert seen(folder) == []


@pytest.mark.parametrize(
    "name", ["..", "../x", "a/b", "/x", ".x", "-x", "a:b:c", "a\0", "a" * 400, "a\n", "ä"]
)
def test_names_are_no_paths(folder: Path, name: str) -> None:
    with pytest.raises(ParamInvalid, match="no name of a model"):
        fetch_model(Fetch(str(TINY), name), folder)
    assert seen(folder) == [] and model_name("a:latest") == "a"


def test_a_full_disk_is_told_before_and_while_it_fills(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "free")
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: usage(1000))
        with pytest.raises(OutOfMemory, match="make room"):
            fetch_model(Fetch(str(TINY)), folder)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OutOfMemory, match="make room"):
            fetch_model(Fetch(str(TINY)), folder)
    assert seen(folder) == []
    fetch_model(Fetch(str(TINY)), folder)
    assert set(models_in(folder)) == {"tiny"}


def full(handle: int, data: bytes) -> int:
    raise OSError(28, "No space left on device")


def test_two_at_once_are_one_too_many(folder: Path) -> None:
    fetch = Fetch(str(TINY))

    def again(name: str, done: int, total: int) -> None:
        with pytest.raises(ContextInvalid, match="by somebody else"):
            fetch_model(fetch, folder)

    fetch_model(fetch, folder, again)


def test_links_lead_out_of_no_folder(folder: Path, tmp_path: Path) -> None:
    for path in Package.of(TINY).files():
        shutil.copy(path, tmp_path)
    (folder / "link.rknn").symlink_to(tmp_path / "tiny.rknn")
    (folder / "linked").symlink_to(TRAINED)
    (folder / "loop.gguf").symlink_to("loop.gguf")
    assert models_in(folder) == {}
    assert model_at(tmp_path / "tiny.rknn").kind is ModelKind.PACKAGE
    assert GrowingFile(folder / "x").size == 0


def test_redirections_stay_within_http(folder: Path) -> None:
    with serving(TINY.parent) as files:
        files.moved["a.gguf"] = "file:///etc/passwd"
        with pytest.raises(ModelInvalid, match="not followed"):
            fetch_model(Fetch(f"{files.url}/a.gguf"), folder)
        files.moved["m.rknn"] = f"{files.url}/tiny.rknn"
        with pytest.raises(ModelInvalid, match=r"m\.weight"):
            fetch_model(Fetch(f"{files.url}/m.rknn"), folder)


def test_what_is_wrong_is_not_kept_and_what_was_cut_is(folder: Path, tmp_path: Path) -> None:
    with serving(tmp_path) as files:
        (tmp_path / "a.rkllm").write_bytes(b"")
        with pytest.raises(ModelInvalid, match="truncated"):
            fetch_model(Fetch(f"{files.url}/a.rkllm"), folder)
        assert list((folder / STAGING).iterdir()) == []
        for path in Package.of(TINY).files():
            shutil.copy(path, tmp_path)
        with pytest.raises(ModelInvalid, match="nothing of it is kept"):
            fetch_model(Fetch(f"{files.url}/tiny.rknn", sums=(("tiny.weight", "0" * 64),)), folder)
        assert list((folder / STAGING).iterdir()) == []
        files.cuts["tiny.weight"] = 4
        with pytest.raises(BackendUnavailable):
            fetch_model(Fetch(f"{files.url}/tiny.rknn"), folder)
        assert len(list((folder / STAGING).rglob("tiny.weight.part"))) == 1


def test_a_silent_and_a_dripping_server_are_given_up(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "_PATIENCE", 0.2)
    done = threading.Event()

    def silent(handler: Any) -> None:
        done.wait(20)

    def dripping(handler: Any) -> None:
        handler.send_response(200)
        handler.end_headers()
        with contextlib.suppress(OSError):
            while not done.wait(0.02):
                handler.wfile.write(b"GGUF")

    with serving(tmp_path) as files:
        for own, why in ((silent, "nobody answers"), (dripping, "less than 1024 bytes a second")):
            files.own["a.gguf"] = own
            start = time.monotonic()
            with pytest.raises(BackendUnavailable, match=why):
                fetch_model(Fetch(f"{files.url}/a.gguf"), folder)
            assert time.monotonic() - start < 10
        done.set()


def test_the_first_bytes_may_come_one_by_one(folder: Path, tmp_path: Path) -> None:
    def pieces(handler: Any) -> None:
        handler.send_response(200)
        handler.end_headers()
        for byte in b"GGUF12":
            handler.wfile.write(bytes([byte]))
            handler.wfile.flush()
            time.sleep(0.02)

    with serving(tmp_path) as files:
        files.own["a.gguf"] = pieces
        assert fetch_model(Fetch(f"{files.url}/a.gguf"), folder).size == 6


def test_who_stops_is_heard_between_two_tries(folder: Path, tmp_path: Path) -> None:
    with serving(tmp_path) as files:
        (tmp_path / "a.gguf").write_bytes(b"GGUF")
        files.cuts["a.gguf"] = 9
        calls = []

        def stop(name: str, done: int, total: int) -> None:
            calls.append(name)
            if len(calls) == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fetch_model(Fetch(f"{files.url}/a.gguf"), folder, stop)


@pytest.mark.parametrize("told", ["", "7", "packed"])
def test_servers_that_lie_about_sizes_or_pack(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str
) -> None:
    """An endless file ends where the disk would be full; one that is longer than told is cut there; packed ones are refused."""
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(transfer._KEEP_FREE + (1 if told else 0)))
    monkeypatch.setattr(transfer, "_KEEP_FREE", 1 << 20)
    sent = []

    def endless(handler: Any) -> None:
        handler.send_response(200)
        if told == "packed":
            handler.send_header("Content-Encoding", "gzip")
        elif told:
            handler.send_header("Content-Length", told)
        handler.end_headers()
        with contextlib.suppress(OSError):
            while len(sent) < 1000:
                handler.wfile.write(b"GGUF" * (1 << 14))
                sent.append(1)

    with serving(tmp_path) as files:
        files.own["a.gguf"] = endless
        if told == "packed":
            with pytest.raises(ModelInvalid, match="packed"):
                fetch_model(Fetch(f"{files.url}/a.gguf"), folder)
        elif told:
            monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(1 << 40))
            assert fetch_model(Fetch(f"{files.url}/a.gguf"), folder).size == int(told)
        else:
            with pytest.raises(OutOfMemory, match="make room"):
                fetch_model(Fetch(f"{files.url}/a.gguf"), folder)
            assert sum(path.stat().st_size for path in folder.rglob("*.part")) < 8 << 20


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("https://hub.example/org/Qwen2.5-0.5B/resolve/main", "Qwen2.5-0.5B"),
        ("https://hub.example/org/Qwen2.5-0.5B/resolve/main/", "Qwen2.5-0.5B"),
        ("https://hub.example/org/q/resolve/v1.0/q-Q8_0.gguf", "q-Q8_0"),
        ("https://x.example/a%20b", None),
        ("https://x.example/..%2f..%2fetc", "etc"),
        ("https://x.example/", None),
    ],
)
def test_names_that_follow_from_addresses(source: str, name: str | None) -> None:
    if name is None:
        with pytest.raises(ParamInvalid, match="no name of a model"):
            _ = Fetch(source).called
    else:
        assert Fetch(source).called == name


def test_archives_are_not_unpacked(folder: Path, tmp_path: Path) -> None:
    for file in ("a.zip", "a.tar.gz"):
        with pytest.raises(ModelInvalid, match="not unpacked"):
            fetch_model(Fetch(str(tmp_path / file), "a"), folder)


def test_progress_is_drawn_on_a_terminal_alone(folder: Path) -> None:
    words = [sys.executable, "-m", "rknnlite", "pull", str(TINY), "--into", str(folder)]
    ended = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "\r" not in ended.stdout + ended.stderr and "tiny.weight" in ended.stdout
    missing = subprocess.run([*words, "--name", "../x"], capture_output=True, text=True, check=False)
    assert missing.returncode and "no name of a model" in missing.stderr and "Traceback" not in missing.stderr
