"""A ``.rkllm`` file: what can be told without the vendor's library.

A head that looks different from those that have been seen is a warning, and what a model was made for is told by its name
alone (``Qwen2.5-1.5B_w8a8_g128_rk3588_16k.rkllm``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from rknnlite.formats.rkllm import check_rkllm, has_rkllm_head, toolkit_of

__all__ = ["RkllmFile"]

_SOC = re.compile(r"(rk3588s?|rk3576|rk3562|rv1126b)(?![0-9a-z])")
_DTYPE = re.compile(r"(?<![0-9a-z])(w\d{1,2}a\d{1,2}(?:[_-]g\d+)?|fp16)(?![0-9a-z])")
_CONTEXT = re.compile(r"(?<![0-9a-z.])(\d{1,3})k(?![0-9a-z])")


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
            toolkit=toolkit_of(data),
            known_head=has_rkllm_head(data),
            soc=_first(_SOC.search(name)).rstrip("s"),
            dtype=_first(_DTYPE.search(name)).replace("-", "_"),
            context=int(_first(_CONTEXT.search(name)) or 0) * 1024,
        )


def _first(match: Optional[re.Match[str]]) -> str:
    return match[1] if match else ""
