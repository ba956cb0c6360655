"""A weight file whose matrices come from two others, without packing anything again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from rknnlite.formats import ModelFile

from ..container.description import AUTO
from ..container.safetensors import SafeTensors, filling

__all__ = ["assembled"]

_ID = 32


def assembled(path: Path, sources: Sequence[Path], second: Mapping[str, bool]) -> str:
    """Write ``path``; ``second`` tells by name which matrices come from the second file. The identity of what was written."""
    files = [SafeTensors(ModelFile(source).data, str(source)) for source in sources]
    origin = {name: files[second.get(name.removesuffix(".scale"), False)] for name in files[0].names}
    shapes = {name: (file.dtype(name), file[name].shape) for name, file in origin.items()}
    digest = hashlib.sha256()
    with filling(path, shapes, {"format": "rknnlite-llm-1", "package": "0" * _ID, "weights": AUTO}) as out:
        for name, file in origin.items():
            digest.update(f"{name} {shapes[name]}".encode())
            digest.update(file[name].data)
            out.add(name, file[name])
        package_id = digest.hexdigest()[:_ID]
        out.end(package=package_id)
    return package_id
