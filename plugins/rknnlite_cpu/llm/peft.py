"""Adapters as the library PEFT saves them: ``adapter_config.json`` and ``adapter_model.safetensors``."""

from __future__ import annotations

import hashlib
import math
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rknnlite_llm.container.description import LlmModel
from rknnlite_llm.container.families import FAMILIES
from rknnlite_llm.container.safetensors import SafeTensors
from rknnlite_llm.export_weights import row_order
from rknnlite_llm.hf_folder import read_object
from rknnlite_llm.recurrent_weights import state_sizes
from rknnlite_llm.weights import layer_matrices

from rknnlite.errors import ModelInvalid, ModelUnsupported, shown
from rknnlite.formats import ModelFile

from .lora import Adapter

__all__ = ["read_adapter"]

Array = NDArray[Any]
_HIGHEST_RANK = 4096


def read_adapter(folder: Path, model: LlmModel) -> Adapter:
    """The adapter of a folder, which gives it its name.

    Raises ModelInvalid for files that are missing, damaged or do not fit ``model``, ModelUnsupported for what is not computed.
    """
    config = read_object(folder / "adapter_config.json")
    path = folder / "adapter_model.safetensors"
    if not path.exists():
        raise ModelInvalid(f"{path} is not there; save the adapter with safe_serialization=True")
    _check(folder, config)
    return _Reader(folder, config, model, path).adapter()


def _check(folder: Path, config: dict[str, Any]) -> None:
    """Raise ModelUnsupported for kinds of adapters that add something else."""
    name = folder / "adapter_config.json"
    kind = config.get("peft_type", "LORA")
    if kind != "LORA":
        raise ModelUnsupported(f"{name}: adapters of type {shown(kind)} are not computed, only LORA")
    meanings = {
        "use_dora": "DoRA",
        "fan_in_fan_out": "transposed weights",
        "lora_bias": "a bias of the adapter",
        "modules_to_save": "modules that are replaced whole",
        "use_qalora": "QALoRA",
        "alora_invocation_tokens": "aLoRA",
        "trainable_token_indices": "trained tokens",
        "layer_replication": "replicated layers",
        "target_parameters": "parameters",
    }
    for key, meaning in meanings.items():
        if config.get(key):
            raise ModelUnsupported(
                f"{name}: {key} ({meaning}) is not computed; merge the adapter into the model"
            )
    if config.get("bias", "none") != "none":
        raise ModelUnsupported(
            f"{name}: bias {shown(config['bias'])} is not computed; merge the adapter into the model"
        )


class _Reader:
    def __init__(self, folder: Path, config: dict[str, Any], model: LlmModel, path: Path) -> None:
        self._folder, self._config, self._model, self._path = folder, config, model, path
        file = ModelFile(path)
        self._tensors = SafeTensors(file.data, str(path))
        self._family = FAMILIES[model.arch.family]
        self._found: dict[tuple[int, str], dict[str, str]] = defaultdict(dict)
        pattern = re.compile(
            rf"(?:base_model\.model\.)?(?:model\.)?{re.escape(self._family.layers)}(\d+)\.(.+)\.lora_([AB])\.weight"
        )
        for name in self._tensors.names:
            match = pattern.fullmatch(name)
            if match is None or int(match[1]) >= model.arch.layers:
                raise ModelUnsupported(
                    f"{path}: {shown(name)} belongs to no matrix of the {model.arch.layers} layers of {model.name}; other "
                    "adapters are not computed, merge them into the model"
                )
            self._found[int(match[1]), match[2]][match[3]] = name

    def adapter(self) -> Adapter:
        """All pairs, put where our matrices have their rows."""
        digest, pairs = hashlib.sha256(), {}
        for layer in range(self._model.arch.layers):
            for name, (inputs, outputs) in layer_matrices(self._model.arch, layer).items():
                pair = self._pair(layer, name, inputs, outputs)
                if pair is not None:
                    pairs[f"layers.{layer}.{name}"] = pair
                    digest.update(name.encode() + pair[0].tobytes() + pair[1].tobytes())
        if self._found:
            layer, name = next(iter(self._found))
            raise ModelUnsupported(
                f"{self._path}: an adapter of {shown(name)} in layer {layer} is not computed; merge it into the model"
            )
        return Adapter(self._folder.resolve().name, digest.hexdigest()[:32], pairs)

    def _pair(self, layer: int, name: str, inputs: int, outputs: int) -> tuple[Array, Array] | None:
        """The adapters of what is one matrix here, side by side."""
        arch, downs, ups, first = self._model.arch, [], [], 0
        for part, rows in self._parts(layer, name, outputs):
            found = self._found.pop((layer, part), None)
            if found is not None:
                down, up = self._two(f"{self._family.layers}{layer}.{part}", found, inputs, rows)
                whole = np.zeros((outputs, up.shape[1]), np.float32)
                whole[first : first + rows] = up
                downs.append(down)
                ups.append(whole)
            first += rows
        if not downs:
            return None
        down, up = np.concatenate(downs), np.concatenate(ups, axis=1)
        order = row_order(arch, self._family, name)
        up = up if order is None else up[order]
        return np.ascontiguousarray(down.T), np.ascontiguousarray(up.T)

    def _parts(self, layer: int, name: str, outputs: int) -> list[tuple[str, int]]:
        """Names of theirs, and how many rows each has."""
        arch, names = self._model.arch.of_layer(layer), self._family.tensors
        kind = arch.kind(layer)
        qkv = names.qkv[:1] if kind.reuses else names.qkv
        theirs = {
            "qkv": (*names.qkv[:2], names.qkv[1]) if kind.keys_alone and not kind.reuses else qkv,
            "out": names.out,
            "gate_up": names.gate_up,
            "up": names.gate_up,
            "down": names.down,
            "conv_in": names.conv_in,
            "conv_out": names.conv_out,
            "state_in": tuple(names.state + name for name in names.state_in) if names.state_gates else (),
            "state_out": (f"{names.state}out_proj",),
        }.get(name, ())
        if len(theirs) == 1:
            return [(theirs[0], outputs)]
        sizes: tuple[int, ...] = outputs // 2, outputs // 2
        if name == "qkv":
            sizes = outputs - 2 * arch.kv_size, arch.kv_size, arch.kv_size
        elif name == "state_in" and arch.recurrence:
            sizes = state_sizes(arch.recurrence, names)
        return list(zip(theirs, sizes))

    def _two(self, module: str, found: dict[str, str], inputs: int, rows: int) -> tuple[Array, Array]:
        """(rank, inputs) and (rows, rank), the latter scaled."""
        if len(found) != 2:
            raise ModelInvalid(f"{self._path}: {module} has only one of lora_A and lora_B; the file is cut")
        down, up = self._tensors.float32(found["A"]), self._tensors.float32(found["B"])
        rank = self._of("rank_pattern", module, self._config.get("r"))
        if not isinstance(rank, int) or not 1 <= rank <= _HIGHEST_RANK:
            raise ModelInvalid(
                f"{self._folder}: the rank of {module} is {shown(rank)}, must be 1..{_HIGHEST_RANK}"
            )
        if down.shape != (rank, inputs) or up.shape != (rows, rank):
            raise ModelInvalid(
                f"{self._path}: {module} has lora_A {list(down.shape)} and lora_B {list(up.shape)}, rank {rank} and model "
                f"{self._model.name} need {[rank, inputs]} and {[rows, rank]}"
            )
        if not (np.isfinite(down).all() and np.isfinite(up).all()):
            raise ModelInvalid(f"{self._path}: the adapter of {module} has values that are not finite")
        alpha = self._of("alpha_pattern", module, self._config.get("lora_alpha", 8))
        if not isinstance(alpha, (int, float)) or not math.isfinite(alpha):
            raise ModelInvalid(f"{self._folder}: lora_alpha of {module} is {shown(alpha)}")
        share = math.sqrt(rank) if self._config.get("use_rslora") else rank
        return down, up * np.float32(alpha / share)

    def _of(self, pattern: str, module: str, otherwise: Any) -> Any:
        """A value that some modules have for themselves, by the end of their names."""
        given = self._config.get(pattern) or {}
        if not isinstance(given, dict):
            raise ModelInvalid(f"{self._folder}: {pattern} is {shown(given)}")
        for key, value in given.items():
            if not re.fullmatch(r"[\w.]+", key):
                raise ModelUnsupported(
                    f"{self._folder}: {pattern} names {shown(key)}; only names of modules are read"
                )
            if f".{module}".endswith(f".{key}"):
                return value
        return otherwise
