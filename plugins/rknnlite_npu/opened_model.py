"""What is fixed for a model once it is open on an NPU; duplicates share it as a whole."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from rknnlite_graph.graph import Graph
from rknnlite_graph.read import read_graph

from rknnlite import socs
from rknnlite.errors import ModelInvalid, ParamInvalid, TargetPlatformUnmatch
from rknnlite.formats import IoTensor, Model, ModelFile
from rknnlite.formats.tensor_attrs import default_attr, native_input, native_output
from rknnlite.socs import Soc
from rknnlite.spi import CustomOp, OpenOptions
from rknnlite.tensor import TensorAttr

from .cpu_nodes import CpuNodes
from .inputs import InputBytes
from .program import NpuProgram, read_program
from .tensor_bytes import TensorBytes

__all__ = ["OpenedModel", "soc_of"]


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
class OpenedModel:
    """Attributes:
    program: what the file holds for the NPU; ``graph``: what its nodes compute.
    ins, outs: the inputs and outputs, ``forms`` how their bytes lie (inputs first), ``feeds`` how those of inputs come about.
    """

    file: ModelFile
    model: Model
    soc: Soc
    options: OpenOptions
    program: NpuProgram
    graph: Graph
    forms: list[TensorBytes]

    @classmethod
    def of(cls, file: ModelFile, options: OpenOptions) -> OpenedModel:
        """Raises ModelInvalid, ModelUnsupported, ParamInvalid, TargetPlatformUnmatch."""
        soc, model = soc_of(file, options.soc), file.model
        if options.core_mask:
            soc.check_core_mask(options.core_mask)
        file.check()
        with file.naming():
            program = read_program(model)
            graph = read_graph(model, attributes=options.extra.get("attributes") or {})
            tensors = [(program.tensors[i], graph.tensors[i]) for i in (*program.inputs, *program.outputs)]
            forms = [TensorBytes.of(npu, known.shape, known.dtype) for npu, known in tensors]
        return cls(file, model, soc, options, program, graph, forms)

    @functools.cached_property
    def label(self) -> str:
        """What errors call the model."""
        return self.file.label

    @property
    def ins(self) -> list[IoTensor]:
        """The inputs."""
        return self.model.inputs

    @property
    def outs(self) -> list[IoTensor]:
        """The outputs."""
        return self.model.outputs

    @functools.cached_property
    def inputs(self) -> list[TensorAttr]:
        """As ``Context.inputs``."""
        return [default_attr(i, io, self.model.batch, True, self.soc) for i, io in enumerate(self.ins)]

    @functools.cached_property
    def outputs(self) -> list[TensorAttr]:
        """As ``Context.outputs``."""
        return [default_attr(i, io, self.model.batch, False, self.soc) for i, io in enumerate(self.outs)]

    @functools.cached_property
    def native_inputs(self) -> list[TensorAttr]:
        """As ``Context.native_inputs``."""
        return [native_input(i, io, self.model.batch, self.soc) for i, io in enumerate(self.ins)]

    @functools.cached_property
    def native_outputs(self) -> list[TensorAttr]:
        """As ``Context.native_outputs``."""
        return [native_output(i, io, self.model.batch, self.soc) for i, io in enumerate(self.outs)]

    @functools.cached_property
    def feeds(self) -> list[InputBytes]:
        """One per input."""
        rows = zip(self.ins, self.forms, self.native_inputs)
        with self.file.naming():
            return [InputBytes(io, form, native, self.model.batch) for io, form, native in rows]

    def cpu_nodes(self, ops: Mapping[str, CustomOp]) -> CpuNodes:
        """The nodes that the NPU leaves out."""
        return CpuNodes.of(self.program, self.graph, self.label, ops, self.model.custom_ops)
