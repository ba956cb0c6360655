"""Layer by layer: each layer of ours computes on the simulator's values, and the two results are compared.

``analyse`` keeps what the toolkit's accuracy analysis tells of the simulator; ``judge_layers`` reads it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stored import Stored

__all__ = ["Layer", "analyse", "judge_layers"]


@dataclass(frozen=True)
class Layer:
    """One tensor: largest difference in its steps (fp16: of its largest magnitude), share of equal values."""

    op: str
    tensor: str
    error: float
    same: float

    def __str__(self) -> str:
        return f"{self.op:20} {100 * self.same:7.3f} % equal, largest {self.error:8.3g}  {self.tensor}"


def _tensors(network: Stored, target: str) -> Path:
    return network.folder / f"{target}.layers.npz"


def analyse(network: Stored, target: str) -> None:
    """Keep the simulator's value of every tensor beside the conversion (toolkit's environment)."""
    from convert import Job, built
    from rknn.api import RKNN

    folder = Path(tempfile.mkdtemp())
    os.chdir(folder)
    try:
        rknn = built(RKNN, Job(network, target, network.folder / target), folder)
        paths = [str(folder / f"run{i}.npy") for i in range(len(network.facts["inputs"]))]
        for path, array in zip(paths, network.draw("run"), strict=True):
            np.save(path, array)
        if rknn.accuracy_analysis(inputs=paths, output_dir=str(folder / "out")) != 0:
            raise RuntimeError("the toolkit refused accuracy_analysis")
        np.savez_compressed(_tensors(network, target), **dict(_read(folder / "out")))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _read(folder: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    """(tensor's name, flat values) of what the analysis wrote."""
    for line in (folder / "map_name_to_file.txt").read_text().splitlines():
        name, _, file = line.strip().rpartition(" ")
        path = folder / "simulator" / Path(file).name
        if path.is_file():
            yield name.strip(), np.loadtxt(path, dtype=np.float32, ndmin=1)


def judge_layers(network: Stored, target: str) -> list[Layer]:
    """Compare every tensor that both have, in order of computation."""
    from answers import simulated
    from rknnlite_cpu.backend import CpuBackend

    from rknnlite.formats import ModelFile
    from rknnlite.spi import OpenOptions
    from rknnlite.spi.dumps import DumpWriter

    stem = network.folder / target
    with (
        tempfile.TemporaryDirectory() as name,
        np.load(_tensors(network, target)) as golden,
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
    return Layer(op, name, float(difference.max(initial=0)) / unit, float(same.mean()))
