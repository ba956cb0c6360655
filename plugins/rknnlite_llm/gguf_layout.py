"""Tensors that lie otherwise in a GGUF file than in a Hugging Face folder: several that become one, one that becomes several."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["LAYOUTS", "Join", "xielu"]

Array = NDArray[Any]
Shape = tuple[int, ...]
Config = Mapping[str, Any]


@dataclass(frozen=True)
class Join:
    """Tensors of a layer by their names there, ``.weight`` or ``.bias`` at the end -> names here.

    ``values`` makes the tensors of ours of those of theirs; it works on arrays without numbers too, for the shapes.
    """

    parts: tuple[str, ...]
    names: tuple[str, ...]
    values: Callable[[list[Array], Config], list[Array]]

    def shapes(self, given: list[Shape], config: Config) -> list[Shape]:
        """Of what is made. Raises ValueError where it does not fit."""
        return [
            made.shape for made in self.values([np.broadcast_to(_NOTHING, shape) for shape in given], config)
        ]


_NOTHING = np.zeros((), np.int8)


def _by_turns(given: list[Array], config: Config) -> list[Array]:
    """Gates and ways up of all experts, row by row."""
    return [np.stack(given, axis=2).reshape(given[0].shape[0], 2 * given[0].shape[1], *given[0].shape[2:])]


def _turned_by_turns(given: list[Array], config: Config) -> list[Array]:
    return [_by_turns(given, config)[0].transpose(0, 2, 1)]


def _turned(given: list[Array], config: Config) -> list[Array]:
    return [given[0].swapaxes(-1, -2)]


def _whole(given: list[Array], config: Config) -> list[Array]:
    return given


def _above(given: list[Array], config: Config) -> list[Array]:
    """Rows of a matrix above those of the other one, of every matrix of a stack."""
    return [np.concatenate(given, axis=-2)]


def _latent(given: list[Array], config: Config) -> list[Array]:
    """Keys (heads, rank, plain) and values (heads, value, rank) -> (heads * (plain + value), rank)."""
    keys, values = given
    made = np.concatenate([keys.swapaxes(1, 2), values], axis=1)
    return [made.reshape(-1, made.shape[2])]


def _grouped(given: list[Array], config: Config) -> list[Array]:
    """Queries, keys, values -> the same of one key/value head after the other."""
    groups, heads = int(config["num_key_value_heads"]), int(config["num_attention_heads"])
    rows = given[0].reshape(heads + 2 * groups, -1, *given[0].shape[1:])
    order = np.concatenate(
        [
            np.arange(heads).reshape(groups, -1),
            heads + np.arange(groups)[:, None],
            heads + groups + np.arange(groups)[:, None],
        ],
        axis=1,
    ).ravel()
    return [rows[order].reshape(given[0].shape)]


def _split(given: list[Array], config: Config) -> list[Array]:
    """Queries, keys, values as three."""
    groups, heads = int(config["num_key_value_heads"]), int(config["num_attention_heads"])
    size, rest = divmod(len(given[0]), heads + 2 * groups)
    if rest:
        raise ValueError(f"{len(given[0])} rows for {heads} heads and {groups} of keys and values")
    return np.split(given[0], [heads * size, (heads + groups) * size])


def _middle(given: list[Array], config: Config) -> list[Array]:
    return [given[0][:, None]]


def _row(given: list[Array], config: Config) -> list[Array]:
    return [given[0][None]]


def _qkv(name: str) -> tuple[Join, ...]:
    return tuple(Join((f"attn_qkv.{what}",), (f"{name}.{what}",), _grouped) for what in ("weight", "bias"))


def _three(what: str) -> Join:
    return Join((f"attn_qkv.{what}",), tuple(f"self_attn.{part}_proj.{what}" for part in "qkv"), _split)


LAYOUTS: dict[str, tuple[Join, ...]] = {
    "gpt-oss": (
        Join(("ffn_gate_exps.weight", "ffn_up_exps.weight"), ("mlp.experts.gate_up_proj",), _turned_by_turns),
        Join(("ffn_gate_exps.bias", "ffn_up_exps.bias"), ("mlp.experts.gate_up_proj_bias",), _by_turns),
        Join(("ffn_down_exps.weight",), ("mlp.experts.down_proj",), _turned),
        Join(("ffn_down_exps.bias",), ("mlp.experts.down_proj_bias",), _whole),
        Join(("attn_sinks.weight",), ("self_attn.sinks",), _whole),
    ),
    "granitemoe": (
        Join(
            ("ffn_gate_exps.weight", "ffn_up_exps.weight"), ("block_sparse_moe.input_linear.weight",), _above
        ),
        Join(("ffn_down_exps.weight",), ("block_sparse_moe.output_linear.weight",), _whole),
        Join(("ffn_gate_shexp.weight", "ffn_up_shexp.weight"), ("shared_mlp.input_linear.weight",), _above),
    ),
    "deepseek2": (
        Join(("attn_k_b.weight", "attn_v_b.weight"), ("self_attn.kv_b_proj.weight",), _latent),
        Join(("exp_probs_b.bias",), ("mlp.gate.e_score_correction_bias",), _whole),
    ),
    "glm4moe": (Join(("exp_probs_b.bias",), ("mlp.gate.e_score_correction_bias",), _whole),),
    "ernie4_5-moe": (Join(("exp_probs_b.bias",), ("mlp.moe_statics.e_score_correction_bias",), _row),),
    "lfm2": (Join(("shortconv.conv.weight",), ("conv.conv.weight",), _middle),),
    "lfm2moe": (
        Join(("shortconv.conv.weight",), ("conv.conv.weight",), _middle),
        Join(("exp_probs_b.bias",), ("feed_forward.expert_bias",), _whole),
    ),
    "falcon": _qkv("self_attention.query_key_value"),
    "gptneox": _qkv("attention.query_key_value"),
    "gpt2": tuple(
        Join((f"{theirs}.weight",), (f"{ours}.weight",), _turned)
        for theirs, ours in {
            "attn_qkv": "attn.c_attn",
            "attn_output": "attn.c_proj",
            "ffn_up": "mlp.c_fc",
            "ffn_down": "mlp.c_proj",
        }.items()
    ),
    "chatglm": (_three("weight"), _three("bias")),
    "phi2": (_three("weight"), _three("bias")),
}
"""By ``general.architecture``."""


def xielu(values: Mapping[str, Any], layers: int) -> dict[str, Array]:
    """Apertus' activation: four keys with a number for each layer -> tensors; KeyError or ValueError where they do not fit."""
    made = {}
    for name in ("alpha_p", "alpha_n", "beta", "eps"):
        numbers = np.asarray(values[f"xielu.{name}"], np.float32)
        if numbers.shape not in ((), (layers,)):
            raise ValueError(f"xielu.{name} has {numbers.size} numbers for {layers} layers")
        for layer, number in enumerate(np.broadcast_to(numbers, (layers,))):
            made[f"model.layers.{layer}.mlp.act_fn.{name}"] = (
                number.reshape(1) if name.startswith("alpha") else np.asarray(number)
            )
    return made
