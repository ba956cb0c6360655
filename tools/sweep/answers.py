"""One converted model: the simulator's answers and ours."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_cpu.backend import CpuBackend

from rknnlite.formats import ModelFile
from rknnlite.spi import OpenOptions

__all__ = ["ABSENT", "ComparedOutput", "answers", "simulated"]

ABSENT = re.compile(r"does not store the attributes of (\w+)")
"""In the message of a refusal: the node type whose attributes would have to be given."""


@dataclass(frozen=True)
class ComparedOutput:
    """One output: ours, the simulator's, and the quantisation step (None for floating and integer outputs)."""

    ours: NDArray[Any]
    simulator: NDArray[Any]
    step: Optional[float]


def simulated(path: Path) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
    """Inputs and outputs that a conversion stored."""
    with np.load(path) as stored:
        inputs = [stored[f"in{i}"] for i in range(sum(name.startswith("in") for name in stored.files))]
        return inputs, [
            stored[f"out{i}"] for i in range(sum(name.startswith("out") for name in stored.files))
        ]


def answers(stem: Path, told: Mapping[str, Any]) -> list[ComparedOutput]:
    """Run ``stem``.rknn on the inputs of ``stem``.npz; ``told``: attributes that the file does not store."""
    inputs, wanted = simulated(Path(f"{stem}.npz"))
    with CpuBackend().open(ModelFile(f"{stem}.rknn"), OpenOptions(extra={"attributes": told})) as context:
        found = context.infer(inputs)
        steps = [a.quant.scale if a.quant and not a.dtype.is_float else None for a in context.outputs]
    return [ComparedOutput(*parts) for parts in zip(found, wanted, steps, strict=True)]
