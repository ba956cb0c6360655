"""GGUF files are exported: the numbers are those that the package gguf widens, the tokenizer is the file's."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
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
from tests.llm.family_goldens import write_family
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


def sorted_by_pairs(values: np.ndarray, heads: int) -> np.ndarray:
    """What llama.cpp's converter does with a Llama's queries and keys."""
    halves = values.reshape(heads, 2, len(values) // heads // 2, *values.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(values.shape)


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


@dataclass(frozen=True)
class Said:
    """What a file of an architecture says beside what all do: key -> field of ``config.json``, or the value itself."""

    arch: str
    keys: dict[str, Any] = field(default_factory=dict)
    changes: dict[str, Any] = field(default_factory=dict)
    sorted_pairs: bool = False
    shift: float = 0.0


_MOE = {"expert_count": "num_experts", "expert_used_count": "num_experts_per_tok",
        "expert_feed_forward_length": "moe_intermediate_size"}  # fmt: skip
_GEMMA = {"attention.sliding_window": "sliding_window"}
_LONG = {"rope.scaling.original_context_length": 96, "rope.scaling.attn_factor": 1.2323195934295654}
EPSILONS = {
    "rms_norm_eps": "attention.layer_norm_rms_epsilon", "layer_norm_eps": "attention.layer_norm_epsilon"
}  # fmt: skip
FILES = {
    "llama-linear": Said("llama", {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}, sorted_pairs=True),
    "mixtral": Said("llama", {"expert_count": "num_local_experts", "expert_used_count": "num_experts_per_tok"},
        {"sliding_window": None}, sorted_pairs=True),
    "qwen2-yarn": Said("qwen2", {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
        "rope.scaling.original_context_length": 64}),
    "qwen2-moe": Said("qwen2moe", {**_MOE, "expert_shared_feed_forward_length": "shared_expert_intermediate_size"}),
    "qwen3": Said("qwen3"),
    "qwen3-moe": Said("qwen3moe", {**_MOE, "expert_count": "num_local_experts"}, {"mlp_only_layers": []}),
    "gemma": Said("gemma", shift=1.0),
    "gemma2": Said("gemma2", {**_GEMMA, "attn_logit_softcapping": "attn_logit_softcapping",
        "final_logit_softcapping": "final_logit_softcapping"}, {"query_pre_attn_scalar": 16}, shift=1.0),
    "gemma3": Said("gemma3", {**_GEMMA, "rope.scaling.type": "linear", "rope.scaling.factor": 8.0, "rope.freq_base_swa": 1e4,
        "attention.sliding_window_pattern": [True, True, False, True]}, {"query_pre_attn_scalar": 16}, shift=1.0),
    "phi3": Said("phi3", {**_GEMMA, "rope.scaling.original_context_length": 4096}),
    "phi4-mini": Said("phi3", {**_LONG, "attention.sliding_window": 0, "rope.dimension_count": 12}),
    "phi3-128k": Said("phi3", {**_LONG, "attention.sliding_window": 0}),
    "smollm3": Said("smollm3", changes={"no_rope_layers": [1, 1, 1, 0]}, sorted_pairs=True),
    "granite": Said("granite", {"attention.scale": "attention_multiplier", "embedding_scale": "embedding_multiplier",
        "residual_scale": "residual_multiplier", "logit_scale": "logits_scaling"}, sorted_pairs=True),
    "minicpm": Said("minicpm", {"embedding_scale": 6.0, "residual_scale": 0.7, "logit_scale": 2.0}, sorted_pairs=True),
    "deepseek-r1-qwen": Said("qwen2"),
    "glm4": Said("glm4", {"rope.dimension_count": 8}),
    "olmo2": Said("olmo2"),
    "olmoe": Said("olmoe", {"expert_count": "num_experts", "expert_used_count": "num_experts_per_tok"}),
    "seed-oss": Said("seed_oss"),
    "ernie4.5": Said("ernie4_5"),
    "cohere": Said("command-r", {"logit_scale": "logit_scale"}),
}  # fmt: skip
"""Families by their stored model, of which as much is asked as a file can say."""


def family_file(name: str, folder: Path) -> Path:
    """A stored model as a Hugging Face folder, and as the file that llama.cpp's converter makes of it.

    Names of tensors are those of the package gguf's own map.
    """
    said, hf = FILES[name], folder / "hf"
    write_family(name, hf)
    settings = {**json.loads((hf / "config.json").read_text()), **said.changes}
    tensors = dict(tensors_of(hf))
    if name == "qwen3-moe":  # the file has experts in all layers
        tensors = {key: array for key, array in tensors.items() if "layers.1.mlp." not in key}
        tensors.update({
            key.replace("layers.0.", "layers.1."): array for key, array in list(tensors.items()) if "layers.0.mlp." in key
        })  # fmt: skip
        write_safetensors(
            hf / "model.safetensors",
            {key: ("F32", array) for key, array in tensors.items()},
            {"format": "pt"},
        )
    (hf / "config.json").write_text(json.dumps(settings))
    return written(folder / "model.gguf", said, settings, tensors)


def tensors_of(folder: Path) -> Iterator[tuple[str, np.ndarray]]:
    file = SafeTensors(ModelFile(folder / "model.safetensors").data)
    return ((name, file.float32(name).copy()) for name in file.names)


def written(path: Path, said: Said, settings: dict[str, Any], tensors: dict[str, np.ndarray]) -> Path:
    writer = gguf.GGUFWriter(path, said.arch)
    heads, groups = settings["num_attention_heads"], settings["num_key_value_heads"]
    rope = {**(settings.get("rope_parameters") or {})}
    rope = {**rope, **rope.get("full_attention", {})}
    keys = {
        **{theirs: settings[ours] for ours, theirs in KEYS.items()}, "attention.head_count_kv": groups,
        **{key: float(settings[field]) for field, key in EPSILONS.items() if field in settings},
        "rope.freq_base": float(rope.get("rope_theta", settings.get("rope_theta", 10000.0))),
        **{key: settings[value] if isinstance(value, str) and value in settings else value for key, value in said.keys.items()},
    }  # fmt: skip
    if settings.get("head_dim"):
        keys["attention.key_length"] = keys["attention.value_length"] = settings["head_dim"]
    for key, value in keys.items():
        if isinstance(value, list):
            writer.add_array(f"{said.arch}.{key}", value)
        else:
            add = {str: writer.add_string, int: writer.add_uint32, float: writer.add_float32}[type(value)]
            add(f"{said.arch}.{key}", value)
    for word in ("short", "long"):
        if f"{word}_factor" in rope:
            writer.add_tensor(f"rope_factors_{word}.weight", np.float32(rope[f"{word}_factor"]))
    if rope.get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", divisors(rope, settings["head_dim"]))
    names = gguf.get_tensor_name_map(
        next(arch for arch, word in gguf.MODEL_ARCH_NAMES.items() if word == said.arch),
        settings["num_hidden_layers"],
    )
    for name, array in with_stacked_experts(tensors).items():
        if said.sorted_pairs and re.search(r"[qk]_proj\.(weight|bias)$", name):
            array = sorted_by_pairs(array, heads if "q_proj" in name else groups)
        array = array + np.float32(said.shift) if name.endswith("norm.weight") else array
        array = array[0] if name.endswith("shared_expert_gate.weight") else array
        stem, what = name.rsplit(".", 1)
        writer.add_tensor(f"{names.get_name(stem)}.{what}", array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def with_stacked_experts(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    made: dict[str, Any] = {}
    for name, array in tensors.items():
        match = re.fullmatch(r"(.*layers\.\d+)\..*experts\.(\d+)\.(\w+)\.weight", name)
        if match is None:
            made[name] = array
            continue
        part = {"w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}.get(match[3], match[3])
        made.setdefault(f"{match[1]}.mlp.experts.{part}.weight", {})[int(match[2])] = array
    return {
        name: np.stack([value[i] for i in range(len(value))]) if isinstance(value, dict) else value
        for name, value in made.items()
    }


def divisors(rope: dict[str, Any], size: int) -> np.ndarray:
    """By what Llama 3 divides frequencies: short waves by 1, long ones by the factor, those between by something between."""
    waves = 2 * np.pi * rope["rope_theta"] ** (np.arange(0, size, 2) / size)
    turns = rope["original_max_position_embeddings"] / waves
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    return np.asarray(1 / ((1 - smooth) / rope["factor"] + smooth), np.float32)


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


@pytest.mark.parametrize("name", ["gemma3", "phi4-mini", "minicpm", "mixtral"])
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
    with pytest.raises(BackendUnavailable, match=r"rknnlite\[gguf\]"):
        export_llm(tmp_path / "x.gguf", tmp_path / "y")
