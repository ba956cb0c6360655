"""The reference LLM container ``PREFIX.rknn``: what a language model is, in a file of our own.

It is no device file and cannot be mistaken for one: it has its own magic. Little endian:

    8 bytes  magic ``RKLITLLM``      4 bytes  version (1)         4 bytes  CRC-32 of all that follows the header
    8 bytes  length of the JSON      8 bytes  length of the token table
    JSON (UTF-8): architecture, weight format, KV cache, chat template, special tokens
    token table: uint16 length per token, then the bytes of all tokens; empty when the tokenizer is unknown

Weights, embeddings and tokenizer lie beside it: ``PREFIX.weight`` (safetensors, see ``rknnlite.llm.weights``),
``PREFIX.embed.bin`` (float16, vocab x hidden) and ``PREFIX.tokenizer.gguf``.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Optional

import numpy as np

from ..errors import ModelInvalid, ModelUnsupported, shown
from ..tensor import KvDtype
from .frame import LLM_PACKAGE
from .llm_families import FAMILIES, Pooling
from .llm_weights import WEIGHT_TYPES

__all__ = [
    "ACTIVATIONS", "MAGIC", "SUM_CHUNK", "Architecture", "Embedding", "FileSum", "FileSums", "KvFormat", "LlmModel",
    "Rope", "TokenTable", "read", "write",
]  # fmt: skip

MAGIC = LLM_PACKAGE
_HEADER = struct.Struct("<8sIIQQ")
_VERSION = 1
_LIMIT = 1 << 24
_LONGEST, _LONGEST_TEMPLATE = 1 << 10, 1 << 20
"""Characters of a text."""
ACTIVATIONS = ("silu", "gelu", "gelu_tanh", "relu")
SUM_CHUNK = 16 << 20
"""Bytes of a file under one checksum."""
_KV_GROUPS = {KvDtype.UNDEFINED: 0, KvDtype.FLOAT16: 0, KvDtype.INT8_TO_F16: 16, KvDtype.INT4_TO_F16: 16}


@dataclass(frozen=True)
class Rope:
    """Rotary embedding: ``scaling`` is ``default``, ``linear`` (factor) or ``llama3`` (all fields)."""

    theta: float = 10000.0
    scaling: str = "default"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position: int = 8192


@dataclass(frozen=True)
class Architecture:
    """A decoder-only transformer with RMSNorm, rotary embedding, grouped-query attention and SwiGLU.

    Or an encoder, see ``LlmFamily.encoder``: ``rms_eps`` is that of its LayerNorm, ``rope`` means nothing. ``head``: it
    has logits; a model of embeddings has none.
    """

    family: str
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab_size: int
    max_position: int
    rms_eps: float
    qkv_bias: bool
    qk_norm: bool
    tied: bool
    rope: Rope
    activation: str = "silu"
    head: bool = True

    @property
    def encoder(self) -> bool:
        """Whether every token sees all others."""
        return FAMILIES[self.family].encoder

    @property
    def q_size(self) -> int:
        """Width of the queries."""
        return self.heads * self.head_dim

    @property
    def kv_size(self) -> int:
        """Width of the keys, and of the values."""
        return self.kv_heads * self.head_dim

    @property
    def qkv_size(self) -> int:
        """Width of queries, keys and values side by side."""
        return self.q_size + 2 * self.kv_size


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
    file (``rknnlite.llm.package.sample_digest``). ``special_ids`` are tokens that are not text. ``embedding`` is there for
    a model of embeddings, ``sums`` for every package but those of early versions.
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


def read(data: memoryview) -> LlmModel:
    """Read the container. Raises ModelInvalid, or ModelUnsupported for a later version."""
    if len(data) < _HEADER.size or bytes(data[:8]) != MAGIC:
        raise ModelInvalid("not an LLM package of rknnlite; make one with rknnlite export-llm")
    _, version, crc, json_size, table_size = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise ModelUnsupported(
            f"LLM package of version {version}, this program reads {_VERSION}; export it again"
        )
    body = data[_HEADER.size :]
    if json_size + table_size != len(body):
        raise ModelInvalid(
            f"truncated or damaged: {json_size} + {table_size} bytes promised, {len(body)} there; copy it again"
        )
    if zlib.crc32(body) != crc:
        raise ModelInvalid("damaged: the checksum does not match; copy it again")
    try:
        fields = json.loads(bytes(body[:json_size]))
    except (ValueError, RecursionError) as error:
        raise ModelInvalid(f"damaged description: {shown(error)}") from None
    return _model(_Fields(fields, "package"), body[json_size:])


def write(model: LlmModel, token_bytes: list[bytes] | None) -> bytes:
    """The bytes of the container."""
    fields = asdict(model)
    del fields["tokens"]
    fields["kv"] = {"dtype": int(model.kv.dtype), "group": model.kv.group}
    fields["special_ids"] = sorted(model.special_ids)
    text = json.dumps(fields, ensure_ascii=False, indent=1).encode()
    table = b""
    if token_bytes is not None:
        table = np.array([len(t) for t in token_bytes], "<u2").tobytes() + b"".join(token_bytes)
    body = text + table
    return _HEADER.pack(MAGIC, _VERSION, zlib.crc32(body), len(text), len(table)) + body


def _speakable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


class _Fields:
    """A JSON object whose members are asked for by type and range."""

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, Mapping):
            raise ModelInvalid(f"damaged description: {where} is no object")
        self._value = value
        self._where = where

    def _get(self, key: str, kinds: type | tuple[type, ...]) -> Any:
        value = self._value.get(key)
        if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
            raise ModelInvalid(f"damaged description: {self._where}.{key} is {shown(value)}")
        return value

    def text(self, key: str, longest: int = _LONGEST) -> str:
        value = str(self._get(key, str))
        if len(value) > longest or (not value.isascii() and value != _speakable(value)):
            raise ModelInvalid(
                f"damaged description: {self._where}.{key} has {len(value)} characters (at most {longest}), or some "
                "that are none (half a surrogate pair)"
            )
        return value

    def flag(self, key: str) -> bool:
        return bool(self._get(key, bool))

    def number(self, key: str, low: int = 1, high: int = _LIMIT) -> int:
        value = self._get(key, int)
        if not low <= value <= high:
            raise ModelInvalid(
                f"damaged description: {self._where}.{key} is {shown(value)}, not in {low}..{high}"
            )
        return int(value)

    def real(self, key: str, low: float = 1e-6, high: float = 1e6) -> float:
        value = self._get(key, (int, float))
        if not low <= value <= high:  # also of whole numbers that no float holds, and of NaN
            raise ModelInvalid(
                f"damaged description: {self._where}.{key} is {shown(value)}, not in {low:g}..{high:g}"
            )
        return float(value)

    def choice(self, key: str, choices: tuple[str, ...]) -> str:
        value = self.text(key)
        if value not in choices:
            raise ModelUnsupported(
                f"{self._where}.{key} is {shown(value)}; this program knows {', '.join(choices)}"
            )
        return value

    def ids(self, key: str, vocab_size: int) -> tuple[int, ...]:
        values = self._get(key, list)
        if not all(type(v) is int and 0 <= v < vocab_size for v in values):
            raise ModelInvalid(
                f"damaged description: {self._where}.{key} has ids outside 0..{vocab_size - 1}"
            )
        return tuple(values)

    def has(self, key: str) -> bool:
        return self._value.get(key) is not None

    def numbers(self, key: str, count: int, high: int) -> tuple[int, ...]:
        values = self._get(key, list)
        if len(values) != count or not all(type(v) is int and 0 <= v <= high for v in values):
            raise ModelInvalid(
                f"damaged description: {self._where}.{key} is not {count} numbers in 0..{high}"
            )
        return tuple(values)

    def child(self, key: str) -> _Fields:
        return _Fields(self._value.get(key), f"{self._where}.{key}")


def _model(fields: _Fields, table: memoryview) -> LlmModel:
    arch = _architecture(fields.child("arch"))
    kv = fields.child("kv")
    number = kv.number("dtype", 0, 8)
    if number not in [int(dtype) for dtype in _KV_GROUPS]:
        raise ModelUnsupported(f"KV cache type {KvDtype(number).name} is not computed here")
    dtype = KvDtype(number)
    group = kv.number("group", 0, 64)
    if group != _KV_GROUPS[dtype]:
        raise ModelInvalid(f"damaged description: KV cache {dtype.name} in groups of {group}")
    max_context = fields.number("max_context", max(1, group), min(_LIMIT, arch.max_position))
    if group and arch.head_dim % group:
        raise ModelInvalid(
            f"damaged description: heads of {arch.head_dim} channels cannot be stored in groups of {group}"
        )
    return LlmModel(
        name=fields.text("name"),
        arch=arch,
        weights=fields.choice("weights", tuple(WEIGHT_TYPES)),
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
    )


def _embedding(fields: _Fields, arch: Architecture) -> Embedding | None:
    if fields.has("embedding"):
        given = fields.child("embedding")
        pooling = given.choice("pooling", tuple(pooling.value for pooling in Pooling))
        return Embedding(Pooling(pooling), given.flag("normalise"))
    if not arch.head:
        raise ModelInvalid("damaged description: the model has no head, and nothing is said about embeddings")
    return None


def _sums(fields: _Fields) -> FileSums:
    def one(key: str) -> FileSum:
        given = fields.child(key)
        size = given.number("size", 0, 1 << 48)
        return FileSum(size, given.numbers("crcs", -(-size // SUM_CHUNK), 0xFFFFFFFF))

    return FileSums(one("weight"), one("embed"), one("tokenizer") if fields.has("tokenizer") else None)


def _architecture(fields: _Fields) -> Architecture:
    rope = fields.child("rope")
    arch = Architecture(
        family=fields.choice("family", tuple(FAMILIES)),
        hidden=fields.number("hidden", high=1 << 17),
        intermediate=fields.number("intermediate", high=1 << 20),
        layers=fields.number("layers", high=1024),
        heads=fields.number("heads", high=1024),
        kv_heads=fields.number("kv_heads", high=1024),
        head_dim=fields.number("head_dim", 2, 1024),
        vocab_size=fields.number("vocab_size"),
        max_position=fields.number("max_position", high=1 << 30),
        rms_eps=fields.real("rms_eps", 1e-12, 1),
        qkv_bias=fields.flag("qkv_bias"),
        qk_norm=fields.flag("qk_norm"),
        tied=fields.flag("tied"),
        rope=Rope(
            theta=rope.real("theta", 1, 1e12),
            scaling=rope.choice("scaling", ("default", "linear", "llama3")),
            factor=rope.real("factor"),
            low_freq_factor=rope.real("low_freq_factor"),
            high_freq_factor=rope.real("high_freq_factor"),
            original_max_position=rope.number("original_max_position", high=1 << 30),
        ),
        activation=fields.choice("activation", ACTIVATIONS) if fields.has("activation") else "silu",
        head=fields.flag("head") if fields.has("head") else True,
    )
    if arch.encoder and (arch.head or arch.heads != arch.kv_heads):
        raise ModelInvalid(
            f"damaged description: {arch.family} is an encoder: it has no head, and {arch.heads} heads need as many keys, "
            f"not {arch.kv_heads}"
        )
    if not arch.encoder and arch.activation != "silu":
        raise ModelUnsupported(f"activation {arch.activation} of a decoder is not computed here")
    if arch.heads % arch.kv_heads or arch.head_dim % 2:
        raise ModelInvalid(
            f"{arch.heads} heads of {arch.head_dim} cannot share {arch.kv_heads} key/value heads"
        )
    return arch
