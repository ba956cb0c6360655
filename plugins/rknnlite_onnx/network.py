"""Whole networks: a graph with the names of its file, real inputs and outputs, and where it came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, Union

import numpy as np
from onnx import ModelProto, helper, shape_inference
from rknnlite_graph.graph import MARKERS, Graph, Node
from rknnlite_graph.lowering import Form, NotLowered

from rknnlite import __version__
from rknnlite.errors import ParamInvalid, visible
from rknnlite.formats import IoTensor
from rknnlite.log import logger
from rknnlite.tensor import DType

from .emitter import Emitter, value_info
from .graph_forms import batched, batched_io, graph_in
from .lowered_values import LoweredValues, Rep
from .node_writer import write_node
from .normalise import normalised
from .qdq import through_steps
from .symbolic_shapes import NotAlike, with_symbols
from .unlowered import write_unlowered

__all__ = ["FIXED_SHAPE", "NOT_WRITTEN", "NetworkOptions", "options_of", "write_network"]

NOT_WRITTEN = "not_written"
"""Key of the metadata: the nodes that stand in our own domain, a line each."""
FIXED_SHAPE = "fixed_shape"
"""Key of the metadata: why a dynamic model is written for one shape only."""
_NAMED = (Rep.ELEMENTS, Rep.CENTRED, Rep.REAL)
"""What may have the name of a tensor: its elements in its own order."""
Variant = tuple[Graph, Sequence[IoTensor], Sequence[IoTensor]]
"""One choice of input shapes: graph, inputs, outputs."""


@dataclass(frozen=True)
class NetworkOptions:
    """How a network is written beside its form.

    ``normalise``: inputs are pixels; the graph subtracts means and divides by deviations. ``batch``: items in each run, in the
    first axis; 0: any number. ``others``: graph, inputs and outputs for other shapes of a dynamic model; sizes that differ
    become symbols, or, where the graphs differ by more than sizes, only the first is written, which the log and the metadata
    (``FIXED_SHAPE``) say. ``about``: entries of the metadata; ``source`` is the network's name.
    """

    normalise: bool = False
    batch: int = 1
    others: Sequence[Variant] = ()
    about: Mapping[str, str] = field(default_factory=dict)


def options_of(given: Mapping[str, Any]) -> NetworkOptions:
    """Raises ParamInvalid for options that there are not."""
    known = [each.name for each in fields(NetworkOptions)]
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ParamInvalid(
            f"a network in ONNX has no option {', '.join(unknown)}; there are {', '.join(known)}"
        )
    options = NetworkOptions(**given)
    if isinstance(options.batch, bool) or not isinstance(options.batch, int) or options.batch < 0:
        raise ParamInvalid(f"batch must be a whole number, 0 for any, not {options.batch!r}")
    return options


def write_network(
    graph: Graph,
    ins: Sequence[IoTensor],
    outs: Sequence[IoTensor],
    form: Form,
    options: NetworkOptions = NetworkOptions(),
) -> ModelProto:
    """The network as ONNX. Inputs and outputs are float32 in logical order (NCHW); integers keep their type.

    ``ins`` and ``outs`` say what they are called, and what makes pixels the values that the network was trained on. What cannot
    be written stands as a node of the domain ``rknnlite``; it is logged, and named in the metadata under ``NOT_WRITTEN``.

    Raises:
        ModelInvalid: the file. ParamInvalid: no such batch.
    """
    first = _written((graph, ins, outs), form, options, options.batch or 1)
    more = [_written(other, form, options, options.batch or 1) for other in options.others]
    if not options.batch:
        more.append(_written((graph, ins, outs), form, options, 2))
    if not more:
        return _described(first, form, options)
    try:
        found = with_symbols([first.model, *(each.model for each in more)])
    except NotAlike as reason:
        if not options.batch:
            raise ParamInvalid(f"no network for any number of items: {reason}; pass batch=1") from None
        logger.warning("the network is written for one of its %d shapes: %s", len(more) + 1, reason)
        return _described(first, form, options, str(reason))
    return _described(_Written(found, first.strange), form, options)


class _Written(NamedTuple):
    """A network, and what stands in our own domain."""

    model: ModelProto
    strange: list[str]


def _written(variant: Variant, form: Form, options: NetworkOptions, batch: int) -> _Written:
    graph, ins, outs = variant
    network = _Network(batched(graph, batch), form.near, options)  # functions as other readers know them
    model = network.written(batched_io(ins, batch), batched_io(outs, batch))
    if batch > 1:
        _check_shapes(model, batch)
    return _Written(model, network.strange)


def _check_shapes(model: ModelProto, batch: int) -> None:
    """Nodes may hold sizes that are those of one item."""
    try:
        shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except shape_inference.InferenceError as error:
        reason = " ".join(str(error).split())
        raise ParamInvalid(f"no network for {batch} items at once: {reason}; pass batch=1") from None


def _described(written: _Written, form: Form, options: NetworkOptions, fixed: str = "") -> ModelProto:
    """With metadata, and a word in the log on what is not ONNX."""
    model, strange = written
    model.producer_version = __version__
    told = {"producer": f"rknnlite {__version__}", **options.about, "form": form.value, FIXED_SHAPE: fixed}
    told[NOT_WRITTEN] = "\n".join(strange)
    if strange:
        logger.warning("%d nodes cannot be written in ONNX: %s", len(strange), "; ".join(strange))
    helper.set_model_props(model, {key: visible(value) for key, value in sorted(told.items()) if value})
    return model


@dataclass
class _Network:
    """One network that is being written; ``stored`` is the graph of the file."""

    stored: Graph
    form: Form
    options: NetworkOptions
    names: dict[int, str] = field(default_factory=dict)
    """What the value of a tensor is called, as the file stores it."""
    settled: set[str] = field(default_factory=set)
    """Values that have their last name."""
    infos: list[Any] = field(default_factory=list)
    strange: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.emitter = Emitter(plain=self.form in (Form.FLOAT, Form.QDQ))
        self.graph = graph_in(self.form, self.stored)
        self.values = LoweredValues(self.emitter, self.graph, self.form, self.stored)

    def written(self, ins: Sequence[IoTensor], outs: Sequence[IoTensor]) -> ModelProto:
        """All of it."""
        begins = [self.emitter.reserve(io.name) for io in ins]
        ends = [self.emitter.reserve(io.name) for io in outs]
        self._choose_names(dict(zip(self.graph.outputs, ends)))
        entries = [self._enter(*each) for each in zip(self.graph.inputs, ins, begins)]
        for node in self.graph.nodes:
            if node.op not in MARKERS:
                self._write(node)
        exits = [self._leave(*each) for each in zip(self.graph.outputs, ends)]
        infos = [info for info in self.infos if info.name not in ends]
        name = self.options.about.get("source") or "network"
        return self.emitter.model(entries, exits, name, infos)

    def _choose_names(self, ends: Mapping[int, str]) -> None:
        """The names of the file; those of outputs are for what leaves the network, which is real."""
        for node in self.graph.nodes:
            for index in node.outputs:
                if index in ends and self.values.home(index) is Rep.REAL:
                    self.names[index] = ends[index]
                else:
                    self.names[index] = self.emitter.reserve(
                        self.graph.tensors[index].name or f"tensor_{index}"
                    )

    # -- the boundary ------------------------------------------------------------------------------------------

    def _enter(self, index: int, io: IoTensor, name: str) -> Any:
        """An input as the CPU reference takes it: quantised where it is; float16 is not rounded before the first layer."""
        tensor, stored = self.graph.tensors[index], self.stored.tensors[index]
        self.emitter.prefix = name
        self.settled.add(name)
        value, kind = name, self.values.typed(index)
        if self.options.normalise and kind == np.float32:
            value = normalised(self.emitter, name, io)
        if self.form is Form.QDQ and stored.quant is not None:
            value = through_steps(self.emitter, value, stored)
        if tensor.quant is not None or tensor.dtype is DType.BFLOAT16:
            self.values.store_real(index, value)
        else:
            self.values.put(index, Rep.REAL, value)
        return value_info(name, kind, io.shape)

    def _leave(self, index: int, name: str) -> Any:
        """An output, dequantised."""
        self.emitter.prefix = name
        found = self.values.get(index, Rep.REAL)
        if self.names.get(index) != name:
            self._call(found, name)
        return value_info(name, self.values.typed(index), self.graph.tensors[index].shape)

    def _call(self, value: str, name: str) -> str:
        """Give a value its last name; one that has it already is passed through a node. The value that has the name now."""
        if value in self.settled or self.emitter.is_constant(value):
            value = self.emitter.node("Identity", value)
        self.emitter.rename(value, name)
        self.settled.add(value)
        return value

    # -- nodes -------------------------------------------------------------------------------------------------

    def _write(self, node: Node) -> None:
        mark, held = self.emitter.mark(), self.values.snapshot()
        try:
            write_node(self.values, node)
        except NotLowered as reason:
            self.emitter.forget(mark)
            self.values.restore(held)
            write_unlowered(self.values, node)
            self.strange.append(f"{node.label()}: {reason}")
        self.emitter.entitle(mark, node.name, node.op)
        for index in node.outputs:
            self._settle(index)

    def _settle(self, index: int) -> None:
        """The steps of the file in the QDQ form, and the name of the tensor on its value."""
        stored, values = self.stored.tensors[index], self.values
        if not any(values.has(index, rep) for rep in Rep):
            return
        home = values.home(index)
        rep = next((each for each in (home, *_NAMED) if values.has(index, each)), home)
        value, name = values.get(index, rep), self.names[index]
        if self.form is Form.QDQ and stored.quant is not None:
            before, name = self._around_steps(index)
            value = through_steps(self.emitter, self._call(value, before), stored)
        values.put(index, rep, self._call(value, name))
        kind: Union[type, Any] = {Rep.ELEMENTS: np.uint8, Rep.CENTRED: np.float32}.get(rep)
        self.infos.append(value_info(self.names[index], kind or values.typed(index), stored.shape))

    def _around_steps(self, index: int) -> tuple[str, str]:
        """Names of a value before and behind its steps: as quantisers have them, the tensor's own is before them."""
        name, is_output = self.names[index], index in self.graph.outputs
        if is_output:
            return self.emitter.reserve(f"{name}_QuantizeLinear_Input"), name
        return name, self.emitter.reserve(f"{name}_DequantizeLinear_Output")
