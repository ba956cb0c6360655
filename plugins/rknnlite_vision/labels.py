"""Names of classes: from the model file, a file of their own, or those of COCO."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional, Union

from rknnlite.errors import ParamInvalid, one_line, shown
from rknnlite.files.json_text import parse_json
from rknnlite.files.reading import read_bytes, read_yaml
from rknnlite.log import logger

from .heads.head import Head, Task

__all__ = ["COCO", "labels_for", "labels_of_text", "read_labels"]

LabelSource = Union[Sequence[str], str, "os.PathLike[str]"]
_MOST = 4 << 20  # bytes of a file of labels; dictionaries of Chinese have some ten thousand lines
_MOST_YAML = 256 << 10  # it is read slowly
_NAMES = ("names", "labels", "classes")
_PLAIN = (str, int, float)
_YAML = (".yaml", ".yml")

_COCO = """
    person,bicycle,car,motorcycle,airplane,bus,train,truck,boat,traffic light,fire hydrant,stop sign,
    parking meter,bench,bird,cat,dog,horse,sheep,cow,elephant,bear,zebra,giraffe,backpack,umbrella,
    handbag,tie,suitcase,frisbee,skis,snowboard,sports ball,kite,baseball bat,baseball glove,skateboard,
    surfboard,tennis racket,bottle,wine glass,cup,fork,knife,spoon,bowl,banana,apple,sandwich,orange,
    broccoli,carrot,hot dog,pizza,donut,cake,chair,couch,potted plant,bed,dining table,toilet,tv,
    laptop,mouse,remote,keyboard,cell phone,microwave,oven,toaster,sink,refrigerator,book,clock,vase,
    scissors,teddy bear,hair drier,toothbrush
"""
COCO = tuple(name.strip() for name in _COCO.replace(",\n", ",").split(","))
"""The 80 classes of COCO in the order in which detectors number them."""


def labels_for(head: Head, given: Optional[LabelSource], stored: str) -> list[str]:
    """Names for the classes of a head, its own where neither the caller nor the file gives others; empty where it has none.

    Args:
        given: a list, a file, or ``"coco"``; None: those in ``stored``.
        stored: what the author of the model wrote into its file; where it holds labels for another number of classes, it is left
            aside with a line in the log.

    Raises:
        ParamInvalid: the given labels are not as many as there are classes, or cannot be read.
    """
    if given is None:
        labels = labels_of_text(stored)
        if labels and not _fits(head, labels):
            logger.warning(
                "the model file names %d classes, its head has %d: they are numbered",
                len(labels),
                head.classes,
            )
            labels = []
        return labels or list(head.labels)
    if isinstance(given, (str, os.PathLike)):
        labels, whose = read_labels(given), f"{os.fspath(given)} names"
    else:
        labels, whose = [str(label) for label in given], "labels name"
    if not _fits(head, labels):
        blank = ", one of which is the blank" if head.task is Task.READ else ""
        raise ParamInvalid(
            f"{whose} {len(labels)} classes, the model has {head.classes}{blank} ({head.family}); give as many, in the order of "
            "training"
        )
    return labels


def _fits(head: Head, labels: Sequence[str]) -> bool:
    """Of a head that reads one class is the blank, and one may be the space, which may be among the characters or not."""
    left = head.classes - len(labels)
    return not head.classes or left == 0 or (head.task is Task.READ and left in (1, 2))


def read_labels(source: str | os.PathLike[str]) -> list[str]:
    """``"coco"``, or a file: one label per line, or YAML or JSON with ``names`` (a list, or by number). Raises ParamInvalid."""
    if source == "coco":
        return list(COCO)
    path = Path(source)
    try:
        if path.suffix.lower() in _YAML:
            labels = _of_value(_yaml(path))
        else:
            labels = labels_of_text(read_bytes(path, _MOST).decode("utf-8-sig"), lines=True)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ParamInvalid(f"labels {path} cannot be read: {one_line(str(why))}") from None
    if not labels:
        raise ParamInvalid(f"{path} holds no labels; give one per line, or YAML with names:")
    return labels


def labels_of_text(text: str, lines: bool = False) -> list[str]:
    """Labels in a text: JSON (a list, or an object with ``names``, ``labels`` or ``classes``), lines, or words with commas.

    Args:
        lines: it is a file of labels: each line is one, commas belong to it, and blanks at its end do not.

    Examples:
        >>> labels_of_text('{"names": {"0": "cat", "1": "dog"}}')
        ['cat', 'dog']
        >>> labels_of_text("cat, dog")
        ['cat', 'dog']
        >>> labels_of_text("made on a Friday")
        []
    """
    if text.lstrip()[:1] in ("{", "["):
        try:
            return _of_value(parse_json(text))
        except ValueError:
            if not lines:
                return []
            if text.lstrip()[:1] == "{":  # a line may begin with the other one
                raise
    rows = text.replace("\r\n", "\n").split("\n")
    while rows and not rows[-1].strip():
        rows.pop()
    if lines:
        return [row if len(row) == 1 else row.strip() for row in rows]  # a blank is a character, too
    return [row.strip() for row in (rows if len(rows) > 1 else text.split(",") if "," in text else [])]


def _yaml(path: Path) -> Any:
    if path.is_file() and path.stat().st_size > _MOST_YAML:
        raise ValueError(f"it has {path.stat().st_size} bytes, {_MOST_YAML} may be read")
    try:
        return read_yaml(path)
    except (OSError, UnicodeDecodeError):
        raise
    except Exception as error:  # what the reader of YAML raises, and what deep nesting leads to
        raise ValueError(f"it is no YAML: {one_line(str(error))[:200]}") from None


def _of_value(value: Any) -> list[str]:
    """Labels in what a document holds; raises ValueError where there are none."""
    if isinstance(value, Mapping):
        for key in _NAMES:
            if key in value:
                return _of_value(value[key])
        return _by_number(value)
    if isinstance(value, list) and all(isinstance(label, _PLAIN) for label in value):
        return [str(label) for label in value]
    raise ValueError(f"{_told(value)} is no list of labels")


def _told(value: Any) -> str:
    """A list or mapping by its kind alone: aliases of YAML make a few lines of it more text than there is memory."""
    return (
        shown(value, 60) if isinstance(value, _PLAIN) else f"a {type(value).__name__} with other things in it"
    )


def _by_number(value: Mapping[Any, Any]) -> list[str]:
    try:
        numbered = {int(number): label for number, label in value.items()}
    except (OverflowError, TypeError, ValueError):
        raise ValueError(f"there is none of {', '.join(_NAMES)} in it") from None
    if sorted(numbered) != list(range(len(numbered))):
        raise ValueError(f"its {len(numbered)} names are not numbered from 0 to {len(numbered) - 1}")
    return _of_value([numbered[number] for number in range(len(numbered))])
