"""A folder of language models: which there are, by name, whatever they are written as.

A model is a package (``NAME.rknn`` and its parts), ``NAME.rkllm``, ``NAME.gguf``, or a Hugging Face folder ``NAME``. The last
two are made into packages when they are first opened; those lie in ``.packages`` of the folder.
"""

from __future__ import annotations

import enum
import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from rknnlite.errors import ModelInvalid, ModelUnsupported, ParamInvalid, RknnError, shown
from rknnlite.files.reading import open_file
from rknnlite.formats import ModelFile, is_package
from rknnlite.formats.rkllm import check_rkllm

from .export import export_llm
from .hf_folder import read_object
from .package import Package

__all__ = [
    "ModelFolder",
    "ModelKind",
    "NoLanguageModel",
    "StoredModel",
    "as_package",
    "model_at",
    "model_name",
    "models_in",
]

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,149}(:[A-Za-z0-9_][A-Za-z0-9_.+-]{0,49})?")
_LATEST = ":latest"
_TOKENIZER = ".tokenizer.gguf"
_PACKAGES = ".packages"
_ADAPTERS = ".lora"
_GIVEN_UP = 7 * 86400.0  # seconds
_FOLDER_ALONE = 2  # items of the sign of a folder that is no model
_DEVICE = (b"RKNN", b"RKNX")
_HF = ("config.json", "*.safetensors")
Progress = Callable[[int, int, str], None]
"""Called with how much is done, of how much, and what comes next."""


class NoLanguageModel(ModelInvalid):
    """It is something else, and nothing is wrong with it: a network, a tokenizer."""


class ModelKind(enum.Enum):
    """What a model is written as; the value is the word for it in answers."""

    PACKAGE = "rknn"
    RKLLM = "rkllm"
    GGUF = "gguf"
    HF = "safetensors"


@dataclass(frozen=True)
class StoredModel:
    """A model of a folder; ``path`` is its first file, or its folder; ``broken`` says why it cannot be one."""

    name: str
    kind: ModelKind
    path: Path
    broken: str = ""

    @property
    def files(self) -> tuple[Path, ...]:
        """All files that are there."""
        beside = (self.parameters,) if self.parameters.is_file() else ()
        return (*self.content, *self.adapter_files, *beside)

    @property
    def content(self) -> tuple[Path, ...]:
        """Those without what is assumed where a request says nothing."""
        if self.kind is ModelKind.HF:
            return tuple(sorted(path for path in self.path.rglob("*") if path.is_file()))
        if self.kind is ModelKind.GGUF:
            return (self.path,)
        return tuple(path for path in Package.of(self.path).files() if path.is_file())

    @property
    def adapters(self) -> Path:
        """A folder with LoRA adapters as PEFT saves them; it need not exist."""
        return self.path.parent / f"{self.name}{_ADAPTERS}"

    @property
    def adapter_files(self) -> tuple[Path, ...]:
        """The files in it."""
        return tuple(sorted(self.adapters.iterdir())) if self.adapters.is_dir() else ()

    @property
    def parameters(self) -> Path:
        """A JSON file with what is assumed where a request says nothing; it need not exist."""
        return self.path.parent / f"{self.name}.parameters.json"

    @property
    def size(self) -> int:
        """Bytes of these."""
        return sum(path.stat().st_size for path in self.files)

    @property
    def state(self) -> str:
        """Changes with each of the files."""
        return self._digest(self.files)

    @property
    def made_package(self) -> Path:
        """Where the package lies that is made of a GGUF file or a Hugging Face folder."""
        place = self.path.parent / _PACKAGES / f"{self.name}@{self._digest(self.content)[:16]}"
        return place / f"{self.name.replace(':', '-')}.rknn"

    def _digest(self, files: tuple[Path, ...]) -> str:
        statuses = [(path.name, path.stat()) for path in files]
        told = [(name, status.st_size, status.st_mtime_ns) for name, status in statuses]
        return hashlib.sha256(repr((self.kind.value, told)).encode()).hexdigest()

    def remove(self) -> None:
        """Remove the files, and the package that was made of them; whoever has them open reads on. Raises OSError."""
        for made in (self.path.parent / _PACKAGES).glob(f"{self.name}@*"):
            shutil.rmtree(made, ignore_errors=True)
        if self.kind is ModelKind.HF:
            _remove_folder(self.path)
        else:
            for path in self.content:
                path.unlink(missing_ok=True)
        self.remove_additions()

    def remove_additions(self) -> None:
        """Remove adapters and parameters."""
        if self.adapters.is_dir():
            _remove_folder(self.adapters)
        self.parameters.unlink(missing_ok=True)


def model_name(given: str) -> str:
    """What a model is called: ``NAME:latest`` is ``NAME``. Raises ParamInvalid for what would be a path, or is none."""
    name = given.removesuffix(_LATEST)
    if not _NAME.fullmatch(name):
        raise ParamInvalid(
            f"{shown(given)} is no name of a model; letters, digits and _ . + - make one, and a tag behind a colon"
        )
    return name


def models_in(folder: Path) -> dict[str, StoredModel]:
    """The models of a folder by name; what is none is left out, and links that lead out of it."""
    return {name: model for name, (model, _) in ModelFolder(folder).look().items() if not model.broken}


def model_at(path: Path) -> StoredModel:
    """What lies at a path. Raises ModelInvalid for what is no language model, OSError for what cannot be read."""
    if path.is_dir():
        return _hf(path)
    suffix, name = path.suffix.lower(), path.name[: -len(path.suffix)] if path.suffix else path.name
    if suffix == ".rknn":
        data = ModelFile(path).data
        # files of a coprocessor's converter are told by what lies beside them
        if is_package(data) or (data[:4] in _DEVICE and Package.of(path).weight.is_file()):
            return StoredModel(name, ModelKind.PACKAGE, path)
        if data[:4] not in _DEVICE:
            raise ModelInvalid(f"{path}: no language model, and no network either")
    elif suffix == ".rkllm":
        file = ModelFile(path)
        with file.naming():
            check_rkllm(file.data)
        return StoredModel(name, ModelKind.RKLLM, path)
    elif suffix == ".gguf" and not path.name.endswith(_TOKENIZER):
        if _magic(path) != b"GGUF":
            raise ModelInvalid(f"{path}: no GGUF file")
        return StoredModel(name, ModelKind.GGUF, path)
    raise NoLanguageModel(
        f"{path}: no language model; a package (NAME.rknn), .rkllm, .gguf and a Hugging Face folder are"
    )


class ModelFolder:
    """A folder that is looked at again and again: files that are as they were are not opened again. For one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, _Known] = {}

    def look(self) -> dict[str, tuple[StoredModel, str]]:
        """Its models by name, each with its state; broken ones too, but links that lead out of it. Raises OSError."""
        with os.scandir(self._folder) as entries:
            signs = {entry.name: _sign(entry) for entry in entries if _NAME.match(entry.name)}
        known: dict[str, _Known] = {}
        for file in sorted(signs):
            if _is_first(file, signs[file]):
                sign = tuple(signs.get(name) for name in _parts(file))
                former = self._known.get(file)
                known[file] = former if former is not None and former.sign == sign else self._read(file, sign)
        self._known = known
        found: dict[str, tuple[StoredModel, str]] = {}
        for stored, state in sorted(
            ((known.stored, known.state) for known in known.values() if known.stored is not None),
            key=lambda pair: bool(pair[0].broken),
        ):
            found.setdefault(stored.name, (stored, state))
        return found

    def is_as_it_was(self, model: StoredModel) -> bool:
        """Whether the files of one model are those that the last look found; nothing else is looked at."""
        known = self._known.get(model.path.name)
        if known is None or known.stored != model:
            return False
        return known.sign == tuple(_sign(self._folder / name) for name in _parts(model.path.name))

    def _read(self, file: str, sign: tuple[Optional[_Sign], ...]) -> _Known:
        path = self._folder / file
        if not _inside(path, self._folder):
            return _Known(sign)
        kinds = {f".{kind.value}": kind for kind in ModelKind}
        kind = kinds.get(path.suffix.lower(), ModelKind.HF)
        name = file if kind is ModelKind.HF else file[: -len(path.suffix)]
        if not _NAME.fullmatch(name):
            return _Known(sign)
        try:
            stored = model_at(path)
        except NoLanguageModel:
            return _Known(sign)
        except (RknnError, OSError) as error:
            stored = StoredModel(name, kind, path, str(error))
        try:
            return _Known(sign, stored, stored.state)
        except OSError:  # gone meanwhile
            return _Known(sign)


_Sign = tuple[object, ...]


@dataclass(frozen=True)
class _Known:
    """What was found behind a first file, and what told that it and its parts have not changed since."""

    sign: tuple[Optional[_Sign], ...]
    stored: Optional[StoredModel] = None
    state: str = ""


def _is_first(file: str, sign: Optional[_Sign]) -> bool:
    if sign is None:
        return False
    if sign[0] == "folder":
        return len(sign) > _FOLDER_ALONE
    return file.lower().endswith((".rknn", ".rkllm", ".gguf")) and not file.endswith(_TOKENIZER)


def _parts(file: str) -> tuple[str, ...]:
    """Names beside a first file that may belong to it, its own first."""
    stem = file.rpartition(".")[0]
    ends = (".weight", ".embed.bin", _TOKENIZER)
    additions = (".parameters.json", _ADAPTERS)
    return (file, *(stem + end for end in ends), *(name + end for name in (file, stem) for end in additions))


def _sign(path: Path | os.DirEntry[str]) -> Optional[_Sign]:
    """Changes with a file; of a folder, with each file of a model in it. None where nothing is."""
    try:
        status = path.stat()
        if not stat.S_ISDIR(status.st_mode):
            return (status.st_ino, status.st_size, status.st_mtime_ns)
        folder = Path(path)
        return ("folder", status.st_ino, *(_files_below(folder) if (folder / _HF[0]).exists() else ()))
    except OSError:
        return None


def _files_below(path: Path) -> Iterator[_Sign]:
    with os.scandir(path) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir():
                if not entry.name.startswith("."):
                    yield from _files_below(Path(entry.path))
            else:
                status = entry.stat()
                yield (entry.path, status.st_ino, status.st_size, status.st_mtime_ns)


def as_package(model: StoredModel, progress: Progress = lambda done, total, text: None) -> Path:
    """The file to open: of a GGUF file or a Hugging Face folder that of the package that is made of it once.

    Raises what ``export_llm`` raises.
    """
    if model.kind in (ModelKind.PACKAGE, ModelKind.RKLLM):
        return model.path
    made = model.made_package
    if made.is_file():
        return made
    place, packages = made.parent, made.parent.parent
    packages.mkdir(mode=0o700, exist_ok=True)
    for old in packages.glob(f"{model.name}@*"):
        shutil.rmtree(old, ignore_errors=True)  # of files that were replaced
    for old in packages.glob(".*"):
        if old.stat().st_mtime < time.time() - _GIVEN_UP:  # of a program that was killed
            shutil.rmtree(old, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=packages, prefix=".") as room:
        work = Path(room) / "made"
        work.mkdir()
        export_llm(model.path, work / made.stem, "w8", progress=progress)
        work.replace(place)
    return made


def _hf(path: Path) -> StoredModel:
    if not all(any(path.glob(pattern)) for pattern in _HF):
        raise ModelInvalid(f"{path}: no language model; a Hugging Face folder has {' and '.join(_HF)}")
    if not isinstance(read_object(path / _HF[0]).get("model_type"), str):
        raise ModelUnsupported(f"{path / _HF[0]}: names no model_type")
    return StoredModel(path.name, ModelKind.HF, path)


def _remove_folder(path: Path) -> None:
    hidden = path.with_name(f".gone-{os.urandom(8).hex()}")
    path.replace(hidden)  # at once: half of it is no model
    shutil.rmtree(hidden)


def _magic(path: Path) -> bytes:
    with open_file(path) as file:
        return file.read(4)


def _inside(path: Path, folder: Path) -> bool:
    try:
        return path.resolve(strict=True).is_relative_to(folder.resolve())
    except (OSError, RuntimeError):
        return False
