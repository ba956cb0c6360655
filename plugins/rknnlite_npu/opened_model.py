"""What is fixed for a model once it is open on an NPU; duplicates share it as a whole."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

from rknnlite_backend.zero_copy_context import lender
from rknnlite_graph.graph import Graph
from rknnlite_graph.read import read_graph

from rknnlite import socs
from rknnlite.errors import (
    ContextInvalid,
    ModelInvalid,
    ModelUnsupported,
    ParamInvalid,
    TargetPlatformUnmatch,
)
from rknnlite.formats import NO_ATTRIBUTES, IoTensor, Model, ModelFile
from rknnlite.formats.tensor_attrs import default_attr, native_input, native_output
from rknnlite.socs import Soc
from rknnlite.spi import CustomOp, OpenOptions
from rknnlite.tensor import TensorAttr

from .cpu_nodes import CpuNodes, pooling_on_cpu
from .inputs import InputBytes
from .program import NpuProgram, read_program
from .tensor_bytes import TensorBytes
from .unwritten_tensors import unwritten_tensors

__all__ = ["OpenedModel", "ShapeVariant", "soc_of"]


def soc_of(model: ModelFile, wanted: str | None) -> Soc:
    """The SoC that runs the model: the one that is named, else the model's; raises what opening raises."""
    accepted = {name.lower() for name in (*model.model.platforms, model.model.platform)}
    if wanted is not None:
        soc = socs.get(wanted)
        if set(soc.accepts) & accepted:
            return soc
        raise TargetPlatformUnmatch(
            f"{model.label} was built for {'/'.join(model.model.platforms)}, not for {soc.name}; convert it with "
            f"target_platform='{soc.name}', or leave the SoC out"
        )
    for name in sorted(accepted):
        try:
            return socs.get(name)
        except ParamInvalid:
            continue
    raise ModelInvalid(f"{model.label}: built for {model.model.platform!r}, which is no SoC known here")


@dataclass(frozen=True, eq=False)
class ShapeVariant:
    """All that belongs to one choice of input shapes.

    Attributes:
        program: what the file holds for the NPU; ``graph``: what its nodes compute.
        ins, outs: the inputs and outputs, ``forms`` how their bytes lie (inputs first), ``feeds`` how those of inputs come about.
        inputs, outputs, native_inputs, native_outputs: as the context tells them.
    """

    program: NpuProgram
    graph: Graph
    ins: list[IoTensor]
    outs: list[IoTensor]
    forms: list[TensorBytes]
    inputs: list[TensorAttr]
    outputs: list[TensorAttr]
    native_inputs: list[TensorAttr]
    native_outputs: list[TensorAttr]
    feeds: list[InputBytes]


@dataclass(frozen=True, eq=False)
class OpenedModel:
    """A file with its SoC and the options it was opened with; ``pooling``: the NPU pools, else the CPU does."""

    file: ModelFile
    model: Model
    soc: Soc
    options: OpenOptions
    pooling: bool = True
    variants: dict[int, ShapeVariant] = field(default_factory=dict)
    """Those that were in use so far."""

    @classmethod
    def of(cls, backend: str, file: ModelFile, options: OpenOptions, pooling: bool = True) -> OpenedModel:
        """Raises ModelInvalid, ModelUnsupported, ParamInvalid, TargetPlatformUnmatch."""
        soc, model = soc_of(file, options.soc), file.model
        if options.core_mask:
            soc.check_core_mask(options.core_mask)
        model.master = lender(file.label, options.extra.get("master"), model.dynamic, backend)
        return cls(file, model, soc, options, pooling)

    @functools.cached_property
    def label(self) -> str:
        """What errors call the model."""
        return self.file.label

    def check_runs(self) -> None:
        """Raise ContextInvalid where the context was opened for information only: it takes no data."""
        if self.options.extra.get("info_only"):
            raise ContextInvalid(
                f"{self.label} was opened with info_only=True: its context takes no data; open it without"
            )

    def variant(self, number: int) -> ShapeVariant:
        """What belongs to graph ``number``; raises ModelInvalid, ModelUnsupported."""
        if number not in self.variants:
            self.file.check()
            with self.file.naming():
                self.variants[number] = self._read(number)
            self.file.check()  # else the weights may be those of two models
        return self.variants[number]

    def _read(self, number: int) -> ShapeVariant:
        model, soc, batch = self.model, self.soc, self.model.batch
        program = read_program(model, number)
        if not self.pooling:
            program = pooling_on_cpu(program)
        graph = read_graph(model, number, self.options.extra.get("attributes") or NO_ATTRIBUTES)
        for name in unwritten_tensors(program):
            raise ModelUnsupported(
                f"nothing writes {name}, which the NPU reads: the runtime arranges it itself, and how was never recorded"
            )
        ins, outs = model.io(number)
        tensors = [(program.tensors[i], graph.tensors[i]) for i in (*program.inputs, *program.outputs)]
        forms = [TensorBytes.of(npu, known.shape, known.dtype) for npu, known in tensors]
        natives = [native_input(i, io, batch, soc) for i, io in enumerate(ins)]
        return ShapeVariant(
            program,
            graph,
            ins,
            outs,
            forms,
            [default_attr(i, io, batch, True, soc) for i, io in enumerate(ins)],
            [default_attr(i, io, batch, False, soc) for i, io in enumerate(outs)],
            natives,
            [native_output(i, io, batch, soc) for i, io in enumerate(outs)],
            [InputBytes(io, form, native, batch) for io, form, native in zip(ins, forms, natives)],
        )

    def cpu_nodes(self, variant: ShapeVariant, ops: Mapping[str, CustomOp]) -> CpuNodes:
        """The nodes that the NPU leaves out."""
        return CpuNodes.of(variant.program, variant.graph, self.label, ops, self.model.custom_ops)
