"""GGUF files are exported: the numbers are those that the package gguf widens, the tokenizer is the file's."""

from __future__ import annotations

import json
import re
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_llm import Package, Tokenizer, export_llm, open_llm
from rknnlite_llm.container.description import read_llm
from rknnlite_llm.container.safetensors import SafeTensors, write_safetensors
from rknnlite_llm.gguf import read_gguf
from rknnlite_llm.gguf_config import FACTORS, hf_config
from rknnlite_llm.gguf_families import ENDS, KEYS, LAYER

from rknnlite.errors import BackendUnavailable, ModelInvalid, ModelUnsupported, RknnError
from rknnlite.formats import ModelFile
from tests.llm.family_goldens import DATA as DATA_OF_FAMILIES
from tests.llm.family_goldens import made_for, write_family
from tests.llm.gguf_files import FILES, Said, family_file, sorted_by_pairs, tensors_of, written
from tests.llm.test_families import Talk
from tests.support.llm_models import config, weights

pytestmark = pytest.mark.slow

gguf = pytest.importorskip("gguf", reason="needs the package gguf (extra gguf)")
SIZES = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "vocab_size": 704,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
DATA = Path(__file__).parent / "data" / "sentencepiece"


def write(folder: Path, family: str, kind: str, **more: Any) -> Path:
    """A file whose matrices have this type, and a folder ``plain`` with what they stand for."""
    settings = config(family, **SIZES)
    settings.pop("rope_scaling", None)
    path = folder / "model.gguf"
    writer = gguf.GGUFWriter(path, family)
    more_keys = {
        "num_key_value_heads": "attention.head_count_kv", "rope_theta": "rope.freq_base", "head_dim": "attention.key_length",
        "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    }  # fmt: skip
    for ours, theirs in {**KEYS, **more_keys}.items():
        value = settings.get(ours)
        if value is not None:
            add = writer.add_float32 if isinstance(value, float) else writer.add_uint32
            add(f"{family}.{theirs}", value)
    tokens = [f"t{i}" for i in range(3, 704)]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(["<unk>", "<s>", "</s>", *tokens])
    writer.add_token_scores([0.0] * 3 + [-float(i) for i in range(701)])
    writer.add_token_types([2, 3, 3] + [1] * 701)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    for key, text in more.items():
        writer.add_string(key.replace("__", "."), text)
    back = {theirs: ours for ours, theirs in ENDS.items()}
    inside = {theirs: ours for ours, theirs in LAYER.items()}
    quantisation = gguf.GGMLQuantizationType[kind]
    plain = {}
    for name, array in weights(settings).items():
        stem, what = name.rsplit(".", 1)
        if stem in back:
            theirs = back[stem]
        else:
            _, _, number, rest = stem.split(".", 3)
            theirs = f"blk.{number}.{inside[rest]}"
        values, heads = array, settings["num_attention_heads" if "q_proj" in name else "num_key_value_heads"]
        turned = family == "llama" and ("q_proj" in name or "k_proj" in name)
        values = sorted_by_pairs(values, heads) if turned else values
        if values.ndim == 1 or "embed" in name:
            writer.add_tensor(f"{theirs}.{what}", values)
            plain[name] = "F32", array
            continue
        raw = made_bytes(values, quantisation)
        writer.add_tensor(f"{theirs}.{what}", raw, raw_dtype=quantisation)
        wide = gguf.quants.dequantize(raw, quantisation).astype(np.float32).reshape(values.shape)
        plain[name] = "F32", np.ascontiguousarray(undone(wide, heads) if turned else wide)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (folder / "model").mkdir()
    write_safetensors(folder / "model" / "model.safetensors", plain, {"format": "pt"})
    (folder / "model" / "config.json").write_text(json.dumps(settings))
    return path


def undone(values: np.ndarray, heads: int) -> np.ndarray:
    place = sorted_by_pairs(np.arange(len(values)), heads)
    made = np.empty_like(values)
    made[place] = values
    return made


def made_bytes(values: np.ndarray, kind: Any) -> np.ndarray:
    """Quantised values; blocks of any legal numbers for types that the package only widens."""
    try:
        return np.asarray(gguf.quants.quantize(values, kind))
    except NotImplementedError:
        shape = gguf.quants.quant_shape_to_byte_shape(values.shape, kind)
        size = gguf.GGML_QUANT_SIZES[kind][1]
        blocks = np.random.default_rng(9).integers(0, 256, (int(np.prod(shape)) // size, size), np.uint8)
        scale = np.frombuffer(np.float16(0.01).tobytes(), np.uint8)
        if kind.name == "Q6_K":
            blocks[:, -2:] = scale
        else:
            blocks[:, :2] = blocks[:, 2:4] = scale
        return blocks.reshape(shape)


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_K", "Q5_K", "Q6_K"])
@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_a_package_is_that_of_the_widened_weights(tmp_path: Path, family: str, kind: str) -> None:
    path = write(tmp_path, family, kind)
    export_llm(path, tmp_path / "a" / "x", weights="f32")
    export_llm(tmp_path / "model", tmp_path / "b" / "x", weights="f32")
    ours, theirs = (Package.of(tmp_path / place / "x").weight.read_bytes() for place in "ab")
    assert ours == theirs
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == [
        "x.embed.bin", "x.rknn", "x.tokenizer.gguf", "x.weight",
    ]  # fmt: skip
    tokenizer = Tokenizer(Package.of(tmp_path / "a" / "x").tokenizer)
    assert (tokenizer.bos_id, tokenizer.eos_id, len(tokenizer)) == (1, 2, 704)


def test_scaled_rotary_embeddings_without_their_factors_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "qwen2", "F16", qwen2__rope__scaling__type="longrope")
    with pytest.raises(ModelUnsupported, match=r"rope.scaling.type is 'longrope'; scaled rotary embeddings"):
        export_llm(path, tmp_path / "x")


def test_keys_and_architectures_that_are_not_known_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "qwen2", "F16", qwen2__attention__sinks="yes")
    with pytest.raises(ModelUnsupported, match=r"qwen2.attention.sinks is 'yes'; this is not understood"):
        export_llm(path, tmp_path / "x")
    writer = gguf.GGUFWriter(path, "mamba")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(ModelUnsupported, match="models of 'mamba' are not read from GGUF, there are llama, "):
        export_llm(path, tmp_path / "x")


# -- families ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_a_family_is_that_of_its_folder(name: str, tmp_path: Path) -> None:
    """The same weights to the bit, where nothing was added to them, and the same description."""
    path = family_file(name, tmp_path)
    ours, theirs = (
        export_llm(source, tmp_path / place / "x", weights="f32")
        for source, place in ((path, "a"), (tmp_path / "hf", "b"))
    )
    kept = [ModelFile(package.weight) for package in (ours, theirs)]
    files = [SafeTensors(file.data) for file in kept]
    assert files[0].names == files[1].names
    for tensor in files[0].names:
        wrong = np.abs(files[0].float32(tensor) - files[1].float32(tensor)).max()
        assert wrong <= (2e-7 if FILES[name].shift else 0), tensor
    described = [asdict(read_llm(ModelFile(package.model)).arch) for package in (ours, theirs)]
    if described[1]["rope"]["scaling"] == "llama3":  # a file has the divisors that follow from it
        assert [arch.pop("rope")["theta"] for arch in described] == [pytest.approx(12e6)] * 2
    assert rounded(described[0]) == rounded(described[1])


def rounded(value: Any) -> Any:
    """Numbers of a description as far as float32 has them."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(one) for one in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


ODD = [
    0,
    -1,
    7,
    10**12,
    True,
    "x",
    1.5,
    float("nan"),
    1e38,
    np.array([1, 2]),
    np.array([], np.float32),
    ["a"],
]


@pytest.mark.parametrize(
    "name",
    [
        "gemma3", "phi4-mini", "minicpm", "mixtral", "gpt-oss", "deepseek-v3", "glm4-moe", "ernie4.5-moe", "granite-moe-shared",
        "lfm2-moe", "hunyuan-moe", "ministral3", "phimoe", "gpt-neox", "falcon", "exaone4", "apertus",
    ],
)  # fmt: skip
def test_odd_values_are_refused_or_read(name: str, tmp_path: Path) -> None:
    path = family_file(name, tmp_path)
    pairs = read_gguf(memoryview(path.read_bytes()), path.name)
    tensors = gguf.GGUFReader(path).tensors
    shapes = {tensor.name: tuple(int(n) for n in reversed(tensor.shape)) for tensor in tensors}
    factors = {tensor.name: np.array(tensor.data) for tensor in tensors if tensor.name in FACTORS}
    shapes = {key: shape for key, shape in shapes.items() if key not in FACTORS}
    refused = 0
    for key in (*pairs, f"{FILES[name].arch}.rope.scaling.type", f"{FILES[name].arch}.rope.dimension_count"):
        for value in ODD:
            try:
                json.dumps(hf_config({**pairs, key: value}, shapes, factors, path.name))
            except RknnError as error:
                assert path.name in str(error)
                refused += 1
    assert refused > 50


SMALL = {"hidden_size": 64, "intermediate_size": 64}


def gpt_oss(folder: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A GPT-OSS whose experts have whole groups of MXFP4, and the tensors of its folder as the groups have them."""
    golden = dict(np.load(DATA_OF_FAMILIES / "gpt-oss.npz"))
    settings = {**json.loads(str(golden["config"])), **SMALL}
    sizes = {48: 64, 80: 64}
    tensors = {}
    for name, shape in json.loads(str(golden["shapes"])).items():
        stack = "gate_up_proj" in name
        array = made_for(
            name, tuple(128 if stack and size == 160 else sizes.get(size, size) for size in shape), "gpt_oss"
        )
        if re.search(r"experts\.\w+_proj$", name):
            kind = gguf.GGMLQuantizationType.MXFP4
            rows = np.ascontiguousarray(array.swapaxes(1, 2))
            array = gguf.quants.dequantize(gguf.quants.quantize(rows, kind), kind).reshape(rows.shape)
            array = np.ascontiguousarray(array.swapaxes(1, 2))
        tensors[name] = array
    folder.mkdir()
    write_safetensors(
        folder / "model.safetensors", {name: ("F32", array) for name, array in tensors.items()}, {}
    )
    (folder / "config.json").write_text(json.dumps(settings))
    return settings, tensors


def test_experts_in_mxfp4(tmp_path: Path) -> None:
    settings, tensors = gpt_oss(tmp_path / "hf")
    path = written(tmp_path / "model.gguf", FILES["gpt-oss"], settings, tensors, experts="MXFP4")
    assert {t.tensor_type.name for t in gguf.GGUFReader(path).tensors if "exps.weight" in t.name} == {"MXFP4"}
    packages = [
        export_llm(source, tmp_path / to / "x", "f32") for source, to in ((path, "a"), (tmp_path / "hf", "b"))
    ]
    assert packages[0].weight.read_bytes() == packages[1].weight.read_bytes()


@pytest.mark.parametrize(
    "name", ["gpt-oss", "deepseek-v3", "lfm2-moe", "falcon-40b", "gpt2", "granite-moe-shared"]
)
def test_a_cut_file_is_a_damaged_model(name: str, tmp_path: Path) -> None:
    """At forty places, within a second each."""
    whole = family_file(name, tmp_path).read_bytes()
    assert_all_refused([whole[: len(whole) * i // 40] for i in range(40)], tmp_path)


def test_cut_blocks_of_mxfp4_are_a_damaged_model(tmp_path: Path) -> None:
    settings, tensors = gpt_oss(tmp_path / "hf")
    path = written(tmp_path / "model.gguf", FILES["gpt-oss"], settings, tensors, experts="MXFP4")
    whole = path.read_bytes()
    assert_all_refused([whole[: len(whole) - 17 * i - 1] for i in range(1, 200, 8)], tmp_path)


def assert_all_refused(files: list[bytes], folder: Path) -> None:
    for data in files:
        (folder / "cut.gguf").write_bytes(data)
        start = time.process_time()
        with pytest.raises(RknnError):
            export_llm(folder / "cut.gguf", folder / "cut" / "x", "w8")
        assert time.process_time() - start < 1


LIES = [
    ("gpt-oss", "expert_count", 7), ("gpt-oss", "expert_count", 5), ("gpt-oss", "expert_used_count", 9),
    ("gpt-oss", "expert_count", 2**31 - 1), ("gpt-oss", "attention.head_count", 5), ("gpt-oss", "attention.head_count_kv", 3),
    ("gpt-oss", "attention.key_length", 8), ("deepseek-v3", "expert_group_count", 3), ("deepseek-v3", "expert_group_used_count", 9),
    ("deepseek-v3", "expert_used_count", 2**30), ("deepseek-v3", "attention.key_length_mla", 8),
    ("deepseek-v3", "attention.kv_lora_rank", 2**30), ("deepseek-v3", "attention.head_count", 7),
    ("deepseek-v3", "expert_shared_count", 2), ("deepseek-v3", "leading_dense_block_count", 3),
    ("lfm2-moe", "shortconv.l_cache", 4),
    ("falcon-40b", "attention.head_count_kv", 3), ("gpt-neox", "attention.head_count", 5), ("glm", "attention.head_count_kv", 3),
    ("glm4-moe", "expert_shared_count", 9), ("granite-moe-shared", "expert_shared_feed_forward_length", 57),
    ("ernie4.5-moe", "interleave_moe_layer_step", 0), ("hunyuan-moe", "expert_shared_count", 2), ("gpt2", "block_count", 5),
]  # fmt: skip


@pytest.mark.parametrize(("name", "key", "value"), LIES)
def test_counts_that_lie_are_typed_errors(name: str, key: str, value: int, tmp_path: Path) -> None:
    said = FILES[name]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(FILES, name, replace(said, keys={**said.keys, key: value}))
        path = family_file(name, tmp_path)
    assert_all_refused([path.read_bytes()], tmp_path)


def test_logits_divided_by_nothing_are_a_damaged_model(tmp_path: Path) -> None:
    write_family("granite", tmp_path / "hf")
    settings = json.loads((tmp_path / "hf" / "config.json").read_text())
    (tmp_path / "hf" / "config.json").write_text(json.dumps({**settings, "logits_scaling": 0}))
    with pytest.raises(ModelInvalid, match=r"config\.json: logits_scaling is 0"):
        export_llm(tmp_path / "hf", tmp_path / "x")


@pytest.mark.parametrize("arch", ["llama", "internlm2"])
def test_llama_3_by_the_divisors_of_its_frequencies(arch: str, tmp_path: Path) -> None:
    """Logits are those of transformers, in the middle of a long prompt and at its end."""
    golden = write_family("llama-3", tmp_path / "hf")
    settings = json.loads((tmp_path / "hf" / "config.json").read_text())
    said = Said(arch, sorted_pairs=True)
    path = written(tmp_path / "model.gguf", said, settings, dict(tensors_of(tmp_path / "hf")))
    package = export_llm(path, tmp_path / "x", weights="f32")
    with open_llm(package.model, prefill_chunk=int(golden["rows"][0]) + 1) as context:
        talk = Talk(context, package)
        assert talk.run(golden["first"], 8) == golden["greedy"][:8].tolist()
        for row, wanted in ((0, golden["logits"][0]), (-9, golden["logits"][-1])):
            assert np.abs(talk.logits[row] - wanted).max() < 1e-3


def test_without_the_package_its_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    with pytest.raises(BackendUnavailable, match=r"\(extra gguf"):
        export_llm(tmp_path / "x.gguf", tmp_path / "y")
