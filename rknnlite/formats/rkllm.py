"""``.rkllm`` files: what can be told without the vendor's library.

The file is a GGUF directory (version 3) whose magic and strings the vendor masks; numbers are plain. Files of toolkit
1.3.1 end with the toolkit's version in plain text. Heads of other versions have not been seen, so a head that looks
different is a warning, and what a model was made for is told by its name alone
(``Qwen2.5-1.5B_w8a8_g128_rk3588_16k.rkllm``).
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from ..errors import ModelInvalid
from .frame import RKLLM_SUFFIX as SUFFIX
from .frame import RKLLM_VERSION

__all__ = ["SUFFIX", "RkllmFile", "check_rkllm", "has_rkllm_head", "is_rkllm"]

_SMALLEST, _MOST_ENTRIES, _FOOTER = 24, 1_000_000, 64
_TOOLKIT = re.compile(rb"rkllm-toolkit version: ([0-9A-Za-z.\-]{1,30})\s*\0*$")
_SOC = re.compile(r"(rk3588s?|rk3576|rk3562|rv1126b)(?![0-9a-z])")
_DTYPE = re.compile(r"(?<![0-9a-z])(w\d{1,2}a\d{1,2}(?:[_-]g\d+)?|fp16)(?![0-9a-z])")
_CONTEXT = re.compile(r"(?<![0-9a-z.])(\d{1,3})k(?![0-9a-z])")
_OTHERS = (
    (b"version https://git-lfs", "a pointer of Git LFS, not the model itself; fetch it: git lfs pull"),
    (b"RKNN", "a network (.rknn); open it with rknnlite.open"),
    (b"RKNX", "a model for RK1820/RK1828; rename it to .rknn"),
    (b"GGUF", "a GGUF file; convert the network with the vendor's rkllm-toolkit"),
    (b"PK\x03\x04", "a zip archive; unpack it"),
    (b"\x7fELF", "a program or library; are model and library mixed up?"),
    (b"<!DOCTYPE", "a web page; the download failed"),
    (b"<html", "a web page; the download failed"),
)


@dataclass(frozen=True)
class RkllmFile:
    """A file that may be opened by librkllmrt.

    Attributes:
        path: of the file.
        size: bytes.
        toolkit: version that made it, empty where the file does not tell.
        known_head: whether the head is the one that has been seen.
        soc, dtype: by the file's name (``rk3588``, ``w8a8_g128``), empty where that does not tell.
        context: tokens by the file's name (``16k`` is 16384), 0 where that does not tell.
    """

    path: Path
    size: int
    toolkit: str
    known_head: bool
    soc: str
    dtype: str
    context: int

    @classmethod
    def of(cls, path: Path, data: memoryview) -> RkllmFile:
        """Look at a file; raises ModelInvalid for what is none."""
        check_rkllm(data)
        name = path.name.lower()
        return cls(
            path=path,
            size=len(data),
            toolkit=_first(_TOOLKIT.search(bytes(data[-_FOOTER:]))),
            known_head=has_rkllm_head(data),
            soc=_first(_SOC.search(name)).rstrip("s"),
            dtype=_first(_DTYPE.search(name)).replace("-", "_"),
            context=int(_first(_CONTEXT.search(name)) or 0) * 1024,
        )


def is_rkllm(path: Optional[Path], data: memoryview) -> bool:
    """Whether a file is meant to be a ``.rkllm``: by its name, else by its head and end together."""
    if path is not None and path.suffix.lower() == SUFFIX:
        return True
    return has_rkllm_head(data) and _TOOLKIT.search(bytes(data[-_FOOTER:])) is not None


def has_rkllm_head(data: memoryview) -> bool:
    """Whether the plain numbers behind the masked magic are those of a directory."""
    if len(data) <= _SMALLEST or any(bytes(data[: len(start)]) == start for start, _ in _OTHERS):
        return False
    version, tensors, entries = struct.unpack_from("<IQQ", data, 4)
    return bool(version == RKLLM_VERSION and 0 < tensors < _MOST_ENTRIES and 0 < entries < _MOST_ENTRIES)


def check_rkllm(data: memoryview) -> None:
    """Raise ModelInvalid for what is something else, or too short."""
    for start, what in _OTHERS:
        if bytes(data[: len(start)]) == start:
            raise ModelInvalid(f"this is {what}")
    if len(data) <= _SMALLEST:
        raise ModelInvalid(f"the file is truncated: {len(data)} bytes are no language model; copy it again")


def _first(match: Optional[re.Match[str] | re.Match[bytes]]) -> str:
    found = match.group(1) if match else ""
    return found.decode() if isinstance(found, bytes) else found
