"""``.rkllm`` files: what they are recognised by, without the vendor's library.

The file is a GGUF directory (version 3) whose magic and strings the vendor masks; numbers are plain. Files of toolkit
1.3.1 end with the toolkit's version in plain text. Heads of other versions have not been seen.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Optional

from ..errors import ModelInvalid
from .frame import RKLLM_SUFFIX as SUFFIX
from .frame import RKLLM_VERSION

__all__ = ["SUFFIX", "check_rkllm", "has_rkllm_head", "is_rkllm", "toolkit_of"]

_SMALLEST, _MOST_ENTRIES, _FOOTER = 24, 1_000_000, 64
_TOOLKIT = re.compile(rb"rkllm-toolkit version: ([0-9A-Za-z.\-]{1,30})\s*\0*$")
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


def is_rkllm(path: Optional[Path], data: memoryview) -> bool:
    """Whether a file is meant to be a ``.rkllm``: by its name, else by its head and end together."""
    if path is not None and path.suffix.lower() == SUFFIX:
        return True
    return has_rkllm_head(data) and toolkit_of(data) != ""


def toolkit_of(data: memoryview) -> str:
    """The version of the toolkit that made it, empty where the file does not tell."""
    found = _TOOLKIT.search(bytes(data[-_FOOTER:]))
    return found[1].decode() if found else ""


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
