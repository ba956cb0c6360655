"""What a GGUF file says of its model -> ``config.json``; a key that is not known here is an error, as one of ``config.json`` is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid, ModelUnsupported, shown

from .container.families import FAMILIES
from .gguf_families import EPS, GGUF_FAMILIES, KEYS, GgufFamily

__all__ = ["FACTORS", "family_of", "hf_config"]

Array = NDArray[Any]
FACTORS = ("rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight")
"""Tensors with divisors of the rotary embedding's frequencies."""
_UNSAID = "export the Hugging Face folder that it was made from"
_OF_NO_CONSEQUENCE = frozenset(
    (
        "vocab_size",
        "attention.key_length",
        "attention.value_length",
        "attention.head_count_kv",
        "rope.freq_base",
        "rope.dimension_count",
        "rope.scaling.original_context_length",
        "rope.scaling.type",
        "rope.scaling.factor",
        "pooling_type",
        "tensor_data_layout",
    )
)
"""Keys beside those of a row that are read in any family, or follow from tensors."""
_ONLY = {
    "rope.scaling.finetuned": True,
    "attention.causal": True,
    "expert_gating_func": 1,
    "expert_count": 0,
    "expert_used_count": 0,
}
"""Keys that change nothing while they have this value (1: softmax)."""


def family_of(pairs: Mapping[str, Any], label: str) -> GgufFamily:
    """The row of a file. Raises ModelUnsupported."""
    name = pairs.get("general.architecture")
    experts = pairs.get("llama.expert_count")
    if isinstance(name, str) and name == "llama" and type(experts) is int and experts:
        name = "llama with experts"
    if not isinstance(name, str) or name not in GGUF_FAMILIES:
        raise ModelUnsupported(
            f"{label}: models of {shown(name)} are not read from GGUF, there are {', '.join(GGUF_FAMILIES)}; {_UNSAID}"
        )
    return GGUF_FAMILIES[name]


def hf_config(
    pairs: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], factors: Mapping[str, Array], label: str
) -> dict[str, Any]:
    """``config.json`` of a file with these keys and tensors (``shapes`` as numpy has them), ``factors`` those of ``FACTORS``.

    Raises ModelInvalid or ModelUnsupported.
    """
    return _Reader(pairs, shapes, factors, label).config()


class _Reader:
    """Reads the keys of one architecture, and remembers which."""

    def __init__(
        self,
        pairs: Mapping[str, Any],
        shapes: Mapping[str, tuple[int, ...]],
        factors: Mapping[str, Array],
        label: str,
    ) -> None:
        self._row = family_of(pairs, label)
        self._name, self._label = str(pairs["general.architecture"]), label
        self._shapes, self._factors = shapes, factors
        family = FAMILIES[self._row.model_type]
        self._keys = {**KEYS, family.eps: EPS[family.norm], **self._row.keys}
        head = f"{self._name}."
        self._values = {key[len(head) :]: value for key, value in pairs.items() if key.startswith(head)}

    def config(self) -> dict[str, Any]:
        """See ``hf_config``."""
        row, table = self._row, self._shapes.get("token_embd.weight")
        if table is None or len(table) != 2:
            raise ModelInvalid(f"{self._label}: has no token_embd.weight with rows of tokens")
        config: dict[str, Any] = {"model_type": row.model_type, "vocab_size": table[0], **row.fixed}
        config.update({ours: self._needed(theirs) for ours, theirs in self._keys.items()})
        for key in ("embedding_length", "attention.head_count"):
            self._count(key, 0)
        if self._count("block_count", 0) > len(self._shapes):
            raise ModelInvalid(
                f"{self._label}: {config['num_hidden_layers']} layers, but {len(self._shapes)} tensors"
            )
        config["num_key_value_heads"] = self._count("attention.head_count_kv", config["num_attention_heads"])
        config["tie_word_embeddings"] = "output.weight" not in self._shapes
        if not FAMILIES[row.model_type].qkv_bias:
            config["attention_bias"] = self._has("attn_q.bias") or self._has("attn_qkv.bias")
        if self._has("ffn_up.bias"):
            config["mlp_bias"] = True
        self._heads(config)
        self._windows(config)
        self._rope(config)
        if row.model_type == "minicpm":  # a file has quotients
            if not config["dim_model_base"] > 0:
                raise self._refusal("logit_scale", "needed is a number above 0")
            config["scale_depth"] *= config["num_hidden_layers"] ** 0.5
            config["dim_model_base"] = config["hidden_size"] / config["dim_model_base"]
        self._finish()
        return config

    def _value(self, key: str, default: Any = None) -> Any:
        value = self._values.get(key, default)
        if isinstance(value, (np.ndarray, list)):
            raise self._refusal(key, "what differs from layer to layer is not computed here")
        if isinstance(value, float):  # as it was written before it became a float32
            return float(str(np.float32(value)))
        return value

    def _needed(self, key: str) -> Any:
        value = self._value(key)
        if value is None:
            raise ModelInvalid(f"{self._label}: has no {self._name}.{key}")
        if not isinstance(value, (int, float)):
            raise ModelInvalid(f"{self._label}: {self._name}.{key} is {shown(value)}, no number")
        return value

    def _count(self, key: str, usual: int) -> int:
        """A number above 0, the usual one where the file has none."""
        value = self._value(key, usual)
        if type(value) is not int or value < 1:
            raise ModelInvalid(f"{self._label}: {self._name}.{key} is {shown(value)}")
        return value

    def _has(self, tensor: str) -> bool:
        return f"blk.0.{tensor}" in self._shapes

    def _refusal(self, key: str, why: str) -> ModelUnsupported:
        return ModelUnsupported(
            f"{self._label}: {self._name}.{key} is {shown(self._values.get(key))}; {why}; {_UNSAID}"
        )

    def _heads(self, config: dict[str, Any]) -> None:
        heads, hidden = config["num_attention_heads"], config["hidden_size"]
        size = self._count("attention.key_length", hidden // heads)
        if self._count("attention.value_length", size) != size:
            raise self._refusal("attention.value_length", f"keys have {size} channels")
        config["head_dim"] = size
        turned = self._count("rope.dimension_count", size)
        if turned > size:
            raise ModelInvalid(
                f"{self._label}: {self._name}.rope.dimension_count is {shown(turned)} of {size}"
            )
        share = turned / size
        config["partial_rotary_factor"] = share if int(size * share) == turned else math.nextafter(share, 1)
        if self._row.wide:
            wide = config["num_hidden_layers"] == self._row.wide
            config["query_pre_attn_scalar"] = hidden // heads if wide else size

    def _windows(self, config: dict[str, Any]) -> None:
        if "sliding_window" in config and not config["sliding_window"]:
            config["sliding_window"] = None
        if not self._row.window_pattern:
            return
        pattern, layers = self._values.get("attention.sliding_window_pattern"), config["num_hidden_layers"]
        if isinstance(pattern, np.ndarray):
            if len(pattern) < layers:
                raise self._refusal("attention.sliding_window_pattern", f"there are {layers} layers")
            windowed = [bool(one) for one in pattern[:layers]]
        else:
            every = self._row.window_pattern if pattern is None else pattern
            if type(every) is not int or every < 1:
                raise self._refusal("attention.sliding_window_pattern", "needed is a number above 0")
            windowed = [bool((i + 1) % every) for i in range(layers)]
        config["layer_types"] = ["sliding_attention" if window else "full_attention" for window in windowed]
        if self._row.model_type == "gemma3_text":
            config["rope_local_base_freq"] = self._value("rope.freq_base_swa", 10000.0)

    def _rope(self, config: dict[str, Any]) -> None:
        config["rope_theta"] = self._value("rope.freq_base", 10000.0)
        scaling = self._scaling(config["max_position_embeddings"])
        if scaling is not None:
            config["rope_scaling"] = scaling

    def _scaling(self, longest: Any) -> Optional[dict[str, Any]]:
        factor = self._value("rope.scaling.factor")
        kind = self._value("rope.scaling.type", "none" if factor is None else "linear")
        if not isinstance(kind, str):
            raise ModelInvalid(f"{self._label}: {self._name}.rope.scaling.type is {shown(kind)}")
        original = self._value("rope.scaling.original_context_length")
        given = sorted(self._factors)
        if given == ["rope_freqs.weight"] and kind == "none":
            every = self._numbers("rope_freqs.weight")
            return {
                "rope_type": "longrope",
                "factor": 1.0,
                "attention_factor": 1.0,
                "short_factor": every,
                "long_factor": every,
                "original_max_position_embeddings": longest,
            }
        if (
            len(given) == 2
            and "rope_freqs.weight" not in given
            and kind in ("none", "longrope")
            and self._row.longrope
        ):
            return {
                "rope_type": "longrope",
                "attention_factor": self._needed("rope.scaling.attn_factor"),
                "short_factor": self._numbers("rope_factors_short.weight"),
                "long_factor": self._numbers("rope_factors_long.weight"),
                "original_max_position_embeddings": original,
            }
        if given:
            raise ModelUnsupported(
                f"{self._label}: {', '.join(given)} with rotary scaling {shown(kind)} in a model of {self._name} is not computed; "
                f"{_UNSAID}"
            )
        if kind == "none":
            return None
        if kind == "linear":
            return {"rope_type": "linear", "factor": self._needed("rope.scaling.factor")}
        if kind == "yarn":
            return {
                "rope_type": "yarn",
                "factor": self._needed("rope.scaling.factor"),
                "original_max_position_embeddings": original,
                "beta_fast": self._value("rope.scaling.yarn_beta_fast", 32.0),
                "beta_slow": self._value("rope.scaling.yarn_beta_slow", 1.0),
            }
        raise self._refusal(
            "rope.scaling.type", "scaled rotary embeddings of this type are not computed here"
        )

    def _numbers(self, name: str) -> list[float]:
        return [float(number) for number in self._factors[name].ravel()]

    def _finish(self) -> None:
        """Raise ModelUnsupported for a key that may change numbers and was not read."""
        known = {*self._keys.values(), *_OF_NO_CONSEQUENCE}
        if self._row.window_pattern:
            known |= {"attention.sliding_window_pattern"}
        if self._row.model_type == "gemma3_text":
            known |= {"rope.freq_base_swa"}
        if self._row.longrope and self._factors:
            known |= {"rope.scaling.attn_factor"}
        if self._values.get("rope.scaling.type") == "yarn":
            known |= {"rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow"}
        for key, value in self._values.items():
            harmless = not isinstance(value, np.ndarray) and key in _ONLY and value == _ONLY[key]
            if key not in known and not harmless:
                raise self._refusal(key, "this is not understood here and may change what the model computes")
