"""The encoder: embeddings of whole texts in, hidden states out; every token of a text sees all others of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_llm.container.description import LlmModel
from rknnlite_llm.container.safetensors import SafeTensors

from ..kernels.parallel import BLOCK_ELEMENTS, run_blocks
from ..kernels.threads import cores, limited
from .attention import Queries, attend
from .linear import Linear, Maker, make_linear
from .norms_and_activations import ACTIVATIONS, layer_normed
from .weight_reader import WeightReader

__all__ = ["Encoder"]

Array = NDArray[Any]
_SCORES = 1 << 24  # numbers of one block of attention scores, 64 MiB


@dataclass(frozen=True)
class _Layer:
    qkv: Linear
    out: Linear
    up: Linear
    down: Linear
    qkv_bias: Array
    out_bias: Array
    up_bias: Array
    down_bias: Array
    norm1: Array
    norm1_bias: Array
    norm2: Array
    norm2_bias: Array


class Encoder:
    """A transformer that looks both ways (see ``Architecture``), on the weights of a package."""

    def __init__(self, model: LlmModel, weights: SafeTensors, make: Maker = make_linear) -> None:
        """Check and wrap the weights; nothing is copied but scales and vectors. Raises ModelInvalid."""
        self.arch = arch = model.arch
        found = WeightReader(model, weights, make)
        self._layers = [_Layer(**found.layer(i)) for i in range(arch.layers)]
        self._norm, self._norm_bias = found.vector("embed_norm"), found.vector("embed_norm_bias")
        self._positions = found.table("positions")
        self._activation = ACTIVATIONS[arch.activation]
        self._eps = np.float32(arch.rms_eps)
        self._scale = np.float32(arch.head_dim**-0.5)

    def forward(self, texts: Sequence[Array]) -> list[Array]:
        """Embeddings (n, hidden) float32 of whole texts -> their hidden states (n, hidden).

        The tokens of all texts go through the weights together, nothing is padded: no text has a say in another.
        """
        ends = list(accumulate(len(text) for text in texts))
        places = [slice(end - len(text), end) for end, text in zip(ends, texts)]
        x = np.concatenate([text + self._positions[: len(text)] for text in texts])
        with limited(cores()):
            x = self._normed(x, self._norm, self._norm_bias)
            for layer in self._layers:
                x += self._attention(layer, x, places)
                x = self._normed(x, layer.norm1, layer.norm1_bias)
                x += self._mlp(layer, x)
                x = self._normed(x, layer.norm2, layer.norm2_bias)
        return [x[place] for place in places]

    def _normed(self, x: Array, weight: Array, bias: Array) -> Array:
        return layer_normed(x, weight, bias, self._eps)

    def _mlp(self, layer: _Layer, x: Array) -> Array:
        wide = layer.up(x)
        step = max(1, BLOCK_ELEMENTS // wide.shape[1])
        rows = [slice(i, i + step) for i in range(0, len(x), step)]

        def work(block: slice) -> None:
            wide[block] = self._activation(wide[block] + layer.up_bias)

        run_blocks(work, rows, wide.size)
        return layer.down(wide) + layer.down_bias

    def _attention(self, layer: _Layer, x: Array, places: Sequence[slice]) -> Array:
        qkv = layer.qkv(x) + layer.qkv_bias
        mixed = np.concatenate([self._attended(qkv[place]) for place in places])
        return layer.out(mixed) + layer.out_bias

    def _attended(self, qkv: Array) -> Array:
        """What the tokens of one text see: (tokens, heads * head_dim)."""
        arch, count = self.arch, len(qkv)
        heads = qkv.reshape(count, -1, arch.head_dim).transpose(1, 0, 2)
        queries, keys, values = np.split(heads, 3)
        queries = queries * self._scale
        step = max(1, _SCORES // (arch.heads * count))
        blocks = [attend(Queries(queries[:, i : i + step], 1), keys, values) for i in range(0, count, step)]
        return np.concatenate(blocks, axis=1).transpose(1, 0, 2).reshape(count, -1)
