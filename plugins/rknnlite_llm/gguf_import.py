"""A GGUF file with a model as a Hugging Face folder, which the export reads: configuration, tensors, tokenizer.

Tensors are widened by the package ``gguf`` (extra ``gguf``); which architectures are read is told in ``gguf_families``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid, ModelUnsupported, shown
from rknnlite.extras import missing
from rknnlite.files.writing import write_file

from .container.safetensors import filling
from .gguf import read_gguf
from .gguf_config import FACTORS, family_of, hf_config
from .gguf_families import ENDS, EXPERTS, GgufFamily
from .package import file_bytes
from .python_tokenizer.from_gguf import published_of

__all__ = ["is_gguf", "unpack_gguf"]

Array = NDArray[Any]
HF_JSON = "tokenizer.huggingface.json"
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
    row, label = family_of(pairs, str(path)), str(path)
    factors = {name: _widened(tensors.pop(name), label) for name in FACTORS if name in tensors}
    config = hf_config(pairs, {name: _shape(tensor) for name, tensor in tensors.items()}, factors, label)
    names = {name: _their_names(name, _shape(tensor), row, label) for name, tensor in tensors.items()}
    shapes = {
        name: ("F32", shape) for theirs in names.values() for name, shape in theirs
    }  # in this order they are written
    with filling(folder / "model.safetensors", shapes, {"format": "pt"}) as file:
        for name, tensor in tensors.items():
            values = _as_theirs(name, _widened(tensor, label), row, config)
            parts = values if len(names[name]) > 1 else [values]
            for (theirs, shape), part in zip(names[name], parts):
                file.add(theirs, np.ascontiguousarray(part).reshape(shape))
        file.end()
    write_file(folder / "config.json", json.dumps(config).encode())
    _write_tokenizer(pairs, folder, label)


def _shape(tensor: Any) -> tuple[int, ...]:
    return tuple(int(n) for n in reversed(tensor.shape))


def _their_names(
    name: str, shape: tuple[int, ...], row: GgufFamily, label: str
) -> list[tuple[str, tuple[int, ...]]]:
    """What a tensor is in the folder: one, or one for each expert."""
    match = _NAME.fullmatch(name)
    if match and match[1] is None and match[2] in ENDS:
        return [(f"{ENDS[match[2]]}.{match[3]}", shape)]
    if match and match[1] is not None and match[2] in row.layer:
        theirs = f"model.layers.{match[1]}.{row.layer[match[2]]}.{match[3]}"
        if EXPERTS in theirs and len(shape) == 3:
            return [(theirs.format(number), shape[1:]) for number in range(shape[0])]
        if EXPERTS not in theirs:
            rows = (1, *shape) if theirs.endswith("shared_expert_gate.weight") and len(shape) == 1 else shape
            return [(theirs, rows)]
    raise ModelUnsupported(f"{label}: tensor {shown(name)} {list(shape)} is not computed here")


def _widened(tensor: Any, label: str) -> Array:
    from gguf.quants import dequantize

    try:
        values: Array = dequantize(tensor.data, tensor.tensor_type)
    except (NotImplementedError, ValueError) as error:
        raise ModelUnsupported(f"{label}: {tensor.name} of type {tensor.tensor_type.name}: {error}") from None
    return values.astype(np.float32, copy=False).reshape(_shape(tensor))


def _as_theirs(name: str, values: Array, row: GgufFamily, config: Mapping[str, Any]) -> Array:
    """What llama.cpp's converter has changed, as it was before."""
    heads = {"attn_q": "num_attention_heads", "attn_k": "num_key_value_heads"}
    part = name.split(".")[-2]
    if row.sorted_pairs and part in heads:
        count = int(config[heads[part]])
        if count < 1 or len(values) % (2 * count):
            raise ModelInvalid(f"tensor {name}: {len(values)} rows are no pairs for {count} heads")
        pairs = values.reshape(count, len(values) // count // 2, 2, *values.shape[1:])
        return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(values.shape))
    return values - np.float32(row.shift) if row.shift and part.endswith("_norm") else values


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
