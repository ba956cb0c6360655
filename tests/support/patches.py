"""Damaged files as small differences from genuine ones, so that a corpus of them stays readable and small."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rknnlite.errors import RknnError
from tests.support.corpus import genuine

__all__ = ["Patch", "difference", "load", "refusal", "save"]

_MOST_BYTES = 400
"""A difference larger than this is not worth keeping."""


@dataclass(frozen=True)
class Patch:
    """``size`` bytes of a genuine file (by its stem) with some replaced; ``answer`` is what opening and running it says."""

    victim: str
    size: int
    edits: tuple[tuple[int, str], ...]
    answer: str

    def apply(self) -> bytes:
        """The damaged file."""
        data = bytearray(genuine(self.victim).read_bytes()[: self.size])
        data += bytes(self.size - len(data))
        for place, text in self.edits:
            new = bytes.fromhex(text)
            data[place : place + len(new)] = new
        return bytes(data)


def difference(victim: str, damaged: bytes, answer: str) -> Patch | None:
    """What turns the genuine file into the damaged one, None when it is too much to keep."""
    original = genuine(victim).read_bytes()[: len(damaged)].ljust(len(damaged), b"\0")
    edits: list[tuple[int, str]] = []
    start = None
    for place in range(len(damaged) + 1):
        differs = place < len(damaged) and damaged[place] != original[place]
        if differs and start is None:
            start = place
        elif not differs and start is not None:
            edits.append((start, damaged[start:place].hex()))
            start = None
    if sum(len(text) // 2 for _, text in edits) > _MOST_BYTES:
        return None
    return Patch(victim, len(damaged), tuple(edits), answer)


def refusal(error: RknnError) -> str:
    """Type and text of an error with every number and name left out: what kinds of refusals there are."""
    words = [word for word in str(error).split() if word.isalpha()]
    return f"{type(error).__name__}: {' '.join(words[:12])}"


def load(path: Path) -> list[Patch]:
    """The patches of a corpus file."""
    entries: list[dict[str, Any]] = json.loads(path.read_text())
    return [Patch(e["victim"], e["size"], tuple((p, t) for p, t in e["edits"]), e["answer"]) for e in entries]


def save(path: Path, patches: list[Patch]) -> None:
    """Write a corpus file, one patch a line."""
    lines = (
        json.dumps(vars(patch), default=list) for patch in sorted(patches, key=lambda p: (p.answer, p.victim))
    )
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")
