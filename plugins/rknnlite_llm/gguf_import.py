"""A GGUF file with a model as a Hugging Face folder, which the export reads: configuration, tensors, tokenizer.

Tensors are widened by the package ``gguf`` (extra ``gguf``); which architectures are read is told in ``gguf_families``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid, ModelUnsupported, shown
from rknnlite.extras import missing
from rknnlite.files.writing import write_file

from .container.safetensors import filling
from .gguf import read_gguf
from .gguf_config import FACTORS, family_of, hf_config, layers_of
from .gguf_families import EXPERTS, GgufFamily
from .gguf_layout import LAYOUTS, Join, xielu
from .package import file_bytes
from .python_tokenizer.from_gguf import published_of

__all__ = ["is_gguf", "unpack_gguf"]

Array = NDArray[Any]
Shape = tuple[int, ...]
HF_JSON = "tokenizer.huggingface.json"
_MOST_EXPERTS = 4096
_NAME = re.compile(r"(?:blk\.(\d{1,4})\.)?([a-z0-9_]+(?:\.[a-z0-9_]+)?)\.(weight|bias)")


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
    label = str(path)
    row = family_of(pairs, tensors, label)
    factors = {name: _widened(tensors.pop(name), label) for name in FACTORS if name in tensors}
    shapes = {name: _shape(tensor) for name, tensor in tensors.items()}
    config = hf_config(pairs, shapes, factors, label)
    steps = _steps(shapes, row, pairs, config, label)
    made = {name: ("F32", shape) for step in steps for name, shape in step.made}
    beside = _activations(pairs, config, label)
    made.update({name: ("F32", array.shape) for name, array in beside.items()})
    with filling(folder / "model.safetensors", made, {"format": "pt"}) as file:
        for step in steps:
            given = [_as_theirs(name, _widened(tensors[name], label), row, config) for name in step.parts]
            for (theirs, shape), part in zip(step.made, step.values(given)):
                file.add(theirs, np.ascontiguousarray(part).reshape(shape))
        for name, array in beside.items():
            file.add(name, np.ascontiguousarray(array))
        file.end()
    write_file(folder / "config.json", json.dumps(config).encode())
    _write_tokenizer(pairs, folder, label)


def _shape(tensor: Any) -> tuple[int, ...]:
    return tuple(int(n) for n in reversed(tensor.shape))


@dataclass(frozen=True)
class _Step:
    """Tensors of a file, and those of the folder with their shapes that ``values`` makes of them."""

    parts: tuple[str, ...]
    made: tuple[tuple[str, Shape], ...]
    values: Callable[[list[Array]], list[Array]]


def _steps(
    shapes: Mapping[str, Shape],
    row: GgufFamily,
    pairs: Mapping[str, Any],
    config: Mapping[str, Any],
    label: str,
) -> list[_Step]:
    """What is made of the tensors of a file, in their order."""
    joins = {
        part: join for join in LAYOUTS.get(str(pairs["general.architecture"]), ()) for part in join.parts
    }
    layers, steps = layers_of(pairs, label), []
    for name, shape in shapes.items():
        match = _NAME.fullmatch(name)
        if match and match[1] and int(match[1]) >= layers:
            continue  # guesses tokens ahead
        join = joins.get(f"{match[2]}.{match[3]}") if match and match[1] else None
        if match is None or join is None:
            steps.append(_straight(name, shape, row, label))
        elif name == f"blk.{match[1]}.{join.parts[0]}":
            steps.append(_joined(int(match[1]), join, shapes, row, config, label))
    return steps


def _joined(
    layer: int,
    join: Join,
    shapes: Mapping[str, Shape],
    row: GgufFamily,
    config: Mapping[str, Any],
    label: str,
) -> _Step:
    parts = tuple(f"blk.{layer}.{part}" for part in join.parts)
    missing = [part for part in parts if part not in shapes]
    if missing:
        raise ModelInvalid(f"{label}: has {parts[0]} and no {missing[0]}")
    try:
        made = join.shapes([shapes[part] for part in parts], config)
    except (ValueError, IndexError, ZeroDivisionError) as error:
        raise ModelInvalid(
            f"{label}: {', '.join(parts)} {[list(shapes[part]) for part in parts]} do not fit: {error}"
        ) from None
    names = (f"{row.layers}{layer}.{name}" for name in join.names)
    return _Step(parts, tuple(zip(names, made)), lambda given: join.values(given, config))


def _straight(name: str, shape: Shape, row: GgufFamily, label: str) -> _Step:
    """One tensor that is one in the folder, or one for each expert."""
    match = _NAME.fullmatch(name)
    if match and match[1] is None and match[2] in row.ends:
        return _Step((name,), ((f"{row.ends[match[2]]}.{match[3]}", shape),), _same)
    if match and match[1] is not None and match[2] in row.layer:
        theirs = f"{row.layers}{match[1]}.{row.layer[match[2]]}.{match[3]}"
        if EXPERTS in theirs and len(shape) == 3 and shape[0] <= _MOST_EXPERTS:
            made = tuple((theirs.format(number), shape[1:]) for number in range(shape[0]))
            return _Step((name,), made, lambda given: list(given[0]))
        if EXPERTS not in theirs:
            rows = (1, *shape) if theirs.endswith("shared_expert_gate.weight") and len(shape) == 1 else shape
            return _Step((name,), ((theirs, rows),), _same)
    raise ModelUnsupported(f"{label}: tensor {shown(name)} {list(shape)} is not computed here")


def _same(given: list[Array]) -> list[Array]:
    return given


def _activations(pairs: Mapping[str, Any], config: Mapping[str, Any], label: str) -> dict[str, Array]:
    """What an activation has learnt, which stands among the keys."""
    if config["model_type"] != "apertus":
        return {}
    try:
        return xielu(pairs, config["num_hidden_layers"])
    except (KeyError, ValueError, TypeError) as error:
        raise ModelInvalid(f"{label}: the numbers of its activation are damaged: {error}") from None


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
    part, what = name.split(".")[-2:]
    if row.sorted_pairs and part in heads:
        count = int(config[heads[part]])
        if count < 1 or len(values) % (2 * count):
            raise ModelInvalid(f"tensor {name}: {len(values)} rows are no pairs for {count} heads")
        pairs = values.reshape(count, len(values) // count // 2, 2, *values.shape[1:])
        return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(values.shape))
    return (
        values - np.float32(row.shift)
        if row.shift and part.endswith("_norm") and what == "weight"
        else values
    )


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
