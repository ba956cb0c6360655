"""What a Hugging Face directory holds for the export: JSON files, tensors, and how its embeddings are made."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid, ModelUnsupported, shown
from rknnlite.files.json_text import parse_json
from rknnlite.files.reading import is_stream, read_text
from rknnlite.formats import ModelFile

from .container.description import Architecture, Embedding
from .container.families import FAMILIES
from .container.family import Pooling
from .container.safetensors import SafeTensors, Widened
from .gptq_awq import MXFP4, Packing, QuantisedMatrix
from .mxfp4 import BLOCKS, Mxfp4Stack

__all__ = [
    "HfFolder",
    "Source",
    "check_counts",
    "embedding_of",
    "longest_text",
    "read_object",
    "weight_files",
]

Array = NDArray[Any]
Source = Union[Widened, QuantisedMatrix, Mxfp4Stack]
"""A tensor that is not read yet; indexing gives float32."""
_MODES = {
    "pooling_mode_lasttoken": Pooling.LAST,
    "pooling_mode_mean_tokens": Pooling.MEAN,
    "pooling_mode_cls_token": Pooling.CLS,
}
_NAMES = {"lasttoken": Pooling.LAST, "mean": Pooling.MEAN, "cls": Pooling.CLS}
_OF_NO_CONSEQUENCE = (
    "rotary_emb.inv_freq",
    "self_attn.masked_bias",
    "attention.masked_bias",
    "attn.masked_bias",
)
"""Ends of names of tensors that follow from ``config.json``, or belong to the program that made the file."""
_PREFIXES = {
    "model.": "",
    "": "",
    "bert.": "",
    "roberta.": "",
    "gpt_neox.": "",
    "transformer.": "",
    "model.decoder.": "",
    "decoder.": "",
    "model.language_model.": "",
    "language_model.model.": "language_model.",
    "model.text_model.": "",
    "thinker.model.": "thinker.",
    "thinker.model.language_model.": "thinker.",
    "llm.model.": "llm.",
    "model.language_model.model.": "model.language_model.",
}
"""What names of the model itself begin with -> what that of its head begins with."""
_BLOCK = 1 << 20  # numbers that are widened at a time


def read_object(path: Path) -> dict[str, Any]:
    """A JSON file with an object; raises ModelInvalid."""
    value = _read(path)
    if not isinstance(value, dict):
        raise ModelInvalid(f"{path}: no JSON object")
    return value


def _read(path: Path) -> Any:
    try:
        return parse_json(read_text(path))
    except (OSError, ValueError) as error:
        raise ModelInvalid(f"{path}: {error}") from None


_LAYERS = re.compile(r"^(?!max_).*(layers?|blocks?|depth)$")
_COUNTS = re.compile(
    r"^(?!max_).*(layers?|blocks?|depth|experts|heads|hidden_size|vocab_size|intermediate_size|d_model|n_embd)$"
)
_PACKED = 32


def check_counts(config: Mapping[str, Any], directory: Path) -> None:
    """Hold the counts of a ``config.json`` against the tensors beside it, before anything goes through layers one by one.

    Every layer has a tensor, and a size is one of a tensor's dimensions, of which packed integers have up to a thirty-second.

    Raises ModelInvalid that names the entry, its value and what is there.
    """
    tensors, longest = 0, 0
    for file in weight_files(directory):
        tensors += len(file.names)
        longest = max(longest, *(max(file[name].shape, default=0) for name in file.names), 0)
    for key, value in _whole_numbers(config):
        limit, what = (
            (tensors, "tensors") if _LAYERS.search(key) else (_PACKED * longest, "rows or columns at most")
        )
        if value > limit:
            raise ModelInvalid(
                f"{directory}: config.json: {key} is {shown(value)}, the *.safetensors have {limit} {what}"
            )


def _whole_numbers(config: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """The counts of a configuration and of the parts in it."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _whole_numbers(value)
        elif type(value) is int and _COUNTS.search(str(key)):
            yield str(key), value


def weight_files(directory: Path) -> Iterator[SafeTensors]:
    """All ``*.safetensors`` of a directory, mapped; raises ModelInvalid."""
    for path in sorted(directory.glob("*.safetensors")):
        if is_stream(path):
            raise ModelInvalid(f"{path}: it is a pipe, a socket or a device, no safetensors file")
        yield SafeTensors(ModelFile(path).data, str(path))


class HfFolder:
    """The tensors of all ``*.safetensors`` of a directory.

    A model that was saved without its head has the names without the ``model.`` in front, one with another head than
    ours, or with other parts beside it, has other words there.
    """

    def __init__(self, directory: Path, family: str, packing: Packing | None = None) -> None:
        """``packing``: how matrices are quantised. Raises ModelInvalid when there are none."""
        self.directory = directory
        self._files: dict[str, SafeTensors] = {}
        for file in weight_files(directory):
            self._files.update(dict.fromkeys(file.names, file))
        if not self._files:
            raise ModelInvalid(f"{directory}: has no *.safetensors")
        self._read: set[str] = set()
        self._matrices: dict[str, QuantisedMatrix | Mxfp4Stack] = {}
        if packing is not None:
            self._matrices.update(self._stacks() if packing.method == MXFP4 else self._quantised(packing))
        found = (prefix for prefix in _PREFIXES if prefix + FAMILIES[family].table in self._files)
        self._prefix = next(found, "model.")
        self._layers = self._prefix + FAMILIES[family].layers

    def _quantised(self, packing: Packing) -> dict[str, QuantisedMatrix]:
        """Matrices of integers, by the name of their float one; their parts count as read."""
        stems = [name[: -len(".qweight")] for name in self._files if name.endswith(".qweight")]
        made = {f"{stem}.weight": QuantisedMatrix(self._files, stem, packing) for stem in stems}
        self._read.update(name for matrix in made.values() for name in matrix.names)
        return made

    def _stacks(self) -> dict[str, Mxfp4Stack]:
        """Experts in MXFP4, by the name of their float tensor; their parts count as read."""
        made = {
            name[: -len(BLOCKS)]: Mxfp4Stack(self._files, name[: -len(BLOCKS)])
            for name in self._files
            if name.endswith(BLOCKS)
        }
        self._read.update(name for stack in made.values() for name in stack.names)
        return made

    def is_packed(self, name: str) -> bool:
        """Whether a tensor of the model itself lies there as integers or numbers of four bits."""
        return self._prefix + name in self._matrices

    def get(self, name: str, *shape: int) -> Array:
        """A tensor of the model itself, float32, with the shape that the configuration promises."""
        return self._widened(self._prefix + name, *shape)[...]

    def lazy(self, name: str, *shape: int) -> Source:
        """``get``, not read yet."""
        return self._widened(self._prefix + name, *shape)

    def head(self, name: str, *shape: int) -> Array:
        """A tensor of the head, by its whole name where the model stands alone."""
        return self.widened(name, *shape)[...]

    def has_head(self, name: str) -> bool:
        """Whether the head has a tensor of its own."""
        name = _PREFIXES[self._prefix] + name
        return name in self._files or name in self._matrices

    def table(self, arch: Architecture) -> Source:
        """Embeddings of all tokens, not read yet."""
        return self._widened(self._prefix + FAMILIES[arch.family].table, arch.vocab_size, arch.hidden)

    def widened(self, name: str, *shape: int) -> Source:
        """``head``, not read yet."""
        return self._widened(_PREFIXES[self._prefix] + name, *shape)

    def _widened(self, name: str, *shape: int) -> Source:
        if name not in self._files and name not in self._matrices:
            raise ModelInvalid(f"{self.directory}: no tensor {name} in its *.safetensors")
        self._read.add(name)
        array = self._matrices[name] if name in self._matrices else self._files[name].widened(name)
        if array.shape != shape:
            raise ModelInvalid(
                f"{self.directory}: {name} is {list(array.shape)}, config.json needs {list(shape)}"
            )
        return array

    def check_all_read(self, behind: int | None = None) -> None:
        """Raise ModelUnsupported when a layer has a tensor that nobody asked for; layers from number ``behind`` on may."""
        left = sorted(
            name for name in {*self._files, *self._matrices} - self._read if name.startswith(self._layers)
        )
        left = [name for name in left if not name.endswith(_OF_NO_CONSEQUENCE)]
        if behind is not None:
            left = [name for name in left if self._number(name) < behind]
        if left:
            raise ModelUnsupported(
                f"{self.directory}: {len(left)} tensors of layers are not computed here, the first is {left[0]}; the model "
                "is not what its config.json says, or a later one of its family"
            )

    def _number(self, name: str) -> int:
        """Of the layer of a tensor; 0 where its name does not tell."""
        number = name[len(self._layers) :].partition(".")[0]
        return int(number) if number.isascii() and number.isdigit() and len(number) < 5 else 0

    def matrix_types(self) -> set[str]:
        """Element types of all matrices, as safetensors spell them."""
        return {file.dtype(name) for name, file in self._files.items() if file[name].ndim > 1}

    def rows(self, name: str) -> int:
        """First dimension of a tensor of the model itself."""
        name = self._prefix + name
        if name not in self._files:
            raise ModelInvalid(f"{self.directory}: no tensor {name} in its *.safetensors")
        return int((*self._files[name][name].shape, 0)[0])

    def embeddings(self, arch: Architecture, kind: type[np.floating[Any]]) -> Iterator[Array]:
        """The table of tokens as a package has it, in blocks of rows; raises ModelUnsupported when values do not fit ``kind``."""
        tables, width = [self.table(arch)], arch.row_size - arch.hidden
        if width:
            name = self._prefix + FAMILIES[arch.family].layer_table
            tables.append(self._widened(name, arch.vocab_size, width))
        step = max(1, _BLOCK // arch.row_size)
        for start in range(0, arch.vocab_size, step):
            rows = np.concatenate([table[start : start + step] for table in tables], axis=1)
            if not np.isfinite(rows).all() or np.abs(rows).max() > np.finfo(kind).max:
                raise ModelUnsupported(
                    f"the embeddings do not fit {kind.__name__}; --weights f32 keeps them as they are"
                )
            yield rows.astype(kind)


def embedding_of(
    directory: Path, family: str, pooling: str | None, normalise: bool | None
) -> Embedding | None:
    """How a model's embeddings are made; None for one that generates text.

    What the caller says goes before what the files say (``modules.json`` of sentence-transformers and what it names),
    and that before what is usual in the family. Raises ModelInvalid or ModelUnsupported.
    """
    modules = _modules(directory)
    if modules is None and pooling is None and normalise is None and not FAMILIES[family].encoder:
        return None
    found = None if pooling is not None else _pooling(directory, modules or {})
    chosen = Pooling(pooling) if pooling is not None else found or FAMILIES[family].pooling
    usual = modules is None or "Normalize" in modules
    return Embedding(chosen, usual if normalise is None else normalise)


def _modules(directory: Path) -> dict[str, str] | None:
    """The modules of sentence-transformers: last part of the type -> directory; None without such a file."""
    path = directory / "modules.json"
    if not path.exists():
        return None
    value = _read(path)
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise ModelInvalid(f"{path}: no list of modules")
    modules = {str(entry.get("type")).rpartition(".")[2]: str(entry.get("path", "")) for entry in value}
    others = sorted(set(modules) - {"Transformer", "Pooling", "Normalize"})
    if others:
        raise ModelUnsupported(
            f"{path}: module {others[0]} is not computed here; there are Transformer, Pooling and Normalize"
        )
    return modules


def _pooling(directory: Path, modules: dict[str, str]) -> Pooling | None:
    if "Pooling" not in modules:
        return None
    path = directory / modules["Pooling"] / "config.json"
    settings = read_object(path)
    on = [key for key, value in settings.items() if key.startswith("pooling_mode_") and value is True]
    named = settings.get("pooling_mode")
    chosen = [_NAMES.get(str(named))] if named is not None else [_MODES.get(key) for key in on]
    if len(chosen) != 1 or chosen[0] is None or settings.get("include_prompt") is False:
        says = named if named is not None else ", ".join(on) or "nothing"
        raise ModelUnsupported(
            f"{path}: pooling by {says} (include_prompt {settings.get('include_prompt', True)}) is not computed here; "
            "there are last, mean and cls, of all tokens"
        )
    return chosen[0]


def longest_text(directory: Path) -> int | None:
    """Tokens of a text that sentence-transformers takes; None when it does not say."""
    path = directory / "sentence_bert_config.json"
    value = read_object(path).get("max_seq_length") if path.exists() else None
    return value if type(value) is int and value > 0 else None
