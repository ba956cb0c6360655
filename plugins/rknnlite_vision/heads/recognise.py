"""Which head a network has: by the shapes and names of its outputs, and where those do not tell, by what the caller says."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from rknnlite.errors import shown
from rknnlite.tensor import DType, TensorAttr

from .families import FAMILIES, Family
from .head import Head, Task, UnknownHead
from .seen import ACTIVATIONS, Seen, parts_of

__all__ = ["hint_of", "hints", "recognise"]

_INTEGERS = (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16)


def hints() -> list[str]:
    """Words for families that ``recognise`` takes as a hint; ``-logits`` or ``-probabilities`` may follow."""
    return sorted({word for family in FAMILIES for word in family.hints})


def hint_of(name: str) -> str:
    """The hint that a file's name gives, the longest that it has; empty where it gives none.

    Examples:
        >>> hint_of("yolov8n-pose_rk3588.rknn"), hint_of("yolox_s_logits.rknn"), hint_of("net.rknn")
        ('yolov8-pose', 'yolox-logits', '')
    """
    plain = _plain(name)
    found = [word for word in hints() if all(re.search(_loose(part), plain) for part in word.split("-"))]
    family = max(found, key=len, default="")
    said = [word for word in ACTIVATIONS if word in plain]
    return "-".join([family, *said[:1]]) if family else ""


def recognise(
    inputs: Sequence[TensorAttr],
    outputs: Sequence[TensorAttr],
    hint: str = "",
    anchors: Any = None,
    name: str = "",
    tasks: Collection[Task] = (),
) -> Head:
    """The decoder for a network's outputs; what it is says its ``family``.

    Args:
        inputs: attributes of the network's inputs.
        outputs: likewise.
        hint: a word of ``hints()``: the family, where shapes are those of several; and behind a ``-``, or alone, ``logits``
            or ``probabilities``, where files of floats do not tell whether a sigmoid or softmax is still to come.
        anchors: width and height in pixels, [heads, anchors of each head, 2], of networks that were trained with other
            anchors than the family's own.
        name: of the network's file. Without a hint, the one that ``hint_of`` finds in it is tried first; the family then says so.
        tasks: what is asked for: where several families fit, it is among those that do this; empty: anything.

    Raises UnknownHead where no family fits, or several do: the text lists what was seen. Likewise for integers without a scale,
    and for outputs whose first dimension is not that of the pictures.
    """
    table = None if anchors is None else np.asarray(anchors, np.float32)
    if hint and not _rows(parts_of(_plain(hint))[0]):
        raise UnknownHead(
            f"hint {shown(hint)} is not known; use one of {', '.join(hints())}, or with {' or '.join(f'-{a}' for a in ACTIVATIONS)}"
        )
    seen = Seen(inputs, outputs, _plain(hint), table)
    for attr in seen.outputs:
        _check(attr, seen.batch)
    named = "" if hint else hint_of(name)
    if named:
        found = _fitting(Seen(inputs, outputs, _plain(named), table), tasks)
        if len(found) == 1:
            head = found[0][1]
            head.family += f" ({named} by the file's name)"
            return head
    found = _fitting(seen, tasks)
    if len(found) == 1:
        return found[0][1]
    asked = [task for task in tasks if not any(head.task in tasks for _, head in found)]
    raise UnknownHead(_refusal(seen, hint, [row for row, _ in found], asked))


def _check(attr: TensorAttr, batch: int) -> None:
    """Raise UnknownHead for an output of which no decoder could tell what its numbers mean, or to which picture they belong."""
    what = f"output {attr.name} {list(attr.dims)}"
    if not attr.n_elems:
        raise UnknownHead(f"{what} holds no numbers")
    scaled = attr.quant is not None and 0 < attr.quant.scale < np.inf
    if not attr.dtype.is_float and not (attr.dtype in _INTEGERS and scaled):
        scale = f"the scale {attr.quant.scale:g}" if attr.quant else "no scale"
        raise UnknownHead(
            f"{what} is {attr.dtype.short} with {scale}, must be a float, or an integer of 8 or 16 bits with a scale above 0; "
            "cut the network before what turns scores into whole numbers, as ArgMax does"
        )
    without_batch = batch == 1 and len(attr.dims) == 2  # some exports of detectors of faces
    if attr.dims[:1] != (batch,) and not without_batch:
        raise UnknownHead(
            f"{what}: the first dimension must be the {batch} of the input; transpose the output"
        )


def _rows(hint: str) -> list[Family]:
    return [row for row in FAMILIES if not hint or _plain(hint) in map(_plain, row.hints)]


def _fitting(seen: Seen, tasks: Collection[Task]) -> list[tuple[Family, Head]]:
    """The rows that fit; of several those for what is asked, if there are any."""
    heads = [(row, row.build(seen)) for row in _rows(seen.hint)]
    found = [(row, head) for row, head in heads if head is not None]
    asked = [(row, head) for row, head in found if head.task in tasks]
    return asked if len(found) > 1 and asked else found


def _refusal(seen: Seen, hint: str, fitting: list[Family], in_vain: list[Task]) -> str:
    if fitting and in_vain:
        names, tasks = " or ".join(row.name for row in fitting), ", ".join(task.value for task in in_vain)
        return f"these outputs are those of {names}, and this is for another task: {tasks}; seen: {seen}"
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
