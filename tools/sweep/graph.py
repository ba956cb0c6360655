"""Small ONNX graphs: what a sweep case is made of. Recording one needs numpy only, making the model onnx, too."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from judge import Judge
from numpy.typing import NDArray

if TYPE_CHECKING:
    import onnx

__all__ = ["Case", "Net", "Source"]

Array = NDArray[Any]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Source:
    """A graph input; values are uniform in [low, high), or standard normal if both are zero."""

    name: str
    shape: Shape
    dtype: str = "float32"
    low: float = 0.0
    high: float = 0.0

    def draw(self, rng: np.random.Generator) -> Array:
        """One random array of the logical shape."""
        if self.dtype == "bool":
            return rng.integers(0, 2, self.shape).astype(bool)
        if self.dtype.startswith("int"):
            return rng.integers(int(self.low), int(self.high), self.shape).astype(self.dtype)
        if self.low == self.high:
            return np.clip(rng.standard_normal(self.shape), -3.5, 3.5).astype(np.float32)
        return rng.uniform(self.low, self.high, self.shape).astype(np.float32)


class Node(NamedTuple):
    """One operator of a graph."""

    kind: str
    inputs: list[str]
    outputs: list[str]
    name: str
    attributes: dict[str, Any]


_FOLDED: dict[str, Callable[..., Array]] = {
    "Gather": lambda attributes, data, indices: np.take(data, indices, axis=attributes.get("axis", 0)),
    "Transpose": lambda attributes, data: np.transpose(data, attributes["perm"]),
    "Unsqueeze": lambda attributes, data, axes: np.expand_dims(data, tuple(axes.tolist())),
}


class Net:
    """Collects inputs, constants and nodes of one graph."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))
        self.sources: list[Source] = []
        self._nodes: list[Node] = []
        self._constants: dict[str, Array] = {}

    def x(self, *shape: int, low: float = 0.0, high: float = 0.0, dtype: str = "float32") -> str:
        """A graph input; returns its name."""
        self.sources.append(Source(f"in{len(self.sources)}", shape, dtype, low, high))
        return self.sources[-1].name

    def const(self, value: Any, dtype: str = "float32") -> str:
        """A stored constant."""
        name = f"c{len(self._constants)}"
        self._constants[name] = np.asarray(value, dtype)
        return name

    def ints(self, *values: int) -> str:
        """A stored int64 vector."""
        return self.const(values, "int64")

    def weight(self, *shape: int) -> str:
        """Random weights that keep the size of values: normal / sqrt(elements per output)."""
        fan = int(np.prod(shape[1:])) if len(shape) > 1 else 4
        return self.const(self.rng.standard_normal(shape) / np.sqrt(max(fan, 1)))

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """A node with one output."""
        return self.ops(kind, 1, *inputs, **attributes)[0]

    def ops(self, kind: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        """A node with several outputs."""
        number = len(self._nodes)
        outputs = [f"t{number}_{i}" if count > 1 else f"t{number}" for i in range(count)]
        self._nodes.append(Node(kind, list(inputs), outputs, f"{kind}_{number}", attributes))
        return outputs

    def conv(self, x: str, inputs: int, outputs: int, kernel: int = 3, **attributes: Any) -> str:
        """A convolution with "same" padding unless told otherwise, and a bias."""
        attributes.setdefault("pads", [kernel // 2] * 4)
        groups = attributes.get("group", 1)
        weight = self.weight(outputs, inputs // groups, kernel, kernel)
        return self.op("Conv", x, weight, self.weight(outputs), kernel_shape=[kernel, kernel], **attributes)

    def model(self, outputs: list[str], opset: int) -> onnx.ModelProto:
        """The finished model, with inferred shapes."""
        import onnx
        from onnx import TensorProto, helper, numpy_helper

        def element(dtype: str) -> int:
            return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

        inputs = [helper.make_tensor_value_info(s.name, element(s.dtype), s.shape) for s in self.sources]
        ends = [helper.make_empty_tensor_value_info(name) for name in outputs]
        nodes = [
            helper.make_node(node.kind, node.inputs, node.outputs, node.name, **node.attributes)
            for node in self._nodes
        ]
        constants = [numpy_helper.from_array(value, name) for name, value in self._constants.items()]
        graph = helper.make_graph(nodes, self.name, inputs, ends, constants)
        version = helper.find_min_ir_version_for([helper.make_opsetid("", opset)])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=version)
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        for info in model.graph.output:
            if not info.type.HasField("tensor_type"):  # a function operator, no inference: shape of the input
                info.CopyFrom(
                    helper.make_tensor_value_info(info.name, TensorProto.FLOAT, self.sources[0].shape)
                )
        return model

    @property
    def constants(self) -> dict[str, Array]:
        """What is stored, and what looking up, turning and widening makes of that alone, by name."""
        found = dict(self._constants)
        for node in self._nodes:
            if node.kind in _FOLDED and all(name in found for name in node.inputs):
                found[node.outputs[0]] = _FOLDED[node.kind](node.attributes, *(found[i] for i in node.inputs))
        return found

    def attributes(self, kind: str) -> dict[str, Any]:
        """Attributes of the first node of a type, nothing if there is none."""
        return next((node.attributes for node in self._nodes if node.kind == kind), {})

    def structure(self) -> str:
        """Everything but the values of floating constants and of weights, which may depend on the version of numpy."""
        stored = {
            name: value.shape
            if value.dtype.kind == "f" or value.ndim > 2
            else (value.dtype.name, value.tolist())
            for name, value in self._constants.items()
        }
        return repr((self.sources, [tuple(node) for node in self._nodes], stored))


@dataclass(frozen=True)
class Case:
    """One graph of the sweep: ``build`` fills a ``Net`` and names the outputs.

    ``dtypes``: what it is converted to, of what a SoC takes. ``calibrated``: whether the toolkit quantises the network;
    not one that brings its own scales.
    """

    name: str
    build: Callable[[Net], Any]
    opset: int = 13
    judge: Judge = Judge.CLOSE
    config: dict[str, Any] = field(default_factory=dict)
    dtypes: tuple[str, ...] = ("i8", "fp16")
    calibrated: bool = True

    def record(self) -> tuple[Net, list[str]]:
        """The graph as recorded and the names of its outputs."""
        net = Net(self.name)
        outputs = self.build(net)
        return net, [outputs] if isinstance(outputs, str) else list(outputs)

    def make(self) -> onnx.ModelProto:
        """The ONNX model."""
        net, outputs = self.record()
        return net.model(outputs, self.opset)

    def draw(self, purpose: str) -> list[Array]:
        """One random array per input, the same for the same purpose."""
        rng = np.random.default_rng(zlib.crc32(f"{self.name}/{purpose}".encode()))
        return [source.draw(rng) for source in self.record()[0].sources]

    def fingerprint(self) -> str:
        """Of the structure: the same on every machine, and made without onnx."""
        net, outputs = self.record()
        text = repr((net.structure(), outputs, self.opset, self.judge, self.config, self.dtypes))
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def attributes(self) -> dict[str, dict[str, Any]]:
        """Attributes of the nodes by type (a later node of the same type wins), as JSON takes them."""
        from onnx import helper

        found = {}
        for node in self.make().graph.node:
            values = {a.name: helper.get_attribute_value(a) for a in node.attribute if a.type != a.TENSOR}
            texts = {name: v.decode() if isinstance(v, bytes) else v for name, v in values.items()}
            found[node.op_type] = {
                n: v if isinstance(v, (str, int, float)) else list(v) for n, v in texts.items()
            }
        return found

    def operators(self) -> str:
        """Types of the graph's operators, in its order."""
        return ", ".join(dict.fromkeys(node.kind for node in self.record()[0]._nodes))

    def digest(self) -> str:
        """Changes when the graph or its inputs change."""
        text = self.make().SerializeToString(deterministic=True)
        text += repr((self.record()[0].sources, self.config)).encode()
        return hashlib.sha256(text).hexdigest()[:10]
