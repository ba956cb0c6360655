"""``config.json`` of every family in which one number is another: a typed error or a model, within a second, in bounded memory."""

from __future__ import annotations

import contextlib
import json
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_llm import export_llm
from rknnlite_llm.hf_config import architecture

from rknnlite.errors import RknnError
from tests.llm.family_goldens import CASES, DATA, write_family

pytestmark = pytest.mark.slow

OTHERS: tuple[Any, ...] = (0, -1, 2**31, 10**30, 0.5, -1e300, 1e300, "x", [], None)
GROWTH = 256 << 20
"""Bytes."""


def numbers(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the numbers of a configuration stand."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in inside:
        yield from numbers(member, (*path, key))
    if type(value) in (int, float):
        yield path


def changed(config: dict[str, Any], path: tuple[Any, ...], other: Any) -> dict[str, Any]:
    made = place = json.loads(json.dumps(config))
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = other
    return dict(made)


def config_of(name: str) -> dict[str, Any]:
    return dict(json.loads(str(np.load(DATA / f"{name}.npz")["config"])))


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_another_number_is_refused_or_is_a_model(name: str) -> None:
    config, refused = config_of(name), 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for path in numbers(config):
        for other in OTHERS:
            start = time.process_time()
            try:
                architecture(changed(config, path, other))
            except RknnError as error:
                assert len(str(error)) < 2000
                refused += 1
            assert time.process_time() - start < 1, (path, other)
    assert refused > 40
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10 < GROWTH


@pytest.mark.parametrize(
    "name", ["gpt-oss", "deepseek-v3", "ernie4.5-moe", "lfm2-moe", "falcon-40b", "gpt2", "gemma3"]
)
def test_an_export_of_it_ends_soon(name: str, tmp_path: Path) -> None:
    """With numbers that a model might have."""
    write_family(name, tmp_path / "hf")
    config = config_of(name)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for path in numbers(config):
        for other in (0, 7, 10**5, 2**31 - 1):
            (tmp_path / "hf" / "config.json").write_text(json.dumps(changed(config, path, other)))
            start = time.process_time()
            with contextlib.suppress(RknnError):
                export_llm(tmp_path / "hf", tmp_path / "p", weights="w8")
            assert time.process_time() - start < 1, (path, other)
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10 < GROWTH
