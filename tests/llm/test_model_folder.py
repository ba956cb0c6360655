"""A folder of models that is looked at again and again: what has changed is seen, and nothing else is opened."""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rknnlite_llm import Package
from rknnlite_llm import model_folder as module
from rknnlite_llm.model_folder import ModelFolder, ModelKind, models_in
from rknnlite_llm.model_placing import STAGING, copy_model, staging, sweep

from rknnlite.files.writing import GrowingFile

EXAMPLE = Path(__file__).parents[2] / "examples" / "llm_chat"
TINY, TRAINED = EXAMPLE / "models" / "tiny.rknn", EXAMPLE / "trained"
_MANY = 1000
_calls: Counter[str] = Counter()
_counting: list[Path] = []


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if (
        _counting
        and event in ("open", "os.scandir", "os.listdir")
        and str(arguments[0]).startswith(str(_counting[0]))
    ):
        _calls[event] += 1


sys.addaudithook(_hook)


@contextmanager
def counted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """What is opened and listed below a folder, and how many files are asked for their state (``sign``)."""
    _calls.clear()
    plain = module._sign
    with monkeypatch.context() as patch:
        patch.setattr(module, "_sign", lambda path: (_calls.update(sign=1), plain(path))[1])
        _counting.append(folder)
        try:
            yield _calls
        finally:
            _counting.clear()


def linked(folder: Path, name: str) -> None:
    for source, target in zip(Package.of(TINY).files(), Package.of(folder / name).files()):
        target.hardlink_to(source) if source.stat().st_dev == folder.stat().st_dev else shutil.copy(
            source, target
        )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir()
    return tmp_path / "models"


def test_a_thousand_models_are_opened_once_and_one_is_looked_at_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(_MANY):
        (folder / f"m{number}.gguf").write_bytes(b"GGUF")
    looked = ModelFolder(folder)
    with counted(folder, monkeypatch) as calls:
        found = looked.look()
        assert calls["open"] == _MANY and calls["os.scandir"] == 1
    assert len(found) == _MANY
    with counted(folder, monkeypatch) as calls:
        assert looked.look() == found
        assert calls == {"os.scandir": 1, "sign": _MANY}
    with counted(folder, monkeypatch) as calls:
        assert looked.is_as_it_was(found["m7"][0])
        assert calls["open"] == calls["os.scandir"] == 0 and calls["sign"] < 10
    (folder / "m7.gguf").write_bytes(b"GGUF!")
    assert not looked.is_as_it_was(found["m7"][0]) and looked.is_as_it_was(found["m8"][0])
    with counted(folder, monkeypatch) as calls:
        assert looked.look()["m7"][1] != found["m7"][1] and calls["open"] == 1


@pytest.mark.parametrize(
    "change",
    ["weight", "parameters", "adapters", "tokenizer gone", "deeper file", "model gone", "other kind"],
)
def test_each_change_is_seen(folder: Path, change: str) -> None:
    linked(folder, "a")
    shutil.copytree(TRAINED, folder / "b")
    (folder / "b" / "1_Pooling").mkdir()
    looked = ModelFolder(folder)
    before = looked.look()
    assert set(before) == {"a", "b"} and looked.look() == before
    name = "b" if change == "deeper file" else "a"
    if change == "weight":
        (folder / "a.weight").unlink()
        shutil.copy(TINY.with_suffix(".embed.bin"), folder / "a.weight")
    elif change == "parameters":
        (folder / "a.parameters.json").write_text("{}", "utf-8")
    elif change == "adapters":
        (folder / "a.lora").mkdir()
        (folder / "a.lora" / "adapter_config.json").write_text("{}", "utf-8")
    elif change == "tokenizer gone":
        (folder / "a.tokenizer.gguf").unlink()
    elif change == "deeper file":
        (folder / "b" / "1_Pooling" / "config.json").write_text("{}", "utf-8")
    else:
        (folder / "a.rknn").unlink()
        if change == "other kind":
            (folder / "a.gguf").write_bytes(b"GGUF")
    assert not looked.is_as_it_was(before[name][0])
    after = looked.look()
    assert (
        after.get(name) != before[name]
        and after.get("ab".replace(name, "")) == before["ab".replace(name, "")]
    )
    assert after == ModelFolder(folder).look()


def test_what_is_broken_is_told_and_what_is_no_language_model_is_not(folder: Path) -> None:
    linked(folder, "good")
    (folder / "page.gguf").write_bytes(b"<!DOCTYPE html>")
    (folder / "cut.rkllm").write_bytes(b"")
    (folder / "pointer.rknn").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    (folder / "network.rknn").write_bytes(b"RKNN" + bytes(100))
    (folder / "good.gguf").write_bytes(b"shadowed by the one that can be opened")
    (folder / "hf").mkdir()
    (folder / "hf" / "config.json").write_text("[]", "utf-8")
    (folder / "hf" / "model.safetensors").write_bytes(b"")
    (folder / "README").write_text("no model", "utf-8")
    (folder / "notes").mkdir()
    found = {name: stored.broken for name, (stored, _) in ModelFolder(folder).look().items()}
    assert set(found) == {"good", "page", "cut", "pointer", "hf"} and not found["good"]
    assert (
        "no GGUF file" in found["page"] and "cut.rkllm" in found["cut"] and "pointer.rknn" in found["pointer"]
    )
    assert "config.json" in found["hf"] and set(models_in(folder)) == {"good"}
    for name, (stored, _) in ModelFolder(folder).look().items():
        if name != "good":
            stored.remove()
    assert set(ModelFolder(folder).look()) == {"good"}


def test_a_copy_shares_files_and_the_package_that_was_made(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(TRAINED, folder / "a")
    first = models_in(folder)["a"]
    (folder / ".packages" / ".killed").mkdir(parents=True)
    os.utime(folder / ".packages" / ".killed", (1e9, 1e9))
    made = module.as_package(first)
    assert [path.name for path in made.parents[1].iterdir()] == [made.parent.name]
    copied = copy_model(first, folder, "b:x", b'{"top_k": 3}')
    assert copied.kind is ModelKind.HF
    monkeypatch.setattr(module, "export_llm", None)  # nothing is made a second time
    assert module.as_package(copied).samefile(made) and module.as_package(first) == made
    first.remove()
    assert module.as_package(models_in(folder)["b:x"]).is_file() and not made.exists()
    copied.remove()
    assert [path.name for path in folder.rglob("*") if path.name not in (STAGING, ".packages")] == []


def test_what_was_given_up_leaves_after_a_week_but_not_what_is_held(folder: Path) -> None:
    with staging(folder):
        pass
    hidden = folder / STAGING
    for name in ("old", "new", "held"):
        (hidden / name).mkdir()
        (hidden / name / "x.part").write_bytes(b"x")
    (hidden / "old.lock").touch()
    (hidden / "f.blob").write_bytes(b"x")
    lock = GrowingFile(hidden / "held.lock")
    for path in (*hidden.rglob("*"),):
        if path.parts[len(hidden.parts)] != "new":
            os.utime(path, (1e9, 1e9))
    sweep(hidden)
    assert sorted(path.name for path in hidden.iterdir()) == ["held", "held.lock", "new"]
    lock.close()
    sweep(hidden)
    assert sorted(path.name for path in hidden.iterdir()) == ["new"]
