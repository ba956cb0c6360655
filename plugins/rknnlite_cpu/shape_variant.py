"""A model prepared for the input shapes that were chosen so far: one graph, plan and set of attributes for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Optional, Union

from rknnlite_backend.running import find_shapes
from rknnlite_graph.graph import Graph
from rknnlite_graph.read import read_graph

from rknnlite.formats import IoTensor
from rknnlite.formats.flat_model import FlatModel
from rknnlite.formats.tensor_attrs import default_attr, native_input, native_output
from rknnlite.log import logger
from rknnlite.spi import CustomOp
from rknnlite.tensor import TensorAttr

from .fidelity import Fidelity, FloatFeed, graph_for
from .input_conversion import InputConversion
from .opened_model import OpenedModel
from .plan import ExecutionPlan

__all__ = ["IoAttrs", "PreparedShapes", "ShapeVariant"]

if TYPE_CHECKING:
    from .engines.accelerator import Accelerator
    from .engines.tiers import Tiers

Feed = Union[InputConversion, FloatFeed]


@dataclass(frozen=True)
class IoAttrs:
    """What a context tells about its inputs and outputs, batch included."""

    inputs: list[TensorAttr]
    outputs: list[TensorAttr]
    native_inputs: list[TensorAttr]
    native_outputs: list[TensorAttr]

    @classmethod
    def of(cls, opened: OpenedModel, ins: list[IoTensor], outs: list[IoTensor]) -> IoAttrs:
        """As the SoC's runtime reports the tensors of the file."""
        batch, soc = opened.model.batch, opened.soc
        return cls(
            [default_attr(i, io, batch, True, soc) for i, io in enumerate(ins)],
            [default_attr(i, io, batch, False, soc) for i, io in enumerate(outs)],
            [native_input(i, io, batch, soc) for i, io in enumerate(ins)],
            [native_output(i, io, batch, soc) for i, io in enumerate(outs)],
        )

    def with_outputs(self, outputs: list[TensorAttr]) -> IoAttrs:
        """The same inputs, and what a post-process plugin makes of the outputs."""
        return replace(self, outputs=outputs, native_outputs=outputs)


@dataclass(frozen=True)
class ShapeVariant:
    """All that belongs to one choice of input shapes."""

    graph: Graph
    """As the file has it; the graph that ``plan`` computes is another one where the fidelity asks for it."""
    plan: ExecutionPlan
    ins: list[IoTensor]
    outs: list[IoTensor]
    attrs: IoAttrs
    feeds: list[Feed]

    @classmethod
    def prepare(cls, opened: OpenedModel, number: int, ops: Mapping[str, CustomOp]) -> ShapeVariant:
        """Choose kernels and unpack weights; raises ModelInvalid, ModelUnsupported, CustomOpFailed."""
        file, model = opened.file, opened.model
        opened.file.check()
        with file.naming():
            graph = read_graph(model, number, opened.attributes)
            computed = graph_for(opened.fidelity, graph)
        engines = _engines(opened, number, computed, ops)
        plan = ExecutionPlan(computed, file.label, ops, model.custom_ops, *engines)
        ins, outs = model.io(number)
        attrs = IoAttrs.of(opened, ins, outs)
        with file.naming():
            feeds = [
                _feed(opened, graph, plan.graph, *each)
                for each in zip(ins, graph.inputs, attrs.native_inputs)
            ]
        opened.file.check()  # else the weights may be those of two models
        return cls(graph, plan, ins, outs, attrs, feeds)

    def twin(self, ops: Mapping[str, CustomOp]) -> ShapeVariant:
        """The same for another context: all is shared but what custom operators keep."""
        return replace(self, plan=self.plan.twin(ops))


def _feed(
    opened: OpenedModel, stored: Graph, computed: Graph, io: IoTensor, index: int, native: TensorAttr
) -> Feed:
    if opened.fidelity is not Fidelity.FLOAT:
        return InputConversion(io, stored.tensors[index], native, opened.pixels_on_board)
    return FloatFeed(io, stored.tensors[index], computed.tensors[index], native)


@dataclass
class PreparedShapes:
    """The shapes of a model that were in use so far, each prepared once, and the custom operators in all of them."""

    opened: OpenedModel
    ops: dict[str, CustomOp]
    prepared: dict[int, ShapeVariant]
    number: int
    """Of the shape in use."""

    @classmethod
    def of(cls, opened: OpenedModel) -> PreparedShapes:
        """The shape that a model has at first."""
        ops = {op.op_type: op for op in opened.options.custom_ops}
        shapes = cls(opened, ops, {}, opened.model.default_shape)
        shapes.select(shapes.number)
        shapes._tell_coarse()
        if opened.fidelity is Fidelity.SILICON:
            shapes._tell_silicon()
        if opened.pixels_on_board:
            shapes._tell_pixels()
        opened.file.drop_pages()  # weights are unpacked by now
        return shapes

    def _tell_coarse(self) -> None:
        """One line on channels of which the file keeps too little; a warning where it is seen in what comes out."""
        graph, model = self.current.graph, self.opened.model
        if not graph.has_coarse or not isinstance(model, FlatModel):
            return
        from rknnlite_graph.coarse_multipliers import coarse_layers, coarse_summary  # few files need it

        with self.opened.file.naming():
            layers = coarse_layers(graph)
        if not layers:
            return
        told = coarse_summary(layers)
        if told not in model.logged_guesses:
            say = logger.warning if any(layer.lost for layer in layers) else logger.info
            say("%s: %s; rknnlite info --check names them", self.opened.label, told)
            model.logged_guesses.add(told)

    def _tell_silicon(self) -> None:
        """How far the chip's arithmetic is known: what follows the simulator is told, never in silence."""
        from .silicon.telling import lines

        warnings, notes = lines(self.current.plan.graph)
        for say, told in ((logger.warning, warnings), (logger.info, notes)):
            for line in told:
                say("%s: fidelity='silicon': %s", self.opened.label, line)
        if self.opened.engine_name not in (None, "numpy"):
            logger.warning(
                "%s: fidelity='silicon': numpy computes it, not the engine %s, which knows the simulator's roundings",
                self.opened.label,
                self.opened.engine_name,
            )

    def _tell_pixels(self) -> None:
        """Which inputs are converted as on no board that was recorded."""
        from .silicon.telling import pixel_lines

        stored = [self.current.graph.tensors[index] for index in self.current.graph.inputs]
        in_float = self.opened.fidelity is Fidelity.FLOAT
        for line in pixel_lines(getattr(self.opened.model, "family", ""), self.current.ins, stored, in_float):
            logger.warning("%s: inputs='board': %s", self.opened.label, line)

    @property
    def current(self) -> ShapeVariant:
        """The shape in use."""
        return self.prepared[self.number]

    def choose(self, shapes: Sequence[Sequence[int]], legal: Sequence[Sequence[tuple[int, ...]]]) -> None:
        """Use one of the ``legal`` shapes, one entry per input; raises ParamInvalid for others."""

        self.select(find_shapes(self.opened.label, shapes, legal, self.current.attrs.inputs))

    def select(self, number: int) -> None:
        """Use another shape; when it cannot be prepared the one before stays in use."""
        if number not in self.prepared:
            self.prepared[number] = ShapeVariant.prepare(self.opened, number, self.ops)
        self.number = number

    def register(self, op: CustomOp) -> None:
        """Give the operator its nodes, now and in shapes to come."""
        self.opened.file.check()  # constants go to the operator
        for variant in self.prepared.values():
            variant.plan.register(op)
        self.ops[op.op_type] = op

    def twin(self) -> PreparedShapes:
        """The same shapes and operators for another context."""
        ops = dict(self.ops)
        prepared = {number: variant.twin(ops) for number, variant in self.prepared.items()}
        return PreparedShapes(self.opened, ops, prepared, self.number)

    def close(self) -> None:
        """Give back weights, and to custom operators what they hold."""
        for variant in self.prepared.values():
            variant.plan.close()
        self.prepared.clear()


def _engines(
    opened: OpenedModel, number: int, graph: Graph, ops: Mapping[str, CustomOp]
) -> tuple[Optional[Accelerator], Optional[Tiers]]:
    """What an engine computes from the first frame on, and what finds one while frames run."""
    if opened.engine_name == "numpy" or opened.fidelity is Fidelity.SILICON:
        return None, None
    from .engines import choice
    from .engines.fastest import NUMPY, Subject, kept_choice, same_on_all

    taken = frozenset(ops).intersection(node.op for node in graph.nodes)
    attributes = sorted(opened.attributes.items(), key=str)
    key = (opened.digest, number, opened.fidelity.value, attributes)
    subject = Subject(graph, opened.label, taken, key, opened.file.check, opened.engine_precise)
    names = choice.candidates() if opened.engine_name is None and opened.engine_precise else []
    if names:
        from .engines.tiers import Tiers

        if same_on_all(graph):
            kept = kept_choice(subject, names)
            if kept is None:
                return None, Tiers(subject, names)
            engines = choice.engines(kept.name) if kept.name != NUMPY else ()
            return subject.accelerator(engines) if engines else None, None
    engines = choice.chosen(opened.engine_name)
    return subject.accelerator(engines) if engines else None, None
