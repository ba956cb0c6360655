"""How strongly a network amplifies single rounding steps, beside its distance from the vendor's simulator.

    python benchmarks/sensitivity.py MODEL.rknn ... [--rate 0.001]

After every quantised convolution one value in 1,000 (``--rate``) moves by one step: most layers computed from the
file differ from the simulator's less often, some ten times as often (docs/fidelity.md). If the outputs move as far as they are from the
simulator's (``<model>.npz`` beside the file), rounding explains the whole distance.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from agreement import compare
from numpy.typing import NDArray
from rknnlite_cpu.input_conversion import InputFeed
from rknnlite_cpu.plan import ExecutionPlan
from rknnlite_cpu.values import Kernel, decode
from rknnlite_graph.read import read_graph

from rknnlite.formats import ModelFile
from rknnlite.spi import Input

Array = NDArray[Any]


def disturbed(kernel: Kernel, rate: float, rng: np.random.Generator) -> Kernel:
    """The kernel with a share ``rate`` of its first result moved by one step up or down."""

    def run(values: list[Array]) -> list[Array]:
        first, *others = kernel(values)
        step = rng.choice(np.array([-1, 1], np.float32), first.shape)
        return [np.where(rng.random(first.shape) < rate, first + step, first), *others]

    return run


def outputs(plan: ExecutionPlan, feeds: dict[int, Array]) -> list[Array]:
    """Real values of all outputs."""
    values = plan.run(feeds)
    return [decode(values[i], plan.graph.tensors[i]) for i in plan.graph.outputs]


def measure(path: Path, rate: float) -> None:
    """Print both distances for every output."""
    model = ModelFile(path).model
    graph = read_graph(model)
    plan = ExecutionPlan(graph, path.name)
    with np.load(path.with_suffix(".npz")) as golden:
        arrays = [golden[f"in{i}"] for i in range(len(graph.inputs))]
        theirs = [
            golden[f"out{i}"].reshape(graph.tensors[index].shape) for i, index in enumerate(graph.outputs)
        ]
    feeds = {
        index: InputFeed(io, graph.tensors[index], 1).values(Input(number, array))[0]
        for number, (io, index, array) in enumerate(zip(model.inputs, graph.inputs, arrays))
    }
    ours = outputs(plan, feeds)
    rng = np.random.default_rng(0)
    for step in plan.steps:
        if step.node.conv is not None and graph.tensors[step.targets[0]].quant is not None:
            step.kernel = disturbed(step.kernel, rate, rng)
    moved = outputs(plan, feeds)
    for number, index in enumerate(graph.outputs):
        quant = graph.tensors[index].quant
        scale = quant.scale if quant else None
        print(f"{path.stem} output {number}")
        print(f"  from the simulator: {compare(ours[number], theirs[number], scale)}")
        print(f"  when disturbed:     {compare(ours[number], moved[number], scale)}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--rate", type=float, default=0.001)
    args = parser.parse_args()
    for path in args.models:
        measure(path, args.rate)


if __name__ == "__main__":
    main()
