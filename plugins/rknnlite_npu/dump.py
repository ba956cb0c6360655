"""Every tensor of a run, as the NPU left it, in a folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_graph.graph import Tensor

from rknnlite.errors import ModelInvalid
from rknnlite.quant import dequantise
from rknnlite.tensor import DType

from .loaded_program import LoadedProgram
from .opened_model import OpenedModel, ShapeVariant
from .tensor_bytes import TensorBytes

if TYPE_CHECKING:
    from rknnlite_insight.dumps import Dump

__all__ = ["Recorder"]

Array = NDArray[Any]


class Recorder:
    """Writes the outputs of each node when it has run; ``after`` goes to ``LoadedProgram.run``."""

    def __init__(
        self,
        opened: OpenedModel,
        variant: ShapeVariant,
        program: LoadedProgram,
        directory: str | os.PathLike[str],
        backend: str,
    ) -> None:
        from rknnlite_insight.dumps import DumpWriter

        self._batch, self._graph, self._program = opened.model.batch, variant.graph, program
        self._nodes = {node.index: node for node in variant.graph.nodes}
        self._item = -1
        self._last = len(variant.program.nodes)
        self._writer = DumpWriter(
            directory, model=opened.label, backend=backend, soc=opened.soc.name, fidelity="machine"
        )

    def after(self, number: int) -> None:
        """Node ``number`` has run."""
        if number <= self._last:  # an item of a batch begins
            self._item += 1
        self._last = number
        node, graph = self._nodes.get(number), self._graph
        for index in node.outputs if node is not None else ():
            assert node is not None
            if index >= len(
                self._program.program.tensors
            ):  # a part of a Split that nobody wants has no place
                continue
            tensor = graph.tensors[index]
            try:
                form = TensorBytes.of(self._program.program.tensors[index], tensor.shape, tensor.dtype)
            except ModelInvalid:  # whatever lies there has no form that is known
                continue
            stored = form.unpack(self._program.view(index))
            quant = tensor.quant
            self._writer.add(
                tensor.name,
                _real(stored, tensor),
                stored if quant is not None else None,
                dtype=tensor.dtype.short,
                node=node.name,
                op=node.op,
                role="output" if index in graph.outputs else "activation",
                scale=quant.scale if quant is not None else None,
                zero_point=quant.zero_point if quant is not None else None,
                item=self._item if self._batch > 1 else None,
            )

    def close(self) -> Dump:
        """All that was written."""
        return self._writer.close()


def _real(stored: Array, tensor: Tensor) -> Array:
    if tensor.quant is not None:
        return dequantise(stored, tensor.quant)
    if tensor.dtype is DType.BFLOAT16:
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float32) if tensor.dtype.is_float else stored
