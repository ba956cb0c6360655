"""Damaged language model packages, KV cache files and configurations, and what a program does with them.

Damage is blind (bytes), or it knows the format: a member of the description or of a header becomes something that a
careless reader believes, and lengths and checksums are right again.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from rknnlite_llm import EmbedTable, Package, Tokenizer, open_llm

from rknnlite import config
from rknnlite.errors import RknnError
from rknnlite.spi.llm import (
    InferParams,
    LlmCallbacks,
    LlmContext,
    LlmParams,
    PromptInput,
    TaskType,
    TokenInput,
)
from tests.support import damage

SECONDS = 20.0
ALLOWANCE = 24 << 20
PER_BYTE = 64
TOKENS = 64
"""Context of the sessions that are tried."""

VALUES: list[Any] = [
    None, True, 0, 1, -1, 2, 3, 0.5, -0.0, 1e-320, 1e308, float("nan"), float("inf"), 10**19, 10**400, 10**4000, 1 << 24,
    1 << 31, 1 << 53, (1 << 63) - 1, "", "x", "x" * 5000, "\ud800", "\0", "10", [], [0], [-1], [1 << 40], [[]] * 9, {}, {"a": 1},
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "{{ " + "(" * 3000,
    "{% set s = 'xx' %}" + "{% set s = s ~ s %}" * 60, "{{ messages[9].content.x }}", "{{ 1 / 0 }}", "int8", "w4", "llama3",
]  # fmt: skip


@dataclass(frozen=True)
class Parts:
    """The bytes of a package by role."""

    model: bytes
    weight: bytes
    embed: bytes
    tokenizer: bytes

    @classmethod
    def of(cls, package: Package) -> Parts:
        return cls(*(path.read_bytes() if path.exists() else b"" for path in package.files()))

    def write(self, folder: Path) -> Package:
        package = Package.of(folder / "p")
        for path, field in zip(package.files(), fields(self)):
            path.write_bytes(getattr(self, field.name))
        return package

    @property
    def size(self) -> int:
        return sum(len(getattr(self, field.name)) for field in fields(self))


def sealed(head: bytes, text: bytes, rest: bytes) -> bytes:
    """A model file with right lengths and checksum."""
    body = text + rest
    return head[:12] + struct.pack("<IQQ", zlib.crc32(body), len(text), len(rest)) + body


def model_text(data: bytes) -> tuple[bytes, bytes]:
    """Description and token table of a model file."""
    size = struct.unpack_from("<Q", data, 16)[0]
    return data[32 : 32 + size], data[32 + size :]


def described(data: bytes, path: tuple[Any, ...], value: Any) -> bytes:
    """The model file with one member of its description changed."""
    text, table = model_text(data)
    return sealed(data, dumped(changed(json.loads(text), path, value)), table)


def dumped(value: Any) -> bytes:
    return json.dumps(value, default=str).encode()


def changed(tree: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The tree with the member at ``path`` replaced; raw number text too long for ``json`` is written as it is."""
    tree = copy.deepcopy(tree)
    at = tree
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return tree


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of all members."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree[:4]) if isinstance(tree, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


def edited(tree: Any) -> st.SearchStrategy[Any]:
    """JSON with one to three members changed."""
    spots = st.sampled_from(list(places(tree)))
    edits = st.lists(st.tuples(spots, st.sampled_from(VALUES)), min_size=1, max_size=3)

    def apply(changes: list[tuple[tuple[Any, ...], Any]]) -> Any:
        out = tree
        for path, value in changes:
            with contextlib.suppress(LookupError, TypeError):  # a change before took its place away
                out = changed(out, path, value)
        return out

    return edits.map(apply)


def blind(data: bytes) -> st.SearchStrategy[bytes]:
    if not data:
        return st.just(data)
    cut = st.integers(0, len(data) - 1).map(lambda size: data[:size])
    return st.one_of(damage.flipped(data), damage.overwritten(data), cut)


def without_sums(parts: Parts) -> Parts:
    """The package as it was written before packages had checksums: what changed is not found by comparing."""
    return replace(parts, model=described(parts.model, ("sums",), None))


def packages(parts: Parts) -> st.SearchStrategy[Parts]:
    """Damage to one part of a package, with checksums of its files or without."""
    return st.sampled_from([parts, without_sums(parts)]).flatmap(_packages)


def _packages(parts: Parts) -> st.SearchStrategy[Parts]:
    text, table = model_text(parts.model)
    size = 8 + struct.unpack_from("<Q", parts.weight)[0]
    body = parts.weight[size:]

    def header(tree: Any) -> bytes:
        new = dumped(tree)
        return struct.pack("<Q", len(new)) + new + body

    model = st.one_of(
        edited(json.loads(text)).map(lambda tree: sealed(parts.model, dumped(tree), table)),
        blind(text).map(lambda new: sealed(parts.model, new, table)),
        blind(table).map(lambda new: sealed(parts.model, text, new)),
        blind(parts.model),
    )
    weight = st.one_of(
        edited(json.loads(parts.weight[8:size])).map(header),
        blind(parts.weight[:size]).map(lambda new: new + body),
        blind(parts.weight),
    )
    return st.one_of(
        model.map(lambda new: replace(parts, model=new)),
        weight.map(lambda new: replace(parts, weight=new)),
        blind(parts.embed).map(lambda new: replace(parts, embed=new)),
        blind(parts.tokenizer).map(lambda new: replace(parts, tokenizer=new)),
    )


def use_package(parts: Parts, folder: Path) -> bool:
    """Open a package and let it say two tokens; False when it is refused with a typed error, others are raised."""
    package = parts.write(folder)
    with damage.limits(SECONDS, ALLOWANCE + PER_BYTE * parts.size):
        try:
            with open_llm(package.model, package.weight, backend="cpu") as context:
                run_package(context, package)
        except RknnError as error:
            told(error)
            return False
    return True


def run_package(context: LlmContext, package: Package) -> None:
    sizes = context.config
    embed = EmbedTable(package.embed, sizes.vocab_size, sizes.embedding_dim)
    if sizes.task_type is TaskType.EMBEDDING:
        context.embed([[1, 2, 3], [1]], embed)
        return
    words = Tokenizer(package.tokenizer) if package.tokenizer.stat().st_size else lambda text: [1, 2]
    params = LlmParams(max_context_len=min(TOKENS, sizes.max_ctx_len))
    with context.session(params, LlmCallbacks(tokenizer=words, embed=embed)) as session:
        session.run(PromptInput("hi"), InferParams(max_new_tokens=2))
        session.run(PromptInput("more"), InferParams(max_new_tokens=1, keep_history=True))


def told(error: RknnError) -> None:
    """The error has a text that can be printed."""
    text = str(error)
    assert text
    text.encode()
    assert len(text) < 6000, text[:300]


def _kv_text(data: bytes) -> tuple[bytes, bytes]:
    size = struct.unpack_from("<Q", data, 12)[0]
    return data[20 : 20 + size], data[20 + size :]


def _kv_sealed(head: bytes, text: bytes, rest: bytes) -> bytes:
    return head[:8] + struct.pack("<IQ", zlib.crc32(text + rest), len(text)) + text + rest


def kv_described(data: bytes, changes: dict[str, Any]) -> bytes:
    """The KV cache file with members of its header changed."""
    text, rest = _kv_text(data)
    return _kv_sealed(data, dumped({**json.loads(text), **changes}), rest)


def kv_files(data: bytes) -> st.SearchStrategy[bytes]:
    """Damage to a KV cache file: ``RKLITKVC``, CRC, length of the header, header, arrays."""
    text, rest = _kv_text(data)

    def seal(text: bytes, rest: bytes) -> bytes:
        return _kv_sealed(data, text, rest)

    return st.one_of(
        edited(json.loads(text)).map(lambda tree: seal(dumped(tree), rest)),
        blind(text).map(lambda new: seal(new, rest)),
        blind(rest).map(lambda new: seal(text, new)),
        blind(data),
    )


def use_kv(context: LlmContext, package: Package, data: bytes, path: Path) -> bool:
    """Load a KV cache file and go on with the conversation; False when it is refused."""
    path.write_bytes(data)
    sizes = context.config
    embed = EmbedTable(package.embed, sizes.vocab_size, sizes.embedding_dim)
    with damage.limits(SECONDS, ALLOWANCE + PER_BYTE * len(data)):
        try:
            with context.session(LlmParams(max_context_len=TOKENS), LlmCallbacks(embed=embed)) as session:
                session.load_kvcache(str(path))
                session.run(TokenInput([1]), InferParams(max_new_tokens=2, keep_history=True))
        except RknnError as error:
            told(error)
            return False
    return True


def saved_kv(context: LlmContext, package: Package, path: Path) -> bytes:
    """A KV cache file of a short conversation."""
    sizes = context.config
    embed = EmbedTable(package.embed, sizes.vocab_size, sizes.embedding_dim)
    with context.session(LlmParams(max_context_len=TOKENS), LlmCallbacks(embed=embed)) as session:
        session.run(TokenInput(list(range(1, 40))), InferParams(max_new_tokens=2, keep_history=True))
        session.save_kvcache(str(path))
    return path.read_bytes()


_WORDS = [
    "backend", "threads", "disable", "template_ms", ": ", ":", "\n", "\n", "\n  ", "- ", "[", "]", "{", "}", ", ", "&a ", "*a",
    "<<: ",
    "? ", "| ", "> ", "# ", "'", '"', "!!", "!!int ", "!!bool ", "!!float ", "!!binary ", "!!timestamp ", "!!omap ", "!!set ",
    "!!pairs ",
    "!<x> ", "%YAML 1.1\n", "%TAG ! x\n", "---\n", "...\n", "0x", "0b", "1:2:3", "2001-99-99", "9" * 400, ".inf", ".nan", "~", "=",
    "\t",
    "\\x", "\\U0011ffff", "\ufeff", "\u2028", "\0", "cpu", "x" * 300, "true", "1e999", "null",
]  # fmt: skip


def configurations() -> st.SearchStrategy[bytes]:
    """Text that is nearly YAML."""
    text = st.lists(st.sampled_from(_WORDS), max_size=60).map("".join).map(str.encode)
    many = st.builds(
        lambda word, times: (word * times).encode(), st.sampled_from(_WORDS), st.integers(2, 4000)
    )
    return st.one_of(text, many, st.binary(max_size=200))


@contextlib.contextmanager
def configured(path: Path) -> Iterator[None]:
    before = os.environ.get("RKNNLITE_CONFIG")
    os.environ["RKNNLITE_CONFIG"] = str(path)
    try:
        yield
    finally:
        config._read.cache_clear()
        if before is None:
            del os.environ["RKNNLITE_CONFIG"]
        else:
            os.environ["RKNNLITE_CONFIG"] = before


def use_configuration(data: bytes, path: Path) -> bool:
    """Read a configuration file; True when nothing is wrong with it."""
    path.write_bytes(data)
    config._read.cache_clear()
    with damage.limits(SECONDS, ALLOWANCE + PER_BYTE * len(data)), configured(path):
        config.get("backend")
        problems = config.problems()
    for problem in problems:
        problem.encode()
        assert len(problem) < len(str(path)) + 200 + len(", ".join(config.KEYS)) + 100, problem
    assert len(problems) <= 21
    return not problems
