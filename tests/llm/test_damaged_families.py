"""Descriptions of architectures in which one value is another: refused by name, or a model that opens."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rknnlite_llm import export_llm, open_llm

from rknnlite.errors import RknnError
from tests.llm.family_goldens import write_family

HEADER = struct.Struct("<8sIIQQ")
OTHERS: tuple[Any, ...] = (None, -1, 0, 3, 1e30, "x", [], {}, True, [[]])


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the values of a description stand; of a list, its first member."""
    yield path
    inside = (
        value.items()
        if isinstance(value, dict)
        else list(enumerate(value))[:1]
        if isinstance(value, list)
        else ()
    )
    for key, member in inside:
        yield from leaves(member, (*path, key))


def changed(description: dict[str, Any], path: tuple[Any, ...], other: Any) -> dict[str, Any]:
    made = json.loads(json.dumps(description))
    place = made["arch"]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = other
    return dict(made)


def sealed(whole: bytes, description: dict[str, Any]) -> bytes:
    magic, version, _, size, table = HEADER.unpack_from(whole)
    text = json.dumps(description).encode()
    body = text + whole[HEADER.size + size :]
    return HEADER.pack(magic, version, zlib.crc32(body), len(text), table) + body


@pytest.mark.parametrize(
    "name",
    [
        "gemma3",
        "lfm2",
        "qwen2-moe",
        "phi4-mini",
        "modernbert-reranker",
        "qwen3.5-moe",
        "granite-hybrid-dense",
    ],
)
def test_another_value_is_refused_or_is_a_model(name: str, tmp_path: Path) -> None:
    write_family(name, tmp_path / "hf")
    package = export_llm(tmp_path / "hf", tmp_path / "p", "f32")
    whole, weights = package.model.read_bytes(), package.weight.read_bytes()
    size = HEADER.unpack_from(whole)[3]
    description = json.loads(whole[HEADER.size : HEADER.size + size])
    refused = 0
    for path in leaves(description["arch"]):
        for other in OTHERS if path else ():
            try:
                open_llm(sealed(whole, changed(description, path, other)), weights, verify=False).close()
            except RknnError:
                refused += 1
    assert refused > 200


@pytest.mark.parametrize(
    ("name", "path", "other", "match"),
    [
        ("gemma3", ("local_rope", "scaling"), "dynamic", "of some layers only"),
        ("gemma3", ("each_layer", 0, "turn"), "sideways", "main, local, none"),
        ("lfm2", ("conv",), 0, "need conv"),
        ("qwen3-next", ("recurrence", "groups"), 4, "6 heads of a running state share 4 keys"),
        ("qwen3-next", ("recurrence",), None, "need recurrence"),
        ("qwen3-next", ("causal",), False, "see those behind them"),
        ("qwen2-moe", ("experts", "used"), 7, "not in 1..6"),
        ("phi4-mini", ("rope", "long_factors"), [1.0], "not 6 numbers"),
        ("qwen2-yarn", ("rope", "theta"), 1, "not in 1.001"),
    ],
)
def test_what_is_wrong_is_named(
    name: str, path: tuple[Any, ...], other: Any, match: str, tmp_path: Path
) -> None:
    write_family(name, tmp_path / "hf")
    package = export_llm(tmp_path / "hf", tmp_path / "p", "f32")
    whole = package.model.read_bytes()
    description = json.loads(whole[HEADER.size : HEADER.size + HEADER.unpack_from(whole)[3]])
    with pytest.raises(RknnError, match=match):
        open_llm(sealed(whole, changed(description, path, other)), package.weight.read_bytes(), verify=False)
