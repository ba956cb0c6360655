"""What comparisons of models with the CPU found on a device, kept until kernel, driver, chip, file or this package changes.

A comparison that is begun leaves a note, which goes when it has ended in whatever way. A note that is found tells that the program
or the machine went down in it: the model is left alone then unless it is asked for by name.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Optional

from rknnlite_programs.buildcache import cache_dir, make_private

from rknnlite._version import __version__
from rknnlite.errors import ParamInvalid, RknnError
from rknnlite.files.json_text import parse_json
from rknnlite.files.reading import read_text
from rknnlite.files.writing import write_text
from rknnlite.formats import ModelFile
from rknnlite.log import logger

__all__ = ["Record", "Verdict", "device_key", "verdicts_on"]

_FORMAT = 2


@dataclass(frozen=True)
class Verdict:
    """What a comparison found.

    Attributes:
        device: kernel, driver and chip, as ``device_key`` has them.
        model: what the file is called.
        layers: how many were compared; ``equal``: how many of them were the same to the last bit.
        difference: the first layer that differs, and how; empty where none does.
    """

    device: str
    model: str
    layers: int
    equal: int
    difference: str = ""

    @property
    def agrees(self) -> bool:
        """Whether all layers are as near as they have to be."""
        return not self.difference

    def __str__(self) -> str:
        if self.agrees:
            return f"{self.layers} layers agree with the chip's arithmetic, {self.equal} to the last bit, on {self.device}"
        return f"on {self.device} {self.difference}"


def device_key(driver: str, soc: str) -> str:
    """What a verdict holds for."""
    return f"Linux {os.uname().release}, {driver}, {soc}"


def _folder() -> Path:
    return cache_dir() / "npu-verdicts"


class Record:
    """What is kept of one file on one ``device``."""

    def __init__(self, file: ModelFile, device: str) -> None:
        """``device``: see ``device_key``."""
        self._file, self.device = file, device
        words = f"{_FORMAT} {__version__}\n{device}\n".encode()
        self._name = hashlib.sha256(words + hashlib.sha256(file.data).digest()).hexdigest()

    @property
    def _place(self) -> Path:
        return _folder() / f"{self._name}.json"

    @property
    def _note(self) -> Path:
        return _folder() / f"{self._name}.begun"

    def verdict(self) -> Optional[Verdict]:
        """What was found before; None where nothing was, or what is kept is damaged."""
        found = _read(self._place)
        return found if found is not None and found.device == self.device else None

    @property
    def broke_off(self) -> bool:
        """Whether the last comparison ended with the program or the machine, or is being made just now."""
        with contextlib.suppress(OSError):
            return self._note.exists()
        return False

    def keep(self, verdict: Verdict) -> None:
        """For all programs to come; where that cannot be done it is told."""
        self._write(self._place, json.dumps({"format": _FORMAT, **asdict(verdict)}))

    def _write(self, place: Path, text: str) -> None:
        try:
            make_private(place.parent)
            write_text(place, text)
        except (OSError, ParamInvalid) as error:
            logger.warning(
                "%s: what a comparison on the NPU finds cannot be kept (%s); the next program makes it again",
                self._file.label, error,
            )  # fmt: skip

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """One program at a time compares; others wait for what it finds."""
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError, ParamInvalid):  # then each for itself
                make_private(_folder())
                door = os.open(_folder(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                stack.callback(os.close, door)
                fcntl.flock(door, fcntl.LOCK_EX)
            yield

    @contextlib.contextmanager
    def begun(self) -> Iterator[None]:
        """A comparison goes on; the note lasts through a loss of power."""
        self._write(self._note, self.device)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                self._note.unlink(missing_ok=True)


def verdicts_on(device: str) -> list[Verdict]:
    """All that is kept of a device."""
    try:
        places = sorted(_folder().glob("*.json"))
    except (OSError, RknnError):
        return []
    found = (_read(place) for place in places)
    return [verdict for verdict in found if verdict is not None and verdict.device == device]


def _read(place: Path) -> Optional[Verdict]:
    """None for what is damaged, or was written by another version."""
    try:
        found: dict[str, Any] = parse_json(read_text(place))
        if found.pop("format") != _FORMAT or found.keys() != {field.name for field in fields(Verdict)}:
            return None
        verdict = Verdict(**found)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RknnError):
        return None
    texts = (verdict.device, verdict.model, verdict.difference)
    counts = (verdict.layers, verdict.equal)
    whole = all(type(text) is str for text in texts) and all(type(count) is int for count in counts)
    return verdict if whole and (verdict.difference or 0 <= verdict.equal <= verdict.layers > 0) else None
