"""``export_llm``: a Hugging Face directory -> the files of a reference package."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelInvalid, ModelUnsupported, ParamInvalid
from ..files.reading import is_stream, read_text
from ..files.writing import write_file, writing
from ..formats import ModelFile
from ..formats import llm as container
from ..formats.llm import Architecture, KvFormat, LlmModel
from ..formats.llm_families import FAMILIES
from ..formats.llm_weights import GROUP, WEIGHT_TYPES
from ..formats.safetensors import SafeTensors, write_safetensors
from ..spi.llm import KvDtype
from .config import architecture
from .package import Package, sample_digest
from .vocabulary import Vocabulary, vocabulary
from .weights import pack

__all__ = ["KV_CACHES", "export_llm"]

Array = NDArray[Any]

_PER_LAYER = 4  # matrices that are packed
_MAX_CONTEXT = 4096  # without a word from the user; a cache is allocated whole

KV_CACHES = {
    "f32": KvFormat(KvDtype.UNDEFINED, 0),
    "f16": KvFormat(KvDtype.FLOAT16, 0),
    "int8": KvFormat(KvDtype.INT8_TO_F16, 16),
    "int4": KvFormat(KvDtype.INT4_TO_F16, 16),
}
"""Names of the KV cache formats, as the command line spells them."""


def export_llm(
    hf_dir: str | Path,
    prefix: str | Path,
    weights: str = "f16",
    kvcache: str | None = None,
    max_context: int | None = None,
    core_num: int = 8,
    progress: Callable[[int, int, str], None] | None = None,
) -> Package:
    """Write ``PREFIX.rknn``, ``.weight``, ``.embed.bin`` and ``.tokenizer.gguf``.

    Args:
        hf_dir: directory with ``config.json``, ``*.safetensors`` and, for text, ``tokenizer.json``.
        prefix: path of the package without suffix.
        weights: ``f32``, ``f16``, ``bf16``, or ``w8``/``w4`` (integers with a scale per 32 weights).
        kvcache: ``f32``, ``f16``, ``int8`` or ``int4``; None: ``f32`` with ``f32`` weights, else ``f16``.
        max_context: tokens of the KV cache, at most what the model was trained for; None: that, up to 4096.
        core_num: cores of the coprocessor that is played; a core mask must name as many.
        progress: called with how many matrices are packed, of how many, and the name of the next one.

    Raises:
        ModelInvalid: files are missing, damaged or do not fit.
        ModelUnsupported: another kind of model.
        ParamInvalid: illegal arguments.
    """
    source, package = Path(hf_dir), Package.of(prefix)
    kvcache = kvcache or ("f32" if weights == "f32" else "f16")
    _check_choice("weights", weights, tuple(WEIGHT_TYPES))
    _check_choice("kvcache", kvcache, tuple(KV_CACHES))
    config = _json(source / "config.json")
    with _reading(source / "config.json"):
        arch = architecture(config)
    if WEIGHT_TYPES[weights].scaled and arch.hidden % GROUP:
        raise ParamInvalid(
            f"weights={weights} needs a hidden size in groups of {GROUP}, this one is {arch.hidden}; use f16"
        )
    context = _context(max_context, arch, KV_CACHES[kvcache])
    with _reading(source / "tokenizer.json"):
        words = vocabulary(source, config, arch)
    tensors = _Source(source)
    embed = _embeddings(tensors, arch)
    package.model.parent.mkdir(parents=True, exist_ok=True)
    package_id = _write_weights(package.weight, tensors, arch, weights, progress)
    with writing(package.embed) as file:
        file.write(embed.data)
    if words is not None:
        write_file(package.tokenizer, words.gguf())
    model = LlmModel(
        name=source.resolve().name,
        arch=arch,
        weights=weights,
        kv=KV_CACHES[kvcache],
        max_context=context,
        chat_template=words.chat_template if words else "",
        eos_ids=_eos(source, config, words, arch),
        bos_id=words.bos_id if words else -1,
        special_ids=words.special_ids if words else frozenset(),
        core_num=core_num,
        package_id=package_id,
        embed_sample=sample_digest(embed),
    )
    write_file(package.model, container.write(model, words.token_bytes() if words else None))
    _ = ModelFile(package.model).llm  # what cannot be read is an error here and not at the user's
    return package


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """A file of the wrong structure is one that is damaged."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ModelInvalid(
            f"{path} or a file beside it is damaged: {type(error).__name__}: {error}"
        ) from None


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ParamInvalid(f"{name} is {value!r}, must be one of {', '.join(choices)}")


def _context(wanted: int | None, arch: Architecture, kv: KvFormat) -> int:
    """Tokens of the KV cache, whole groups of them; raises ParamInvalid for what cannot be."""
    group = max(1, kv.group)
    if arch.head_dim % group:
        raise ParamInvalid(
            f"a KV cache in groups of {group} needs head_dim in such groups, not {arch.head_dim}"
        )
    if wanted is None:
        return min(arch.max_position, _MAX_CONTEXT) // group * group or group
    if wanted < 1 or wanted % group or wanted > arch.max_position:
        raise ParamInvalid(
            f"max_context is {wanted}, must be a multiple of {group} up to the {arch.max_position} positions that "
            "the model was trained for"
        )
    return wanted


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(read_text(path))
    except (OSError, ValueError) as error:
        raise ModelInvalid(f"{path}: {error}") from None
    if not isinstance(value, dict):
        raise ModelInvalid(f"{path}: no JSON object")
    return value


def _eos(
    source: Path, config: dict[str, Any], words: Vocabulary | None, arch: Architecture
) -> tuple[int, ...]:
    generation = source / "generation_config.json"
    given = _json(generation).get("eos_token_id") if generation.exists() else None
    given = config.get("eos_token_id") if given is None else given
    ids = given if isinstance(given, list) else [given]
    ids = [i for i in ids if type(i) is int and 0 <= i < arch.vocab_size]
    if words is not None and 0 <= words.eos_id < arch.vocab_size:
        ids.append(words.eos_id)
    return tuple(dict.fromkeys(ids))


class _Source:
    """The tensors of all ``*.safetensors`` of a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._files: dict[str, SafeTensors] = {}
        for path in sorted(directory.glob("*.safetensors")):
            if is_stream(path):
                raise ModelInvalid(f"{path}: it is a pipe, a socket or a device, no safetensors file")
            file = SafeTensors(ModelFile(path).data, str(path))
            self._files.update(dict.fromkeys(file.names, file))
        if not self._files:
            raise ModelInvalid(f"{directory}: has no *.safetensors")

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def get(self, name: str, *shape: int) -> Array:
        """float32, with the shape that the configuration promises."""
        if name not in self._files:
            raise ModelInvalid(f"{self.directory}: no tensor {name} in its *.safetensors")
        array = self._files[name].float32(name)
        if array.shape != shape:
            raise ModelInvalid(
                f"{self.directory}: {name} is {list(array.shape)}, config.json needs {list(shape)}"
            )
        return array


def _embeddings(tensors: _Source, arch: Architecture) -> Array:
    table = tensors.get("model.embed_tokens.weight", arch.vocab_size, arch.hidden)
    if not np.isfinite(table).all() or np.abs(table).max() > 65504:
        raise ModelUnsupported("the embeddings do not fit float16")
    return table.astype(np.float16)


def _write_weights(
    path: Path,
    tensors: _Source,
    arch: Architecture,
    weights: str,
    progress: Callable[[int, int, str], None] | None,
) -> str:
    """Write the weight file; its identity is a digest of all it holds."""
    written: dict[str, tuple[str, Array]] = {}
    digest = hashlib.sha256()
    packed = itertools.count()

    def add(parts: dict[str, tuple[str, Array]]) -> None:
        for name, (kind, array) in parts.items():
            digest.update(f"{name} {kind} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
            written[name] = (kind, array)

    def matrix(name: str, *parts: Array) -> None:
        if progress:
            progress(next(packed), _PER_LAYER * arch.layers + 1, name)
        add(pack(name, np.concatenate(parts) if len(parts) > 1 else parts[0], weights))

    for i in range(arch.layers):
        _write_layer(i, tensors, arch, matrix, add)
    add({"norm": ("F32", tensors.get("model.norm.weight", arch.hidden))})
    head = "model.embed_tokens.weight" if arch.tied else "lm_head.weight"
    matrix("head", tensors.get(head, arch.vocab_size, arch.hidden))
    package_id = digest.hexdigest()[:32]
    write_safetensors(path, written, {"format": "rknnlite-llm-1", "package": package_id, "weights": weights})
    return package_id


def _write_layer(
    i: int, tensors: _Source, arch: Architecture, matrix: Callable[..., None], add: Callable[..., None]
) -> None:
    theirs, ours, names = f"model.layers.{i}.", f"layers.{i}.", FAMILIES[arch.family].tensors
    heads = (arch.q_size, arch.kv_size, arch.kv_size)

    def one(name: str, *shape: int) -> Array:
        return tensors.get(f"{theirs}{name}.weight", *shape)

    def rows(parts: tuple[str, ...], sizes: tuple[int, ...], inputs: int) -> list[Array]:
        return [one(part, size, inputs) for part, size in zip(parts, _sizes(parts, sizes))]

    matrix(ours + "qkv", *rows(names.qkv, heads, arch.hidden))
    matrix(ours + "out", *rows(names.out, (arch.hidden,), arch.q_size))
    matrix(ours + "gate_up", *rows(names.gate_up, (arch.intermediate, arch.intermediate), arch.hidden))
    matrix(ours + "down", *rows(names.down, (arch.hidden,), arch.intermediate))
    vectors = {"norm1": one(names.norm1, arch.hidden), "norm2": one(names.norm2, arch.hidden)}
    if arch.qkv_bias:
        sizes = _sizes(names.qkv, heads)
        biases = [tensors.get(f"{theirs}{part}.bias", size) for part, size in zip(names.qkv, sizes)]
        vectors["qkv_bias"] = np.concatenate(biases)
    if arch.qk_norm:
        vectors["q_norm"] = one(names.q_norm, arch.head_dim)
        vectors["k_norm"] = one(names.k_norm, arch.head_dim)
    add({ours + name: ("F32", vector) for name, vector in vectors.items()})


def _sizes(parts: tuple[str, ...], sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Rows of the parts; a family that has them in one tensor has all rows there."""
    return sizes if len(parts) == len(sizes) else (sum(sizes),)
