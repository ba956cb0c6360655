"""A GGUF file with a model as a Hugging Face folder, which the export reads: configuration, tensors, tokenizer.

Tensors are widened by the package ``gguf`` (extra ``gguf``). Models of the families Llama, Qwen2 and Qwen3 are read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelInvalid, ModelUnsupported, shown
from ..extras import missing
from ..files.writing import write_file
from ..formats.safetensors import filling
from .gguf import read_gguf
from .package import file_bytes
from .tokens.gguf import published_of

__all__ = ["is_gguf", "unpack_gguf"]

Array = NDArray[Any]
HF_JSON = "tokenizer.huggingface.json"
_FAMILIES = ("llama", "qwen2", "qwen3")
_ENDS = {
    "token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head",
}  # fmt: skip
_LAYER = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip
_KEYS = {
    "hidden_size": "embedding_length", "intermediate_size": "feed_forward_length", "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count", "num_key_value_heads": "attention.head_count_kv",
    "max_position_embeddings": "context_length", "rms_norm_eps": "attention.layer_norm_rms_epsilon", "rope_theta": "rope.freq_base",
    "head_dim": "attention.key_length",
}  # fmt: skip
_OPTIONAL = ("head_dim", "rope_theta", "num_key_value_heads")
_NAME = re.compile(r"(?:blk\.(\d+)\.)?(\w+)\.(weight|bias)")


def is_gguf(path: Path) -> bool:
    """A file with that suffix."""
    return path.suffix.lower() == ".gguf" and path.is_file()


def unpack_gguf(path: Path, folder: Path) -> None:
    """Write ``config.json``, ``model.safetensors`` (float32), ``tokenizer.json`` and ``tokenizer_config.json`` into a folder.

    Raises ModelInvalid, ModelUnsupported, or RknnError when the package ``gguf`` is missing.
    """
    try:
        import gguf
    except ImportError as error:
        raise missing("gguf", f"{path}: a GGUF file needs the package gguf", error) from None
    pairs = read_gguf(file_bytes(path), str(path))
    try:
        tensors = {str(tensor.name): tensor for tensor in gguf.GGUFReader(path).tensors}
    except (ValueError, IndexError, KeyError, OSError) as error:
        raise ModelInvalid(f"{path}: damaged: {error}") from None
    config = _config(pairs, tensors, str(path))
    names = {_their_name(name, str(path)): tensor for name, tensor in tensors.items()}
    shapes = {name: ("F32", tuple(int(n) for n in reversed(tensor.shape))) for name, tensor in names.items()}
    with filling(folder / "model.safetensors", shapes, {"format": "pt"}) as file:
        for name, tensor in names.items():
            file.add(name, _in_place(name, _widened(tensor, str(path)), config))
        file.end()
    write_file(folder / "config.json", json.dumps(config).encode())
    _write_tokenizer(pairs, folder, str(path))


def _config(pairs: Mapping[str, Any], tensors: Mapping[str, Any], label: str) -> dict[str, Any]:
    family = pairs.get("general.architecture")
    if family not in _FAMILIES:
        raise ModelUnsupported(
            f"{label}: models of {shown(family)} are not read from GGUF, there are {', '.join(_FAMILIES)}; export the Hugging Face "
            "folder that it was made from"
        )
    scaling = pairs.get(f"{family}.rope.scaling.type", "none")
    if scaling != "none" or "rope_freqs.weight" in tensors or f"{family}.expert_count" in pairs:
        raise ModelUnsupported(
            f"{label}: rotary embeddings that are scaled ({shown(scaling)}) and experts are not read from GGUF; export the Hugging "
            "Face folder that it was made from"
        )
    found = {ours: pairs.get(f"{family}.{theirs}") for ours, theirs in _KEYS.items()}
    lacking = [_KEYS[key] for key, value in found.items() if value is None and key not in _OPTIONAL]
    if lacking or "token_embd.weight" not in tensors:
        raise ModelInvalid(f"{label}: has no {family}.{lacking[0] if lacking else 'token_embd.weight'}")
    config: dict[str, Any] = {key: value for key, value in found.items() if value is not None}
    return {
        "model_type": family,
        "vocab_size": int(tensors["token_embd.weight"].shape[1]),
        "tie_word_embeddings": "output.weight" not in tensors,
        "hidden_act": "silu",
        **config,
    }


def _their_name(name: str, label: str) -> str:
    match = _NAME.fullmatch(name)
    if match and match[1] is None and match[2] in _ENDS:
        return f"{_ENDS[match[2]]}.{match[3]}"
    if match and match[1] is not None and match[2] in _LAYER:
        return f"model.layers.{match[1]}.{_LAYER[match[2]]}.{match[3]}"
    raise ModelUnsupported(f"{label}: tensor {shown(name)} is not computed here")


def _widened(tensor: Any, label: str) -> Array:
    from gguf.quants import dequantize

    try:
        values: Array = dequantize(tensor.data, tensor.tensor_type)
    except (NotImplementedError, ValueError) as error:
        raise ModelUnsupported(f"{label}: {tensor.name} of type {tensor.tensor_type.name}: {error}") from None
    return values.astype(np.float32, copy=False).reshape(tuple(int(n) for n in reversed(tensor.shape)))


def _in_place(name: str, values: Array, config: Mapping[str, Any]) -> Array:
    """Rows of a Llama's queries and keys, which llama.cpp has sorted by pairs of channels, where they were."""
    heads = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}
    part = name.split(".")[-2]
    if config["model_type"] != "llama" or part not in heads:
        return values
    count = int(config.get(heads[part], config["num_attention_heads"]))
    pairs = values.reshape(count, len(values) // count // 2, 2, *values.shape[1:])
    return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(values.shape))


def _write_tokenizer(pairs: Mapping[str, Any], folder: Path, label: str) -> None:
    tokens = pairs.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, list):
        return
    text = pairs.get(HF_JSON)
    whole = text if isinstance(text, str) else json.dumps(published_of(pairs, label))
    write_file(folder / "tokenizer.json", whole.encode())
    settings = {}
    for name in ("bos", "eos"):
        number = pairs.get(f"tokenizer.ggml.{name}_token_id", -1)
        if type(number) is int and 0 <= number < len(tokens):
            settings[f"{name}_token"] = tokens[number]
    template = pairs.get("tokenizer.chat_template")
    settings.update({"chat_template": template} if isinstance(template, str) else {})
    write_file(folder / "tokenizer_config.json", json.dumps(settings).encode())
