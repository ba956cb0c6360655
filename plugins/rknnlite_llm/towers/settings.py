"""``PREFIX.vision.json``: what a picture must be made into for the tower beside it, and which tokens it takes the place of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from rknnlite.errors import ModelInvalid, shown
from rknnlite.files.json_text import parse_json
from rknnlite.files.reading import read_text
from rknnlite.files.writing import write_text

__all__ = ["FORMS", "VisionSettings", "vision_path"]

FORMS = ("patches", "pixels")
"""What goes into a tower: rows of patches, as the vendor's pruned encoders take them, or a picture of four dimensions."""
_MOST = 1 << 14


@dataclass(frozen=True)
class VisionSettings:
    """Sizes in pixels; ``mean`` and ``std`` for values from 0 to 1; ``tokens`` of one picture; ``deepstack`` further outputs.

    ``start``, ``end``, ``image`` and ``video`` are texts of markers; rows go in the places of the last two.
    ``min_pixels`` and ``max_pixels`` are what the model's own processor keeps pictures within; the tower here has one size.
    """

    model_type: str
    form: str
    height: int
    width: int
    patch: int
    frames: int
    merge: int
    tokens: int
    deepstack: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    min_pixels: int
    max_pixels: int
    start: str
    end: str
    image: str
    video: str

    def write(self, path: Path) -> None:
        """Write the file."""
        write_text(path, json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, path: Path) -> VisionSettings:
        """Read a file; raises ModelInvalid for one that is damaged, OSError where there is none."""
        try:
            value = parse_json(read_text(path))
        except ValueError as error:
            raise ModelInvalid(f"{path}: {error}") from None
        if not isinstance(value, Mapping):
            raise ModelInvalid(f"{path}: no JSON object")
        return cls(
            **{field.name: _checked(path, field.name, str(field.type), value) for field in fields(cls)}
        )


def _checked(path: Path, name: str, kind: str, value: Mapping[str, Any]) -> Any:
    """One entry; raises ModelInvalid."""
    found = value.get(name)
    good = kind == "str" and isinstance(found, str) and (name != "form" or found in FORMS)
    if kind == "int":
        most = _MOST if "pixels" not in name else 1 << 40
        good = (
            type(found) is int
            and (name in ("deepstack", "min_pixels", "max_pixels") or found > 0)
            and 0 <= found <= most
        )
    if kind.startswith("tuple"):
        numbers: list[Any] = found if isinstance(found, list) and len(found) == 3 else [None]
        if all(type(one) in (int, float) and abs(one) < 1e6 for one in numbers) and (
            name != "std" or all(numbers)
        ):
            return tuple(float(one) for one in numbers)
    if not good:
        raise ModelInvalid(f"{path}: {name} is {shown(found)}")
    return found


def vision_path(prefix: str | Path, kind: str) -> Path:
    """A file of the tower of a package: ``PREFIX.vision.KIND``, also for ``PREFIX.rknn``."""
    text = str(prefix)
    return Path(f"{text[: -len('.rknn')] if text.endswith('.rknn') else text}.vision.{kind}")
