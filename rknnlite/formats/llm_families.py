"""Families of language models: one row of ``FAMILIES`` for each, which export, reader and tokenizer go by."""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = ["FAMILIES", "LayerTensors", "LlmFamily", "Pooling"]


class Pooling(str, enum.Enum):
    """How the hidden states of a text become its one embedding: the last one, their mean, the first one."""

    LAST = "last"
    MEAN = "mean"
    CLS = "cls"


@dataclass(frozen=True)
class LayerTensors:
    """What a layer's tensors are called in ``*.safetensors``, between ``layers.0.`` and ``.weight``.

    Of several names the rows lie one below the other in ours; a family that has them so already names one. An encoder has no
    gate: ``gate_up`` is its one matrix before the activation.
    """

    qkv: tuple[str, ...] = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
    out: tuple[str, ...] = ("self_attn.o_proj",)
    gate_up: tuple[str, ...] = ("mlp.gate_proj", "mlp.up_proj")
    down: tuple[str, ...] = ("mlp.down_proj",)
    norm1: str = "input_layernorm"
    norm2: str = "post_attention_layernorm"
    q_norm: str = "self_attn.q_norm"
    k_norm: str = "self_attn.k_norm"


@dataclass(frozen=True)
class LlmFamily:
    """What sets the models of one family apart from a Llama.

    Attributes:
        name: ``model_type`` in ``config.json``.
        pre_tokenizer: how a text is cut before BPE, by llama.cpp's name (``tokenizer.ggml.pre``).
        qkv_bias: queries, keys and values have biases.
        qk_norm: queries and keys are normalised, head by head.
        tensors: names of a layer in ``*.safetensors``.
        encoder: every token sees all others; LayerNorm behind each half of a layer, biases, learnt positions, no gate.
        pooling: of its embeddings where a model does not say.
        layers: what the names of layers begin with.
        table: name of the embeddings.
        first_position: row of the learnt positions that belongs to a text's first token.
    """

    name: str
    pre_tokenizer: str
    qkv_bias: bool = False
    qk_norm: bool = False
    tensors: LayerTensors = LayerTensors()
    encoder: bool = False
    pooling: Pooling = Pooling.LAST
    layers: str = "layers."
    table: str = "embed_tokens.weight"
    first_position: int = 0


_BERT = LayerTensors(
    qkv=("attention.self.query", "attention.self.key", "attention.self.value"),
    out=("attention.output.dense",),
    gate_up=("intermediate.dense",),
    down=("output.dense",),
    norm1="attention.output.LayerNorm",
    norm2="output.LayerNorm",
)


def _encoder(name: str, first_position: int = 0) -> LlmFamily:
    return LlmFamily(
        name, pre_tokenizer="", qkv_bias=True, tensors=_BERT, encoder=True, pooling=Pooling.MEAN, layers="encoder.layer.",
        table="embeddings.word_embeddings.weight", first_position=first_position,
    )  # fmt: skip


_ROWS = (
    LlmFamily("qwen2", pre_tokenizer="qwen2", qkv_bias=True),
    LlmFamily("qwen3", pre_tokenizer="qwen2", qk_norm=True),
    LlmFamily("llama", pre_tokenizer="llama-bpe"),
    _encoder("bert"),
    _encoder("xlm-roberta", first_position=2),
)
FAMILIES = {family.name: family for family in _ROWS}
"""All families that are computed here, by name."""
