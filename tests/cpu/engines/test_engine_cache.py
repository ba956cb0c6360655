"""Under what verdicts on engines are kept."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from rknnlite_cpu.engines import engine_cache
from rknnlite_cpu.engines.engine_cache import digest_of

from rknnlite.formats import ModelFile
from tests.support.corpus import genuine

NAME = "dense.rk3588.i8"


def opened(path: Path) -> ModelFile:
    file = ModelFile(path)
    _ = file.data
    return file


def truth(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_digest_of_a_file_is_kept_for_the_file_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.rknn"
    path.write_bytes(genuine(NAME).read_bytes())
    monkeypatch.setattr(engine_cache, "_LARGE", 0)
    monkeypatch.setattr(engine_cache, "_SETTLED", -10.0)  # as if it had been there for long
    assert digest_of(opened(path)) == truth(path)
    with monkeypatch.context() as blind:
        blind.setattr(engine_cache.hashlib, "sha256", None)  # type: ignore[attr-defined]
        with pytest.raises(TypeError):
            digest_of(ModelFile(path.read_bytes()))
    kept = engine_cache.Store(("digest of", *(opened(path).identity or ()))).fetch("digest")
    assert kept == truth(path).encode()
    changed = bytearray(path.read_bytes())
    changed[-1] ^= 1
    path.write_bytes(changed)
    os.utime(path, ns=(5, 5))
    assert digest_of(opened(path)) == truth(path)


def test_a_file_that_was_just_changed_is_read(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_cache, "_LARGE", 0)
    path = tmp_path / "model.rknn"
    path.write_bytes(genuine(NAME).read_bytes())
    assert digest_of(opened(path)) == truth(path)
    assert not any(own_cache.rglob("digest"))
