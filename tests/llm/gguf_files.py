"""GGUF files of stored models, as llama.cpp's converter makes them: names of tensors are those of the package gguf's own map.

    python -m tests.llm.gguf_files FOLDER [NAME ...]

writes ``FOLDER/NAME/model.gguf``, with the tokens of ``words`` for programs that want some.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_llm.container.families import FAMILIES
from rknnlite_llm.container.safetensors import SafeTensors, write_safetensors
from rknnlite_llm.gguf_families import KEYS

from rknnlite.formats import ModelFile
from tests.llm.family_goldens import write_family

gguf = pytest.importorskip("gguf", reason="needs the package gguf (extra gguf)")


def sorted_by_pairs(values: np.ndarray, heads: int) -> np.ndarray:
    """What llama.cpp's converter does with a Llama's queries and keys."""
    halves = values.reshape(heads, 2, len(values) // heads // 2, *values.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(values.shape)


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
_YARN = {
    "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 64
}  # fmt: skip
_LOCAL = {"expert_count": "num_local_experts", "expert_used_count": "num_experts_per_tok"}
_ROUTED = {
    "expert_count": "n_routed_experts", "expert_used_count": "num_experts_per_tok", "expert_shared_count": "n_shared_experts",
    "expert_feed_forward_length": "moe_intermediate_size", "expert_weights_scale": "routed_scaling_factor",
    "expert_group_count": "n_group", "expert_group_used_count": "topk_group",
}  # fmt: skip
_LATENT = {
    "attention.kv_lora_rank": "kv_lora_rank", "attention.key_length": 32, "attention.value_length": 24,
    "attention.key_length_mla": 20, "attention.value_length_mla": "v_head_dim", "rope.dimension_count": "qk_rope_head_dim",
    "attention.head_count_kv": 1,
}  # fmt: skip
_GRANITE = {
    "attention.scale": "attention_multiplier", "embedding_scale": "embedding_multiplier",
    "residual_scale": "residual_multiplier", "logit_scale": "logits_scaling",
}  # fmt: skip
_LFM2 = {"shortconv.l_cache": "conv_L_cache", "vocab_size": "vocab_size"}
EPSILONS = {
    "rms_norm_eps": "attention.layer_norm_rms_epsilon", "layer_norm_eps": "attention.layer_norm_epsilon",
    "norm_epsilon": "attention.layer_norm_epsilon", "norm_eps": "attention.layer_norm_rms_epsilon",
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
    "cohere2": Said("cohere2", {"logit_scale": "logit_scale", **_GEMMA, "vocab_size": "vocab_size", "rope.scaling.type": "none"}),
    "gpt-oss": Said("gpt-oss", {**_GEMMA, **_LOCAL, **_YARN, "expert_feed_forward_length": "intermediate_size"}),
    "deepseek-v3": Said("deepseek2", {**_LATENT, **_ROUTED, **_YARN, "attention.q_lora_rank": "q_lora_rank",
        "expert_weights_norm": True,
        "expert_gating_func": 2, "leading_dense_block_count": "first_k_dense_replace", "rope.scaling.yarn_log_multiplier": 0.1},
        {"attention_bias": False}),
    "deepseek-v2": Said("deepseek2", {**_LATENT, **_ROUTED, **_YARN, "leading_dense_block_count": "first_k_dense_replace",
                "rope.scaling.yarn_log_multiplier": 0.0707, "expert_group_count": None, "expert_group_used_count": None}),
    "glm4-moe": Said("glm4moe", {**_ROUTED, "expert_weights_norm": True, "expert_gating_func": 2, "rope.dimension_count": 8,
        "leading_dense_block_count": "first_k_dense_replace"}),
    "ernie4.5-moe": Said("ernie4_5-moe", {"expert_count": "moe_num_experts", "expert_used_count": "moe_k",
        "interleave_moe_layer_step": "moe_layer_interval", "leading_dense_block_count": "moe_layer_start_index",
        "expert_feed_forward_length": "moe_intermediate_size", "expert_shared_count": "moe_num_shared_experts",
        "expert_shared_feed_forward_length": 80}),
    "granite-moe": Said("granitemoe", {**_GRANITE, **_LOCAL}, sorted_pairs=True),
    "granite-moe-shared": Said("granitemoe", {**_GRANITE, **_LOCAL,
        "expert_shared_feed_forward_length": "shared_intermediate_size"},
        sorted_pairs=True),
    "lfm2": Said("lfm2", {**_LFM2, "attention.head_count_kv": [0, 2, 0, 0]}, {"block_auto_adjust_ff_dim": False,
        "intermediate_size": 64}),
    "lfm2-moe": Said("lfm2moe", {**_LFM2, **_MOE, "attention.head_count_kv": [0, 2, 0, 2], "expert_gating_func": 2,
        "leading_dense_block_count": "num_dense_layers"}),
    "hunyuan": Said("hunyuan-dense", {"rope.freq_base": 10000.0 * 1000.0 ** (16 / 14), "rope.scaling.type": "none",
        "rope.scaling.factor": 1.0}),
    "hunyuan-moe": Said("hunyuan-moe", {"expert_count": "num_experts", "expert_used_count": "moe_topk", "expert_shared_count": 1,
        "expert_feed_forward_length": "intermediate_size", "expert_shared_feed_forward_length": "intermediate_size"}),
    "ministral3": Said("mistral3", {**_YARN, "rope.scaling.yarn_log_multiplier": 1.0, "attention.temperature_scale": 0.3},
        sorted_pairs=True),
    "arcee": Said("arcee", sorted_pairs=True),
    "apertus": Said("apertus"),
    "nemotron": Said("nemotron", {"rope.dimension_count": 8, "attention.layer_norm_epsilon": "norm_eps", "vocab_size": "vocab_size",
        "rope.scaling.type": "none"}, shift=1.0),
    "phi": Said("phi2", {"rope.dimension_count": 8}),
    "phimoe": Said("phimoe", {**_LOCAL, "attention.sliding_window": 0, "expert_feed_forward_length": "intermediate_size"}),
    "gpt2": Said("gpt2", {"feed_forward_length": 192, "rope.freq_base": None, "attention.head_count_kv": None}),
    "gpt-neox": Said("gptneox", {"rope.freq_base": None, "attention.head_count_kv": None, "rope.dimension_count": 4,
        "use_parallel_residual": "use_parallel_residual"}),
    "falcon": Said("falcon", {"rope.freq_base": None, "attention.head_count_kv": 1, "tensor_data_layout": "jploski"},
        {"num_kv_heads": 1}),
    "falcon-40b": Said("falcon", {"rope.freq_base": None, "tensor_data_layout": "jploski"}),
    "stablelm": Said("stablelm", {"rope.dimension_count": 8, "use_parallel_residual": False}),
    "stablelm-parallel": Said("stablelm", {"rope.dimension_count": 4, "use_parallel_residual": True}),
    "starcoder2": Said("starcoder2", changes={"sliding_window": None}),
    "exaone4": Said("exaone4", {**_GEMMA, "attention.sliding_window_pattern": [True, True, True, False]}),
    "glm": Said("chatglm", {"rope.dimension_count": 8}),
}  # fmt: skip
"""Families by their stored model, of which as much is asked as a file can say."""


def family_file(name: str, folder: Path, words: bool = False) -> Path:
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
    if name == "deepseek-v3":  # which llama.cpp has without
        tensors = {
            key: array for key, array in tensors.items() if "_proj" not in key or not key.endswith(".bias")
        }
        tensors = {key: array for key, array in tensors.items() if not key.endswith("with_mqa.bias")}
        hf_tensors = {key: ("F32", array) for key, array in tensors.items()}
        write_safetensors(hf / "model.safetensors", hf_tensors, {"format": "pt"})
    if name == "apertus":
        numbers = {
            f"xielu.{what}": [tensors[f"model.layers.{i}.mlp.act_fn.{what}"].item() for i in range(4)]
            for what in ("alpha_p", "alpha_n", "beta", "eps")
        }
        said = replace(said, keys=numbers)
    (hf / "config.json").write_text(json.dumps(settings))
    return written(folder / "model.gguf", said, settings, tensors, words)


def tensors_of(folder: Path) -> Iterator[tuple[str, np.ndarray]]:
    file = SafeTensors(ModelFile(folder / "model.safetensors").data)
    return ((name, file.float32(name).copy()) for name in file.names)


def written(
    path: Path,
    said: Said,
    config: dict[str, Any],
    tensors: dict[str, np.ndarray],
    words: bool = False,
    experts: str = "F32",
) -> Path:
    """The file; ``words``: with tokens that mean nothing, for programs that want some; ``experts``: type of their matrices."""
    kind = gguf.GGMLQuantizationType[experts]
    writer = gguf.GGUFWriter(path, said.arch)
    renamed = dict(FAMILIES[config["model_type"]].renamed)
    settings = {renamed.get(key, key): value for key, value in config.items() if value is not None}
    heads = settings["num_attention_heads"]
    groups = settings.get("num_key_value_heads", heads)
    rope = {**(settings.get("rope_parameters") or {})}
    rope = {**rope, **rope.get("full_attention", {})}
    settings.setdefault("intermediate_size", 4 * settings["hidden_size"])
    settings.setdefault("max_position_embeddings", 1024)
    keys = {
        **{theirs: settings[ours] for ours, theirs in KEYS.items()}, "attention.head_count_kv": groups,
        **{key: float(settings[field]) for field, key in EPSILONS.items() if field in settings},
        "rope.freq_base": float(rope.get("rope_theta", settings.get("rope_theta", 10000.0))),
        **{key: settings[value] if isinstance(value, str) and value in settings else value for key, value in said.keys.items()},
    }  # fmt: skip
    if settings.get("head_dim"):
        keys = {
            "attention.key_length": settings["head_dim"],
            "attention.value_length": settings["head_dim"],
            **keys,
        }
    for key, value in keys.items():
        key = key if key.startswith("xielu.") else f"{said.arch}.{key}"
        if isinstance(value, list):
            writer.add_array(key, value)
        elif value is not None:
            add = {
                str: writer.add_string, bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32
            }[type(value)]  # fmt: skip
            add(key, value)
    if words:
        write_words(writer, settings["vocab_size"])
    for word in ("short", "long"):
        if f"{word}_factor" in rope:
            writer.add_tensor(f"rope_factors_{word}.weight", np.float32(rope[f"{word}_factor"]))
    size = settings.get("head_dim") or settings["hidden_size"] // heads
    if rope.get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", divisors(rope, size))
    names = gguf.get_tensor_name_map(
        next(arch for arch, word in gguf.MODEL_ARCH_NAMES.items() if word == said.arch),
        settings["num_hidden_layers"],
    )
    tensors = MOVED.get(said.arch, lambda tensors, settings: tensors)(tensors, settings)
    for name, array in with_stacked_experts(tensors).items():
        if said.sorted_pairs and re.search(r"[qk]_proj\.(weight|bias)$", name):
            array = sorted_by_pairs(array, heads if "q_proj" in name else groups)
        array = array + np.float32(said.shift) if name.endswith("norm.weight") else array
        array = array[0] if name.endswith("shared_expert_gate.weight") else array
        stem, what = name.rsplit(".", 1)
        theirs = names.get_name(stem)
        assert theirs is not None, name
        if theirs.endswith("_exps") and what == "weight" and experts != "F32":
            raw = gguf.quants.quantize(np.ascontiguousarray(array), kind)
            writer.add_tensor(f"{theirs}.{what}", raw, raw_dtype=kind)
        else:
            writer.add_tensor(f"{theirs}.{what}", np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_words(writer: Any, count: int) -> None:
    """A vocabulary of words that mean nothing."""
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(["<unk>", "<s>", "</s>", *(f"t{i}" for i in range(3, count))])
    writer.add_token_scores([0.0] * 3 + [-float(i) for i in range(count - 3)])
    writer.add_token_types([2, 3, 3] + [1] * (count - 3))


# -- what the converter changes ------------------------------------------------------------------------------

Tensors = dict[str, np.ndarray]


def _corrections(tensors: Tensors, settings: dict[str, Any]) -> Tensors:
    """A router's correction is a bias."""
    return {
        re.sub(r"(expert_bias)$", r"\1.bias", name.replace("e_score_correction_bias", "e_score_correction.bias")):
        array.reshape(-1) if "correction" in name else array
        for name, array in tensors.items()
    }  # fmt: skip


def _gpt_oss(tensors: Tensors, settings: dict[str, Any]) -> Tensors:
    made = {}
    for name, array in tensors.items():
        what = "bias" if name.endswith("_bias") else "weight"
        array = array.swapaxes(1, 2) if "experts" in name and what == "weight" else array
        if "gate_up_proj" in name:
            stem = name[: name.index("gate_up_proj")]
            made[f"{stem}gate_proj.{what}"], made[f"{stem}up_proj.{what}"] = array[:, ::2], array[:, 1::2]
        elif "experts.down_proj" in name:
            made[f"{name[: name.index('down_proj')]}down_proj.{what}"] = array
        else:
            made[f"{name}.weight" if name.endswith("sinks") else name] = array
    return made


def _granite_moe(tensors: Tensors, settings: dict[str, Any]) -> Tensors:
    made = {}
    for name, array in tensors.items():
        if "input_linear" in name:
            stem = name.replace("block_sparse_moe.input_linear.weight", "mlp.experts.")
            stem = stem.replace("shared_mlp.input_linear.weight", "mlp.shared_expert.")
            gate, up = np.split(array, 2, axis=-2)
            made[f"{stem}gate_proj.weight"], made[f"{stem}up_proj.weight"] = gate, up
        else:
            made[name] = array
    return made


def _latent(tensors: Tensors, settings: dict[str, Any]) -> Tensors:
    made, heads, plain = {}, settings["num_attention_heads"], settings["qk_nope_head_dim"]
    for name, array in _corrections(tensors, settings).items():
        if name.endswith("kv_b_proj.weight"):
            both = array.reshape(heads, -1, array.shape[1])
            made[name.replace("kv_b_proj", "k_b_proj")] = both[:, :plain].swapaxes(1, 2)
            made[name.replace("kv_b_proj", "v_b_proj")] = both[:, plain:]
        else:
            made[name] = array
    return made


def _apart(tensors: Tensors, settings: dict[str, Any]) -> Tensors:
    """Queries, keys, values of each group -> all queries, all keys, all values."""
    heads = settings["num_attention_heads"]
    groups = heads if settings["model_type"] == "gpt_neox" else settings["num_key_value_heads"]
    made = {}
    for name, array in tensors.items():
        if "query_key_value" in name:
            each = array.reshape(groups, heads // groups + 2, -1, *array.shape[1:])
            parts = each[:, :-2], each[:, -2], each[:, -1]
            array = np.concatenate([part.reshape(-1, *array.shape[1:]) for part in parts])
        made[name] = array
    return made


def _transposed(tensors: Tensors, settings: dict[str, Any]) -> Tensors:
    return {
        name: array.T if re.search(r"\.c_\w+\.weight$", name) else array for name, array in tensors.items()
    }


def _lfm2(tensors: Tensors, settings: dict[str, Any]) -> Tensors:
    return {
        name: array[:, 0] if "conv.conv" in name else array
        for name, array in _corrections(tensors, settings).items()
    }


def _without_numbers(tensors: Tensors, settings: dict[str, Any]) -> Tensors:
    return {name: array for name, array in tensors.items() if ".act_fn." not in name}


MOVED: dict[str, Callable[[Tensors, dict[str, Any]], Tensors]] = {
    "gpt-oss": _gpt_oss, "granitemoe": _granite_moe, "deepseek2": _latent, "glm4moe": _corrections, "ernie4_5-moe": _corrections,
    "lfm2": _lfm2, "lfm2moe": _lfm2, "falcon": _apart, "gptneox": _apart, "gpt2": _transposed, "apertus": _without_numbers,
}  # fmt: skip
"""By architecture."""


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


if __name__ == "__main__":
    for case in sys.argv[2:] or FILES:
        (Path(sys.argv[1]) / case).mkdir(parents=True, exist_ok=True)
        family_file(case, Path(sys.argv[1]) / case, words=True)
