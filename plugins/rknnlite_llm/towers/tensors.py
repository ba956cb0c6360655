"""The tensors of a vision tower in a Hugging Face folder, read one by one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid

from ..container.safetensors import SafeTensors
from ..hf_folder import weight_files
from .layouts import Layout

__all__ = ["TowerTensors"]

Array = NDArray[Any]


class TowerTensors:
    """Tensors by their names within the tower; arrays are float32."""

    def __init__(self, directory: Path, layout: Layout) -> None:
        self.directory = directory
        self._files: dict[str, SafeTensors] = {}
        for file in weight_files(directory):
            self._files.update(dict.fromkeys(file.names, file))
        self._layout = layout
        self._prefix = self._found(layout.prefixes, layout.patch)
        self._outside: str | None = layout.resampler
        if layout.merger_prefixes:
            self._outside = self._found(layout.merger_prefixes, layout.merger[1])

    def _found(self, prefixes: Sequence[str], name: str) -> str | None:
        return next((prefix for prefix in prefixes if f"{prefix}{name}.weight" in self._files), None)

    @property
    def there(self) -> bool:
        """Whether the folder has a tower at all."""
        return self._prefix is not None

    @property
    def width(self) -> int:
        """Numbers of a row that the tower gives."""
        if self._layout.resampler:
            return int(self.bare("query", merger=True).shape[-1])
        return int(self.whole(self._layout.merger[-1], merger=True).shape[0])

    @property
    def queries(self) -> int:
        """Rows that ask the patches (``Layout.resampler``); 0 where there are none."""
        return len(self.bare("query", merger=True)) if self._layout.resampler else 0

    def whole(self, name: str, merger: bool = False) -> Array:
        """The ``weight`` of a layer."""
        return self._read(f"{name}.weight", merger)

    def bare(self, name: str, merger: bool = False) -> Array:
        """A tensor that may lie there without the word ``weight`` behind its name."""
        found = self.maybe(name, merger)
        return self.whole(name, merger) if found is None else found

    def maybe(self, name: str, merger: bool = False) -> Array | None:
        """A tensor, if there is one."""
        return self._read(name, merger) if self._name(name, merger) in self._files else None

    def third(self, names: Sequence[str], number: int) -> tuple[Array, Array | None]:
        """Weight and bias of query, key or value, which lie in one matrix or in three."""
        if len(names) == 3:
            return self.whole(names[number]), self.maybe(f"{names[number]}.bias")
        if self._name(f"{names[0]}.weight", False) not in self._files:  # Qwen2.5-Omni's
            split = [names[0].rpartition("qkv")[0] + letter for letter in "qkv"]
            return self.third(split, number)
        weight, bias = self.whole(names[0]), self.maybe(f"{names[0]}.bias")
        size = len(weight) // 3
        part = slice(number * size, (number + 1) * size)
        return weight[part], None if bias is None else bias[part]

    def input_third(self, number: int) -> tuple[Array, Array]:
        """Weight and bias of query, key or value of the rows that ask (``Layout.resampler``)."""
        weight, bias = (self._read(f"attn.in_proj_{kind}", True) for kind in ("weight", "bias"))
        size = len(weight) // 3
        part = slice(number * size, (number + 1) * size)
        return weight[part], bias[part]

    def _name(self, name: str, merger: bool) -> str:
        prefix = (
            self._outside
            if merger and (self._layout.merger_prefixes or self._layout.resampler)
            else self._prefix
        )
        return f"{prefix or ''}{name}"

    def _read(self, name: str, merger: bool) -> Array:
        full = self._name(name, merger)
        if full not in self._files:
            raise ModelInvalid(f"{self.directory}: no tensor {full} in its *.safetensors")
        return self._files[full].widened(full)[...]
