"""Putting a model into a folder under a name: by renaming, so that who has the former one open reads on."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rknnlite.files.reading import read_bytes
from rknnlite.files.writing import GrowingFile, write_file

from .model_folder import ModelFolder, ModelKind, StoredModel, model_at
from .package import Package

__all__ = ["STAGING", "add_beside", "copy_model", "place", "shared", "staging", "sweep"]

STAGING = ".pull"
"""Of a folder of models: what is not whole yet."""
_one_at_a_time = threading.Lock()
"""Files of two models that come under one name do not mix."""
_GIVEN_UP = 7 * 86400.0  # seconds


def place(found: Path, folder: Path, name: str) -> StoredModel:
    """Move a model's files from ``found`` (its first file, or its folder), on the same disk; one of the name is replaced.

    The first file comes last: a model is whole once it is seen. Raises OSError, ModelInvalid.
    """
    with _one_at_a_time:
        return _placed(model_at(found), found, folder, name)


def _placed(stored: StoredModel, found: Path, folder: Path, name: str) -> StoredModel:
    former = _former(folder, name)
    for old in former:
        old.remove_additions()
    if stored.kind is ModelKind.HF:
        target = folder / name
        for old in former:
            old.remove()
        found.replace(target)
        return model_at(target)
    target = folder / f"{name}{found.suffix.lower()}"
    moves = _moves(stored, target)
    for source, path in moves:
        source.replace(path)
    made = model_at(target)
    for old in former:
        if old.path != target:
            old.remove()
    return made


def copy_model(
    stored: StoredModel,
    folder: Path,
    name: str,
    parameters: bytes | None = None,
    adapters: Path | None = None,
) -> StoredModel:
    """The same model under a second name; files are shared (hard links) where the file system can.

    ``parameters``, and ``adapters`` on the same disk: of the copy; None: those of the model. Raises OSError.
    """
    with staging(folder) as room:
        if stored.kind is ModelKind.HF:
            made = room / name
            shutil.copytree(stored.path, made, copy_function=shared)
        else:
            made = room / f"{name}{stored.path.suffix.lower()}"
            for source, path in _moves(stored, made):
                shared(source, path)
        if parameters is None and stored.parameters.is_file():
            parameters = read_bytes(stored.parameters)
        if adapters is None and stored.adapters.is_dir():
            adapters = room / "adapters"
            shutil.copytree(stored.adapters, adapters, copy_function=shared)
        placed = place(made, folder, name)
        add_beside(placed, parameters or b"", adapters)
    _share_made_package(stored, placed)
    return placed


def add_beside(placed: StoredModel, parameters: bytes, adapters: Path | None) -> None:
    """Give a model parameters, where there are any, and adapters that lie on the same disk. Raises OSError."""
    if adapters is not None:
        adapters.replace(placed.adapters)
    if parameters:
        write_file(placed.parameters, parameters)


def _share_made_package(stored: StoredModel, placed: StoredModel) -> None:
    """What was made of a GGUF file or a folder is not made a second time for its copy."""
    theirs, ours = stored.made_package, placed.made_package
    if not theirs.is_file() or ours.exists():
        return
    with tempfile.TemporaryDirectory(dir=theirs.parent.parent, prefix=".") as room:
        work = Path(room) / "made"
        work.mkdir()
        for source, path in zip(Package.of(theirs).files(), Package.of(work / ours.name).files()):
            if source.is_file():
                shared(source, path)
        work.replace(ours.parent)


@contextmanager
def staging(folder: Path) -> Iterator[Path]:
    """A folder on the same disk for files that are put into place as a whole; it is removed at the end."""
    hidden = folder / STAGING
    hidden.mkdir(mode=0o700, exist_ok=True)
    sweep(hidden)
    with tempfile.TemporaryDirectory(dir=hidden) as room:
        yield Path(room)


def sweep(hidden: Path) -> None:
    """Remove what was begun and given up: nothing of it has changed for a week, and nobody holds its lock."""
    before = time.time() - _GIVEN_UP
    for path in hidden.iterdir():
        with contextlib.suppress(OSError):
            if max(part.lstat().st_mtime for part in (path, *path.rglob("*"))) > before:
                continue
            if path.is_dir():
                lock = GrowingFile(path.with_suffix(".lock"))
                shutil.rmtree(path, ignore_errors=True)
                lock.discard()
                lock.close()
            elif path.suffix != ".lock" or not path.with_suffix("").exists():
                path.unlink()


def _moves(stored: StoredModel, target: Path) -> list[tuple[Path, Path]]:
    """Files and where they go, the first one last."""
    if stored.kind is ModelKind.GGUF:
        return [(stored.path, target)]
    pairs = zip(Package.of(stored.path).files(), Package.of(target).files())
    return [(source, path) for source, path in pairs if source.is_file()][::-1]


def _former(folder: Path, name: str) -> list[StoredModel]:
    """The model of the name that is there, if any; broken or not."""
    found = ModelFolder(folder).look().get(name)
    return [] if found is None else [found[0]]


def shared(source: str | Path, target: str | Path) -> None:
    """The same file under a second name: a hard link where the file system can, else a copy. Raises OSError."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
