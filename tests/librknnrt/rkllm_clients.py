"""Clients of our librkllmrt.so by raw ctypes: those of the double's tests, on the other library."""

from __future__ import annotations

import ctypes as ct
from pathlib import Path
from typing import Any

from rknnlite_librknnrt import recipe
from rknnlite_librknnrt.build import rkllm_version

from tests.librknnrt.clients import WATCHED, library, made
from tests.rkllm.raw import Client

__all__ = ["LAYOUTS", "TINY", "Ours", "library_of", "program", "standing"]

PROGRAMS = Path(__file__).parent / "programs_rkllm"

LAYOUTS = tuple(recipe.RKLLM_LIBRARIES)
"""The last version of each layout."""
TINY = Path(__file__).parents[2] / "examples" / "llm_chat" / "models" / "tiny"


def library_of(version: str, *flags: str) -> Path:
    """librkllmrt.so of this tree with the layout of a version."""
    name = recipe.RKLLM_LIBRARIES[rkllm_version(version)]
    return library(*flags, name=name)


def standing(folder: Path, model: Path | str = TINY) -> Path:
    """A ``.rkllm`` that nobody can compute, and what stands for it."""
    path = folder / "model.rkllm"
    path.write_bytes(b"\x91\x1e\xa7\x5c" + bytes(60))
    path.with_name("model.rkllm.from").write_text(f"{model}\n", encoding="utf-8")
    return path


class Ours(Client):
    """A client of our library, greedy and without penalties unless parameters say otherwise."""

    def _loaded(self, path: Path | None) -> dict[str, Any]:
        return self._bound(ct.CDLL(str(path or library_of(self.version))))

    def param(self, path: Path, **settings: Any) -> Any:
        plain = {"top_k": 1, "repeat_penalty": 1.0, "max_context_len": 256, "max_new_tokens": 24}
        return super().param(path, **{**plain, **settings})


def program(name: str, version: str) -> Path:
    """A program of ``programs_rkllm``, compiled with the header of a version and linked with its library."""
    layout = rkllm_version(version)
    source, built, headers = PROGRAMS / name, library_of(version), recipe.RKLLM_INCLUDE / layout
    command = [
        "gcc", "-std=gnu99", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{headers}", *WATCHED, "-o", "{out}",
        str(source), f"-L{built.parent}", "-lrkllmrt",
    ]  # fmt: skip
    return made(source.stem, command, [source, built, *headers.glob("*.h")])
