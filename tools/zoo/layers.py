"""Layer by layer: each layer of ours computes on the simulator's values, and the two results are compared.

The simulator's values are kept by the conversion. An int8 layer that differs is computed once more with the simulator's
roundings (``joined``).
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np
from joined import DECIMALS, Proof, Simulated, half_unit
from numpy.typing import NDArray
from rknnlite_insight.dumps import DumpedTensor, DumpWriter
from stored import Stored

from rknnlite.quant import RANGES
from rknnlite.tensor import DType

Array = NDArray[Any]

__all__ = ["EVEN", "NEAR", "RELATIVE", "Layer", "judge_layers"]

EVEN = 0.999
"""Share of equal values of a layer that counts as the same."""
RELATIVE = 2e-3
"""fp16: largest difference over the largest magnitude."""

NEAR = 0.999
"""Share of a layer's values that have to be within a step of the simulator's."""


@dataclass(frozen=True)
class Layer:
    """One tensor: largest difference in its steps (fp16: of its largest magnitude), shares of equal values
    and of those within a step.

    ``proof``: of one that is not even, how it agrees with the simulator's roundings, where that could be computed.
    """

    op: str
    tensor: str
    error: float
    same: float

    near: float = 1.0
    quantised: bool = True
    proof: Optional[Proof] = None
    size: int = 0

    @property
    def even(self) -> bool:
        """Whether nearly all values are the same."""
        return self.same >= EVEN

    @property
    def proven(self) -> bool:
        """Whether nearly all values are the same once they are rounded where and how the simulator rounds.

        In a small layer: all but one.
        """
        if self.even or self.proof is None:
            return False
        off = 1 - min(self.proof.share, self.proof.integers)
        return off <= 1 - EVEN or 0 < off * self.size < 1.5

    @property
    def fits(self) -> bool:
        """Values are those of the simulator, with its roundings or without, or differ by no more than a step.

        Where nothing is quantised: by 2e-3 of the largest magnitude, or by two units in the last place of float16.
        """
        if not self.quantised:
            return self.error <= RELATIVE or self.proven or self.near >= NEAR
        return self.even or self.proven or self.near >= NEAR

    def __str__(self) -> str:
        told = "" if self.proof is None else f", with its roundings {100 * self.proof.share:7.3f} %"
        return f"{self.op:20} {100 * self.same:7.3f} % equal{told}, largest {self.error:8.3g}  {self.tensor}"


def judge_layers(network: Stored, target: str) -> list[Layer]:
    """Compare every tensor that both have, in order of computation; none where the conversion kept nothing."""
    from answers import simulated
    from rknnlite_cpu.backend import CpuBackend

    from rknnlite.formats import ModelFile
    from rknnlite.spi import OpenOptions

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
        graph = context._shapes.current.plan.graph  # no face of the package offers it
        simulator = Simulated(graph, {name: golden[name] for name in golden.files})
        places = {graph.tensors[i].name: i for node in graph.nodes for i in node.outputs}
        read = {i for node in graph.nodes for i in node.inputs}.union(graph.outputs)
        return [  # what nobody reads is not in the file, nor are its steps
            _layer(t, alone.value(t.name), golden[t.name].reshape(t.shape), simulator, places[t.name])
            for t in known
            if t.role != "input" and places[t.name] in read and simulator.fine(places[t.name])
        ]


def _layer(tensor: DumpedTensor, ours: Array, theirs: Array, simulator: Simulated, place: int) -> Layer:
    unit = tensor.scale or float(np.abs(theirs).max(initial=0)) or 1.0
    difference = np.maximum(np.abs(ours.astype(np.float64) - _bounded(theirs, tensor)) - DECIMALS, 0)
    error = float(difference.max(initial=0)) / unit
    same = float((difference < (0.5 if tensor.scale else 1e-3) * unit).mean())
    near = float((difference < (1.01 * unit if tensor.scale else 2.01 * half_unit(theirs))).mean())
    off = same < EVEN if tensor.scale else error > RELATIVE and near < NEAR
    proof = simulator.prove(place, ours) if off else None
    return Layer(tensor.op, tensor.name, error, same, near, bool(tensor.scale), proof, theirs.size)


def _bounded(values: Array, tensor: DumpedTensor) -> Array:
    """Values of the simulator, which keeps some tensors in float, within the range that the file stores."""
    if tensor.scale is None or tensor.zero_point is None:
        return values
    low, high = RANGES[DType[tensor.dtype]]
    return np.clip(
        values, (low - tensor.zero_point) * tensor.scale, (high - tensor.zero_point) * tensor.scale
    )
