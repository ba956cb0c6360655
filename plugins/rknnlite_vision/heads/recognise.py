"""Which head a network has: by the shapes and names of its outputs, and where those do not tell, by what the caller says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from rknnlite.errors import shown
from rknnlite.tensor import TensorAttr

from .families import FAMILIES, Family
from .head import Head, UnknownHead
from .seen import Seen

__all__ = ["hint_of", "hints", "recognise"]


def hints() -> list[str]:
    """Words that ``recognise`` takes as a hint."""
    return sorted({word for family in FAMILIES for word in family.hints})


def hint_of(name: str) -> str:
    """The hint that a file's name gives, the longest that it has; empty where it gives none.

    Examples:
        >>> hint_of("yolov8n-pose_rk3588.rknn"), hint_of("net.rknn")
        ('yolov8-pose', '')
    """
    plain = _plain(name)
    found = [word for word in hints() if all(re.search(_loose(part), plain) for part in word.split("-"))]
    return max(found, key=len, default="")


def recognise(
    inputs: Sequence[TensorAttr],
    outputs: Sequence[TensorAttr],
    hint: str = "",
    anchors: Any = None,
) -> Head:
    """The decoder for a network's outputs; what it is says its ``family``.

    Args:
        inputs: attributes of the network's inputs.
        outputs: likewise.
        hint: a word of ``hints()``: the family, where shapes are those of several.
        anchors: width and height in pixels, [heads, anchors of each head, 2], of networks that were trained with other
            anchors than the family's own.

    Raises UnknownHead where no family fits, or several do: the text lists what was seen.
    """
    table = None if anchors is None else np.asarray(anchors, np.float32)
    seen = Seen(inputs, outputs, _plain(hint), table)
    rows = FAMILIES if not hint else [row for row in FAMILIES if seen.hint in map(_plain, row.hints)]
    if not rows:
        raise UnknownHead(f"hint {shown(hint)} is not known; use one of {', '.join(hints())}")
    found = [(row, head) for row, head in ((row, row.build(seen)) for row in rows) if head is not None]
    if len(found) == 1:
        return found[0][1]
    raise UnknownHead(_refusal(seen, hint, [row for row, _ in found]))


def _refusal(seen: Seen, hint: str, fitting: list[Family]) -> str:
    if fitting:
        words = ", ".join(sorted({word for row in fitting for word in row.hints}))
        names = " or ".join(row.name for row in fitting)
        return f"these outputs fit {names}, and shapes do not tell which: give one of the hints {words}; seen: {seen}"
    if hint:
        return f"these outputs are not those of {hint}; seen: {seen}"
    names = ", ".join(row.name for row in FAMILIES)
    return f"no decoder here knows these outputs; seen: {seen}; known are {names}"


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _loose(part: str) -> str:
    return re.escape(_plain(part))
