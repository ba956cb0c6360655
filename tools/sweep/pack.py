"""Cases of the cache as archives for ``tests/data/swept``: one per case, all of its targets together.

The files of one network differ little from SoC to SoC, so that together they take a tenth of their size. An archive
``<case>.tar.xz`` holds ``case.json`` (how it is judged, attributes of its nodes), ``in0.npy`` and so on, and per
target ``<soc>.<dtype>.rknn`` and ``<soc>.<dtype>.out0.npy``: what the simulator answers.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["pack"]


def pack(folder: Path, name: str, entry: Mapping[str, Any], targets: Sequence[str], out: Path) -> int:
    """Write the archive of one case from its converted ``targets``; returns its size in bytes."""
    archive = out / f"{name}.tar.xz"
    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for member, data in _members(folder, entry, targets):
            info = tarfile.TarInfo(member)  # no time and no owner: the same cache gives the same bytes
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return archive.stat().st_size


def _members(folder: Path, entry: Mapping[str, Any], targets: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    yield "case.json", json.dumps({key: entry[key] for key in ("judge", "attributes")}).encode()
    shared: dict[str, bytes] = {}
    for target in targets:
        answers = folder / f"{target}.npz"
        if not answers.exists():
            continue
        with np.load(answers) as stored:
            arrays = {key: _npy(stored[key]) for key in stored.files}
        for key, data in arrays.items():
            if key.startswith("out"):
                yield f"{target}.{key}.npy", data
            elif shared.setdefault(key, data) != data:
                raise ValueError(f"{folder.name}: {target} has another {key}, inputs are per case")
        yield f"{target}.rknn", (folder / f"{target}.rknn").read_bytes()
    for key, data in shared.items():
        yield f"{key}.npy", data


def _npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()
