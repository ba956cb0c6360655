"""``export_llm``: a Hugging Face directory -> the files of a reference package."""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rknnlite.errors import ModelInvalid, ModelUnsupported, ParamInvalid
from rknnlite.files.writing import write_file, writing
from rknnlite.formats import ModelFile
from rknnlite.log import logger
from rknnlite.spi.llm import KvDtype

from .checksums import file_sum
from .container import description as container
from .container.description import KV_GROUPS, Architecture, FileSums, KvFormat, LlmModel, read_llm
from .container.families import FAMILIES
from .container.family import Pooling
from .container.weight_types import WEIGHT_TYPES
from .export_tokenizer import Vocabulary, vocabulary
from .export_weights import Progress, write_weights
from .gguf_import import is_gguf, unpack_gguf
from .gptq_awq import packing_of
from .hf_config import architecture
from .hf_folder import HfFolder, check_counts, embedding_of, longest_text, read_object
from .multimodal_config import language_part
from .package import Package, sample_digest
from .sequence_classification import scorer_of, with_scorer

__all__ = ["KV_CACHES", "export_llm"]

_MAX_CONTEXT = 4096  # without a word from the user; a cache is allocated whole

KV_CACHES = {
    name: KvFormat(dtype, KV_GROUPS[dtype])
    for name, dtype in (
        ("f32", KvDtype.UNDEFINED),
        ("f16", KvDtype.FLOAT16),
        ("int8", KvDtype.INT8_TO_F16),
        ("int4", KvDtype.INT4_TO_F16),
        ("int4-f8", KvDtype.INT4_TO_F8),
        ("float8", KvDtype.FLOAT8_TO_F16),
        ("float8-f8", KvDtype.FLOAT8_TO_F8),
        ("float4", KvDtype.FLOAT4_TO_F16),
        ("float4-f8", KvDtype.FLOAT4_TO_F8),
    )
}
"""Names of the KV cache formats, as the command line spells them."""


def export_llm(
    hf_dir: str | Path,
    prefix: str | Path,
    weights: str = "f16",
    kvcache: str | None = None,
    max_context: int | None = None,
    core_num: int = 8,
    progress: Progress = None,
    pooling: str | None = None,
    normalise: bool | None = None,
) -> Package:
    """Write ``PREFIX.rknn``, ``.weight``, ``.embed.bin`` and ``.tokenizer.gguf``.

    Args:
        hf_dir: directory with ``config.json``, ``*.safetensors`` and, for text, ``tokenizer.json`` or ``tokenizer.model``. Matrices
            may be quantised by GPTQ or AWQ; they are widened, and packed as ``weights`` says. Or a GGUF file, which is unpacked to
            float32 beside the package for the time of the export.
        prefix: path of the package without suffix.
        weights: ``f32``, ``f16``, ``bf16``, or ``w8``/``w4`` (integers with a scale per 32 weights). The table of embeddings is
            float16, as the vendor's runtime takes it, with ``f32`` alone float32.
        kvcache: a name of ``KV_CACHES``: ``f32``, ``f16``, ``int8``, ``int4``, ``float8``, ``float4``, and the last three with
            ``-f8`` behind them, computed in FP8; None: ``f32`` with ``f32`` weights, else ``f16``.
        max_context: tokens of the KV cache, of a text for embeddings; at most what the model was trained for. None: that, up
            to 4096, and for embeddings as sentence-transformers say.
        core_num: cores of the coprocessor that is played; a core mask must name as many.
        progress: called with how many matrices are packed, of how many, and the name of the next one.
        pooling: ``last``, ``mean`` or ``cls`` make a model of embeddings; None: what the files of sentence-transformers
            say, else what is usual in the family: a decoder generates text, an encoder (bert, xlm-roberta) takes the mean. A model
            whose architecture is one "for sequence classification" gives scores (``Reranker``) when no pooling is given.
        normalise: embeddings have length 1; None: as the files say, else yes.

    Raises:
        ModelInvalid: files are missing, damaged or do not fit.
        ModelUnsupported: another kind of model.
        ParamInvalid: illegal arguments.
    """
    source, package = Path(hf_dir), Package.of(prefix)
    if is_gguf(source):
        package.model.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=package.model.parent) as room:
            folder = Path(room) / source.stem
            folder.mkdir()
            unpack_gguf(source, folder)
            return export_llm(
                folder, prefix, weights, kvcache, max_context, core_num, progress, pooling, normalise
            )
    _check_choice("weights", weights, tuple(WEIGHT_TYPES))
    if pooling is not None:
        _check_choice("pooling", pooling, tuple(kind.value for kind in Pooling))
    config = read_object(source / "config.json")
    check_counts(config, source)
    packing = packing_of(config)
    config.pop("quantization_config", None)
    with _reading(source / "config.json"):
        family = architecture(config).family
        embedding = embedding_of(source, family, pooling, normalise)
        part = language_part(config)
        scorer = scorer_of(config) if pooling is None else None
        embedding = None if scorer else embedding
        arch = architecture(config, head=embedding is None and scorer is None)
        arch = with_scorer(arch, scorer, config)
    if "talker_config" in config:
        logger.warning(
            "%s: its talker, which speaks, is not exported: text, pictures and sound go in, text comes out",
            source,
        )
    whole = embedding is not None or scorer is not None  # a text at a time
    kv = KV_CACHES[_cache_name(kvcache, weights, whole)]
    usual = longest_text(source) if whole else None
    context = _context(max_context, arch, kv, usual)
    with _reading(source / "tokenizer.json"):
        words = vocabulary(source, config, arch)
    tensors = HfFolder(source, arch.family, packing)
    if part.composed:
        arch = replace(arch, tied=not tensors.has_head(FAMILIES[arch.family].head))
    try:
        container.check_describable(arch)
    except (ModelInvalid, ModelUnsupported) as error:
        raise type(error)(f"{source / 'config.json'}: {error}") from None
    kind = np.float32 if weights == "f32" else np.float16
    deque(tensors.embeddings(arch, kind), maxlen=0)  # before anything is written
    package.model.parent.mkdir(parents=True, exist_ok=True)
    package_id = write_weights(package.weight, tensors, arch, weights, progress)
    with writing(package.embed) as file:
        for rows in tensors.embeddings(arch, kind):
            file.write(rows.data)
    embed = np.frombuffer(ModelFile(package.embed).data, kind).reshape(-1, arch.row_size)
    if words is not None:
        write_file(package.tokenizer, words.gguf())
    model = LlmModel(
        name=source.resolve().name,
        arch=arch,
        weights=weights,
        kv=kv,
        max_context=context,
        chat_template=words.chat_template if words and not whole else "",
        eos_ids=_eos(source, {"eos_token_id": config.get("eos_token_id"), **part.config}, words, arch),
        bos_id=words.bos_id if words else -1,
        special_ids=words.special_ids if words else frozenset(),
        core_num=core_num,
        package_id=package_id,
        embed_sample=sample_digest(embed),
        embedding=embedding,
        sums=FileSums(
            file_sum(ModelFile(package.weight)),
            file_sum(ModelFile(package.embed)),
            file_sum(ModelFile(package.tokenizer)) if words else None,
        ),
    )
    write_file(package.model, container.write(model, words.token_bytes() if words else None))
    _ = read_llm(ModelFile(package.model))  # what cannot be read is an error here and not at the user's
    return package


def _cache_name(given: str | None, weights: str, embeds: bool) -> str:
    """A text's keys and values are gone when its embedding is there: nothing is saved by rounding them."""
    if given is None:
        return "f32" if weights == "f32" or embeds else "f16"
    _check_choice("kvcache", given, tuple(KV_CACHES))
    if embeds and given != "f32":
        raise ParamInvalid(f"kvcache is {given!r}, but a model of embeddings keeps no KV cache; leave it out")
    return given


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """A file of the wrong structure is one that is damaged."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise ModelInvalid(
            f"{path} or a file beside it is damaged: {type(error).__name__}: {error}"
        ) from None


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ParamInvalid(f"{name} is {value!r}, must be one of {', '.join(choices)}")


def _context(wanted: int | None, arch: Architecture, kv: KvFormat, usual: int | None) -> int:
    """Tokens of the KV cache, whole groups of them; raises ParamInvalid for what cannot be.

    ``usual``: tokens of a text for embeddings where nobody says anything.
    """
    group = max(1, kv.group)
    for width in sorted({arch.of_layer(layer).head_dim for layer in range(arch.layers)}):
        if width % group:
            raise ParamInvalid(f"a KV cache in groups of {group} needs head_dim in such groups, not {width}")
    if wanted is None and (usual or arch.encoder):
        return min(arch.max_position, usual or arch.max_position)
    if wanted is None:
        return min(arch.max_position, _MAX_CONTEXT) // group * group or group
    if wanted < 1 or wanted % group or wanted > arch.max_position:
        raise ParamInvalid(
            f"max_context is {wanted}, must be a multiple of {group} up to the {arch.max_position} positions that "
            "the model was trained for"
        )
    return wanted


def _eos(
    source: Path, config: dict[str, Any], words: Vocabulary | None, arch: Architecture
) -> tuple[int, ...]:
    generation = source / "generation_config.json"
    given = read_object(generation).get("eos_token_id") if generation.exists() else None
    given = config.get("eos_token_id") if given is None else given
    ids = given if isinstance(given, list) else [given]
    ids = [i for i in ids if type(i) is int and 0 <= i < arch.vocab_size]
    if words is not None and 0 <= words.eos_id < arch.vocab_size:
        ids.append(words.eos_id)
    return tuple(dict.fromkeys(ids))
