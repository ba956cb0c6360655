"""Fields of ``config.json`` as the export reads them: what was not asked for and may change numbers is an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rknnlite.errors import ModelInvalid, ModelUnsupported, shown

__all__ = ["ConfigFields"]

_NO_NUMBERS = frozenset((
    "_attn_implementation", "_attn_implementation_autoset", "_flash_attn_2_enabled", "_name_or_path",
    "_sliding_window_pattern", "architectures", "attention_dropout", "attention_probs_dropout_prob", "attn_implementation",
    "auto_map", "bad_words_ids", "begin_suppress_tokens", "bos_token_id", "cache_implementation", "chunk_size_feed_forward",
    "classifier_activation", "classifier_bias", "classifier_dropout", "classifier_pooling", "cls_token_id", "decoder_bias",
    "decoder_start_token_id", "deterministic_flash_attn", "directionality", "diversity_penalty", "do_sample", "dtype",
    "early_stopping", "embd_pdrop", "embedding_dropout", "encoder_no_repeat_ngram_size", "eos_token_id",
    "exponential_decay_length_penalty", "finetuning_task", "forced_bos_token_id", "forced_eos_token_id",
    "gradient_checkpointing", "hidden_dropout", "hidden_dropout_prob", "id2label", "initializer_cutoff_factor",
    "initializer_range", "is_llama_config", "keys_to_ignore_at_inference", "label2id", "length_penalty", "mask_token_id",
    "max_length", "min_length", "mlp_dropout", "model_type", "neftune_noise_alpha", "no_repeat_ngram_size",
    "num_beam_groups", "num_beams", "num_labels", "num_return_sequences", "output_attentions", "output_hidden_states",
    "output_past", "output_router_logits", "output_scores", "pad_token_id", "pooler_fc_size", "pooler_num_attention_heads",
    "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type", "prefix", "problem_type", "reference_compile",
    "remove_invalid_values", "repad_logits_with_grad", "repetition_penalty", "resid_pdrop", "residual_dropout",
    "return_dict", "return_dict_in_generate", "router_aux_loss_coef", "router_jitter_noise", "sentence_transformers",
    "sep_token_id", "sparse_pred_ignore_index", "sparse_prediction", "summary_activation", "summary_first_dropout",
    "summary_proj_to_labels", "summary_type", "summary_use_proj", "suppress_tokens", "task_specific_params",
    "temperature", "tf_legacy_loss", "tokenizer_class", "top_k", "top_p", "torch_dtype", "transformers.js_config",
    "transformers_version", "typical_p", "unk_token_id", "unsloth_fixed", "unsloth_version", "use_cache",
))  # fmt: skip
"""What concerns training, tokens or the program that runs a model, and no number of its answers (dropouts are none then)."""
_OFF = frozenset((
    "add_cross_attention", "alibi", "clip_qkv", "is_decoder", "is_encoder_decoder", "mlp_bias", "attention_bias", "pruned_heads",
    "qk_layer_norms", "qk_layernorm", "quantization_config", "rope_interleaved", "tie_encoder_decoder", "torchscript",
    "use_bfloat16", "use_bidirectional_attention", "use_mrope", "use_qk_norm", "use_resampler", "use_sliding_window",
))  # fmt: skip
"""What changes nothing while it is off."""
_MISSING = object()
_MOST, _LARGEST = (1 << 31) - 1, 3.4e38
"""What the files of a package hold: counts of 32 bits, float32."""


class ConfigFields:
    """An object of ``config.json``, which remembers what it was asked for. ``where`` stands in errors.

    ``inside``: it is an object within the description of a model.
    """

    def __init__(self, values: Any, where: str = "config.json", inside: bool = False) -> None:
        """Raises ModelInvalid when it is no object."""
        if not isinstance(values, Mapping):
            raise ModelInvalid(f"{where} is damaged: {shown(values)} is no object")
        self._values, self._where, self._whole = values, where, not inside
        self._asked: set[str] = set()
        self._inside: dict[str, ConfigFields] = {}

    def get(self, key: str, default: Any = None) -> Any:
        """A value of any kind; ``default`` when it is missing or null."""
        self._asked.add(key)
        value = self._values.get(key)
        return default if value is None else value

    def missing(self, key: str) -> bool:
        """Not there at all, not even as null."""
        return key not in self._values

    def number(self, key: str, default: int | None = None) -> int:
        """A whole number above 0, of 31 bits. Raises ModelInvalid."""
        value = self.get(key, default)
        if type(value) is not int or not 1 <= value <= _MOST:
            raise ModelInvalid(f"{self._where}: {key} is {shown(value)}")
        return value

    def count(self, key: str, default: int | None = None) -> int:
        """A whole number, 0 among them, of 31 bits. Raises ModelInvalid."""
        value = self.get(key, default)
        return 0 if type(value) is int and value == 0 else self.number(key, default)

    def positive(self, key: str, default: float | None = None) -> float:
        """A finite number above 0. Raises ModelInvalid."""
        value = self.real(key, default)
        if value <= 0:
            raise ModelInvalid(f"{self._where}: {key} is {shown(value)}, which is not above 0")
        return value

    def real(self, key: str, default: float | None = None) -> float:
        """A finite number. Raises ModelInvalid."""
        value = self.get(key, default)
        if not _is_real(value):
            raise ModelInvalid(f"{self._where} is damaged: {key} is {shown(value)}, no number")
        return float(value)

    def flag(self, key: str, default: bool = False) -> bool:
        """True or false. Raises ModelInvalid."""
        value = self.get(key, default)
        if type(value) is not bool:
            raise ModelInvalid(f"{self._where} is damaged: {key} is {shown(value)}, neither true nor false")
        return value

    def reals(self, key: str, count: int) -> tuple[float, ...]:
        """A list of so many numbers. Raises ModelInvalid."""
        value = self.get(key)
        if not isinstance(value, list) or len(value) != count or not all(map(_is_real, value)):
            raise ModelInvalid(f"{self._where}: {key} is {shown(value)}, not {count} numbers")
        return tuple(float(v) for v in value)

    def child(self, key: str) -> ConfigFields:
        """An object inside; an empty one where there is none."""
        if key not in self._inside:
            self._inside[key] = ConfigFields(self.get(key, {}), f"{self._where}: {key}", inside=True)
        return self._inside[key]

    def only(self, key: str, *allowed: Any) -> None:
        """What must be one of these where it is there. Raises ModelUnsupported."""
        if self.get(key) is not None and self._values[key] not in allowed:
            raise self.refusal(key, f"computed is {', '.join(map(repr, allowed))}")

    def refusal(self, key: str, why: str) -> ModelUnsupported:
        """The error that names a field and its value."""
        return ModelUnsupported(
            f"{self._where}: {key} is {shown(self._values.get(key))}, which is not computed here; {why}"
        )

    def finish(self) -> None:
        """Raise ModelUnsupported for a field that was not asked for and may change numbers."""
        for key, value in self._values.items():
            known = key in self._asked or (self._whole and key in _NO_NUMBERS)
            if not known and value is not None and not (key in _OFF and not value):
                raise ModelUnsupported(
                    f"{self._where}: {key} is {shown(value)}, which is not understood here and may change what the model computes; "
                    "where it does not, take it out of the file"
                )
        for inside in self._inside.values():
            inside.finish()


def _is_real(value: Any) -> bool:
    return type(value) in (int, float) and -_LARGEST <= value <= _LARGEST
