"""What a GGUF file says of its model -> ``config.json``; a key that is not known here is an error, as one of ``config.json`` is."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid, ModelUnsupported, shown

from .container.families import FAMILIES
from .gguf_families import EPS, GGUF_FAMILIES, KEYS, GgufFamily
from .gguf_keys import UNSAID, FileKeys
from .gguf_rules import RULES

__all__ = ["FACTORS", "family_of", "hf_config", "layers_of"]

Array = NDArray[Any]
FACTORS = ("rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight")
"""Tensors with divisors of the rotary embedding's frequencies."""
_GUESSING = "nextn_predict_layers"
"""Layers behind the others, which guess tokens ahead."""


def family_of(pairs: Mapping[str, Any], tensors: Container[str], label: str) -> GgufFamily:
    """The row of a file with these tensors. Raises ModelUnsupported."""
    name = pairs.get("general.architecture")
    experts = pairs.get("llama.expert_count")
    if not isinstance(name, str):
        name = repr(name)
    if name == "llama" and type(experts) is int and experts:
        name = "llama with experts"
    if name == "falcon" and "blk.0.attn_norm_2.weight" in tensors:
        name = "falcon with two norms"
    if name not in GGUF_FAMILIES:
        raise ModelUnsupported(
            f"{label}: models of {shown(name)} are not read from GGUF, there are {', '.join(GGUF_FAMILIES)}; {UNSAID}"
        )
    return GGUF_FAMILIES[name]


def hf_config(
    pairs: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], factors: Mapping[str, Array], label: str
) -> dict[str, Any]:
    """``config.json`` of a file with these keys and tensors (``shapes`` as numpy has them), ``factors`` those of ``FACTORS``.

    Raises ModelInvalid or ModelUnsupported.
    """
    return _Reader(pairs, shapes, factors, label).config()


def layers_of(pairs: Mapping[str, Any], label: str) -> int:
    """How many layers are computed: all but those that guess tokens ahead. Raises ModelInvalid."""
    return _layers(FileKeys(str(pairs.get("general.architecture")), pairs, {}, label))


def _layers(keys: FileKeys) -> int:
    count, guessing = keys.count("block_count"), keys.count(_GUESSING, 0, 0)
    if guessing >= count:
        raise ModelInvalid(f"{keys.label}: {keys.name}.{_GUESSING} is {guessing} of {count} layers")
    return count - guessing


class _Reader:
    """What all architectures have in common."""

    def __init__(
        self,
        pairs: Mapping[str, Any],
        shapes: Mapping[str, tuple[int, ...]],
        factors: Mapping[str, Array],
        label: str,
    ) -> None:
        self._row = family_of(pairs, shapes, label)
        self._keys = FileKeys(str(pairs["general.architecture"]), pairs, shapes, label)
        self._name, self._label, self._factors = self._keys.name, label, factors

    def config(self) -> dict[str, Any]:
        """See ``hf_config``."""
        row, keys, family = self._row, self._keys, FAMILIES[self._row.model_type]
        table = keys.shapes.get("token_embd.weight")
        if table is None or len(table) != 2:
            raise ModelInvalid(f"{self._label}: has no token_embd.weight with rows of tokens")
        config: dict[str, Any] = {"model_type": row.model_type, "vocab_size": table[0], **row.fixed}
        named = {**KEYS, family.eps: row.eps or EPS[family.norm], **row.keys}
        config.update({ours: keys.needed(theirs) for ours, theirs in named.items()})
        config.update(
            {ours: keys.needed(key) for ours, key in row.optional.items() if keys.raw(key) is not None}
        )
        for key in ("embedding_length", "attention.head_count"):
            keys.count(key)
        config["num_hidden_layers"] = _layers(keys)
        if keys.count("block_count") > len(keys.shapes):
            raise ModelInvalid(
                f"{self._label}: {config['num_hidden_layers']} layers, but {len(keys.shapes)} tensors"
            )
        if not row.mixed:
            config["num_key_value_heads"] = keys.count(
                "attention.head_count_kv", config["num_attention_heads"]
            )
        config["tie_word_embeddings"] = "output.weight" not in keys.shapes
        if not family.qkv_bias:
            config[row.bias] = any(keys.anywhere(f"attn_{part}.bias") for part in ("q", "qkv", "kv_a_mqa"))
        if row.mlp_bias and keys.has("ffn_up.bias"):
            config[row.mlp_bias] = True
        self._heads(config)
        self._windows(config)
        self._rope(config)
        if self._name in RULES:
            RULES[self._name](keys, config)
        keys.finish()
        return config

    def _heads(self, config: dict[str, Any]) -> None:
        keys, heads, hidden = self._keys, config["num_attention_heads"], config["hidden_size"]
        size = keys.count("attention.key_length", hidden // heads)
        if keys.count("attention.value_length", size) != size and self._name != "deepseek2":
            raise keys.refusal("attention.value_length", f"keys have {size} channels")
        config["head_dim"] = size
        turned = keys.count("rope.dimension_count", size)
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
        pattern, layers = self._keys.raw("attention.sliding_window_pattern"), config["num_hidden_layers"]
        if isinstance(pattern, np.ndarray):
            if len(pattern) < layers:
                raise self._keys.refusal("attention.sliding_window_pattern", f"there are {layers} layers")
            windowed = [bool(one) for one in pattern[:layers]]
        else:
            every = self._row.window_pattern if pattern is None else pattern
            if type(every) is not int or every < 1:
                raise self._keys.refusal("attention.sliding_window_pattern", "needed is a number above 0")
            windowed = [bool((i + 1) % every) for i in range(layers)]
        config["layer_types"] = ["sliding_attention" if window else "full_attention" for window in windowed]
        if self._row.model_type == "gemma3_text":
            config["rope_local_base_freq"] = self._keys.value("rope.freq_base_swa", 10000.0)

    def _rope(self, config: dict[str, Any]) -> None:
        config["rope_theta"] = self._keys.value("rope.freq_base", 10000.0)
        scaling = self._scaling(config["max_position_embeddings"])
        if scaling is not None:
            config["rope_scaling"] = scaling

    def _scaling(self, longest: Any) -> Optional[dict[str, Any]]:
        factor = self._keys.value("rope.scaling.factor")
        kind = self._keys.value("rope.scaling.type", "none" if factor is None else "linear")
        if not isinstance(kind, str):
            raise ModelInvalid(f"{self._label}: {self._name}.rope.scaling.type is {shown(kind)}")
        original = self._keys.value("rope.scaling.original_context_length")
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
                "attention_factor": self._keys.needed("rope.scaling.attn_factor"),
                "short_factor": self._numbers("rope_factors_short.weight"),
                "long_factor": self._numbers("rope_factors_long.weight"),
                "original_max_position_embeddings": original,
            }
        if given:
            raise ModelUnsupported(
                f"{self._label}: {', '.join(given)} with rotary scaling {shown(kind)} in a model of {self._name} is not computed; "
                f"{UNSAID}"
            )
        if kind == "none":
            return None
        if kind == "linear":
            return {"rope_type": "linear", "factor": self._keys.needed("rope.scaling.factor")}
        if kind == "yarn":
            return {
                "rope_type": "yarn",
                "factor": self._keys.needed("rope.scaling.factor"),
                "original_max_position_embeddings": original,
                "beta_fast": self._keys.value("rope.scaling.yarn_beta_fast", 32.0),
                "beta_slow": self._keys.value("rope.scaling.yarn_beta_slow", 1.0),
            }
        raise self._keys.refusal(
            "rope.scaling.type", "scaled rotary embeddings of this type are not computed here"
        )

    def _numbers(self, name: str) -> list[float]:
        return [float(number) for number in self._factors[name].ravel()]
