"""Families of language models: one row of ``FAMILIES`` for each, which export, reader and tokenizer go by."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FAMILIES", "LayerTensors", "LlmFamily"]


@dataclass(frozen=True)
class LayerTensors:
    """What a layer's tensors are called in ``*.safetensors``, between ``model.layers.0.`` and ``.weight``.

    Of several names the rows lie one below the other in ours; a family that has them so already names one.
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
        tensors: names in ``*.safetensors``.
    """

    name: str
    pre_tokenizer: str
    qkv_bias: bool = False
    qk_norm: bool = False
    tensors: LayerTensors = LayerTensors()


_ROWS = (
    LlmFamily("qwen2", pre_tokenizer="qwen2", qkv_bias=True),
    LlmFamily("qwen3", pre_tokenizer="qwen2", qk_norm=True),
    LlmFamily("llama", pre_tokenizer="llama-bpe"),
)
FAMILIES = {family.name: family for family in _ROWS}
"""All families that are computed here, by name."""
