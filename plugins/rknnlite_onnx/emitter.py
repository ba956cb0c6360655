"""Nodes and constants of an ONNX graph in the making."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper
from rknnlite_graph.lowering import NotLowered

from rknnlite.errors import visible

__all__ = ["IR_VERSION", "OPSET", "Emitter"]

Array = NDArray[Any]
OPSET = 17
"""The newest that onnxruntime 1.16, OpenVINO 2023 and OpenCV 4.6 read."""
IR_VERSION = 8
_GUARD = float(2**40)
_GRAPH, _INITIALIZER, _RAW_DATA = b"\x3a", b"\x2a", b"\x4a"
"""Keys of fields: of ModelProto, GraphProto and TensorProto."""


class Emitter:
    """Collects nodes in order of execution; equal small constants are stored once.

    ``prefix`` of the names that nobody else gives is the name of the node that is being written. ``plain``: functions are
    written as other exporters do, so that tools know them again; else step by step as the CPU reference computes them.
    ``products_only``: for engines that round quotients twice, a product and a sum with a number once, and know no doubles and
    halves; what is written while ``strict`` does without those.
    """

    def __init__(self, plain: bool = False, products_only: bool = False) -> None:
        self.prefix, self.plain = "", plain
        self._nodes: list[Any] = []
        self._constants: dict[str, Array] = {}
        self._known: dict[tuple[Any, ...], str] = {}
        self._taken: set[str] = set()
        self._counts: dict[str, int] = {}
        self._titles: set[str] = set()
        self._renamed: dict[str, str] = {}
        self.domains: set[str] = set()
        self._described: list[Any] = []
        self._is_products_only, self.strict = products_only, True
        self._products: set[str] = set()
        self._halves: set[str] = set()

    def fresh(self, hint: str) -> str:
        """A name that nothing has yet."""
        name, count = (
            hint,
            self._counts.get(hint, 1),
        )  # else thousands of one name would be tried anew each time
        while name in self._taken:
            count += 1
            name = f"{hint}_{count}"
        self._counts[hint] = count
        self._taken.add(name)
        return name

    def reserve(self, name: str) -> str:
        """Keep a name for ``rename``; where it is taken, another like it."""
        return self.fresh(name)

    def mark(self) -> int:
        """How many nodes there are, for ``forget`` and ``entitle``."""
        return len(self._nodes)

    def forget(self, mark: int) -> None:
        """Take back the nodes since a mark."""
        del self._nodes[mark:]

    def entitle(self, mark: int, title: str, kind: str) -> None:
        """Give the name of a node of the network to the one that stands for it: the first whose type begins ``kind``."""
        written = self._nodes[mark:]
        if not written or not title:
            return
        named = next((node for node in written if kind.startswith(node.op_type)), written[-1])
        name, count = title, 1
        while name in self._titles:
            count += 1
            name = f"{title}_{count}"
        self._titles.add(name)
        named.name = name

    def _products_only(self, kind: str, inputs: Sequence[str], attrs: dict[str, Any]) -> Sequence[str]:
        """See ``products_only``; limits that nothing reaches keep products from being rounded with sums as one."""
        if kind == "Div" and inputs[1] not in self._halves:
            raise NotLowered("quotients are products with reciprocals there")
        if kind == "Cast" and attrs.get("to") in (TensorProto.DOUBLE, TensorProto.FLOAT16):
            raise NotLowered("doubles and halves are float32 there")
        if kind not in ("Add", "Sub") or not any(map(self.is_constant, inputs)):
            return inputs
        limits = self.constant(-_GUARD), self.constant(_GUARD)
        return [self.node("Clip", name, *limits) if name in self._products else name for name in inputs]

    def node(self, kind: str, *inputs: str, **attrs: Any) -> str:
        """Add a node with one result; its name."""
        return self.nodes(kind, inputs, 1, **attrs)[0]

    def nodes(
        self, kind: str, inputs: Sequence[str], count: int, domain: str = "", **attrs: Any
    ) -> list[str]:
        """Add a node with several results; their names."""
        if self._is_products_only and self.strict:
            inputs = self._products_only(kind, inputs, attrs)
        stem = f"{self.prefix}/{kind}" if self.prefix else kind
        name = self.fresh(stem)
        outputs = [self.fresh(f"{name}:{i}") for i in range(count)]
        node = helper.make_node(kind, list(inputs), outputs, name=name, domain=domain)
        given = sorted(attrs.items())  # one by one: their names may be those of parameters
        node.attribute.extend(helper.make_attribute(key, value) for key, value in given if value is not None)
        self._nodes.append(node)
        if kind == "Mul":
            self._products.update(outputs)
        if domain:
            self.domains.add(domain)
        return outputs

    def constant(self, value: Any, dtype: Any = np.float32, hint: str = "", shared: bool = True) -> str:
        """A stored array; its name. Without ``shared`` nobody else reads it."""
        array = np.ascontiguousarray(value, dtype) if np.ndim(value) else np.asarray(value, dtype)
        key = (array.dtype.str, array.shape, array.tobytes()) if shared and array.size <= 64 else None
        if key is not None and key in self._known:
            return self._known[key]
        name = self.fresh(hint or f"{self.prefix or 'constant'}/c")
        self._constants[name] = array
        if array.dtype == np.float32 and (np.frexp(np.abs(array))[0] == 0.5).all():
            self._halves.add(name)
        if key is not None:
            self._known[key] = name
        return name

    def ints(self, values: Iterable[int]) -> str:
        """A stored list of int64, as shapes and axes are given."""
        return self.constant(list(values), np.int64)

    def cast(self, name: str, dtype: Any) -> str:
        """To another element type; ``dtype`` is numpy's."""
        return self.node("Cast", name, to=int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype))))

    def describe(self, name: str, dtype: Any, shape: Sequence[int]) -> None:
        """Say what a result is that readers cannot infer."""
        self._described.append(value_info(name, dtype, shape))

    def rename(self, old: str, new: str) -> None:
        """Call a result by a name that was reserved."""
        self._renamed[old] = new

    def is_constant(self, name: str) -> bool:
        """Whether a name is that of a stored array."""
        return name in self._constants

    def model(
        self, inputs: Sequence[Any], outputs: Sequence[Any], name: str, infos: Sequence[Any] = ()
    ) -> ModelProto:
        """All of it, with the constants that are used; they are gone from here, since large ones would lie here twice."""
        made, constants = self._without_constants(inputs, outputs, name, infos)
        while constants:
            key, array = constants.popitem()
            made.graph.initializer.append(numpy_helper.from_array(array, key))
        return made

    def content(self, inputs: Sequence[Any], outputs: Sequence[Any], name: str) -> bytes:
        """The same as bytes, for which nothing large is copied more than once: protobuf joins parts of a message."""
        made, constants = self._without_constants(inputs, outputs, name, ())
        parts: list[Any] = [made.SerializeToString()]
        for key, array in constants.items():
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            head = TensorProto(dims=array.shape, data_type=kind, name=key).SerializeToString()
            parts += _nested((_GRAPH, _INITIALIZER, head, _RAW_DATA), np.atleast_1d(array).view(np.uint8))
        return b"".join(parts)

    def _without_constants(
        self, inputs: Sequence[Any], outputs: Sequence[Any], name: str, infos: Sequence[Any]
    ) -> tuple[ModelProto, dict[str, Array]]:
        """All nodes, and the constants that they use."""
        for node in self._nodes:
            node.input[:] = [self._renamed.get(each, each) for each in node.input]
            node.output[:] = [self._renamed.get(each, each) for each in node.output]
        used = {each for node in self._nodes for each in node.input}
        graph = helper.make_graph(
            self._nodes, visible(name), list(inputs), list(outputs), value_info=[*infos, *self._described]
        )
        opsets = [helper.make_opsetid("", OPSET), *(helper.make_opsetid(d, 1) for d in sorted(self.domains))]
        made = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="rknnlite")
        constants, self._constants = self._constants, {}
        return made, {key: array for key, array in constants.items() if key in used}


def _nested(keys: Sequence[bytes], data: Array) -> list[Any]:
    """Bytes inside of fields inside of each other: each of ``keys`` is the key of one, or what stands before the next."""
    parts: list[Any] = [data]
    size = data.nbytes
    for key in reversed(keys):
        written = key + _varint(size) if len(key) == 1 else key
        parts.insert(0, written)
        size += len(written)
    return parts


def _varint(value: int) -> bytes:
    """As protobuf writes numbers."""
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def value_info(name: str, dtype: Any, shape: Sequence[Any]) -> Any:
    """What an input or output is; ``dtype`` is numpy's."""
    kind = (
        TensorProto.FLOAT
        if np.dtype(dtype) == np.float32
        else helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    )
    return helper.make_tensor_value_info(name, kind, list(shape))
