"""What ``rknnlite info`` tells of a ``.rkllm`` file; its strings are masked."""

from __future__ import annotations

from typing import Optional

from rknnlite.formats import ModelFile
from rknnlite.formats.rkllm import is_rkllm
from rknnlite.spi.command import Line, bytes_text
from rknnlite.spi.inspection import Description, Inspector

from .model_file import RkllmFile

__all__ = ["RkllmInspector"]


class RkllmInspector(Inspector):
    """Knows the language models of librkllmrt."""

    name = "rkllm"

    def describe(self, file: ModelFile, check: bool) -> Optional[Description]:
        """By the file's end and its name."""
        if file.path is None or not is_rkllm(file.path, file.data):
            return None
        with file.naming():
            found = RkllmFile.of(file.path, file.data)
        facts = [
            ("file", f"{file.path} ({bytes_text(found.size)})"),
            ("container", "RKLLM language model (librkllmrt)"),
            ("toolkit", found.toolkit or "unknown"),
            ("head", "as known" if found.known_head else "not seen before"),
            ("made for", f"{found.soc or 'unknown'} (by the file's name)"),
            ("weights", found.dtype or "unknown"),
            ("context", f"{found.context} tokens (by the file's name)" if found.context else "unknown"),
        ]
        data = {
            "model": str(file.path), "bytes": found.size, "toolkit_version": found.toolkit, "known_head": found.known_head,
            "soc": found.soc, "dtype": found.dtype, "context": found.context,
        }  # fmt: skip
        return Description(data, [Line(f"{name + ':':15}{value}", hang=15) for name, value in facts], [], [])
