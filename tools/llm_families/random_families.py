"""Cases of a random generator: the families of ``cases.py`` with other widths, heads, groups, windows, positions, biases, experts.

``random-SEED-NUMBER`` names a case (``random-running-NUMBER`` one of a family with running states) and says all of it, so that the Python with transformers and ours make the same. Of ten, four
have float32 weights; the others are packaged as ``w8``, ``w4`` or a mixture of both (``auto``), from weights that these hold exactly
(``made.py``): what differs then is no rounding of weights.
"""

from __future__ import annotations

import random
from typing import Any, Callable

from cases import CASES, Case, longrope

__all__ = ["WEIGHTS", "random_case", "random_names"]

WEIGHTS = ("f32", "w8", "f32", "w4", "f32", "auto", "f32", "w8", "w4", "auto")
_LATER = {
    "running": {"qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "granitemoehybrid"},
    "gemma4": {"gemma4_text"},
}
"""Kinds that came later have names of their own, ``random-running-NUMBER``: what the other names say stays."""
_DECODERS = {group: [case for case in CASES if case.kind in kinds] for group, kinds in _LATER.items()}
_FIRST = [
    case
    for case in CASES
    if not (case.embeds or case.scores or any(case.kind in kinds for kinds in _LATER.values()))
]
_GREEDY = 40
_FREE_WIDTH = {
    "llama", "mistral", "ministral", "ministral3", "mixtral", "qwen3", "qwen3_moe", "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text",
    "gemma", "gemma2", "gemma3_text", "gemma4_text", "glm", "glm4", "glm4_moe", "exaone4", "seed_oss", "ernie4_5", "ernie4_5_moe",
    "arcee", "nemotron", "hunyuan_v1_dense", "hunyuan_v1_moe", "gpt_oss",
}  # fmt: skip
"""Kinds whose heads need not be as wide together as the model."""
_MULTIPLES = {"llama", "gemma2", "gemma3_text", "arcee"}
"""Those of them that are a multiple of the number of heads all the same, or transformers refuses them."""
_KINDS_OF_LAYERS = {"gemma2", "gemma3_text", "ministral", "olmo3", "cohere2", "gpt_oss", "exaone4"}
_BIASES = {
    "llama": ("attention_bias", "mlp_bias"), "arcee": ("attention_bias", "mlp_bias"), "nemotron": ("attention_bias", "mlp_bias"),
    "qwen3": ("attention_bias",), "qwen3_moe": ("attention_bias",), "glm": ("attention_bias",), "glm4": ("attention_bias",),
    "granite": ("attention_bias", "mlp_bias"), "olmo2": ("attention_bias",), "olmo3": ("attention_bias",), "seed_oss": ("attention_bias",),
    "ernie4_5": ("use_bias",), "cohere": ("attention_bias",), "cohere2": ("attention_bias",), "stablelm": ("use_qkv_bias",),
    "starcoder2": ("use_bias",), "gpt_neox": ("attention_bias",), "falcon": ("bias",), "phimoe": ("attention_bias", "lm_head_bias"),
    "hunyuan_v1_dense": ("attention_bias",), "glm4_moe": ("attention_bias",), "deepseek_v3": ("attention_bias",),
}  # fmt: skip
_ACTIVATIONS = {
    "llama": ("silu", "gelu", "gelu_pytorch_tanh", "relu"), "qwen2": ("silu", "gelu_pytorch_tanh"), "starcoder2": ("gelu", "gelu_new"),
    "phi": ("gelu_new", "gelu"), "mistral": ("silu", "gelu"), "opt": ("relu", "gelu"),
}  # fmt: skip
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
_CHOSEN = ("num_experts_per_tok", "moe_topk", "moe_k", "top_k_experts")
_ROPES = {"llama", "qwen2", "qwen3", "mistral", "seed_oss", "granite", "olmo2", "exaone4"}
"""Kinds whose positions may be scaled in any way."""


def random_names(count: int, seed: int) -> list[str]:
    """Names of ``count`` cases."""
    return [f"random-{seed}-{number}" for number in range(count)]


def random_case(name: str) -> Case:
    """The case of a name."""
    number = int(name.rpartition("-")[2])
    bases = _DECODERS.get(name.split("-")[1], _FIRST)
    base = bases[number % len(bases)]
    draw = random.Random(name)
    weights = draw.choice(WEIGHTS)
    config = dict(base.config)
    for change in (_shapes, _layers, _positions, _rest, _experts, _states, _two_widths):
        change(base, config, draw, weights)
    return Case(
        name,
        base.name,
        base.kind,
        config,
        base.stand_in,
        prompt=draw.choice((41, 90, 150)),
        weights=weights,
        greedy=_GREEDY,
    )


def _four(draw: random.Random, low: int, high: int) -> int:
    """A width that integers of weights hold exactly, see ``made.gridded``; few are multiples of 32."""
    return 4 * draw.randint(low // 4, high // 4)


def _shapes(base: Case, config: dict[str, Any], draw: random.Random, weights: str) -> None:
    """Widths, heads and groups of heads."""
    heads = draw.choice((3, 4, 5, 7) if base.stand_in else (1, 2, 3, 4, 5, 6, 7, 9, 10))
    groups = draw.choice([n for n in range(1, heads + 1) if heads % n == 0])
    config["vocab_size"] = draw.choice((160, 161, 203, 290))
    odd = weights == "f32" and not any(name in config for name in _EXPERTS)  # torch wants fours of experts
    width = draw.randint(33, 140) if odd else _four(draw, 34, 140)
    for name in ("intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner"):
        if name in config or (name == "intermediate_size" and "ffn_hidden_size" not in config):
            config[name] = width
    if "shared_expert_intermediate_size" in config:
        config["shared_expert_intermediate_size"] = _four(draw, 20, 70)
    for name in ("moe_intermediate_size", "shared_intermediate_size"):
        if name in config:
            config[name] = _four(draw, 20, 70)
    if base.kind == "falcon":  # groups have names of their own there
        heads = max(heads, 2)
        if "num_kv_heads" in config:
            config["num_kv_heads"] = draw.choice([n for n in range(1, heads + 1) if heads % n == 0])
    config["num_attention_heads"] = heads
    if "kv_lora_rank" in config:
        config.update(
            num_key_value_heads=heads, kv_lora_rank=_four(draw, 10, 50), qk_rope_head_dim=draw.choice((4, 8, 16)),
            qk_nope_head_dim=_four(draw, 6, 30), v_head_dim=_four(draw, 6, 30), hidden_size=heads * _four(draw, 8, 40),
        )  # fmt: skip
        if config["q_lora_rank"]:
            config["q_lora_rank"] = _four(draw, 10, 50)
        return
    if config.get("num_key_value_heads", 0) is not None:
        config["num_key_value_heads"] = groups
    if base.stand_in:  # its files say the width of a head by others
        wide = _four(draw, 8, 24) if base.stand_in == "internlm3" else config.get("head_dim", 8)
        config["hidden_size"] = heads * wide
        return
    dim = draw.choice((8, 12, 16, 20, 24))
    if base.kind in _FREE_WIDTH:
        hidden = draw.randint(34, 130) if odd else _four(draw, 34, 130)
        if base.kind in _MULTIPLES:
            hidden = -(-hidden // (4 * heads)) * 4 * heads
        config.update(head_dim=dim, hidden_size=hidden)
    else:
        config["hidden_size"] = heads * dim
    config["_dim"] = dim


def _layers(base: Case, config: dict[str, Any], draw: random.Random, weights: str) -> None:
    """How many, and of which kinds; windows."""
    count = draw.randint(1, 5)
    config["num_hidden_layers"] = count
    if "layer_types" in config and "conv" in config["layer_types"]:
        kinds = [draw.choice(("conv", "full_attention")) for _ in range(count)]
        config["layer_types"] = [*kinds[:-1], "full_attention"]
    elif base.kind in _KINDS_OF_LAYERS:
        config["layer_types"] = [draw.choice(("sliding_attention", "full_attention")) for _ in range(count)]
    if "no_rope_layers" in config:
        config["no_rope_layers"] = [draw.randint(0, 1) for _ in range(count)]
    if config.get("sliding_window"):
        config["sliding_window"] = draw.choice(
            (2, 3, 7, 24, 61, 200)
        )  # of one token the cache of transformers keeps all
    if "max_window_layers" in config:
        config["max_window_layers"] = draw.randint(0, count)
    if "mlp_only_layers" in config:
        config["mlp_only_layers"] = [n for n in range(count) if draw.random() < 0.3]
    for name in ("first_k_dense_replace", "num_dense_layers"):
        if name in config:
            config[name] = draw.randint(0, count)


def _positions(base: Case, config: dict[str, Any], draw: random.Random, weights: str) -> None:
    """Which channels turn, and how far."""
    dim = config.pop("_dim", 8)
    turned = 2 * draw.randint(1, dim // 2) / dim
    said = dict(config.get("rope_parameters", {}))
    if said.get("rope_type") == "longrope":
        pairs = draw.randint(1, dim // 2) if "partial_rotary_factor" in said else dim // 2
        said.update(longrope(pairs))
        if "partial_rotary_factor" in said:
            said["partial_rotary_factor"] = 2 * pairs / dim
        config["rope_parameters"] = said
        return
    if "partial_rotary_factor" in config:
        config["partial_rotary_factor"] = turned
    elif "partial_rotary_factor" in said or base.kind == "gpt_neox":
        said = {"rope_type": "default", "rope_theta": 10000.0, **said}
        config["rope_parameters"] = {**said, "partial_rotary_factor": turned}
    if (
        base.stand_in
        or base.kind not in _ROPES
        or ("head_dim" not in config and "rope_parameters" not in config)
    ):
        return
    theta = draw.choice((1000.0, 10000.0, 1e6))
    config["rope_parameters"] = draw.choice(_KINDS_OF_ROPE)(draw, theta)
    config["max_position_embeddings"] = 1024


_KINDS_OF_ROPE: tuple[Callable[[random.Random, float], dict[str, Any]], ...] = (
    lambda draw, theta: {"rope_type": "default", "rope_theta": theta},
    lambda draw, theta: {"rope_type": "linear", "factor": draw.choice((1.5, 4.0)), "rope_theta": theta},
    lambda draw, theta: {
        "rope_type": "yarn", "factor": draw.choice((2.0, 6.5)), "original_max_position_embeddings": draw.choice((32, 64)),
        "rope_theta": theta, **draw.choice(({}, {"attention_factor": 0.9}, {"beta_fast": 20.0, "beta_slow": 2.0})),
    },
    lambda draw, theta: {
        "rope_type": "llama3", "factor": draw.choice((4.0, 8.0)), "low_freq_factor": 1.0, "high_freq_factor": draw.choice((2.0, 4.0)),
        "original_max_position_embeddings": draw.choice((32, 64)), "rope_theta": theta,
    },
)  # fmt: skip


def _rest(base: Case, config: dict[str, Any], draw: random.Random, weights: str) -> None:
    """Biases, ties, caps, activations, epsilons."""
    for name in _BIASES.get(base.kind, ()) if not base.stand_in else ():
        config[name] = draw.random() < 0.5
    if base.kind not in ("gpt_neox", "phi", "phimoe", "opt") and not base.stand_in:
        config["tie_word_embeddings"] = draw.random() < 0.5
    if base.kind in _ACTIVATIONS and not base.stand_in:
        name = "activation_function" if base.kind == "opt" else "hidden_act"
        config[name] = draw.choice(_ACTIVATIONS[base.kind])
    for name in ("attn_logit_softcapping", "final_logit_softcapping"):
        if name in config:
            config[name] = draw.choice((None, 2.5, 30.0))
    for name in (
        "logit_scale",
        "logits_scaling",
        "residual_multiplier",
        "attention_multiplier",
        "embedding_multiplier",
    ):
        if name in config:
            config[name] *= draw.choice((0.5, 1.0, 1.7))
    if base.kind in ("llama", "qwen2", "qwen3", "gemma2", "mistral"):
        config["rms_norm_eps"] = draw.choice((1e-6, 1e-5, 1e-3))


def _experts(base: Case, config: dict[str, Any], draw: random.Random, weights: str) -> None:
    """How many there are and how many answer."""
    name = next((name for name in _EXPERTS if name in config), None)
    if name is None:
        return
    groups = config.get("n_group", 1)
    count = groups * draw.randint(2, 4)
    config[name] = count
    chosen = next((key for key in _CHOSEN if key in config), None)
    if chosen is not None and base.kind != "phimoe":
        most = count // groups * config.get("topk_group", 1)
        config[chosen] = draw.randint(1, min(most, 4))
    if "norm_topk_prob" in config:
        config["norm_topk_prob"] = draw.random() < 0.5


def _states(base: Case, config: dict[str, Any], draw: random.Random, weights: str) -> None:
    """Running states: heads, how many share a key, their channels, taps, and which layers have one."""
    if base.kind not in _LATER["running"]:
        return
    groups, share = draw.randint(1, 4), draw.randint(1, 3)
    taps, count = draw.randint(2, 5), config["num_hidden_layers"]
    kinds = [draw.choice(("linear_attention", "linear_attention", "full_attention")) for _ in range(count)]
    config["layer_types"] = [*kinds[:-1], "full_attention"]  # the cache of transformers wants one
    if base.kind != "granitemoehybrid":
        config.update(
            linear_num_key_heads=groups, linear_num_value_heads=groups * share, linear_conv_kernel_dim=taps,
            linear_key_head_dim=_four(draw, 4, 24), linear_value_head_dim=_four(draw, 4, 24),
        )  # fmt: skip
        return
    hidden = groups * share * draw.choice((8, 12, 16))
    hidden *= config["num_attention_heads"]
    config.update(
        hidden_size=hidden, mamba_n_heads=groups * share, mamba_d_head=2 * hidden // (groups * share), mamba_n_groups=groups,
        mamba_d_state=_four(draw, 4, 24), mamba_d_conv=taps, mamba_conv_bias=draw.random() < 0.5,
        mamba_proj_bias=draw.random() < 0.5, position_embedding_type=draw.choice(("rope", None)),
    )  # fmt: skip


def _two_widths(base: Case, config: dict[str, Any], draw: random.Random, weights: str) -> None:
    """Heads of layers without window, and how much of them turns."""
    if base.kind not in _LATER["gemma4"]:
        return
    heads, count = config["num_attention_heads"], config["num_hidden_layers"]
    if "num_kv_shared_layers" in config:  # both kinds are among the layers before
        config["num_hidden_layers"] = count = max(count, 3)
        config["num_kv_shared_layers"] = draw.randint(1, count - 2)
    if config["hidden_size_per_layer_input"]:
        config.update(
            hidden_size_per_layer_input=_four(draw, 4, 24), vocab_size_per_layer_input=config["vocab_size"]
        )
    kinds = [draw.choice(("sliding_attention", "full_attention")) for _ in range(count)]
    kinds[: min(2, count - 1)] = ["sliding_attention", "full_attention"][: min(2, count - 1)]
    config.update(
        layer_types=[*kinds[:-1], "full_attention"],
        global_head_dim=draw.choice((8, 12, 16, 20, 24)),
        num_global_key_value_heads=draw.choice([n for n in range(1, heads + 1) if heads % n == 0]),
        attention_k_eq_v=draw.random() < 0.5,
        attention_bias=draw.random() < 0.5,
        rope_parameters={
            "sliding_attention": {"rope_type": "default", "rope_theta": draw.choice((1000.0, 10000.0))},
            "full_attention": {
                "rope_type": "proportional",
                "partial_rotary_factor": draw.choice((0.25, 0.5, 0.8, 1.0)),
                "rope_theta": draw.choice((10000.0, 1e6)),
            },
        },
    )
