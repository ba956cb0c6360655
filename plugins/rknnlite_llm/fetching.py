"""Fetching a language model into a folder: from a URL or a path, whole or not at all, going on where it was cut.

Files arrive in ``.pull`` of the folder and are put into place when all are there, have the checksums that were announced and
are a model. What was cut stays there, and the next call goes on behind it.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Optional
from urllib.parse import unquote, urldefrag, urlsplit

from rknnlite.errors import ContextInvalid, ModelInvalid, ParamInvalid
from rknnlite.files.json_text import parse_json
from rknnlite.files.reading import open_file, read_text
from rknnlite.files.writing import GrowingFile
from rknnlite.formats import ModelFile

from .checksums import check_beside
from .model_folder import StoredModel, model_at, model_name
from .model_placing import STAGING, place, sweep
from .package import Package
from .transfer import Transfer, is_url

__all__ = ["Fetch", "fetch_model", "sums_in"]

_SUM = re.compile(r"sha256[=:]([0-9a-fA-F]{64})")
_LINE = re.compile(r"([0-9a-fA-F]{64}) [ *](.+)")
_HUB = re.compile(r"/([^/]+)/resolve/[^/]+$")
_ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z")
_BLOCK = 1 << 20
_SINGLE = (".rkllm", ".gguf")
_HF_FIRST = ("config.json",)
_HF_MORE = (
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "generation_config.json",
    "chat_template.jinja",
    "special_tokens_map.json",
    "added_tokens.json",
    "modules.json",
    "1_Pooling/config.json",
)
_HF_INDEX, _HF_ONE = "model.safetensors.index.json", "model.safetensors"
_MOST_SHARDS = 1000
_SHARD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}\.safetensors")
Progress = Callable[[str, int, int], None]
"""Called with the name of a file, its bytes that are there, and all of them (0: nobody says). What it raises ends the call."""


@dataclass(frozen=True)
class Fetch:
    """What is to be fetched.

    Attributes:
        source: ``http(s)://...`` or a path: of ``NAME.rknn`` (its parts lie beside it), ``.rkllm``, ``.gguf``, or of a Hugging Face
            folder. ``#sha256=HEX`` behind it is the checksum of that file.
        name: what it is called here; empty: as there.
        sums: SHA-256 in hex by file name; each file that is named must have it.
        listed: sums are those of a whole folder: what is not among them does not come, and others among them do not matter.
        hosts: those that may be asked beside public ones; None: all.
    """

    source: str
    name: str = ""
    sums: tuple[tuple[str, str], ...] = ()
    hosts: Optional[tuple[str, ...]] = None
    listed: bool = False

    def __post_init__(self) -> None:
        """Raises ParamInvalid for what is no URL."""
        try:
            parts = urlsplit(self.source if is_url(self.source) else "")
            _ = parts.port
            if is_url(self.source) and not parts.hostname:
                raise ValueError("no host")
        except ValueError as error:
            raise ParamInvalid(f"{self.source[:200]}: no address: {error}") from None

    @property
    def address(self) -> str:
        """``source`` without its checksum."""
        return urldefrag(self.source).url if is_url(self.source) else self.source.partition("#sha256=")[0]

    @property
    def file(self) -> str:
        """The last part of the path."""
        path = unquote(urlsplit(self.address).path) if is_url(self.source) else self.address
        return path.rstrip("/").rpartition("/")[2]

    @property
    def called(self) -> str:
        """The name here. Raises ParamInvalid for what is none."""
        ends = (".rknn", *_SINGLE)
        stem = next((self.file[: -len(end)] for end in ends if self.file.lower().endswith(end)), self.file)
        hub = _HUB.search(self.address.rstrip("/"))  # a revision is no name
        return model_name(self.name or (hub[1] if hub is not None else stem))

    @property
    def known(self) -> dict[str, str]:
        """SHA-256 by file name. Raises ParamInvalid."""
        found = {name: value.lower() for name, value in self.sums}
        _, mark, given = self.source.rpartition("#")
        if mark and (is_url(self.source) or given.startswith("sha256=")):
            match = _SUM.fullmatch(given)
            if match is None:
                raise ParamInvalid(f"#{given[:80]} is no checksum; #sha256= and 64 hexadecimal digits are")
            found[self.file] = match[1].lower()
        return found


def sums_in(path: Path) -> tuple[tuple[str, str], ...]:
    """The lines of a file as ``sha256sum`` writes it. Raises ParamInvalid."""
    try:
        lines = [line for line in read_text(path).splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise ParamInvalid(f"{path}: {error}") from None
    if not lines:
        raise ParamInvalid(f"{path}: holds no checksums; write one a line, as sha256sum does")
    found = []
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None:
            raise ParamInvalid(f"{path}: {line[:80]!r} is no line of sha256sum")
        found.append((match[2].removeprefix("./"), match[1]))
    return tuple(found)


def fetch_model(
    fetch: Fetch, folder: Path, progress: Progress = lambda name, done, total: None
) -> StoredModel:
    """Fetch a model; one of the name that is there already is replaced when the new one is whole.

    Raises:
        ParamInvalid: the source, the name or a checksum makes no sense.
        ModelInvalid: it is no model, has other bytes than its checksum says, or is not there.
        BackendUnavailable: the connection was cut, or nobody answers; the next call goes on.
        ContextInvalid: somebody else fetches it now.
        DiskFull: there is no room; what came of it stays.
    """
    name, known = fetch.called, fetch.known
    staging = folder / STAGING
    staging.mkdir(mode=0o700, exist_ok=True)
    sweep(staging)
    key = hashlib.sha256(f"{fetch.address}\0{name}".encode()).hexdigest()[:32]
    try:
        lock = GrowingFile(staging / f"{key}.lock")
    except BlockingIOError:
        raise ContextInvalid(f"{name} is being pulled by somebody else") from None
    try:
        room = staging / key
        room.mkdir(exist_ok=True)
        try:
            made = place(_Fetching(fetch, room, known, progress).run(), folder, name)
        except _Wrong:  # the next call shall not find it
            shutil.rmtree(room, ignore_errors=True)
            lock.discard()
            raise
        shutil.rmtree(room, ignore_errors=True)
        lock.discard()
        return made
    finally:
        lock.close()


class _Wrong(ModelInvalid):
    """What has come is not what it should be; nothing of it is kept."""


class _Fetching:
    """One call: files come into ``room``."""

    def __init__(self, fetch: Fetch, room: Path, sums: dict[str, str], progress: Progress) -> None:
        self._fetch, self._room, self._sums, self._progress = fetch, room, sums, progress
        self._got: set[str] = set()

    def run(self) -> Path:
        """The path of the model in ``room``. Raises as ``fetch_model``."""
        lower = self._fetch.file.lower()
        path = self._package() if lower.endswith(".rknn") else self._single(lower)
        unused = sorted(set(self._sums) - self._got)
        if unused and not self._fetch.listed:
            raise ParamInvalid(f"a checksum is given for {unused[0][:100]!r}, which is no file of the model")
        try:
            model_at(path)
        except ModelInvalid as error:
            raise _Wrong(str(error)) from None
        return path

    def _single(self, lower: str) -> Path:
        if lower.endswith(_ARCHIVES):
            raise ModelInvalid(
                f"{self._fetch.address}: no language model; archives are not unpacked, give the address of the files in it"
            )
        if not lower.endswith(_SINGLE):
            return self._folder()
        path = self._needed(self._fetch.file, self._fetch.address)
        if lower.endswith(".rkllm"):  # most are published without one
            tokenizer = Package.of(self._fetch.file).tokenizer.name
            self._file(tokenizer, self._beside(tokenizer), optional=True)
        return path

    def _package(self) -> Path:
        first = self._needed(self._fetch.file, self._fetch.address)
        for part in Package.of(self._fetch.file).files()[1:]:
            self._file(part.name, self._beside(part.name), optional=part.name.endswith(".tokenizer.gguf"))
        model, package = ModelFile(first), Package.of(first)
        try:
            check_beside(model, package, weights=True)
        except ModelInvalid as error:
            raise _Wrong(str(error)) from None
        return first

    def _folder(self) -> Path:
        base = self._fetch.address.rstrip("/")
        for name in _HF_FIRST:
            try:
                self._file(name, f"{base}/{name}", anew=True)
            except ModelInvalid as error:
                raise ModelInvalid(f"{base}: no language model: {error}") from None
        for name in _HF_MORE:
            self._file(name, f"{base}/{name}", optional=True, anew=True)
        index = self._file(_HF_INDEX, f"{base}/{_HF_INDEX}", optional=True, anew=True)
        for name in _shards(index) if index is not None else [_HF_ONE]:
            self._file(name, f"{base}/{name}", anew=True)
        for mark in self._room.rglob("*.mark"):
            mark.unlink()
        for path in self._room.iterdir():
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()  # made for a file that is not there
        return self._room

    def _beside(self, name: str) -> str:
        if not is_url(self._fetch.address):
            return str(Path(self._fetch.address).with_name(name))
        parts = urlsplit(self._fetch.address)
        return parts._replace(path=f"{parts.path.rpartition('/')[0]}/{name}").geturl()

    def _needed(self, name: str, address: str) -> Path:
        """The file in the room; raises ModelInvalid where it is not there."""
        self._file(name, address)
        return self._room / name

    def _file(self, name: str, address: str, optional: bool = False, anew: bool = False) -> Optional[Path]:
        """The file in the room; None for one that is optional and not there.

        ``anew``: nothing else would tell that one of a former call is another one meanwhile, so the server is asked.
        """
        target = self._room / name
        target.parent.mkdir(exist_ok=True)
        wanted = self._sums.get(name)
        if wanted is None and self._fetch.listed:
            if optional:
                return None
            raise ParamInvalid(f"{name[:200]} is not in the list of checksums, so it is not fetched")
        if target.is_file() and anew and is_url(address) and wanted is None:
            transfer = Transfer(address, target, lambda done, total: None, self._fetch.hosts)
            if not transfer.is_as_it_was():
                target.unlink()
        if not target.is_file():
            transfer = Transfer(
                address, target, lambda done, total: self._progress(name, done, total), self._fetch.hosts
            )
            if not transfer.run(_looks_like(name), wanted is None and optional):
                return None
        if wanted is not None:
            found = _digest(target)
            if found != wanted:
                raise _Wrong(
                    f"{address}: SHA-256 {found}, announced was {wanted}; it is damaged, or another file: nothing of it is kept"
                )
        self._got.add(name)
        size = target.stat().st_size
        self._progress(name, size, size)
        return target


def _shards(index: Path) -> list[str]:
    """Names of files of tensors in an index, which is a stranger's. Raises ModelInvalid."""
    try:
        data = parse_json(read_text(index))
        names = sorted(set(data["weight_map"].values()))
    except (ValueError, OSError, TypeError, KeyError, AttributeError):
        raise ModelInvalid(f"{index.name}: no index of tensors") from None
    for name in names:
        if not isinstance(name, str) or not _SHARD.fullmatch(name):
            raise ModelInvalid(f"{index.name}: {str(name)[:100]!r} is no name of a file of tensors")
    if not 0 < len(names) <= _MOST_SHARDS:
        raise ModelInvalid(f"{index.name}: {len(names)} files of tensors, 1 to {_MOST_SHARDS} are allowed")
    return names


def _looks_like(name: str) -> Callable[[bytes], Optional[str]]:
    """What refuses a file by its first bytes, before the rest of it comes: None, or why."""
    lower = name.lower()

    def refused(head: bytes) -> Optional[str]:
        start = head.lstrip()[:15].lower()
        if start.startswith((b"<!doctype", b"<html")):
            return "a web page, not a file of a model"
        if head.startswith(b"version https://git-lfs"):
            return "a pointer of Git LFS, not the file itself"
        if lower.endswith(".gguf") and not head.startswith(b"GGUF"):
            return "no GGUF file"
        if lower.endswith(".rknn") and not head.startswith((b"RKLITLLM", b"RKNN", b"RKNX")):
            return "no .rknn file"
        if lower.endswith(".json") and not start.startswith((b"{", b"[")):
            return "no JSON"
        return None

    return refused


def _digest(path: Path) -> str:
    found = hashlib.sha256()
    with open_file(path) as file:
        for block in iter(lambda: file.read(_BLOCK), b""):
            found.update(block)
    return found.hexdigest()
