"""Tiny language models with made weights, laid out as Hugging Face directories, and a decoder written for clarity."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from rknnlite_llm.container.safetensors import write_safetensors

FAMILIES = ("qwen2", "qwen3", "llama")
VOCAB, HIDDEN, LAYERS, HEADS, KV_HEADS, INNER = 160, 32, 2, 4, 2, 96

_CONFIG: dict[str, Any] = {
    "vocab_size": VOCAB, "hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "max_position_embeddings": 1024,
    "rms_norm_eps": 1e-6, "hidden_act": "silu", "eos_token_id": VOCAB - 1,
}  # fmt: skip
_MORE: dict[str, dict[str, Any]] = {
    "qwen2": {"tie_word_embeddings": True, "rope_theta": 10000.0},
    "qwen3": {"tie_word_embeddings": False, "rope_theta": 1000000.0, "head_dim": 16},
    "llama": {
        "tie_word_embeddings": False,
        "rope_theta": 500000.0,
        "rope_scaling": {
            "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    },
}  # fmt: skip


def config(family: str, **changes: Any) -> dict[str, Any]:
    """``config.json`` of a tiny model."""
    return {"model_type": family, **_CONFIG, **_MORE[family], **changes}


def weights(settings: dict[str, Any], seed: int = 0) -> dict[str, np.ndarray]:
    """Uniform weights; the embeddings are exact in float16, so that their table loses nothing."""
    random = np.random.default_rng(seed)
    hidden, inner = settings["hidden_size"], settings["intermediate_size"]
    dim = settings.get("head_dim", hidden // settings["num_attention_heads"])
    wide, narrow = settings["num_attention_heads"] * dim, settings["num_key_value_heads"] * dim
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (settings["vocab_size"], hidden)}
    for i in range(settings["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        for name, size in (("q", wide), ("k", narrow), ("v", narrow)):
            shapes[f"{layer}self_attn.{name}_proj.weight"] = (size, hidden)
            if settings["model_type"] == "qwen2":
                shapes[f"{layer}self_attn.{name}_proj.bias"] = (size,)
        if settings["model_type"] == "qwen3":
            shapes[f"{layer}self_attn.q_norm.weight"] = shapes[f"{layer}self_attn.k_norm.weight"] = (dim,)
        shapes[f"{layer}self_attn.o_proj.weight"] = (hidden, wide)
        shapes[f"{layer}mlp.gate_proj.weight"] = shapes[f"{layer}mlp.up_proj.weight"] = (inner, hidden)
        shapes[f"{layer}mlp.down_proj.weight"] = (hidden, inner)
        shapes[f"{layer}input_layernorm.weight"] = shapes[f"{layer}post_attention_layernorm.weight"] = (
            hidden,
        )
    shapes["model.norm.weight"] = (hidden,)
    if not settings["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (settings["vocab_size"], hidden)
    made = {name: _made(random, name, shape) for name, shape in shapes.items()}
    table = made["model.embed_tokens.weight"]
    made["model.embed_tokens.weight"] = table.astype(np.float16).astype(np.float32)
    return made


def _made(random: np.random.Generator, name: str, shape: tuple[int, ...]) -> np.ndarray:
    values = random.random(shape) - 0.5
    return (1 + values if "norm" in name else values).astype(np.float32)


def write_model(folder: Path, family: str, seed: int = 0, **changes: Any) -> Path:
    """A Hugging Face directory."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = config(family, **changes)
    (folder / "config.json").write_text(json.dumps(settings))
    tensors = {name: ("F32", array) for name, array in weights(settings, seed).items()}
    write_safetensors(folder / "model.safetensors", tensors, {"format": "pt"})
    return folder


class SlowDecoder:
    """One token at a time, every head by itself, keys kept as they are before turning.

    ``keep`` and ``size`` are those of the ring: when ``size`` tokens are stored, the oldest one behind the first
    ``keep`` is removed from the lists, and positions are simply places in the lists.
    """

    def __init__(self, family: str, size: int = 10**9, keep: int = 0, seed: int = 0, **changes: Any) -> None:
        self.c = config(family, **changes)
        self.w = {name: array.astype(np.float64) for name, array in weights(self.c, seed).items()}
        self.size, self.keep = size, keep
        self.dim = self.c.get("head_dim", self.c["hidden_size"] // self.c["num_attention_heads"])
        self.store: list[list[tuple[np.ndarray, np.ndarray]]] = [
            [] for _ in range(self.c["num_hidden_layers"])
        ]

    def feed(self, token: int) -> np.ndarray:
        """Logits behind one more token."""
        x = self.w["model.embed_tokens.weight"][token]
        for i, stored in enumerate(self.store):
            layer = f"model.layers.{i}."
            x = x + self._attention(layer, stored, self._norm(x, f"{layer}input_layernorm.weight"))
            h = self._norm(x, f"{layer}post_attention_layernorm.weight")
            gate = self.w[f"{layer}mlp.gate_proj.weight"] @ h
            up = self.w[f"{layer}mlp.up_proj.weight"] @ h
            x = x + self.w[f"{layer}mlp.down_proj.weight"] @ (gate / (1 + np.exp(-gate)) * up)
        head = self.w.get("lm_head.weight", self.w["model.embed_tokens.weight"])
        return head @ self._norm(x, "model.norm.weight")

    def _norm(self, x: np.ndarray, name: str) -> np.ndarray:
        return x / np.sqrt(np.mean(x * x) + self.c["rms_norm_eps"]) * self.w[name]

    def _attention(
        self, layer: str, stored: list[tuple[np.ndarray, np.ndarray]], h: np.ndarray
    ) -> np.ndarray:
        q, k, v = (self._projected(layer, name, h) for name in "qkv")
        if self.c["model_type"] == "qwen3":
            q = np.array([self._norm(head, f"{layer}self_attn.q_norm.weight") for head in q])
            k = np.array([self._norm(head, f"{layer}self_attn.k_norm.weight") for head in k])
        if len(stored) == self.size:
            del stored[self.keep]
        stored.append((k, v))
        mixed = []
        for number, head in enumerate(q):
            source = number * len(k) // len(q)
            query = self._turned(head, len(stored) - 1)
            keys = np.array([self._turned(key[source], place) for place, (key, _) in enumerate(stored)])
            scores = keys @ query / math.sqrt(self.dim)
            share = np.exp(scores - scores.max())
            mixed.append(share / share.sum() @ np.array([value[source] for _, value in stored]))
        return self.w[f"{layer}self_attn.o_proj.weight"] @ np.concatenate(mixed)

    def _projected(self, layer: str, name: str, h: np.ndarray) -> np.ndarray:
        bias = self.w.get(f"{layer}self_attn.{name}_proj.bias", 0)
        return (self.w[f"{layer}self_attn.{name}_proj.weight"] @ h + bias).reshape(-1, self.dim)

    def _turned(self, head: np.ndarray, position: int) -> np.ndarray:
        half = self.dim // 2
        out = np.empty_like(head)
        for i in range(half):
            angle = position * self._frequency(i)
            a, b = head[i], head[i + half]
            out[i], out[i + half] = (
                a * math.cos(angle) - b * math.sin(angle),
                b * math.cos(angle) + a * math.sin(angle),
            )
        return out

    def _frequency(self, i: int) -> float:
        base = self.c["rope_theta"] ** (-2 * i / self.dim)
        s = self.c.get("rope_scaling")
        if not s:
            return base
        wavelength = 2 * math.pi / base
        if wavelength > s["original_max_position_embeddings"] / s["low_freq_factor"]:
            return base / s["factor"]
        if wavelength < s["original_max_position_embeddings"] / s["high_freq_factor"]:
            return base
        share = s["original_max_position_embeddings"] / wavelength - s["low_freq_factor"]
        share /= s["high_freq_factor"] - s["low_freq_factor"]
        return (1 - share) * base / s["factor"] + share * base
