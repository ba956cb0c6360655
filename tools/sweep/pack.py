"""Cases of the cache as archives for the tests: all targets of a case together, or many cases in one archive.

The files of one network differ little from SoC to SoC, and small ones of one SoC are nearly alike, so that together they take a
tenth to a twentieth of their size. An archive holds per case ``case.json`` (how it is judged, attributes of its nodes),
``in0.npy`` and so on, and per target ``<soc>.<dtype>.rknn`` and ``<soc>.<dtype>.out0.npy``: what the simulator answers. In
an archive of several cases these names begin with ``<case>/``. tests/support/swept.py reads both.
"""

from __future__ import annotations

import io
import json
import lzma
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Packed", "pack"]

_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 1 << 26}]


@dataclass(frozen=True)
class Packed:
    """A case: its entry in the index of the cache, and which of its targets are kept, where they are converted."""

    name: str
    folder: Path
    judge: str
    attributes: dict[str, Any]
    targets: Sequence[str]


def pack(cases: Sequence[Packed], archive: Path) -> int:
    """Write an archive; returns its size in bytes."""
    members = [
        (f"{case.name}/{name}" if len(cases) > 1 else name, data)
        for case in cases
        for name, data in _members(case)
    ]
    if len(cases) > 1:  # alike files beside each other
        members.sort(key=lambda member: member[0].partition("/")[::-2])
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)  # no time and no owner: the same cache gives the same bytes
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    packed = lzma.compress(plain.getvalue(), filters=_FILTERS)
    archive.write_bytes(packed)
    return len(packed)


def _members(case: Packed) -> Iterator[tuple[str, bytes]]:
    yield "case.json", json.dumps({"judge": case.judge, "attributes": case.attributes}).encode()
    shared: dict[str, bytes] = {}
    for target in case.targets:
        answers = case.folder / f"{target}.npz"
        if not answers.exists():
            continue
        with np.load(answers) as stored:
            arrays = {key: _npy(stored[key]) for key in stored.files}
        for key, data in arrays.items():
            if key.startswith("out"):
                yield f"{target}.{key}.npy", data
            elif shared.setdefault(key, data) != data:
                raise ValueError(f"{case.name}: {target} has another {key}, inputs are per case")
        yield f"{target}.rknn", (case.folder / f"{target}.rknn").read_bytes()
    for key, data in shared.items():
        yield f"{key}.npy", data


def _npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()
