"""Damaged packages, KV cache files and configurations: a typed error that can be read, or a result; nothing else."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rknnlite_llm import Package, export_llm, open_llm
from rknnlite_llm.container.description import read_llm
from rknnlite_llm.container.safetensors import SafeTensors

from rknnlite.errors import ModelInvalid, OutOfMemory
from rknnlite.formats import ModelFile
from rknnlite.spi.llm import InferParams, LlmCallbacks, LlmContext, LlmParams, TokenInput
from tests.llm.conftest import Maker, embed_of
from tests.support import llm_damage
from tests.support.embedding_models import write_encoder


@pytest.fixture(scope="module")
def parts(example_prefix: Path) -> llm_damage.Parts:
    return llm_damage.Parts.of(Package.of(example_prefix))


@pytest.fixture(scope="module")
def example_prefix() -> Path:
    return Path(__file__).parents[2] / "examples" / "llm_chat" / "models" / "tiny"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("arch", "rope", "factor"), 10**400),
        (("arch", "rope", "theta"), 1e-300),
        (("arch", "rope", "theta"), float("nan")),
        (("arch", "rms_eps"), 1e-320),
        (("arch", "hidden"), 10**4000),
        (("arch", "family"), "x" * 5000),
        (("name",), "\ud800"),
        (("package_id",), "x" * 5000),
        (("kv",), {"dtype": 10**400, "group": 0}),
        (("max_context",), 1 << 24),
        (("eos_ids",), [[]]),
    ],
    ids=lambda value: ".".join(value) if isinstance(value, tuple) else "",
)
def test_the_file_and_the_field_are_named(
    package: Maker, tmp_path: Path, path: tuple[str, ...], value: Any
) -> None:
    file = tmp_path / "bad.rknn"
    file.write_bytes(llm_damage.described(package().model.read_bytes(), path, value))
    with pytest.raises(ModelInvalid) as caught:
        _ = read_llm(ModelFile(file))
    assert str(file) in str(caught.value)
    assert path[-1] in str(caught.value)
    assert len(str(caught.value)) < len(str(file)) + 300
    llm_damage.told(caught.value)


def test_groups_that_do_not_divide_the_heads(package: Maker) -> None:
    data = package().model.read_bytes()
    data = llm_damage.described(data, ("kv",), {"dtype": 5, "group": 16})
    for dtype in range(9):
        bad = llm_damage.described(data, ("kv",), {"dtype": dtype, "group": 16})
        with pytest.raises(ModelInvalid, match=r"groups of 16|KV cache"):
            _ = read_llm(ModelFile(bad))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"norm": {"dtype": "F32", "shape": [10**400], "data_offsets": [0, 4]}}, "shape"),
        ({"norm": {"dtype": "F32", "shape": [1] * 5000, "data_offsets": [0, 4]}}, "shape"),
        ({"norm": {"dtype": "F32", "shape": [0, 10**30], "data_offsets": [0, 0]}}, "shape"),
        ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}}, "share bytes"),
        ({"x" * 5000: {"dtype": "F32"}}, "damaged entry"),
        ({"norm": {"dtype": "F" * 5000, "shape": [1], "data_offsets": [0, 4]}}, "element type"),
    ],
)
def test_weight_files_that_lie(change: dict[str, Any], says: str) -> None:
    head = {"b": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, **change}
    text = llm_damage.dumped(head)
    data = len(text).to_bytes(8, "little") + text + bytes(64)
    with pytest.raises(ModelInvalid, match=says) as caught:
        SafeTensors(memoryview(data), "w.weight")
    assert len(str(caught.value)) < 400


def test_no_memory_for_the_cache_is_said(context: LlmContext, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise MemoryError

    monkeypatch.setattr("rknnlite_cpu.llm.conversation.KvCache", full)
    with context.session(LlmParams()) as session, pytest.raises(OutOfMemory, match="smaller max_context_len"):
        session._talk.cache  # type: ignore[attr-defined]  # noqa: B018


@given(st.data())
def test_damaged_packages(parts: llm_damage.Parts, data: st.DataObject) -> None:
    damaged = data.draw(llm_damage.packages(parts))
    with tempfile.TemporaryDirectory() as folder:
        llm_damage.use_package(damaged, Path(folder))


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_damaged_models_of_embeddings(family: str, tmp_path: Path) -> None:
    made = export_llm(write_encoder(tmp_path / "hf", family), tmp_path / "good", "w8")
    (tmp_path / "new").mkdir()

    @given(llm_damage.packages(llm_damage.Parts.of(made)))
    def check(damaged: llm_damage.Parts) -> None:
        llm_damage.use_package(damaged, tmp_path / "new")

    check()


@pytest.mark.parametrize("kvcache", [None, "int8"])
def test_damaged_caches(package: Maker, tmp_path: Path, kvcache: str | None) -> None:
    made = package("qwen3", "f32", kvcache)
    with open_llm(made.model, backend="cpu") as context:
        good = llm_damage.saved_kv(context, made, tmp_path / "kv")
        assert llm_damage.use_kv(context, made, good, tmp_path / "kv")

        @given(llm_damage.kv_files(good))
        def check(data: bytes) -> None:
            llm_damage.use_kv(context, made, data, tmp_path / "kv")

        check()


@pytest.mark.parametrize(
    "changes", [{"total": 100}, {"total": 1.5}, {"keep": 0.5}, {"keep": 7}, {"ended": "x"}, {"unfed": "ab"}]
)
def test_a_cache_that_cannot_be(package: Maker, tmp_path: Path, changes: dict[str, Any]) -> None:
    made = package("qwen3", "f32", "int8")
    with open_llm(made.model, backend="cpu") as context:
        good = llm_damage.saved_kv(context, made, tmp_path / "kv")
        bad = llm_damage.kv_described(good, changes)
        assert llm_damage.use_kv(context, made, bad, tmp_path / "kv") == ("ended" in changes)


@pytest.mark.parametrize("kvcache", [None, "int8"])
@pytest.mark.parametrize(
    "changes", [{"unfed": [1 << 40]}, {"seen": [-1]}, {"system": None}, {"total": 3}, {"keep": -1}]
)
def test_a_damaged_cache_file_leaves_the_session_as_it_was(
    package: Maker, tmp_path: Path, kvcache: str | None, changes: dict[str, Any]
) -> None:
    made = package("qwen3", "f32", kvcache)
    path, before, after = (str(tmp_path / name) for name in ("kv", "before", "after"))
    with (
        open_llm(made.model) as context,
        context.session(callbacks=LlmCallbacks(embed=embed_of(made))) as session,
    ):
        session.run(TokenInput(range(1, 40)), InferParams(max_new_tokens=2))
        session.save_kvcache(path)
        Path(path).write_bytes(llm_damage.kv_described(Path(path).read_bytes(), changes))
        session.run(TokenInput([7, 8, 9]), InferParams(max_new_tokens=3))
        session.save_kvcache(before)
        with pytest.raises(ModelInvalid, match="damaged"):
            session.load_kvcache(path)
        session.save_kvcache(after)
        assert Path(before).read_bytes() == Path(after).read_bytes()
        session.run(TokenInput([3]), InferParams(keep_history=True, max_new_tokens=3))


@pytest.mark.parametrize("number, inside", [(-1, 0), (1 << 40, 0), (0, 1 << 40), (0, -1)])
def test_a_cache_file_with_impossible_groups_leaves_the_session_as_it_was(
    package: Maker, tmp_path: Path, number: int, inside: int
) -> None:
    """Found in the last layer, after all others have been looked at."""
    made = package("qwen3", "f32", "int8")
    path, before, after = (str(tmp_path / name) for name in ("kv", "before", "after"))
    with (
        open_llm(made.model) as context,
        context.session(callbacks=LlmCallbacks(embed=embed_of(made))) as session,
    ):
        session.run(TokenInput(range(1, 40)), InferParams(max_new_tokens=2))
        session.save_kvcache(before)
        filled = session._talk.cache.layers[max(session._talk.cache.layers)]._filled  # type: ignore[attr-defined]
        good = filled.copy()
        filled[:] = number, inside
        session.save_kvcache(path)
        filled[:] = good
        with pytest.raises(ModelInvalid, match="keys wait in group"):
            session.load_kvcache(path)
        session.save_kvcache(after)
        assert Path(before).read_bytes() == Path(after).read_bytes()


@given(llm_damage.configurations())
def test_damaged_configurations(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        llm_damage.use_configuration(data, Path(folder) / "config.yaml")
