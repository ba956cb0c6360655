"""Samples of a model's inputs from a folder, or from the list that the converter was calibrated with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid
from rknnlite.files.arrays import read_archive, read_array
from rknnlite.files.input_arrays import arrays_for
from rknnlite.files.reading import read_text
from rknnlite.tensor import TensorAttr

__all__ = ["network_inputs_of", "sample_files", "samples_of"]

Array = NDArray[Any]
_LIST = ".txt"
_LARGE = 1 << 30  # bytes of an array


def sample_files(place: Path) -> list[list[str]]:
    """The files of each sample: of a folder one each, in order of their names; of a converter's list (``dataset.txt``) those of a
    line, from its own folder unless they say another. Raises InputInvalid for none."""
    try:
        if place.is_dir():
            found = [
                [str(path)]
                for path in sorted(place.iterdir())
                if path.is_file() and not path.name.startswith(".")
            ]
        elif place.suffix.lower() == _LIST:
            lines = [line.split() for line in read_text(place).splitlines() if line.strip()]
            found = [[str(place.parent / file) for file in line] for line in lines]
        else:
            found = [[str(place)]]
    except OSError as error:
        raise InputInvalid(f"{place} cannot be read: {error.strerror or error}") from None
    if not found:
        raise InputInvalid(f"{place} has no files; put pictures or .npy files there")
    return found


def samples_of(place: Path, attrs: Sequence[TensorAttr], bgr: bool) -> list[list[Array]]:
    """Arrays for the inputs of each sample; raises InputInvalid, BackendUnavailable (pictures need Pillow or OpenCV)."""
    return [arrays_for(files, attrs, bgr) for files in sample_files(place)]


def network_inputs_of(place: Path, names: Sequence[str]) -> list[Mapping[str, Array]]:
    """What the network got, by the names of its inputs: a ``.npy`` for each sample of a network with one input, an ``.npz`` for
    others. Raises InputInvalid."""
    found: list[Mapping[str, Array]] = []
    for files in sample_files(place):
        path = Path(files[0])
        try:
            archive = path.suffix.lower() == ".npz"
            given = (
                read_archive(path, lambda all_of: all_of, _LARGE) if archive else {names[0]: read_array(path)}
            )
        except (OSError, ValueError) as error:
            raise InputInvalid(f"{path} is no .npy or .npz file of numbers: {error}") from None
        if sorted(given) != sorted(names):
            raise InputInvalid(
                f"{path} has {', '.join(sorted(given))}; the network's inputs are {', '.join(names)}"
            )
        found.append({name: np.asarray(value) for name, value in given.items()})
    return found
