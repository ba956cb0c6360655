"""The network of a vision tower as ONNX operators, for a picture of one size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelUnsupported, shown

from .geometry import angles, merged_places, resampled, waves, windows
from .layouts import Tower
from .onnx_writer import OnnxWriter
from .tensors import TowerTensors

__all__ = ["ACTIVATIONS", "Network"]

Array = NDArray[Any]
ACTIVATIONS = ("silu", "quick_gelu", "gelu", "gelu_pytorch_tanh")


@dataclass
class Network:
    """Writes a tower; ``rows`` and ``columns`` of patches."""

    tower: Tower
    tensors: TowerTensors
    writer: OnnxWriter
    rows: int
    columns: int

    def __post_init__(self) -> None:
        self.places = merged_places(self.rows, self.columns, self.tower.merge)
        self.count = self.rows * self.columns
        convolution = self.tensors.whole(self.tower.layout.patch)
        self.convolution = convolution.reshape(
            len(convolution), 3, self.tower.frames, self.tower.patch, self.tower.patch
        )
        self.hidden = len(convolution)
        head = self.hidden // max(self.tower.heads, 1)
        if head * self.tower.heads != self.hidden or (self.tower.layout.rotary and head % 4):
            raise ModelUnsupported(
                f"config.json: a vision tower of {self.hidden} channels in {self.tower.heads} heads is not computed here"
            )
        self.head = head
        self.sequence = self.count + bool(self.tower.layout.first)
        self._mask = ""
        self._turns: tuple[str, str] | None = None

    def write(self, form: str) -> None:
        """All operators; ``form``: ``patches``, or ``pixels``."""
        tower, layout = self.tower, self.tower.layout
        x = self._patches() if form == "patches" else self._pixels()
        x = self._positions(x)
        self._masks()
        further = []
        for number in range(tower.layers):
            x = self._layer(
                x, layout.layer.format(number), windowed=bool(tower.window) and number not in tower.full
            )
            if number in tower.deepstack:
                name = layout.deepstack.format(tower.deepstack.index(number))
                names = [name + part.rpartition("merger.")[2] for part in layout.merger]
                further.append(self._merged(x, names, joined=True))
        if layout.last:
            x = self._norm(x, layout.last)
        if layout.first:
            x = self.writer.part(x, 0, 1, self.sequence)
        if layout.resampler:
            self._give(self._asked(x), "embeds")
            return
        self._give(self._merged(x, layout.merger, joined=bool(layout.merger_prefixes)), "embeds")
        for number, value in enumerate(further):
            self._give(value, f"deepstack_{number}")

    def _give(self, value: str, name: str) -> None:
        self.writer.output(
            value, name, (self.tensors.queries or self.count // self.tower.merge**2, self.tensors.width)
        )

    # -- in front of the layers -----------------------------------------------------------------------------------

    def _patches(self) -> str:
        size = self.convolution[0].size
        given = self.writer.input("patches", (self.count, size))
        return self._gemm(
            given, self.convolution.reshape(self.hidden, size), self._bias(self.tower.layout.patch)
        )

    def _pixels(self) -> str:
        """The same picture in all frames, so their weights are added."""
        add, constant = self.writer.add, self.writer.constant
        edge = self.tower.patch
        given = self.writer.input("pixels", (1, 3, self.rows * edge, self.columns * edge))
        bias = self._bias(self.tower.layout.patch)
        more = [] if bias is None else [constant(bias)]
        x = add(
            "Conv",
            given,
            constant(self.convolution.sum(axis=2)),
            *more,
            kernel_shape=[edge] * 2,
            strides=[edge] * 2,
        )
        x = add("Transpose", self.writer.reshape(x, self.hidden, self.count), perm=[1, 0])
        order = self.places[0] * self.columns + self.places[1]
        return add("Gather", x, constant(order, np.int64), axis=0)

    def _positions(self, x: str) -> str:
        layout, add, constant = self.tower.layout, self.writer.add, self.writer.constant
        first = self.tensors.bare(layout.first).reshape(1, self.hidden) if layout.first else None
        if layout.positions:
            table = self.tensors.bare(layout.positions).reshape(-1, self.hidden)
            if first is not None:
                first, table = first + table[:1], table[1:]
            if round(len(table) ** 0.5) ** 2 != len(table):
                raise ModelUnsupported(
                    f"{self.tensors.directory}: {len(table)} positions of patches are no square"
                )
            found = resampled(table, self.places, self.rows, self.columns, layout.resample)
            x = add("Add", x, constant(found))
        return x if first is None else add("Concat", constant(first), x, axis=0)

    def _masks(self) -> None:
        tower = self.tower
        if tower.window:
            edge = max(1, tower.window // tower.merge // tower.patch) * tower.merge
            self._mask = self.writer.constant(windows(self.places, edge)[None, None])
        if tower.layout.rotary:
            turned = angles(self.places, self.head, tower.theta)[None, None]
            self._turns = self.writer.constant(np.cos(turned)), self.writer.constant(np.sin(turned))

    # -- layers -----------------------------------------------------------------------------------------------------

    def _layer(self, x: str, name: str, windowed: bool) -> str:
        layout, add = self.tower.layout, self.writer.add
        for number in range(2):
            y = self._norm(x, name + layout.norms[number])
            y = self._feed(y, name) if number else self._attention(y, name, windowed)
            if layout.scales:
                y = add("Mul", y, self.writer.constant(self.tensors.bare(name + layout.scales[number])))
            x = add("Add", x, y)
        return x

    def _attention(self, x: str, name: str, windowed: bool) -> str:
        add = self.writer.add
        names, out = self.tower.layout.attention
        heads = []
        for number in range(3):
            weight, bias = self.tensors.third([name + one for one in names], number)
            if number == 0:  # turning keeps lengths
                scale = np.float32(self.head**-0.5)
                weight, bias = weight * scale, None if bias is None else bias * scale
            y = self.writer.reshape(
                self._gemm(x, weight, bias), 1, self.sequence, self.tower.heads, self.head
            )
            y = add("Transpose", y, perm=[0, 2, 1, 3])
            heads.append(self._turned(y) if number < 2 else y)
        query, key, value = heads
        scores = add("MatMul", query, add("Transpose", key, perm=[0, 1, 3, 2]))
        if windowed:
            scores = add("Add", scores, self._mask)
        y = add("MatMul", add("Softmax", scores, axis=-1), value)
        y = self.writer.reshape(add("Transpose", y, perm=[0, 2, 1, 3]), self.sequence, self.hidden)
        return self._linear(y, name + out)

    def _turned(self, x: str) -> str:
        if self._turns is None:
            return x
        add, half = self.writer.add, self.head // 2
        cos, sin = self._turns
        left, right = self.writer.part(x, 3, 0, half), self.writer.part(x, 3, half, self.head)
        first = add("Sub", add("Mul", left, cos), add("Mul", right, sin))
        return add("Concat", first, add("Add", add("Mul", right, cos), add("Mul", left, sin)), axis=3)

    def _feed(self, x: str, name: str) -> str:
        *first, last = (name + one for one in self.tower.layout.feed)
        y = self._activated(self._linear(x, first[0]), self.tower.act)
        if len(first) == 2:
            y = self.writer.add("Mul", y, self._linear(x, first[1]))
        return self._linear(y, last)

    def _merged(self, x: str, names: Sequence[str], joined: bool) -> str:
        """Neighbours as one token; ``joined``: the norm is over all of them."""
        norm, *layers = names
        wide = (self.count // self.tower.merge**2, self.hidden * self.tower.merge**2)
        if joined:
            x = self.writer.reshape(x, *wide)
        if norm:
            x = self._norm(x, norm, merger=True)
        if not joined:
            x = self.writer.reshape(x, *wide)
        for number, layer in enumerate(layers):
            x = self._activated(x, "gelu") if number else x
            x = self._linear(x, layer, merger=True)
        return x

    def _asked(self, x: str) -> str:
        """Rows of the model's own attend to all patches: MiniCPM-V's resampler."""
        add, constant = self.writer.add, self.writer.constant
        width, count = self.tensors.width, self.tensors.queries
        heads = max(1, width // 128)
        keys = self._norm(self._linear(x, "kv_proj", merger=True), "ln_kv", merger=True)
        placed = add("Add", keys, constant(waves(self.places, width)))
        queries = self._norm(constant(self.tensors.bare("query", merger=True)), "ln_q", merger=True)
        parts = []
        for number, value in enumerate((queries, placed, keys)):
            weight, bias = self.tensors.input_third(number)
            if number == 0:
                weight, bias = (
                    weight * np.float32((width // heads) ** -0.5),
                    bias * np.float32((width // heads) ** -0.5),
                )
            y = self.writer.reshape(
                self._gemm(value, weight, bias), 1, self.count if number else count, heads, width // heads
            )
            parts.append(add("Transpose", y, perm=[0, 2, 3, 1] if number == 1 else [0, 2, 1, 3]))
        y = add("MatMul", add("Softmax", add("MatMul", parts[0], parts[1]), axis=-1), parts[2])
        y = self.writer.reshape(add("Transpose", y, perm=[0, 2, 1, 3]), count, width)
        y = self._norm(self._linear(y, "attn.out_proj", merger=True), "ln_post", merger=True)
        return self._gemm(y, self.tensors.bare("proj", merger=True).T, None)

    # -- single operators -----------------------------------------------------------------------------------------

    def _bias(self, name: str, merger: bool = False) -> Array | None:
        return self.tensors.maybe(f"{name}.bias", merger)

    def _linear(self, x: str, name: str, merger: bool = False) -> str:
        return self._gemm(x, self.tensors.whole(name, merger), self._bias(name, merger))

    def _gemm(self, x: str, weight: Array, bias: Array | None) -> str:
        more = [] if bias is None else [self.writer.constant(bias)]
        return self.writer.add("Gemm", x, self.writer.constant(weight), *more, transB=1)

    def _norm(self, x: str, name: str, merger: bool = False) -> str:
        add, constant = self.writer.add, self.writer.constant
        weight, bias = constant(self.tensors.whole(name, merger)), self._bias(name, merger)
        epsilon = 1e-5 if merger and self.tower.layout.merger_prefixes else self.tower.epsilon
        if not self.tower.layout.rms:
            more = [] if bias is None else [constant(bias)]
            return add("LayerNormalization", x, weight, *more, axis=-1, epsilon=epsilon)
        squares = add("ReduceMean", add("Mul", x, x), axes=[-1], keepdims=1)
        length = add("Sqrt", add("Add", squares, constant(np.float32(epsilon))))
        return add("Mul", add("Div", x, length), weight)

    def _activated(self, x: str, kind: str) -> str:
        add, constant = self.writer.add, self.writer.constant
        if kind == "silu":
            return add("Mul", x, add("Sigmoid", x))
        if kind == "quick_gelu":
            return add("Mul", x, add("Sigmoid", add("Mul", x, constant(1.702))))
        if kind == "gelu":
            inner = add("Erf", add("Mul", x, constant(0.5**0.5)))
        elif kind == "gelu_pytorch_tanh":
            cubes = add("Mul", add("Mul", x, x), x)
            bent = add("Add", x, add("Mul", cubes, constant(0.044715)))
            inner = add("Tanh", add("Mul", bent, constant((2 / np.pi) ** 0.5)))
        else:
            raise ModelUnsupported(
                f"config.json: hidden_act of the vision tower is {shown(kind)}; computed here are {', '.join(ACTIVATIONS)}"
            )
        return add("Mul", add("Mul", x, constant(0.5)), add("Add", inner, constant(1.0)))
