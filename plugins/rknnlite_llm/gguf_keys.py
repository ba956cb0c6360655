"""Keys and tensors of a GGUF file as they are asked for: a key that nobody asked for may change numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid, ModelUnsupported, shown

__all__ = ["UNSAID", "FileKeys"]

Array = NDArray[Any]
UNSAID = "export the Hugging Face folder that it was made from"
_OF_NO_CONSEQUENCE = frozenset(
    (
        "vocab_size",
        "attention.key_length",
        "attention.value_length",
        "attention.head_count_kv",
        "attention.layer_norm_epsilon",
        "attention.layer_norm_rms_epsilon",
        "rope.freq_base",
        "rope.dimension_count",
        "rope.scaling.original_context_length",
        "rope.scaling.type",
        "rope.scaling.factor",
        "pooling_type",
        "tensor_data_layout",
    )
)
"""Keys that are read in any family, or follow from tensors."""
_ONLY = {
    "rope.scaling.finetuned": True,
    "attention.causal": True,
    "expert_gating_func": 1,
    "expert_count": 0,
    "expert_used_count": 0,
    "expert_group_count": 1,
    "expert_group_used_count": 1,
    "expert_weights_scale": 1.0,
}
"""Keys that change nothing while they have this value (1: softmax)."""


class FileKeys:
    """The keys of one architecture, without its name in front, and the shapes of tensors as numpy has them."""

    def __init__(
        self, name: str, pairs: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], label: str
    ) -> None:
        head = f"{name}."
        self.name, self.label, self.shapes = name, label, shapes
        self.values = {key[len(head) :]: value for key, value in pairs.items() if key.startswith(head)}
        self._asked: set[str] = set()

    def raw(self, key: str) -> Any:
        """What the file has, an array too; None: nothing."""
        self._asked.add(key)
        return self.values.get(key)

    def value(self, key: str, default: Any = None) -> Any:
        """One value. Raises ModelUnsupported for an array."""
        value = self.raw(key)
        value = default if value is None else value
        if isinstance(value, (np.ndarray, list)):
            raise self.refusal(key, "what differs from layer to layer is not computed here")
        if isinstance(value, float):  # as it was written before it became a float32
            return float(str(np.float32(value)))
        return value

    def needed(self, key: str) -> Any:
        """A number. Raises ModelInvalid."""
        value = self.value(key)
        if value is None:
            raise ModelInvalid(f"{self.label}: has no {self.name}.{key}")
        if not isinstance(value, (int, float)):
            raise ModelInvalid(f"{self.label}: {self.name}.{key} is {shown(value)}, no number")
        return value

    def count(self, key: str, usual: int = 0, least: int = 1) -> int:
        """A whole number from ``least`` on, the usual one where the file has none."""
        value = self.value(key, usual)
        if type(value) is not int or value < least:
            raise ModelInvalid(f"{self.label}: {self.name}.{key} is {shown(value)}")
        return value

    def has(self, tensor: str, layer: int = 0) -> bool:
        """Whether a layer has a tensor."""
        return f"blk.{layer}.{tensor}" in self.shapes

    def anywhere(self, tensor: str) -> bool:
        """Whether some layer has a tensor."""
        return any(name.startswith("blk.") and name.endswith(f".{tensor}") for name in self.shapes)

    def refusal(self, key: str, why: str) -> ModelUnsupported:
        """The error that names a key and its value."""
        return ModelUnsupported(
            f"{self.label}: {self.name}.{key} is {shown(self.values.get(key))}; {why}; {UNSAID}"
        )

    def finish(self) -> None:
        """Raise ModelUnsupported for a key that may change numbers and was not read."""
        for key, value in self.values.items():
            harmless = not isinstance(value, np.ndarray) and key in _ONLY and value == _ONLY[key]
            if key not in self._asked and key not in _OF_NO_CONSEQUENCE and not harmless:
                raise self.refusal(key, "this is not understood here and may change what the model computes")
