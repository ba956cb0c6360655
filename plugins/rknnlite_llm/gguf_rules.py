"""What a GGUF file says of the models of one architecture and of no other -> fields of ``config.json``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rknnlite.errors import ModelInvalid

from .gguf_keys import FileKeys

__all__ = ["RULES"]

Config = dict[str, Any]
RULES: dict[str, Callable[[FileKeys, Config], None]] = {}
"""By ``general.architecture``; a rule runs behind what all have in common."""
_SIGMOID = 2


def _rule(*names: str) -> Callable[[Callable[[FileKeys, Config], None]], Callable[[FileKeys, Config], None]]:
    def register(rule: Callable[[FileKeys, Config], None]) -> Callable[[FileKeys, Config], None]:
        RULES.update(dict.fromkeys(names, rule))
        return rule

    return register


def _gates(keys: FileKeys, *allowed: int) -> int:
    """How routers weigh experts: 1 is softmax, 2 sigmoids."""
    kind = keys.count("expert_gating_func", 1)
    if kind not in allowed:
        raise keys.refusal("expert_gating_func", "routers of this family are of another kind")
    return kind


def _same(keys: FileKeys, key: str, other: int, what: str) -> None:
    if keys.count(key, other) != other:
        raise keys.refusal(key, f"{what} is {other}")


@_rule("minicpm")
def _minicpm(keys: FileKeys, config: Config) -> None:
    if not config["dim_model_base"] > 0:
        raise keys.refusal("logit_scale", "needed is a number above 0")
    config["scale_depth"] *= config["num_hidden_layers"] ** 0.5  # a file has quotients
    config["dim_model_base"] = config["hidden_size"] / config["dim_model_base"]


@_rule("deepseek2")
def _deepseek(keys: FileKeys, config: Config) -> None:
    third = _gates(keys, 1, _SIGMOID) == _SIGMOID
    turned = keys.count("rope.dimension_count")
    whole = keys.count("attention.key_length_mla", keys.count("attention.key_length", least=0))
    if whole <= turned:
        raise ModelInvalid(
            f"{keys.label}: {keys.name}.rope.dimension_count is {turned}, a head has {whole} channels"
        )
    shared, groups = keys.count("expert_shared_count", 0, 0), keys.count("expert_group_count", 1)
    if not shared:
        raise keys.refusal("expert_shared_count", "models without shared experts are not computed here")
    config.update(
        model_type="deepseek_v3" if third else "deepseek_v2",
        kv_lora_rank=keys.count("attention.kv_lora_rank"),
        q_lora_rank=keys.count("attention.q_lora_rank") if keys.has("attn_q_a.weight") else None,
        qk_rope_head_dim=turned,
        qk_nope_head_dim=whole - turned,
        v_head_dim=keys.count("attention.value_length_mla", keys.count("attention.value_length", least=0)),
        num_key_value_heads=config["num_attention_heads"],
        n_shared_experts=shared,
        n_group=groups,
        topk_group=keys.count("expert_group_used_count", 1),
        norm_topk_prob=bool(keys.value("expert_weights_norm", False)),
    )
    if not third:
        config["topk_method"] = "group_limited_greedy" if groups > 1 else "greedy"
    if keys.raw("attention.q_lora_rank") is not None and config["q_lora_rank"] is None:
        raise ModelInvalid(
            f"{keys.label}: has {keys.name}.attention.q_lora_rank and no blk.0.attn_q_a.weight"
        )
    del config["head_dim"], config["partial_rotary_factor"]
    log = keys.value("rope.scaling.yarn_log_multiplier")
    if log is not None and "rope_scaling" in config:  # llama.cpp's files have a tenth of it here
        config["rope_scaling"].update(mscale=10 * log, mscale_all_dim=10 * log)


@_rule("glm4moe")
def _glm4_moe(keys: FileKeys, config: Config) -> None:
    _gates(keys, _SIGMOID)
    config["use_qk_norm"] = keys.has("attn_q_norm.weight")
    config["norm_topk_prob"] = bool(keys.value("expert_weights_norm", True))
    config["n_group"] = keys.count("expert_group_count", 1)
    config["topk_group"] = keys.count("expert_group_used_count", 1)


@_rule("ernie4_5-moe")
def _ernie_moe(keys: FileKeys, config: Config) -> None:
    keys.raw("expert_shared_feed_forward_length")  # is another number than that of the tensors
    config["moe_layer_end_index"] = config["num_hidden_layers"] - 1


@_rule("granitemoe")
def _granite_moe(keys: FileKeys, config: Config) -> None:
    shared = keys.count("expert_shared_feed_forward_length", 0, 0)
    if shared:
        config.update(model_type="granitemoeshared", shared_intermediate_size=shared)


@_rule("lfm2", "lfm2moe")
def _lfm2(keys: FileKeys, config: Config) -> None:
    heads, layers = keys.raw("attention.head_count_kv"), config["num_hidden_layers"]
    if not isinstance(heads, np.ndarray) or heads.dtype.kind not in "iu" or len(heads) != layers:
        raise ModelInvalid(
            f"{keys.label}: {keys.name}.attention.head_count_kv does not tell the heads of {layers} layers"
        )
    kinds = {int(count) for count in heads if count}
    if len(kinds) != 1 or min(kinds) < 1:
        raise keys.refusal("attention.head_count_kv", "layers of attention have heads alike")
    config["num_key_value_heads"] = kinds.pop()
    config["layer_types"] = ["full_attention" if count else "conv" for count in heads]
    if keys.name == "lfm2":
        config["block_auto_adjust_ff_dim"] = False
    else:
        _gates(keys, _SIGMOID)
        config["use_expert_bias"] = keys.anywhere("exp_probs_b.bias")


@_rule("hunyuan-moe")
def _hunyuan_moe(keys: FileKeys, config: Config) -> None:
    width = config["intermediate_size"]
    _same(keys, "expert_feed_forward_length", width, "the width of others")
    _same(keys, "expert_shared_feed_forward_length", width, "the width of others")
    _same(keys, "expert_shared_count", 1, "the number that is computed")


@_rule("gpt-oss")
def _gpt_oss(keys: FileKeys, config: Config) -> None:
    _same(keys, "expert_feed_forward_length", config["intermediate_size"], "feed_forward_length")
    if "rope_scaling" in config:
        config["rope_scaling"]["truncate"] = False


@_rule("phimoe")
def _phimoe(keys: FileKeys, config: Config) -> None:
    window = keys.count("attention.sliding_window", 0, 0)
    if 0 < window < config["max_position_embeddings"]:
        raise keys.refusal("attention.sliding_window", "windows of this family are not computed")
    _same(keys, "expert_feed_forward_length", config["intermediate_size"], "feed_forward_length")
    config["lm_head_bias"] = "output.bias" in keys.shapes


@_rule("mistral3")
def _mistral3(keys: FileKeys, config: Config) -> None:
    rope = {"rope_theta": config.pop("rope_theta"), **config.pop("rope_scaling", {})}
    rope.setdefault("rope_type", "default")
    log = keys.value("rope.scaling.yarn_log_multiplier")
    if log:
        rope.update(mscale=log, mscale_all_dim=log)
    beta = keys.value("attention.temperature_scale")
    if beta:
        rope["llama_4_scaling_beta"] = beta
    config["rope_parameters"], config["sliding_window"] = rope, None


@_rule("falcon")
def _falcon(keys: FileKeys, config: Config) -> None:
    grouped = keys.has("attn_norm_2.weight")
    config.update(
        new_decoder_architecture=grouped,
        multi_query=config["num_key_value_heads"] == 1,
        parallel_attn=True,
        intermediate_size=_width(keys),
    )


@_rule("gpt2", "phi2")
def _gpt2(keys: FileKeys, config: Config) -> None:
    config["intermediate_size"] = _width(keys)


@_rule("stablelm")
def _stablelm(keys: FileKeys, config: Config) -> None:
    if keys.anywhere("attn_q_norm.weight"):
        raise keys.refusal("block_count", "norms of queries and keys of this family are not computed")
    config["use_parallel_residual"] = not keys.has("ffn_norm.weight")
    keys.raw("use_parallel_residual")


@_rule("exaone4")
def _exaone4(keys: FileKeys, config: Config) -> None:
    window = keys.count("attention.sliding_window", 0, 0)
    if not window:
        return
    pattern, layers = keys.raw("attention.sliding_window_pattern"), config["num_hidden_layers"]
    every = (
        [bool(one) for one in pattern[:layers]]
        if isinstance(pattern, np.ndarray)
        else [bool((i + 1) % 4) for i in range(layers)]
    )
    if len(every) < layers:
        raise keys.refusal("attention.sliding_window_pattern", f"there are {layers} layers")
    config["sliding_window"] = window
    config["layer_types"] = ["sliding_attention" if one else "full_attention" for one in every]


def _width(keys: FileKeys) -> int:
    """Files of old families say a width that their tensors may not have."""
    return (*keys.shapes.get("blk.0.ffn_up.weight", ()), 0)[0]
