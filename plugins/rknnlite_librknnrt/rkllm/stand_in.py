"""Which model stands for a ``.rkllm`` file: what such a file holds can be computed by the vendor's runtime alone.

``NAME.rkllm.from`` beside it is a text whose first line names a GGUF file, a Hugging Face folder or a package, relative to
itself; ``RKNNLITE_RKLLM_MODEL`` names one for all. A path that is such a model already stands for itself.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple, Optional

from rknnlite_llm.model_folder import ModelKind, StoredModel, as_package, model_at
from rknnlite_programs import buildcache

from rknnlite import config
from rknnlite.errors import ModelInvalid
from rknnlite.files.reading import read_bytes
from rknnlite.log import logger

__all__ = ["StandIn", "adapter_folder", "stand_in"]

_SETTING = "RKNNLITE_RKLLM_MODEL"
_MOST = 1 << 16  # bytes of a NAME.rkllm.from
_MADE = ".rknn"


class StandIn(NamedTuple):
    """The package to open, and what is said of it: a line, or nothing."""

    package: Path
    note: str


def stand_in(path: str, named: Optional[str]) -> StandIn:
    """The package for a path that a program gives; ``named``: the setting. Raises ModelInvalid, and what ``export_llm`` raises."""
    given = Path(path)
    if not _is_opaque(given):
        return StandIn(_package(given), "")
    named = named or config.get("rkllm_model")
    chosen, how = (Path(named), _SETTING) if named else _beside(given)
    if chosen is None:
        there = "" if given.exists() else " and is not there"
        raise ModelInvalid(
            f"{given}: a .rkllm file is for the vendor's runtime alone{there}; write the path of a GGUF file, of a Hugging Face "
            f"folder or of a package into {given.name}.from beside it, or name one in {_SETTING}"
        )
    if _is_opaque(chosen):
        raise ModelInvalid(
            f"{how}: {chosen} is no GGUF file, no Hugging Face folder and no package (NAME.rknn), or not there"
        )
    return StandIn(_package(chosen), f"W rkllm: {chosen} stands for {given} (by {how})")


def adapter_folder(path: str) -> Path:
    """The same of an adapter: a folder as PEFT saves it. Raises ModelInvalid."""
    given = Path(path)
    chosen = given if given.is_dir() else _beside(given)[0]
    if chosen is None or not chosen.is_dir():
        raise ModelInvalid(
            f"{given}: an adapter is a folder as PEFT saves it here; write its path into {given.name}.from beside the file"
        )
    return chosen


def _is_opaque(path: Path) -> bool:
    """Whether nothing there can be computed here: a ``.rkllm``, or no model at all."""
    return path.suffix == ".rkllm" or not (path.exists() or _with_end(path).exists())


def _with_end(path: Path) -> Path:
    return path.with_name(path.name + _MADE)


def _beside(path: Path) -> tuple[Optional[Path], str]:
    """What ``NAME.rkllm.from`` names, and that file's name."""
    file = path.with_name(f"{path.name}.from")
    try:
        if not file.is_file():
            return None, file.name
        if file.stat().st_size > _MOST:
            raise ModelInvalid(f"{file}: {file.stat().st_size} bytes; one line with a path is expected")
        lines = read_bytes(file).decode("utf-8", "surrogateescape").splitlines()
    except OSError as error:
        raise ModelInvalid(f"{file}: cannot be read: {error.strerror or error}") from None
    named = next((line.strip() for line in lines if line.strip() and not line.startswith("#")), "")
    if not named or "\0" in named:
        raise ModelInvalid(f"{file}: names no model; its first line is the path of one")
    return file.parent / named, str(file)


def _package(path: Path) -> Path:
    """The package of a model; of a GGUF file or a folder it is made once, beside it or in the cache."""
    path = path if path.exists() else _with_end(path)
    model = model_at(path)
    if model.kind is ModelKind.PACKAGE or model.made_package.is_file():
        return as_package(model)
    logger.warning("%s: a package is made of it once; the next start finds it", path)
    try:
        return as_package(model)
    except OSError:
        return as_package(_linked(model))


def _linked(model: StoredModel) -> StoredModel:
    """The same model by a link in the cache, beside which there is room."""
    folder = buildcache.cache_dir(lasting=True) / "stand-ins"
    whole = model.path.resolve()
    place = folder / hashlib.sha256(str(whole).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    for made in (folder, place):
        buildcache.make_private(made)
    link = place / model.path.name
    if not link.is_symlink():
        link.symlink_to(whole)
    return StoredModel(model.name, model.kind, link)
