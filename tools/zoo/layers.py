"""Layer by layer: each layer of ours computes on the simulator's values, and the two results are compared.

The simulator's values are kept by the conversion.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stored import Stored

__all__ = ["NEAR", "Layer", "judge_layers"]


NEAR = 0.999
"""Share of a layer's values that have to be within a step of the simulator's."""


@dataclass(frozen=True)
class Layer:
    """One tensor: largest difference in its steps (fp16: of its largest magnitude), shares of equal values
    and of those within a step."""

    op: str
    tensor: str
    error: float
    same: float

    near: float = 1.0
    quantised: bool = True

    @property
    def fits(self) -> bool:
        """Values differ by no more than a step, but for those that the simulator cuts off between two joined layers.

        Where nothing is quantised, by 2e-3 of the largest magnitude.
        """
        return self.near >= NEAR if self.quantised else self.error <= 2e-3

    def __str__(self) -> str:
        return f"{self.op:20} {100 * self.same:7.3f} % equal, largest {self.error:8.3g}  {self.tensor}"


def judge_layers(network: Stored, target: str) -> list[Layer]:
    """Compare every tensor that both have, in order of computation; none where the conversion kept nothing."""
    from answers import simulated
    from rknnlite_cpu.backend import CpuBackend

    from rknnlite.formats import ModelFile
    from rknnlite.spi import OpenOptions
    from rknnlite.spi.dumps import DumpWriter

    stem = network.folder / target
    if not Path(f"{stem}.layers.npz").exists():
        return []
    with (
        tempfile.TemporaryDirectory() as name,
        np.load(f"{stem}.layers.npz") as golden,
        CpuBackend().open(ModelFile(f"{stem}.rknn"), OpenOptions()) as context,
    ):
        context.infer(simulated(Path(f"{stem}.npz"))[0])
        ours = context.dump(Path(name) / "ours")
        writer = DumpWriter(Path(name) / "golden", model=network.name)
        known = [
            t for t in ours.tensors if t.name in golden.files and golden[t.name].size == np.prod(t.shape)
        ]
        for tensor in known:
            writer.add(tensor.name, golden[tensor.name].reshape(tensor.shape), dtype="float32")
        alone = context.dump(Path(name) / "alone", golden=writer.close())
        return [
            _layer(t.op, t.name, t.scale, alone.value(t.name), golden[t.name].reshape(t.shape))
            for t in known
            if t.role != "input"
        ]


def _layer(op: str, name: str, scale: float | None, ours: NDArray[Any], theirs: NDArray[Any]) -> Layer:
    difference = np.abs(ours.astype(np.float64) - theirs)
    unit = scale or float(np.abs(theirs).max(initial=0)) or 1.0
    same = difference < (0.5 if scale else 1e-3) * unit
    near = float((difference < 1.01 * unit).mean())
    return Layer(op, name, float(difference.max(initial=0)) / unit, float(same.mean()), near, bool(scale))
