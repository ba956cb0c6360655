"""Golden outputs: what a test stored once, and how far outputs are from it, in steps of the integers or in real numbers."""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np
import pytest
from numpy.typing import NDArray

from rknnlite import RawOutput
from rknnlite.files.arrays import read_archive
from rknnlite.files.reading import open_file
from rknnlite.files.writing import write_file

__all__ = ["Golden", "GoldenInvalid", "Stored", "differences", "file_stem", "read", "write"]

Array = NDArray[Any]
Outputs = Union[Array, RawOutput, Sequence[Any], Mapping[str, Any]]
_KINDS = "biuf"  # bool, signed, unsigned, float
_LONGEST = 120
_AGAIN = "pytest --rknn-update-golden"


class GoldenInvalid(ValueError):
    """A golden file that cannot be used; the text names it and says why."""


@dataclass(frozen=True)
class Stored:
    """One output: its elements, its name where it has one, and what an integer stands for where that is known."""

    data: Array
    name: str = ""
    scale: Optional[float] = None
    zero_point: int = 0


class Golden:
    """The golden outputs of one test; a call compares, or stores when the session was told to.

    Files lie in the folder ``golden`` beside the test, ``MODULE.TEST.npz`` or ``MODULE.TEST.NAME.npz``.
    """

    def __init__(self, stem: Path, update: bool) -> None:
        self._stem = stem
        self._update = update
        self._names: set[str] = set()

    def __call__(
        self, outputs: Outputs, *, name: str = "", steps: int = 0, rtol: float = 0.0, atol: float = 0.0
    ) -> None:
        """Fail the test unless all outputs are as stored.

        Args:
            outputs: of ``context.infer(..., raw=True)``, of ``RKNNLite.inference``, one array, or ``{name: array}``.
            name: tells several calls in one test apart.
            steps: how many steps (LSB) an integer may be off; 0: none.
            rtol, atol: how far a real number may be off, ``atol + rtol * |stored|``; 0: not at all. NaN equals NaN.
        """
        __tracebackhide__ = True
        path = self._path(name)
        if outputs is None:
            pytest.fail("there are no outputs: the inference failed, the log says why")
        found = _as_stored(outputs)
        if self._update:
            if _wrong(path, found):  # a file that is right keeps its bytes
                path.parent.mkdir(parents=True, exist_ok=True)
                write(path, found)
            return
        wrong = _wrong(path, found, steps, rtol, atol)
        if wrong:
            pytest.fail("\n".join([f"{path}:", *wrong, f"({_AGAIN} stores what the outputs are now)"]))

    def _path(self, name: str) -> Path:
        if name in self._names:
            raise ValueError(
                f"rknn_golden was called twice with name={name!r} in one test; give each call its own"
            )
        self._names.add(name)
        ending = f".{file_stem(name, '')}" if name else ""
        return self._stem.with_name(f"{self._stem.name}{ending}.npz")


def file_stem(module: str, test: str) -> str:
    """``test_a``, ``TestB::test_c[x]`` -> ``test_a.TestB.test_c-x``; what no file name takes goes, and a hash tells it apart."""
    plain = re.sub(r"\[(.*)\]$", r"-\1", test, flags=re.DOTALL).replace("::", ".")
    whole = f"{module}.{plain}" if plain else module
    safe = re.sub(r"[^A-Za-z0-9_.+-]+", "_", whole)[:_LONGEST]
    return (
        safe
        if safe == whole
        else f"{safe}-{hashlib.sha256(whole.encode('utf-8', 'replace')).hexdigest()[:8]}"
    )


def _wrong(path: Path, found: Sequence[Stored], *limits: Any) -> list[str]:
    """What keeps outputs from being those of the file, a line each; an empty list where nothing does."""
    if not path.exists():
        return ["  there is no such file: no outputs were stored yet"]
    try:
        return differences(read(path), found, *limits)
    except GoldenInvalid as error:
        return [f"  {error}"]


def _as_stored(outputs: Outputs) -> list[Stored]:
    """Outputs in any of the forms that a test may have them in."""
    if isinstance(outputs, Mapping):
        return [_one(value, str(key)) for key, value in outputs.items()]
    if isinstance(outputs, (np.ndarray, RawOutput)):
        return [_one(outputs)]
    return [_one(value) for value in outputs]


def _one(value: Any, name: str = "") -> Stored:
    raw = isinstance(value, RawOutput)
    data = np.ascontiguousarray(value.data if raw else value)
    if data.dtype.kind not in _KINDS:
        raise TypeError(f"an output of {data.dtype} cannot be stored; outputs are arrays of numbers")
    if raw and data.dtype.kind in "iu":
        return Stored(data, name, float(value.scale), int(value.zero_point))
    return Stored(data, name)


# -- comparing ---------------------------------------------------------------------------------------------


def differences(
    stored: Sequence[Stored], found: Sequence[Stored], steps: int = 0, rtol: float = 0.0, atol: float = 0.0
) -> list[str]:
    """One line per output that is off, empty when none is."""
    if len(stored) != len(found):
        return [f"  {len(found)} outputs here, {len(stored)} stored"]
    lines = []
    for index, (old, new) in enumerate(zip(stored, found)):
        line = _difference(old, new, steps, rtol, atol)
        if line:
            label = f"output {index}" + (f" {new.name!r}" if new.name else "")
            lines.append(f"  {label} {new.data.dtype} {list(new.data.shape)}: {line}")
    return lines


def _difference(old: Stored, new: Stored, steps: int, rtol: float, atol: float) -> str:
    if old.name != new.name:
        return f"it is named {new.name!r} here, {old.name!r} in the file"
    if (old.data.dtype, old.data.shape) != (new.data.dtype, new.data.shape):
        return f"{old.data.dtype} {list(old.data.shape)} is stored"
    if (old.scale, old.zero_point) != (new.scale, new.zero_point):
        return (
            f"scale {new.scale} and zero point {new.zero_point} here, {old.scale} and {old.zero_point} stored: "
            "the model was converted anew"
        )
    if new.data.dtype.kind == "f":
        return _real_difference(old.data, new.data, rtol, atol)
    return _step_difference(old, new, steps)


def _step_difference(old: Stored, new: Stored, steps: int) -> str:
    """Integers; int64 and uint64 are subtracted as Python's numbers, which know no end."""
    wide = new.data.dtype.itemsize == 8
    kind: Any = object if wide else np.int64
    off = abs(new.data.astype(kind) - old.data.astype(kind))
    beyond = np.asarray(off > steps, bool)
    if not beyond.any():
        return ""
    place = np.unravel_index(int(np.argmax(off)), off.shape)
    worst = int(off[place])
    real = f" ({worst * new.scale:g} in real numbers)" if new.scale is not None else ""
    allowed = (
        f"; {_counted(steps, 'step')} allowed, {int(np.asarray(off != 0, bool).sum())} values differ at all"
        * (steps > 0)
    )
    return (
        f"{int(beyond.sum())} of {off.size} values are off, by {_counted(worst, 'step')} at most{real}, "
        f"at {_index(place)}: {new.data[place]} here, {old.data[place]} stored{allowed}"
    )


def _real_difference(old: Array, new: Array, rtol: float, atol: float) -> str:
    a, b = old.astype(np.float64), new.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        off = np.abs(b - a)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        beyond = ~(same | (np.isfinite(a) & (off <= atol + rtol * np.abs(a))))
    if not beyond.any():
        return ""
    rank = np.where(beyond, np.where(np.isnan(off), np.inf, off), -1.0)
    place = np.unravel_index(int(np.argmax(rank)), rank.shape)
    return (
        f"{int(beyond.sum())} of {off.size} values are off by more than {atol:g} + {rtol:g} * |stored|, by {rank[place]:g} "
        f"at most, at {_index(place)}: {new[place]:g} here, {old[place]:g} stored"
    )


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" + "s" * (count != 1)


def _index(place: Sequence[Any]) -> list[int]:
    return [int(i) for i in place]


# -- files -------------------------------------------------------------------------------------------------


def write(path: Path, outputs: Sequence[Stored]) -> None:
    """Store outputs; the same ones give the same bytes."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        for index, output in enumerate(outputs):
            _add(archive, f"{index}.data", output.data)
            if output.name:
                _add(archive, f"{index}.name", np.frombuffer(output.name.encode("utf-8"), np.uint8))
            if output.scale is not None:
                _add(archive, f"{index}.quant", np.array([output.scale, output.zero_point], np.float64))
    write_file(path, content.getvalue())


def _add(archive: zipfile.ZipFile, name: str, array: Array) -> None:
    member = io.BytesIO()
    np.lib.format.write_array(member, array, allow_pickle=False)
    archive.writestr(zipfile.ZipInfo(f"{name}.npy"), member.getvalue())  # a ZipInfo has no time of its own


def read(path: Path) -> list[Stored]:
    """The outputs of a golden file, which may come from anybody: nothing in it is run, and it takes no more than its size.

    Raises:
        GoldenInvalid: no such file, or damaged.
    """
    try:
        with open_file(path) as file:
            size = file.seek(0, io.SEEK_END)
            with zipfile.ZipFile(file) as archive:
                if sum(member.file_size for member in archive.infolist()) > size:
                    raise GoldenInvalid("the golden file is compressed; store it again")
        arrays = read_archive(path, lambda names: names, size)
        return [_output(arrays, index) for index in range(sum(name.endswith(".data") for name in arrays))]
    except GoldenInvalid:
        raise
    except OSError as error:
        raise GoldenInvalid(f"the golden file cannot be read: {error.strerror or error}") from None
    except Exception as error:  # zipfile and numpy raise whatever a damaged file makes them stumble over
        raise GoldenInvalid(f"no golden file of numbers: {type(error).__name__}: {error}") from None


def _output(arrays: Mapping[str, NDArray[Any]], index: int) -> Stored:
    data = arrays[f"{index}.data"]
    if data.dtype.kind not in _KINDS:
        raise GoldenInvalid(f"no golden file of numbers: output {index} has {data.dtype}")
    name = arrays[f"{index}.name"].tobytes().decode("utf-8") if f"{index}.name" in arrays else ""
    if f"{index}.quant" not in arrays:
        return Stored(data, name)
    scale, zero_point = arrays[f"{index}.quant"].tolist()
    return Stored(data, name, scale, int(zero_point))
