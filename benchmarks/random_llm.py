"""Language models of a real shape with random weights, made without torch: for measuring, not for talking."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from rknnlite_llm import Package, export_llm
from rknnlite_llm.container.safetensors import write_safetensors

__all__ = ["SHAPES", "random_package"]

SHAPES = {
    "0.5b": {
        "vocab_size": 151936, "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
        "num_attention_heads": 14, "num_key_value_heads": 2, "max_position_embeddings": 32768,
    },
    "small": {
        "vocab_size": 8192, "hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 6,
        "num_attention_heads": 8, "num_key_value_heads": 2, "max_position_embeddings": 4096,
    },
}  # fmt: skip
_NOISE = 1 << 20
_END = "<|im_end|>"
_TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"


def random_package(folder: Path, shape: str, weights: str, context: int = 4096) -> Package:
    """A package in the folder; one that is there is used again. Its tokens are bytes, and words of letters for the rest."""
    package = Package.of(folder / f"random-{shape}-{weights}")
    if package.model.exists():
        return package
    source = folder / f"random-{shape}"
    source.mkdir(parents=True, exist_ok=True)
    config = {
        **SHAPES[shape], "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_act": "silu",
        "tie_word_embeddings": True, "rms_norm_eps": 1e-6, "rope_theta": 1e6,
    }  # fmt: skip
    (source / "config.json").write_text(json.dumps(config))
    (source / "tokenizer.json").write_text(json.dumps(_tokenizer(SHAPES[shape]["vocab_size"])))
    (source / "tokenizer_config.json").write_text(json.dumps({"eos_token": _END, "chat_template": _TEMPLATE}))
    if not (source / "model.safetensors").exists():
        write_safetensors(source / "model.safetensors", _tensors(SHAPES[shape]), {"format": "pt"})
    return export_llm(source, package.model.with_suffix(""), weights=weights, max_context=context)


def _tokenizer(size: int) -> dict[str, object]:
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [i for i in range(256) if i not in printable]
    signs = {**{i: chr(i) for i in printable}, **{number: chr(256 + i) for i, number in enumerate(others)}}
    vocab = {signs[i]: i for i in range(256)}
    vocab.update({f"word{i}": i for i in range(256, size - 2)})
    added = [
        {"id": number, "content": text, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False}
        for number, text in ((size - 2, "<|im_start|>"), (size - 1, _END))
    ]  # fmt: skip
    step = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    model = {"type": "BPE", "vocab": vocab, "merges": [], "byte_fallback": False}
    return {"version": "1.0", "added_tokens": added, "pre_tokenizer": step, "decoder": step, "model": model}


def _tensors(shape: dict[str, int]) -> dict[str, tuple[str, np.ndarray]]:
    random = np.random.default_rng(0)
    noise = (random.standard_normal(_NOISE) * 0.02).astype(np.float16)
    hidden, inner = shape["hidden_size"], shape["intermediate_size"]
    kv = hidden // shape["num_attention_heads"] * shape["num_key_value_heads"]

    def some(*sizes: int) -> tuple[str, np.ndarray]:
        return "F16", np.resize(np.roll(noise, int(random.integers(_NOISE))), sizes)

    made = {
        "model.embed_tokens.weight": some(shape["vocab_size"], hidden),
        "model.norm.weight": ("F16", np.ones(hidden, np.float16)),
    }
    for layer in range(shape["num_hidden_layers"]):
        name = f"model.layers.{layer}."
        for part, rows in (("q", hidden), ("k", kv), ("v", kv)):
            made[f"{name}self_attn.{part}_proj.weight"] = some(rows, hidden)
            made[f"{name}self_attn.{part}_proj.bias"] = some(rows)
        made[f"{name}self_attn.o_proj.weight"] = some(hidden, hidden)
        made[f"{name}mlp.gate_proj.weight"] = some(inner, hidden)
        made[f"{name}mlp.up_proj.weight"] = some(inner, hidden)
        made[f"{name}mlp.down_proj.weight"] = some(hidden, inner)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            made[f"{name}{norm}.weight"] = ("F16", np.ones(hidden, np.float16))
    return made
