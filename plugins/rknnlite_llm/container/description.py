"""The reference LLM container ``PREFIX.rknn``: what a language model is, in a file of our own.

It is no device file and cannot be mistaken for one: it has its own magic. Little endian:

    8 bytes  magic ``RKLITLLM``      4 bytes  version (1 or 2)    4 bytes  CRC-32 of all that follows the header
    8 bytes  length of the JSON      8 bytes  length of the token table
    JSON (UTF-8): architecture, weight format, KV cache, chat template, special tokens
    token table: uint16 length per token, then the bytes of all tokens; empty when the tokenizer is unknown

Version 2 says something about the architecture that programs which know version 1 only would not see, and compute otherwise.
Weights, embeddings and tokenizer lie beside it: ``PREFIX.weight`` (safetensors, see ``rknnlite_llm.weights``),
``PREFIX.embed.bin`` (float16, with float32 weights float32; vocab x hidden) and ``PREFIX.tokenizer.gguf``.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Optional

import numpy as np

from rknnlite.errors import ModelInvalid, ModelUnsupported, shown
from rknnlite.files.json_text import parse_json
from rknnlite.formats import ModelFile, is_package, named, sniff
from rknnlite.formats.frame import LLM_PACKAGE
from rknnlite.tensor import KvDtype

from .architecture import Architecture, Rope, described
from .family import Pooling
from .fields import Fields
from .read_architecture import read_architecture
from .weight_types import WEIGHT_TYPES, WeightType

__all__ = [
    "AUTO", "KV_GROUPS", "MAGIC", "MOST_CHOSEN", "SUM_CHUNK", "Architecture", "Chosen", "Embedding", "FileSum", "FileSums",
    "KvFormat", "LlmModel", "Rope", "TokenTable", "check_describable",
    "read", "read_llm", "write",
]  # fmt: skip

AUTO = "auto"
"""Type of weights of a package whose matrices have different ones."""
MOST_CHOSEN = 1024
"""Matrices of such a package."""
MAGIC = LLM_PACKAGE
_HEADER = struct.Struct("<8sIIQQ")
_VERSIONS = (1, 2)
_LIMIT = 1 << 24
_LONGEST_TEMPLATE = 1 << 20
"""Characters of a text."""
SUM_CHUNK = 16 << 20
"""Bytes of a file under one checksum."""
KV_GROUPS = {
    KvDtype.UNDEFINED: 0,
    KvDtype.FLOAT16: 0,
    KvDtype.INT8_TO_F16: 16,
    KvDtype.INT4_TO_F16: 16,
    KvDtype.INT4_TO_F8: 32,
    KvDtype.FLOAT8_TO_F16: 16,
    KvDtype.FLOAT8_TO_F8: 32,
    KvDtype.FLOAT4_TO_F16: 16,
    KvDtype.FLOAT4_TO_F8: 32,
}
"""Tokens or channels under one scale. The guide tells those of integers; floating-point numbers have them alike here."""


@dataclass(frozen=True)
class KvFormat:
    """How keys and values are stored; groups of ``group`` tokens (keys) or channels (values), 0: not grouped."""

    dtype: KvDtype
    group: int


@dataclass(frozen=True)
class Embedding:
    """What becomes of a text's hidden states; ``normalise``: to length 1."""

    pooling: Pooling
    normalise: bool


@dataclass(frozen=True)
class FileSum:
    """What a file beside the container holds: ``size`` bytes, and a CRC-32 of every ``SUM_CHUNK`` of them."""

    size: int
    crcs: tuple[int, ...]


@dataclass(frozen=True)
class FileSums:
    """Checksums of the files of a package by role; the tokenizer's is None where there is none."""

    weight: FileSum
    embed: FileSum
    tokenizer: Optional[FileSum] = None


@dataclass(frozen=True)
class Chosen:
    """The type of one matrix's weights where they differ, and what of its products is lost by it: the squared error
    over the square, weighted by what goes into the matrix."""

    name: str
    weights: str
    error: float


class TokenTable:
    """The bytes that each token stands for; special tokens have none."""

    def __init__(self, data: memoryview, vocab_size: int) -> None:
        """Check the table; raises ModelInvalid."""
        if len(data) < 2 * vocab_size:
            raise ModelInvalid(f"token table of {len(data)} bytes for {vocab_size} tokens")
        lengths = np.frombuffer(data[: 2 * vocab_size], "<u2").astype(np.int64)
        self._text = bytes(data[2 * vocab_size :])
        self._ends = np.cumsum(lengths)
        total = int(self._ends[-1]) if vocab_size else 0
        if total != len(self._text):
            raise ModelInvalid(f"token table: lengths add up to {total} bytes, there are {len(self._text)}")

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, token: int) -> bytes:
        start = int(self._ends[token - 1]) if token else 0
        return bytes(self._text[start : int(self._ends[token])])


@dataclass(frozen=True)
class LlmModel:
    """A reference package as its container describes it.

    ``package_id`` is repeated in the weight file; ``embed_sample`` is the SHA-256 of some rows of the embedding
    file (``rknnlite_llm.package.sample_digest``). ``special_ids`` are tokens that are not text. ``embedding`` is there for
    a model of embeddings, ``sums`` for every package but those of early versions. ``weights`` is the type of all
    matrices, or ``auto``: then ``chosen`` names every matrix.
    """

    name: str
    arch: Architecture
    weights: str
    kv: KvFormat
    max_context: int
    chat_template: str
    eos_ids: tuple[int, ...]
    bos_id: int
    special_ids: frozenset[int]
    core_num: int
    package_id: str
    embed_sample: str
    tokens: TokenTable | None = None
    embedding: Embedding | None = None
    sums: FileSums | None = None
    chosen: tuple[Chosen, ...] = ()

    @property
    def weight_types(self) -> Mapping[str, WeightType]:
        """The type of every matrix by name."""
        if self.weights != AUTO:
            return defaultdict(lambda: WEIGHT_TYPES[self.weights])
        return {chosen.name: WEIGHT_TYPES[chosen.weights] for chosen in self.chosen}


def read_llm(file: ModelFile) -> LlmModel:
    """The description of a package; raises ModelInvalid or ModelUnsupported naming the file."""
    file.check()
    return file.once(_read_file)


def _read_file(file: ModelFile) -> LlmModel:
    try:
        file.refuse_rkllm()
        if is_package(file.data):
            return read(file.data)
        sniff(file.data)
        raise ModelUnsupported("this is a network, not a language model; open it without LLM mode")
    except ModelInvalid as error:
        raise named(error, file.label) from None
    except (ArithmeticError, LookupError, MemoryError, RecursionError, TypeError, ValueError) as error:
        raise ModelInvalid(f"{file.label}: damaged description: {shown(error)}; copy it again") from error


def read(data: memoryview) -> LlmModel:
    """Read the container. Raises ModelInvalid, or ModelUnsupported for a later version."""
    if len(data) < _HEADER.size or bytes(data[:8]) != MAGIC:
        raise ModelInvalid("not an LLM package of rknnlite; make one with rknnlite export-llm")
    _, version, crc, json_size, table_size = _HEADER.unpack_from(data)
    if version not in _VERSIONS:
        raise ModelUnsupported(
            f"LLM package of version {version}, this program reads 1 to {_VERSIONS[-1]}; export it again, or install a "
            "newer rknnlite"
        )
    body = data[_HEADER.size :]
    if json_size + table_size != len(body):
        raise ModelInvalid(
            f"truncated or damaged: {json_size} + {table_size} bytes promised, {len(body)} there; copy it again"
        )
    if zlib.crc32(body) != crc:
        raise ModelInvalid("damaged: the checksum does not match; copy it again")
    try:
        fields = parse_json(bytes(body[:json_size]))
    except ValueError as error:
        raise ModelInvalid(f"damaged description: {shown(error)}") from None
    return _model(Fields(fields, "package"), body[json_size:])


def write(model: LlmModel, token_bytes: list[bytes] | None) -> bytes:
    """The bytes of the container."""
    fields = asdict(model)
    del fields["tokens"]
    fields["arch"] = described(model.arch)
    fields["kv"] = {"dtype": int(model.kv.dtype), "group": model.kv.group}
    fields["special_ids"] = sorted(model.special_ids)
    if not model.chosen:
        del fields["chosen"]
    text = json.dumps(fields, ensure_ascii=False, indent=1).encode()
    table = b""
    if token_bytes is not None:
        table = np.array([len(t) for t in token_bytes], "<u2").tobytes() + b"".join(token_bytes)
    body = text + table
    version = 1 if model.arch.simple and not model.chosen else 2
    return _HEADER.pack(MAGIC, version, zlib.crc32(body), len(text), len(table)) + body


def check_describable(arch: Architecture) -> None:
    """Raise ModelInvalid, ModelUnsupported for an architecture that no package could say, before one is written."""
    _ = read_architecture(Fields(parse_json(json.dumps(described(arch))), "arch"))


def _model(fields: Fields, table: memoryview) -> LlmModel:
    arch = read_architecture(fields.child("arch"))
    kv = fields.child("kv")
    number = kv.number("dtype", 0, 8)
    dtype = KvDtype(number)
    group = kv.number("group", 0, 64)
    if group != KV_GROUPS[dtype]:
        raise ModelInvalid(f"damaged description: KV cache {dtype.name} in groups of {group}")
    max_context = fields.number("max_context", max(1, group), min(_LIMIT, arch.max_position))
    for width in sorted({arch.of_layer(layer).head_dim for layer in range(arch.layers)}):
        if group and width % group:
            raise ModelInvalid(
                f"damaged description: heads of {width} channels cannot be stored in groups of {group}"
            )
    return LlmModel(
        name=fields.text("name"),
        arch=arch,
        weights=fields.choice("weights", (*WEIGHT_TYPES, AUTO)),
        kv=KvFormat(dtype, group),
        max_context=max_context,
        chat_template=fields.text("chat_template", _LONGEST_TEMPLATE),
        eos_ids=fields.ids("eos_ids", arch.vocab_size),
        bos_id=fields.number("bos_id", -1, arch.vocab_size - 1),
        special_ids=frozenset(fields.ids("special_ids", arch.vocab_size)),
        core_num=fields.number("core_num", 1, 32),
        package_id=fields.text("package_id"),
        embed_sample=fields.text("embed_sample"),
        tokens=TokenTable(table, arch.vocab_size) if len(table) else None,
        embedding=_embedding(fields, arch),
        sums=_sums(fields.child("sums")) if fields.has("sums") else None,
        chosen=_chosen(fields),
    )


def _embedding(fields: Fields, arch: Architecture) -> Embedding | None:
    if fields.has("embedding"):
        given = fields.child("embedding")
        pooling = given.choice("pooling", tuple(pooling.value for pooling in Pooling))
        return Embedding(Pooling(pooling), given.flag("normalise"))
    if not arch.head and arch.scorer is None:
        raise ModelInvalid("damaged description: the model has no head, and nothing is said about embeddings")
    return None


def _chosen(fields: Fields) -> tuple[Chosen, ...]:
    if (fields.text("weights") == AUTO) != fields.has("chosen"):
        raise ModelInvalid("damaged description: types of weights are named, or auto, but not both")
    if not fields.has("chosen"):
        return ()
    return tuple(
        Chosen(one.text("name"), one.choice("weights", tuple(WEIGHT_TYPES)), one.real("error", 0.0, 1e30))
        for one in fields.children("chosen")
    )


def _sums(fields: Fields) -> FileSums:
    def one(key: str) -> FileSum:
        given = fields.child(key)
        size = given.number("size", 0, 1 << 48)
        return FileSum(size, given.numbers("crcs", -(-size // SUM_CHUNK), 0xFFFFFFFF))

    return FileSums(one("weight"), one("embed"), one("tokenizer") if fields.has("tokenizer") else None)
