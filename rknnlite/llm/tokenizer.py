"""Text to token ids and back, from ``PREFIX.tokenizer.gguf``, by the package ``tokenizers`` (extra ``llm``).

Without it byte-level BPE, which is what most models have, is computed in Python (``bpe``).

The GGUF file is the one that llama.cpp reads too. Files of our own also carry the tokenizer as its authors
published it (``tokenizer.huggingface.json``); without it byte-level BPE is rebuilt from tokens and merges.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelInvalid, ModelUnsupported, RknnError, shown
from ..extras import missing
from ..files.reading import read_text
from .apart import SPLITS, TokenizerApart, expressions, trusted
from .bpe import ByteLevelBpe, Recipe, recipe
from .budget import RenderStopped
from .gguf import Value, read_gguf
from .package import file_bytes

__all__ = ["Tokenizer", "byte_letters", "token_bytes"]

HF_JSON = "tokenizer.huggingface.json"
UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 2, 3, 4, 5, 6
"""Token types of GGUF that matter here; 1 is plain text."""

_WHOLE_WORDS = {"llama-bpe"}
"""Where a word that is one token stays whole, whatever the merges say."""


class Tokenizer:
    """A tokenizer with the few calls that a session needs.

    Examples:
        >>> tokenizer = Tokenizer("examples/llm_chat/models/tiny.tokenizer.gguf")
        >>> tokenizer.decode(tokenizer("What is 1 + 2?"))
        'What is 1 + 2?'
    """

    def __init__(self, path: str | Path, isolate: bool = True) -> None:
        """Read a GGUF file. Raises ModelInvalid, or RknnError when the package ``tokenizers`` is needed and missing.

        ``isolate``: regular expressions that are not known compute in a process of their own.
        """
        label = str(path)
        pairs = read_gguf(memoryview(file_bytes(path)), label)
        self.tokens = _strings(pairs, "tokenizer.ggml.tokens", label)
        self.eos_id = _id(pairs, "tokenizer.ggml.eos_token_id", len(self.tokens))
        self.bos_id = _id(pairs, "tokenizer.ggml.bos_token_id", len(self.tokens))
        self._types = pairs.get("tokenizer.ggml.token_type")
        self._byte_level = pairs.get("tokenizer.ggml.model") == "gpt2"
        self._label = label
        with self._typed_errors():
            text = pairs.get(HF_JSON)
            published = json.loads(text) if isolate and isinstance(text, str) else None
            self._tokenizer = (
                _build(pairs, self.tokens, label)
                if trusted(published)
                else TokenizerApart(label, expressions(published))
            )

    @contextlib.contextmanager
    def _typed_errors(self) -> Iterator[None]:
        try:
            yield
        except (RknnError, RenderStopped):
            raise
        except BaseException as error:  # the package raises bare Exception, and PanicException, which is none
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            raise ModelInvalid(
                f"{self._label}: unusable tokenizer: {shown(error)}; export the model again"
            ) from None

    def end_encoding(self, threads: Container[int]) -> None:
        """End a call of one of these threads, in which RenderStopped is raised; only a hostile tokenizer computes long."""
        if isinstance(self._tokenizer, TokenizerApart):
            self._tokenizer.end(threads)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def special(self) -> dict[str, int]:
        """Tokens that are no text of an answer (control tokens), by how they are spelt -> their ids."""
        types = self._types[: len(self)] if isinstance(self._types, np.ndarray) else np.empty(0)
        ids = np.flatnonzero(types == CONTROL).tolist()
        return {self.tokens[i]: i for i in (*ids, self.bos_id, self.eos_id) if i >= 0}

    def encode(self, text: str, special: bool = False) -> list[int]:
        """Token ids; special tokens written in the text count as such.

        ``special``: with those around it that the tokenizer's authors mean to be there, as embeddings need them.
        """
        whole = text.encode("utf-8", "replace").decode("utf-8")  # half a surrogate pair is no character
        with self._typed_errors():
            ids: list[int] = self._tokenizer.encode(whole, add_special_tokens=special).ids
        return ids

    def decode(self, ids: Sequence[int], skip_special: bool = True) -> str:
        """Text of some tokens."""
        with self._typed_errors():
            text: str = self._tokenizer.decode([int(i) for i in ids], skip_special_tokens=skip_special)
        return text

    def token_table(self) -> tuple[list[bytes], list[int]]:
        """The bytes that each token adds to a text, and the ids of those that are no text; unused tokens are empty.

        Raises ModelInvalid.
        """
        kinds = np.ones(len(self.tokens), np.int64)
        if isinstance(self._types, np.ndarray):
            kinds[: len(self._types)] = self._types[: len(kinds)]
        with self._typed_errors():
            table = token_bytes(self.tokens, kinds, self._byte_level)
        for number in np.flatnonzero(kinds == UNUSED):
            table[number] = b""
        return table, np.flatnonzero((kinds == CONTROL) | (kinds == UNKNOWN)).tolist()

    def __call__(self, text: str) -> list[int]:
        return self.encode(text)


def _build(pairs: dict[str, Value], tokens: list[str], label: str) -> Any:
    try:
        import tokenizers
    except ImportError as error:
        return _plain_python(pairs, tokens, label, error)
    text = pairs.get(HF_JSON)
    if isinstance(text, str):
        published = tokenizers.Tokenizer.from_str(text)
        published.no_truncation()  # what its authors left switched on would cut texts without a word
        published.no_padding()
        return published
    pre = _pre_tokenizer(pairs, label)
    merges: Any = _merges(pairs, label)
    bpe = tokenizers.models.BPE(
        {t: i for i, t in enumerate(tokens)}, merges, ignore_merges=pre in _WHOLE_WORDS
    )
    built = tokenizers.Tokenizer(bpe)
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(SPLITS[pre]), "isolated")
    level = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    built.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([split, level])
    built.decoder = tokenizers.decoders.ByteLevel()
    built.add_special_tokens([tokens[number] for number in _special(pairs, tokens)])
    return built


def _plain_python(pairs: dict[str, Value], tokens: list[str], label: str, error: ImportError) -> ByteLevelBpe:
    """The tokenizer without the package; raises RknnError when it is none that we can compute."""
    text = pairs.get(HF_JSON)
    if isinstance(text, str):
        found = recipe(json.loads(text))
        if found is None:
            raise missing("llm", f"{label}: this tokenizer needs the package tokenizers", error)
        return ByteLevelBpe(found, byte_letters())
    pre = _pre_tokenizer(pairs, label)
    special = _special(pairs, tokens)
    made = Recipe(
        vocabulary={token: number for number, token in enumerate(tokens)},
        merges=_merges(pairs, label),
        split=SPLITS[pre],
        added={tokens[number]: number for number in special},
        hidden=frozenset(special),
        whole_words=pre in _WHOLE_WORDS,
    )
    return ByteLevelBpe(made, byte_letters())


def _pre_tokenizer(pairs: dict[str, Value], label: str) -> str:
    """The pre-tokenizer's name; raises ModelUnsupported for those whose split is not known here."""
    kind, pre = pairs.get("tokenizer.ggml.model"), pairs.get("tokenizer.ggml.pre", "")
    if kind != "gpt2" or not isinstance(pre, str) or pre not in SPLITS:
        raise ModelUnsupported(
            f"{label}: tokenizer {shown(kind)} with pre-tokenizer {shown(pre)} and no {HF_JSON}; give the session a tokenizer "
            "callback of your own"
        )
    return str(pre)


def _merges(pairs: dict[str, Value], label: str) -> list[tuple[str, str]]:
    split = (merge.partition(" ") for merge in _strings(pairs, "tokenizer.ggml.merges", label))
    return [(first, second) for first, _, second in split]


def _special(pairs: dict[str, Value], tokens: list[str]) -> list[int]:
    """Ids of the tokens that are written out in texts."""
    types = pairs.get("tokenizer.ggml.token_type")
    if not isinstance(types, np.ndarray):
        return []
    kinds = types.tolist()[: len(tokens)]
    return [number for number, kind in enumerate(kinds) if kind in (CONTROL, USER_DEFINED)]


def _strings(pairs: dict[str, Value], key: str, label: str) -> list[str]:
    value = pairs.get(key)
    if not isinstance(value, list):
        raise ModelInvalid(f"{label}: has no {key}")
    return value


def _id(pairs: dict[str, Value], key: str, count: int) -> int:
    value = pairs.get(key, -1)
    return value if type(value) is int and 0 <= value < count else -1


def byte_letters() -> dict[str, int]:
    """The letters of byte-level BPE -> the byte each stands for: printable ones for themselves, others from 256 up."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if byte not in set(printable))
    letters.update({chr(256 + n): byte for n, byte in enumerate(others)})
    return letters


def token_bytes(tokens: Sequence[str], types: NDArray[Any], byte_level: bool) -> list[bytes]:
    """The bytes that each token stands for, special tokens spelt out; see ``TokenTable``."""
    letters = byte_letters()

    def plain(token: str, kind: int) -> bytes:
        if kind == BYTE:
            return bytes([int(token[3:-1], 16)])
        if kind != 1:
            return token.encode()
        if byte_level:
            return bytes(letters[c] for c in token) if all(c in letters for c in token) else token.encode()
        return token.replace("\u2581", " ").encode()

    return [plain(token, kind)[:0xFFFF] for token, kind in zip(tokens, types.tolist())]


def family_json(path: Path) -> dict[str, Any]:
    """``tokenizer.json`` of a Hugging Face directory; raises ModelInvalid."""
    try:
        value = json.loads(read_text(path))
    except (OSError, ValueError) as error:
        raise ModelInvalid(f"{path}: {error}") from None
    if not isinstance(value, dict) or not isinstance(value.get("model"), dict):
        raise ModelInvalid(f"{path}: not a tokenizer of the package tokenizers")
    return value
