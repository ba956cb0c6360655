"""A network's folder as the sweep's converter takes it: a case with a name, a model, sources and options."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Stored", "networks_in", "targets_of"]


@dataclass(frozen=True)
class Stored:
    """An exported network."""

    folder: Path

    @property
    def name(self) -> str:
        """The folder is called like the network."""
        return self.folder.name

    @property
    def facts(self) -> dict[str, Any]:
        """What the export noted down."""
        found: dict[str, Any] = json.loads((self.folder / "zoo.json").read_text())
        return found

    @property
    def config(self) -> dict[str, Any]:
        """Options of the converter."""
        options: dict[str, Any] = self.facts["config"]
        return options

    @property
    def calibrations(self) -> int:
        """Sets of inputs that the converter calibrates with."""
        return int(self.facts.get("calibrations", 6))

    @property
    def many(self) -> int:
        """Further sets of inputs that the simulator answers."""
        return int(self.facts.get("many", 0))

    @property
    def calibrated(self) -> bool:
        """All are exported in float."""
        return True

    def make(self) -> Any:
        """The ONNX model."""
        import onnx

        return onnx.load(str(self.folder / "model.onnx"))

    def draw(self, purpose: str) -> list[Any]:
        """Inputs in the shapes of the ONNX file."""
        with np.load(self.folder / "samples.npz") as stored:
            return [stored[f"{purpose}_{i}"] for i in range(len(self.facts["inputs"]))]


def targets_of(name: str, targets: tuple[str, ...]) -> list[str]:
    """Each network is converted for RK3588, about each third one (fixed by its name) for all SoCs, in int8 and float16."""
    chosen = [t for t in targets if t.startswith("rk3588.") or zlib.crc32(name.encode()) % 3 == 0]
    return [t for t in chosen if t.endswith((".i8", ".fp16"))]


def networks_in(cache: Path) -> list[Stored]:
    """All exported networks, by name."""
    return [Stored(path.parent) for path in sorted(cache.glob("*/zoo.json"))]
