"""What a configuration or a description of any family may say against reason: a typed error at once, or a model that computes."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rknnlite_llm import export_llm

from rknnlite.errors import ModelInvalid, ModelUnsupported, RknnError
from tests.llm.family_goldens import CASES, write_family
from tests.support import damage, llm_damage

FOREIGN: tuple[Any, ...] = (None, 0, -1, 1, 1 << 62, -0.5, 1e308, float("nan"), "7", True, [1, 2], {"a": 1})
SECOND, MEMORY = 1.0, 64 << 20
DESCRIBED = (
    "gemma4-e2b", "gemma4-moe", "qwen3-next", "granite-hybrid",
    "apertus", "cohere2", "deepseek-v2", "deepseek-v3", "ernie4.5-moe", "falcon-40b", "gemma2", "glm4-moe", "gpt2", "gpt-oss",
    "granite-moe-shared", "hunyuan-moe", "lfm2-moe", "ministral3", "opt", "phimoe", "random-1-13",
)  # fmt: skip
"""Families that have between them whatever a description can say."""


def fields(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in tree.items():
        yield (*path, key)
        if isinstance(value, dict):
            yield from fields(value, (*path, key))


@pytest.mark.slow
@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_a_configuration_says_anything(name: str, tmp_path: Path) -> None:
    """Three foreign values for every field, others for each family."""
    write_family(name, tmp_path / "hf")
    file, draw = tmp_path / "hf" / "config.json", random.Random(name)
    good = json.loads(file.read_text())
    for path in fields(good):
        for value in draw.sample(FOREIGN, 3):
            file.write_text(json.dumps(llm_damage.changed(good, path, value)))
            begun = time.process_time()
            try:
                export_llm(tmp_path / "hf", tmp_path / "p", "f32")
            except RknnError as error:
                assert len(str(error)) < 3 * len(str(tmp_path)) + 400, (path, value)
                assert time.process_time() - begun < SECOND, (path, value)


@pytest.mark.slow
@pytest.mark.parametrize("name", DESCRIBED)
def test_a_description_says_anything(name: str, tmp_path: Path) -> None:
    write_family(name, tmp_path / "hf")
    package = export_llm(tmp_path / "hf", tmp_path / "p", "f32")
    parts, draw = llm_damage.without_sums(llm_damage.Parts.of(package)), random.Random(name)
    (tmp_path / "new").mkdir()
    for path in llm_damage.places(json.loads(llm_damage.model_text(parts.model)[0])["arch"]):
        for value in draw.sample((0, -1, 3, 1 << 24, 0.5, True, [], {}), 3):
            bad = llm_damage.described(parts.model, ("arch", *path), value)
            llm_damage.use_package(replace(parts, model=bad), tmp_path / "new")


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("deepseek-v2", "attention_gate", True),
        ("gemma4-moe", "order", "pre"),
        ("gemma4-moe", "order", "parallel"),
        ("gemma4-e2b", "qk_norm_whole", True),
    ],
)
def test_what_cannot_be_together(name: str, field: str, value: Any, tmp_path: Path) -> None:
    write_family(name, tmp_path / "hf")
    package = export_llm(tmp_path / "hf", tmp_path / "p", "f32")
    parts = llm_damage.without_sums(llm_damage.Parts.of(package))
    bad = llm_damage.described(parts.model, ("arch", field), value)
    (tmp_path / "new").mkdir()
    assert not llm_damage.use_package(replace(parts, model=bad), tmp_path / "new")


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("deepseek-v3", {"n_group": 3}),
        ("deepseek-v3", {"topk_group": 5}),
        ("deepseek-v3", {"num_experts_per_tok": 9}),
        ("deepseek-v2-groups", {"n_routed_experts": 1 << 20}),
        ("glm4-moe", {"n_group": 0}),
        ("gpt-oss", {"num_local_experts": 7}),
        ("gpt-oss", {"num_experts_per_tok": 7}),
        ("granite-moe-shared", {"shared_intermediate_size": 55}),
        ("ernie4.5-moe", {"moe_num_shared_experts": "7"}),
        ("phimoe", {"num_local_experts": 0}),
        ("lfm2-moe", {"num_dense_layers": -1}),
        ("hunyuan-moe", {"moe_topk": 100}),
        ("gemma2", {"query_pre_attn_scalar": -1}),
        ("falcon-40b", {"num_kv_heads": 4}),
        ("gpt-neox", {"num_attention_heads": 7}),
    ],
)
def test_counts_that_lie(name: str, changes: dict[str, Any], tmp_path: Path) -> None:
    write_family(name, tmp_path / "hf")
    file = tmp_path / "hf" / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    with damage.limits(20 * SECOND, MEMORY), pytest.raises((ModelInvalid, ModelUnsupported)):
        export_llm(tmp_path / "hf", tmp_path / "p", "f32")
    assert not list(tmp_path.glob("p.*"))
