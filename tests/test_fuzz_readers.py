"""Every reader and wire of ``tools.fuzz`` takes its seeds, and meets a few damaged ones; ``make fuzz`` goes on from there."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.examples import examples

pytest.importorskip("google.protobuf", reason="needs the package protobuf (extra server)")
pytest.importorskip("jinja2", reason="needs the package jinja2 (extra llm)")

from tools.fuzz.readers import READERS, used


@pytest.fixture(autouse=True)
def _packages(name: str) -> None:
    if name.startswith("onnx"):
        pytest.importorskip("onnx")
        pytest.importorskip("onnxruntime")


@pytest.mark.parametrize("name", sorted(READERS))
def test_seeds_are_taken(name: str, tmp_path: Path) -> None:
    reader = READERS[name]
    assert [used(reader, seed, tmp_path) for seed in reader.seeds()] == [True] * len(reader.seeds())


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(READERS))
def test_what_is_damaged_is_refused_with_a_typed_error_or_taken(name: str, tmp_path: Path) -> None:
    reader = READERS[name]

    @settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        used(reader, data.draw(reader.inputs()), tmp_path)

    check()
