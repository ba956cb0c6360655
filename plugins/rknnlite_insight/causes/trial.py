"""A model opened for trials: as the simulator, each layer alone, in float, and in float with some tensors rounded."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from rknnlite_graph.graph import Graph
from rknnlite_graph.read import told_graph

from rknnlite.errors import ParamInvalid
from rknnlite.formats import IoTensor, ModelFile
from rknnlite.runtime import known_ops, open_model
from rknnlite.spi import Context, CustomOp
from rknnlite.spi.inputs import collect
from rknnlite.tensor import Layout

from ..compared_run import normalised
from ..dumps import Dump
from ..onnx_run import dump_onnx
from ..stored_values import limits_of, stored_values
from .edge import Edge, relative

__all__ = ["Sample", "Trial"]

Array = NDArray[Any]


@dataclass
class Sample:
    """Inputs of one run, as for ``Context.infer``, and what the network in ONNX gets for them, where somebody knows.

    ``golden`` are the reference's tensors, ``weights`` what the weights of the file take from them, layer by layer.
    """

    inputs: list[Array]
    network: Optional[Mapping[str, Array]] = None
    golden: dict[str, Array] = field(default_factory=dict)
    weights: Optional[Dump] = None


class Trial:
    """Opened for as long as the block lasts; everything that runs write is deleted with it."""

    def __init__(
        self,
        model: Path,
        reference: Path,
        layout: Optional[str],
        ops: Sequence[CustomOp],
        options: Mapping[str, Any],
    ) -> None:
        self._stack = ExitStack()
        with ExitStack() as stack:
            self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rknnlite-cause-")))
            file = ModelFile(model)
            how = {**options, "backend": "cpu", "custom_ops": ops}
            self.plain: Context = stack.enter_context(open_model(file, **{**how, "fidelity": "simulator"}))
            self.real: Context = stack.enter_context(open_model(file, **{**how, "fidelity": "float"}))
            self.other: Optional[Context] = None
            if reference.suffix.lower() != ".onnx":
                self.other = stack.enter_context(open_model(ModelFile(reference), **how))
            self._stack = stack.pop_all()
        self.graph: Graph = told_graph(file.model)
        self.ins: list[IoTensor] = file.model.inputs
        self.reference, self._layout, self._ops = reference, layout, list(ops)
        self._count = 0
        if file.model.batch > 1:
            raise ParamInvalid(f"{model} computes {file.model.batch} items at once; give it without a batch")

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def golden(self, sample: Sample) -> Dump:
        """The reference's run."""
        if self.other is not None:
            return self._dump(self.other, sample)
        return self.of_network(sample.network or self.network_inputs(sample))

    def of_network(self, feeds: Mapping[str, Array]) -> Dump:
        """The network in ONNX on real values."""
        return dump_onnx(self.reference, feeds, self._new(), known_ops(self._ops), lambda name: None)

    def network_inputs(self, sample: Sample) -> dict[str, Array]:
        """What the file's mean, deviation and order make of a sample."""
        items = collect(sample.inputs, self.plain.inputs, self._layout, False, shapes=self.plain.shapes)
        return {io.name: normalised(item, io) for io, item in zip(self.ins, items)}

    def pixels(self, sample: Sample) -> Array:
        """The first input as it is given, NCHW."""
        item = collect(sample.inputs, self.plain.inputs, self._layout, False, shapes=self.plain.shapes)[0]
        data = item.data
        return data.transpose(0, 3, 1, 2) if item.layout is not Layout.NCHW else data

    def simulate(self, sample: Sample) -> Dump:
        """A whole run as the simulator computes it."""
        return self._dump(self.plain, sample)

    def alone(self, sample: Sample, golden: Dump) -> Dump:
        """Each layer on the reference's values."""
        return self._dump(self.plain, sample, golden=golden)

    def alone_in_float(self, sample: Sample, golden: Dump) -> Dump:
        """The same with nothing rounded but the weights."""
        return self._dump(self.real, sample, golden=golden)

    def drop(self, dump: Dump) -> None:
        """Delete a run."""
        shutil.rmtree(dump.folder, ignore_errors=True)

    def rounded(
        self,
        samples: Sequence[Sample],
        edges: Mapping[str, Edge],
        rounded: frozenset[str],
        real: frozenset[str],
        clip: bool = False,
    ) -> Outputs:
        """The outputs of the network in float with the tensors ``rounded`` stored as the file stores them (``clip``: only kept
        within their ranges), and the layers ``real`` with the weights of the reference."""
        found = Outputs()
        for sample in samples:
            dump = self._dump(self.real, sample, change=_changed(sample, edges, rounded, real, clip))
            for tensor in dump.tensors:
                if tensor.role == "output" and tensor.name in sample.golden:
                    found.add(tensor.name, dump.value(tensor.name), sample.golden[tensor.name])
            self.drop(dump)
        return found

    def _dump(self, context: Context, sample: Sample, **how: Any) -> Dump:
        items = collect(sample.inputs, context.inputs, self._layout, False, shapes=context.shapes)
        with (
            context.exclusive(),
            np.errstate(invalid="ignore", over="ignore"),
        ):  # overflows are what is looked for
            context.set_inputs(items)
            found: Dump = context.dump(self._new(), **how)
        return found

    def _new(self) -> Path:
        self._count += 1
        return self.folder / str(self._count)


def _changed(
    sample: Sample, edges: Mapping[str, Edge], rounded: frozenset[str], real: frozenset[str], clip: bool
) -> Callable[[str, Array], Array]:
    def change(name: str, value: Array) -> Array:
        if name in real and name in sample.golden and sample.weights is not None:
            golden = sample.golden[name]
            value = value - (sample.weights.value(name).reshape(golden.shape) - golden).reshape(value.shape)
        held = None
        if name in rounded and name in edges:
            about = edges[name].about
            limits = limits_of(about)
            held = stored_values(value, about) if not clip else value.clip(*limits) if limits else None
        return np.asarray(value if held is None else held, np.float32)

    return change


@dataclass
class Outputs:
    """How far outputs are from the reference's, over all samples: sums of products and squares by name."""

    sums: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, value: Array, golden: Array) -> None:
        """One more sample of an output."""
        a, b = (array.astype(np.float64).reshape(-1) for array in (value, golden))
        with np.errstate(invalid="ignore", over="ignore"):
            new = [float(a @ b), float(a @ a), float(b @ b), float(((a - b) ** 2).sum())]
        self.sums[name] = [old + one for old, one in zip(self.sums.get(name, [0.0] * 4), new)]

    @property
    def cosine(self) -> float:
        """Of the output that is farthest."""
        return min((ab / ((aa * bb) ** 0.5 or 1.0) for ab, aa, bb, _ in self.sums.values()), default=1.0)

    @property
    def error(self) -> float:
        """The relative error of the output that is farthest."""
        return max((relative(apart, bb) for _, _, bb, apart in self.sums.values()), default=0.0)
