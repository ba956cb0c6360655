"""Exporting and reading packages; damaged files."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rknnlite_llm import EmbedTable, Package, Tokenizer, export_llm, export_weights, hf_folder, open_llm
from rknnlite_llm.container import description as container
from rknnlite_llm.container.safetensors import SafeTensors, filling, write_safetensors
from rknnlite_llm.weights import pack

from rknnlite.errors import ModelInvalid, ModelUnsupported, ParamInvalid
from rknnlite.formats import ModelFile
from rknnlite.spi.llm import KvDtype, KvStore
from tests.llm.conftest import Maker
from tests.support.llm_models import HIDDEN, VOCAB, write_model


def test_a_package_has_its_parts_by_role(package: Maker) -> None:
    made = package("qwen3", "w8", "int8")
    assert made.model.read_bytes()[:8] == b"RKLITLLM"
    assert made.embed.stat().st_size == 2 * VOCAB * HIDDEN
    assert "layers.0.qkv.scale" in SafeTensors(ModelFile(made.weight).data)
    assert Package.of(made.model) == Package.of(str(made.model)[:-5]) == made


def test_the_model_says_what_it_is(package: Maker) -> None:
    with open_llm(package("qwen3", "w8", "int8").model) as context:
        config = context.config
        assert (config.vocab_size, config.embedding_dim, config.model_type) == (VOCAB, HIDDEN, "qwen3")
        assert (config.kvcache_dtype, config.kvcache_store_method) == (
            KvDtype.INT8_TO_F16,
            KvStore.GROUP_QUANT,
        )
        assert [attr.name for attr in context.outputs] == ["logits", "last_hidden_state"]


def test_narrow_weights_are_smaller(package: Maker) -> None:
    shape = {"hidden_size": 128, "intermediate_size": 256, "head_dim": 32}
    sizes = {w: package("qwen3", w, **shape).weight.stat().st_size for w in ("f32", "f16", "w8", "w4")}
    assert sizes["f16"] < 0.6 * sizes["f32"]
    assert sizes["w8"] < 0.4 * sizes["f32"]
    assert sizes["w4"] < 0.3 * sizes["f32"]


def test_safetensors_files_are_those_of_the_format(package: Maker) -> None:
    library = pytest.importorskip("safetensors.numpy", reason="needs the package safetensors (extra test)")
    path = package("qwen3", "w8").weight
    theirs, ours = library.load_file(path), SafeTensors(ModelFile(path).data)
    assert sorted(theirs) == sorted(ours.names)
    assert all(np.array_equal(theirs[name], ours[name]) for name in theirs)


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"model_type": "gemma"}, ModelUnsupported, "gemma"),
        ({"hidden_act": "mish"}, ModelUnsupported, "mish"),
        ({"use_sliding_window": True}, ModelUnsupported, "sliding"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, ModelUnsupported, "yarn"),
        ({"mlp_bias": True}, ModelUnsupported, "bias"),
        ({"num_hidden_layers": 3}, ModelInvalid, "no tensor model.layers.2"),
        ({"intermediate_size": 95}, ModelInvalid, r"config.json needs \[95, 32\]"),
        ({"hidden_size": "32"}, ModelInvalid, "hidden_size"),
        ({"rms_norm_eps": "small"}, ModelInvalid, "damaged"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, ModelInvalid, "low_freq_factor"),
        ({"rope_scaling": 8.0}, ModelInvalid, "damaged"),
    ],
)
def test_models_that_cannot_be_exported(tmp_path: Path, changes: dict, error: type, match: str) -> None:
    folder = write_model(tmp_path, "qwen2")
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(error, match=match):
        export_llm(folder, tmp_path / "out")


@pytest.mark.parametrize("family", ["qwen2", "qwen3", "llama"])
def test_the_export_tells_how_far_it_is(tmp_path: Path, family: str) -> None:
    told: list[tuple[int, int, str]] = []
    export_llm(write_model(tmp_path, family), tmp_path / "out", progress=lambda *step: told.append(step))
    assert [done for done, _, _ in told] == list(range(told[0][1])), "as many matrices as were announced"
    assert told[-1][2] == "head"


@pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="needs a kernel with large pages"
)
def test_weights_may_lie_in_large_pages(package: Maker) -> None:
    made = package()
    with open_llm(made.model, backend="cpu"):
        mappings = Path("/proc/self/smaps").read_text().split(f"{made.weight}\n")
    flags = re.search(r"^VmFlags: (.*)$", mappings[1], re.MULTILINE)
    assert flags is not None and "hg" in flags[1].split()


@pytest.mark.parametrize(
    "wrong",
    [
        {"weights": "int3"},
        {"kvcache": "fp8"},
        {"max_context": -16},
        {"max_context": 0},
        {"max_context": 2048},
        {"kvcache": "int8", "max_context": 100},
    ],
)
def test_illegal_choices_of_the_export(tmp_path: Path, wrong: dict) -> None:
    with pytest.raises(ParamInvalid, match="|".join(wrong)):
        export_llm(write_model(tmp_path, "qwen3"), tmp_path / "out", **wrong)


def test_the_context_is_in_whole_groups_by_itself(package: Maker) -> None:
    made = package("qwen3", "f32", "int8", max_position_embeddings=1000)
    with open_llm(made.model) as context:
        assert context.config.max_ctx_len == 992


def test_a_package_can_be_opened_from_memory(package: Maker) -> None:
    made = package()
    with open_llm(made.model.read_bytes(), made.weight.read_bytes()) as context:
        assert context.config.vocab_size == VOCAB
    with pytest.raises(ParamInvalid, match="weight file cannot be found"):
        open_llm(made.model.read_bytes())


def test_directories_without_the_files(tmp_path: Path) -> None:
    with pytest.raises(ModelInvalid, match=r"config\.json"):
        export_llm(tmp_path, tmp_path / "out")
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(ModelInvalid, match="no JSON object"):
        export_llm(tmp_path, tmp_path / "out")


@pytest.mark.parametrize(
    "damage",
    [
        lambda t: t.update(model=[]),
        lambda t: t["model"].update(vocab=[]),
        lambda t: t["model"].update(merges=[1, 2]),
        lambda t: t["model"].update(merges=7),
        lambda t: t.update(added_tokens=[{}]),
        lambda t: t.update(added_tokens=[{"id": 0, "content": 1}]),
        lambda t: t.update(added_tokens=[{"id": 640, "content": "x"}]),
    ],
)
def test_damaged_tokenizers_cannot_be_exported(example: Path, tmp_path: Path, damage: Callable) -> None:
    folder = shutil.copytree(example.parent.parent / "trained", tmp_path / "hf")
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    damage(tokenizer)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(ModelInvalid, match=r"tokenizer\.json"):
        export_llm(folder, tmp_path / "out")


def test_half_a_character_in_a_prompt_is_no_crash(example: Path) -> None:
    pytest.importorskip("tokenizers", reason="needs the package tokenizers (extra llm)")
    tokenizer = Tokenizer(Package.of(example).tokenizer)
    assert tokenizer.decode(tokenizer.encode("a\ud83db")) == "a?b"


def test_tokenizer_without_the_published_file_is_rebuilt(example: Path, tmp_path: Path) -> None:
    pytest.importorskip("tokenizers", reason="needs the package tokenizers (extra llm)")
    from rknnlite_llm.gguf import read_gguf, write_gguf

    path = Package.of(example).tokenizer
    pairs = read_gguf(memoryview(path.read_bytes()), "x")
    del pairs["tokenizer.huggingface.json"]
    (tmp_path / "t.gguf").write_bytes(write_gguf(pairs))
    ours, rebuilt = Tokenizer(path), Tokenizer(tmp_path / "t.gguf")
    text = "<|im_start|>user\nWhat is 12 + 30?<|im_end|>\n\u00e4\u4e2d"
    assert rebuilt.decode(rebuilt.encode(text), skip_special=False) == text
    assert ours.decode(ours.encode(text), skip_special=False) == text
    assert rebuilt.encode("<|im_start|>user") == ours.encode("<|im_start|>user")


@given(st.data())
def test_damaged_containers_are_refused(package: Maker, data: st.DataObject) -> None:
    good = package().model.read_bytes()
    bad = _damaged(good, data)
    _must_refuse_or_read(container.read, bad, resealed=bad == good)


@given(st.data())
def test_containers_with_a_right_checksum_and_wrong_contents(package: Maker, data: st.DataObject) -> None:
    import struct
    import zlib

    bad = bytearray(_damaged(package().model.read_bytes(), data))
    if len(bad) > 32:
        bad[12:16] = struct.pack("<I", zlib.crc32(bytes(bad[32:])))
    _must_refuse_or_read(container.read, bytes(bad), resealed=True)


@given(st.data())
def test_damaged_weight_files_are_refused_or_read(package: Maker, data: st.DataObject) -> None:
    good = package("qwen3", "w8").weight.read_bytes()[:6000]
    _must_refuse_or_read(SafeTensors, _damaged(good, data), resealed=True)


def _damaged(good: bytes, data: st.DataObject) -> bytes:
    bad = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        bad[data.draw(st.integers(8, len(bad) - 1))] ^= data.draw(st.integers(1, 255))
    return bytes(bad[: data.draw(st.sampled_from([len(bad), len(bad), len(bad) // 2, 20, 0]))])


def _must_refuse_or_read(reader, bad: bytes, resealed: bool) -> None:
    try:
        reader(memoryview(bad))
    except ModelInvalid:
        return
    assert resealed


def test_bfloat16_is_read_as_float32(tmp_path: Path) -> None:
    values = np.array([1.0, -2.5, 3e38], np.float32)
    bits = (values.view(np.uint32) >> 16).astype(np.uint16)
    write_safetensors(tmp_path / "x", {"a": ("BF16", bits)}, {})
    read = SafeTensors(ModelFile(tmp_path / "x").data).float32("a")
    assert np.allclose(read, values, rtol=0.01)


def test_a_pipe_among_the_weights_is_refused_without_waiting(tmp_path: Path, example: Path) -> None:
    folder = shutil.copytree(example.parent.parent / "trained", tmp_path / "hf")
    os.mkfifo(folder / "more.safetensors")
    with pytest.raises(ModelInvalid, match=r"more\.safetensors: it is a pipe"):
        export_llm(folder, tmp_path / "out", weights="f32")


@pytest.mark.parametrize(
    "name",
    [
        "config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja",
        "modules.json",
    ],
)  # fmt: skip
def test_a_pipe_in_the_folder_of_a_model_is_refused_without_waiting(
    tmp_path: Path, example: Path, name: str
) -> None:
    folder = shutil.copytree(example.parent.parent / "trained", tmp_path / "hf")
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(ModelInvalid, match=rf"{re.escape(name)}: .*it is a pipe"):
        export_llm(folder, tmp_path / "out", weights="f32")


def test_a_template_that_is_no_text_is_named(tmp_path: Path, example: Path) -> None:
    folder = shutil.copytree(example.parent.parent / "trained", tmp_path / "hf")
    (folder / "chat_template.jinja").write_bytes(b"\xff")
    with pytest.raises(ModelInvalid, match=r"chat_template\.jinja: .*utf-8"):
        export_llm(folder, tmp_path / "out", weights="f32")


def test_weights_that_cannot_be_read_are_named(tmp_path: Path, example: Path) -> None:
    for path, why in ((Path("/dev/zero"), "it is a pipe"), (tmp_path / "none", "No such file")):
        with pytest.raises(ModelInvalid, match=rf"^{path}: cannot be read: {why}"):
            open_llm(example.with_suffix(".rknn"), path, backend="cpu")


@pytest.mark.parametrize("weights", ["f32", "bf16", "w8", "w4"])
def test_pieces_make_the_same_files_as_a_whole(
    tmp_path: Path, weights: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_model(tmp_path / "hf", "qwen3", vocab_size=700)
    whole = export_llm(tmp_path / "hf", tmp_path / "whole", weights)
    monkeypatch.setattr(export_weights, "_PIECE", 1)
    monkeypatch.setattr(hf_folder, "_BLOCK", 1)
    pieces = export_llm(tmp_path / "hf", tmp_path / "pieces", weights)
    for ours, theirs in zip(pieces.files()[:3], whole.files()):
        assert ours.read_bytes() == theirs.read_bytes(), ours
    file = SafeTensors(ModelFile(whole.weight).data)
    wanted = pack("m", SafeTensors(ModelFile(tmp_path / "hf" / "model.safetensors").data).float32(
        "model.layers.1.mlp.down_proj.weight"), weights)  # fmt: skip
    assert np.array_equal(file["layers.1.down"], wanted["m"][1])


def test_a_file_whose_tensors_are_not_full_is_not_written(tmp_path: Path) -> None:
    def write(count: int, **metadata: str) -> None:
        with filling(tmp_path / "x", {"a": ("F32", (4,)), "b": ("I8", (2,))}, {"id": "00"}) as file:
            file.add("b", np.ones(2, np.int8))
            for _ in range(count):
                file.add("a", np.ones(2, np.float32))
            file.end(**metadata)

    with pytest.raises(ValueError, match="8 bytes of tensors were not written"):
        write(1)
    with pytest.raises(ValueError, match=r"the metadata \['id'\] have another length"):
        write(2, id="x" * 100)
    assert list(tmp_path.iterdir()) == []
    write(2, id="12")
    found = SafeTensors(ModelFile(tmp_path / "x").data)
    assert found.metadata == {"id": "12"}
    assert found["a"].tolist() == [1, 1, 1, 1]


MEMORY = """
import json, sys, tracemalloc
from rknnlite_llm import export_llm
calls = []
tracemalloc.start()
export_llm(sys.argv[1], sys.argv[2], sys.argv[3], progress=lambda *call: calls.append(call))
print(json.dumps([tracemalloc.get_traced_memory()[1], len(calls), calls[-1]]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["f32", "f16", "w8", "w4"])
def test_export_holds_no_more_than_its_largest_tensor_and_a_half(tmp_path: Path, weights: str) -> None:
    """The mapped files do not count. The largest tensor is that of the source, float16, 69 MB; layers are small."""
    size = {"vocab_size": 60000, "hidden_size": 576, "intermediate_size": 64}
    write_model(tmp_path / "hf", "qwen2", **size)
    path = tmp_path / "hf" / "model.safetensors"
    source = SafeTensors(memoryview(path.read_bytes()))
    half = {name: ("F16", source[name].astype(np.float16)) for name in source.names}
    write_safetensors(path, half, {"format": "pt"})
    largest = max(array.nbytes for _, array in half.values())
    command = [sys.executable, "-c", MEMORY, str(tmp_path / "hf"), str(tmp_path / "out"), weights]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    peak, calls, last = json.loads(done.stdout)
    assert peak < 1.5 * largest, f"{peak / 1e6:.0f} MB, the largest tensor has {largest / 1e6:.0f} MB"
    assert (calls, last[2]) == (last[1], "head"), "progress is told matrix by matrix"


def _with_table(folder: Path, change: Callable[[np.ndarray], None]) -> np.ndarray:
    """Change the table of tokens of a model of tests; the table."""
    file = write_model(folder, "qwen2") / "model.safetensors"
    source = SafeTensors(ModelFile(file).data)
    tensors = {name: ("F32", source.float32(name).copy()) for name in source.names}
    table = tensors["model.embed_tokens.weight"][1]
    change(table)
    write_safetensors(folder / "changed", tensors, {})
    (folder / "changed").replace(file)
    return table


def test_a_float32_package_keeps_the_table_as_it_is(tmp_path: Path) -> None:
    table = _with_table(tmp_path / "hf", lambda table: np.multiply(table, 1.0001, out=table))
    assert np.any(table != table.astype(np.float16))
    for weights, kind in (("f32", np.float32), ("f16", np.float16), ("w8", np.float16)):
        package = export_llm(tmp_path / "hf", tmp_path / weights, weights)
        rows = EmbedTable(package.embed, *table.shape)(np.arange(len(table)))
        assert rows.dtype == kind and np.array_equal(rows, table.astype(kind))


def test_a_table_beyond_float16_is_refused_but_for_float32(tmp_path: Path) -> None:
    _with_table(tmp_path / "hf", lambda table: np.put(table, 3, 1e6))
    with pytest.raises(ModelUnsupported, match="do not fit float16; --weights f32"):
        export_llm(tmp_path / "hf", tmp_path / "half", "f16")
    export_llm(tmp_path / "hf", tmp_path / "single", "f32")
