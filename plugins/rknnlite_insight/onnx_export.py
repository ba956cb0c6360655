"""A model as an ONNX network. Needs the extra ``fast``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rknnlite_graph.lowering import NETWORK_FORMS, Form
from rknnlite_graph.read import read_graph

from rknnlite import plugins
from rknnlite.errors import ParamInvalid
from rknnlite.formats import NO_ATTRIBUTES, Attributes, ModelFile
from rknnlite.spi.arguments import typed

__all__ = ["to_onnx"]


@typed
def to_onnx(
    model: str | os.PathLike[str] | bytes | ModelFile,
    form: str = "float",
    normalise: bool = False,
    batch: int | None = None,
    attributes: Attributes = NO_ATTRIBUTES,
) -> Any:
    """A model as an ``onnx.ModelProto``, with the names of its tensors and nodes.

    Inputs and outputs are real numbers, float32 in logical order (NCHW); integers keep their type. Dynamic models get symbolic
    sizes where their graphs differ by nothing else. Nodes that ONNX has no words for stand in the domain ``rknnlite``; the log
    and the metadata (``not_written``) name them.

    Args:
        model: path, bytes or a ModelFile.
        form: ``"float"`` (the dequantised network), ``"qdq"`` (float with the file's steps as QuantizeLinear and
            DequantizeLinear), ``"fp16"`` (float with tensors stored as float16), ``"exact"`` (the NPU's integers in float32),
            ``"exact-int8"`` (the same in 8 bits).
        normalise: inputs are pixels, means and deviations are part of the graph; else inputs are what the network was
            trained on.
        batch: items in each run; None as the file has it, 0 for any number.
        attributes: of nodes, where the file does not store them, see ``open``.

    Raises:
        BackendUnavailable: onnx is not installed.
        ModelInvalid, ModelUnsupported: the file.
        ParamInvalid: form or batch.
    """
    try:
        wanted = next(each for each in NETWORK_FORMS if each is Form(form))
    except (ValueError, StopIteration):
        known = ", ".join(repr(each.value) for each in NETWORK_FORMS)
        raise ParamInvalid(f"form must be one of {known}, not {form!r}") from None
    lowering = plugins.lowering("onnx")
    source = model if isinstance(model, (ModelFile, bytes)) else Path(model)
    file = source if isinstance(source, ModelFile) else ModelFile(source)
    read = file.model
    with file.naming():
        graphs = [(read_graph(read, i, attributes), *read.io(i)) for i in _shapes(read)]
        (graph, ins, outs), *others = graphs
        about = {
            "source": Path(file.label).name,
            "soc": read.platform,
            "toolkit": read.toolkit_version,
        }
        return lowering.network(
            graph,
            ins,
            outs,
            wanted,
            normalise=normalise,
            batch=max(1, read.batch) if batch is None else batch,
            others=others,
            about=about,
        )


def _shapes(model: Any) -> list[int]:
    """Numbers of the graphs, the one that is current at first before the others."""
    first = model.default_shape
    return [first, *(i for i in range(len(model.shapes)) if model.dynamic and i != first)]
