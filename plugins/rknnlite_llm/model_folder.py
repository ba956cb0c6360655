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
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rknnlite.errors import ModelInvalid, ModelUnsupported, ParamInvalid, RknnError, shown
from rknnlite.files.reading import open_file
from rknnlite.formats import ModelFile, is_package
from rknnlite.formats.rkllm import check_rkllm

from .export import export_llm
from .hf_folder import read_object
from .package import Package

__all__ = ["ModelKind", "StoredModel", "as_package", "model_at", "model_name", "models_in"]

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,149}(:[A-Za-z0-9_][A-Za-z0-9_.+-]{0,49})?")
_LATEST = ":latest"
_TOKENIZER = ".tokenizer.gguf"
_PACKAGES = ".packages"
_DEVICE = (b"RKNN", b"RKNX")
_HF = ("config.json", "*.safetensors")
Progress = Callable[[int, int, str], None]
"""Called with how much is done, of how much, and what comes next."""


class ModelKind(enum.Enum):
    """What a model is written as; the value is the word for it in answers."""

    PACKAGE = "rknn"
    RKLLM = "rkllm"
    GGUF = "gguf"
    HF = "safetensors"


@dataclass(frozen=True)
class StoredModel:
    """A model of a folder; ``path`` is its first file, or its folder."""

    name: str
    kind: ModelKind
    path: Path

    @property
    def files(self) -> tuple[Path, ...]:
        """All files that are there."""
        beside = (self.parameters,) if self.parameters.is_file() else ()
        if self.kind is ModelKind.HF:
            return (*sorted(path for path in self.path.rglob("*") if path.is_file()), *beside)
        if self.kind is ModelKind.GGUF:
            return (self.path, *beside)
        return (*(path for path in Package.of(self.path).files() if path.is_file()), *beside)

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
        statuses = [(path.name, path.stat()) for path in self.files]
        told = [(name, status.st_size, status.st_mtime_ns) for name, status in statuses]
        return hashlib.sha256(repr((self.kind.value, told)).encode()).hexdigest()

    def remove(self) -> None:
        """Remove the files, and the package that was made of them; whoever has them open reads on. Raises OSError."""
        for made in (self.path.parent / _PACKAGES).glob(f"{self.name}@*"):
            shutil.rmtree(made, ignore_errors=True)
        if self.kind is ModelKind.HF:
            hidden = self.path.with_name(f".gone-{os.urandom(8).hex()}")
            self.path.replace(hidden)  # at once: half of it is no model
            shutil.rmtree(hidden)
        for path in self.files:
            path.unlink(missing_ok=True)


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
    found: dict[str, StoredModel] = {}
    for path in sorted(folder.iterdir()):
        if not _NAME.match(path.name) or not _inside(path, folder):
            continue
        try:
            model = model_at(path)
        except (RknnError, OSError):
            continue
        if _NAME.fullmatch(model.name):
            found.setdefault(model.name, model)
    return found


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
    elif suffix == ".rkllm":
        file = ModelFile(path)
        with file.naming():
            check_rkllm(file.data)
        return StoredModel(name, ModelKind.RKLLM, path)
    elif suffix == ".gguf" and not path.name.endswith(_TOKENIZER) and _magic(path) == b"GGUF":
        return StoredModel(name, ModelKind.GGUF, path)
    raise ModelInvalid(
        f"{path}: no language model; a package (NAME.rknn), .rkllm, .gguf and a Hugging Face folder are"
    )


def as_package(model: StoredModel, progress: Progress = lambda done, total, text: None) -> Path:
    """The file to open: of a GGUF file or a Hugging Face folder that of the package that is made of it once.

    Raises what ``export_llm`` raises.
    """
    if model.kind in (ModelKind.PACKAGE, ModelKind.RKLLM):
        return model.path
    packages = model.path.parent / _PACKAGES
    place = packages / f"{model.name}@{model.state[:16]}"
    made = place / f"{model.name.replace(':', '-')}.rknn"
    if made.is_file():
        return made
    packages.mkdir(mode=0o700, exist_ok=True)
    for old in packages.glob(f"{model.name}@*"):
        shutil.rmtree(old, ignore_errors=True)  # of files that were replaced
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


def _magic(path: Path) -> bytes:
    with open_file(path) as file:
        return file.read(4)


def _inside(path: Path, folder: Path) -> bool:
    try:
        return path.resolve(strict=True).is_relative_to(folder.resolve())
    except (OSError, RuntimeError):
        return False
