"""Text to token ids and back, from ``PREFIX.tokenizer.gguf``, by the package ``tokenizers`` (extra ``llm``).

Without it the same is computed in Python (``tokens``).

The GGUF file is the one that llama.cpp reads too. Files of our own also carry the tokenizer as its authors
published it (``tokenizer.huggingface.json``); without it it is put together again of the tokens (``python_tokenizer.from_gguf``).
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import ModelInvalid, ParamInvalid, RknnError, shown
from rknnlite.extras import missing
from rknnlite.files.json_text import parse_json
from rknnlite.files.reading import read_text

from .gguf import Value, read_gguf
from .isolated_tokenizer import IsolatedTokenizer, expressions, trusted
from .package import file_bytes
from .plain_text import MARK, PlainText
from .python_tokenizer.characters import byte_letters
from .python_tokenizer.from_gguf import BYTE, CONTROL, UNKNOWN, UNUSED, published_of, strings
from .python_tokenizer.pipeline import MARK_ID, PlainTokenizer
from .python_tokenizer.regular_expressions import NotHere
from .python_tokenizer.tokenizer_json import steps_and_model
from .template_budget import RenderStopped

__all__ = ["TextTooLong", "Tokenizer", "byte_letters", "token_bytes"]

HF_JSON = "tokenizer.huggingface.json"
_LONG = 1 << 14  # characters
_BLANK = "\u2581"  # SentencePiece's
_NO_MODEL = {"type": "BPE", "vocab": {}, "merges": []}


class TextTooLong(ParamInvalid):
    """A text has more bytes than the tokens of a context can stand for."""


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
        self._most, self._context = 0, ""
        pairs = read_gguf(file_bytes(path), label)
        self.tokens = strings(pairs, "tokenizer.ggml.tokens", label)
        self.eos_id = _id(pairs, "tokenizer.ggml.eos_token_id", len(self.tokens))
        self.bos_id = _id(pairs, "tokenizer.ggml.bos_token_id", len(self.tokens))
        self._types = pairs.get("tokenizer.ggml.token_type")
        self._byte_level = pairs.get("tokenizer.ggml.model") == "gpt2"
        self._label = label
        with self._typed_errors():
            text = pairs.get(HF_JSON)
            if not isinstance(text, str):
                text = json.dumps(published_of(pairs, label))
            self._tokenizer, self._mark = _opened(text, label, isolate)

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
        if isinstance(self._tokenizer, IsolatedTokenizer):
            self._tokenizer.end(threads)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def special(self) -> dict[str, int]:
        """Tokens that are no text of an answer (control tokens), by how they are spelt -> their ids."""
        types = self._types[: len(self)] if isinstance(self._types, np.ndarray) else np.empty(0)
        ids = np.flatnonzero(types == CONTROL).tolist()
        return {self.tokens[i]: i for i in (*ids, self.bos_id, self.eos_id) if i >= 0}

    @functools.cached_property
    def plain_text(self) -> PlainText:
        """Marks what is no control token in a text, however it is spelt; nor does it become the unknown token."""
        types = self._types[: len(self)] if isinstance(self._types, np.ndarray) else np.empty(0)
        return PlainText((*self.special, *(self.tokens[i] for i in np.flatnonzero(types == UNKNOWN))))

    def encode(self, text: str, special: bool = False) -> list[int]:
        """Token ids; special tokens written in the text count as such, unless a ``MARK`` cuts them (``plain_text``).

        ``special``: with those around it that the tokenizer's authors mean to be there, as embeddings need them.

        Raises TextTooLong before anything is computed for a text that the context cannot hold (``made_for``).
        """
        self._check_length(text)
        whole = text.encode("utf-8", "replace").decode("utf-8")  # half a surrogate pair is no character
        with self._typed_errors():
            # which older packages do without the lock
            if len(whole) > _LONG and hasattr(self._tokenizer, "encode_batch"):
                ids: list[int] = self._tokenizer.encode_batch([whole], add_special_tokens=special)[0].ids
            else:
                ids = self._tokenizer.encode(whole, add_special_tokens=special).ids
        return self._without_marks(ids, whole) if MARK in whole else ids

    def _without_marks(self, ids: Sequence[int], text: str) -> list[int]:
        """Tokens without those of marks, and without the blank that some tokenizers put before what is behind one."""
        behind = iter([part[:1] for part in text.split(MARK)[1:]])
        kept: list[int] = []
        letter = ""
        for number in ids:
            if number == self._mark:
                letter = next(behind, "")
                continue
            token = self.tokens[number] if number < len(self.tokens) else ""
            if letter not in ("", " ", _BLANK) and token.startswith(_BLANK) and not self._byte_level:
                kept += self._spelt(token[1:])
            else:
                kept.append(number)
            letter = ""
        return kept

    def _spelt(self, text: str) -> list[int]:
        """A text of a few letters, each by itself."""
        known = self._letters
        return [
            number
            for letter in text
            for number in (
                [known[letter]] if letter in known else [known[f"<0x{byte:02X}>"] for byte in letter.encode()]
            )
        ]

    @functools.cached_property
    def _letters(self) -> dict[str, int]:
        """Tokens of one letter or byte -> their ids."""
        return {t: number for number, t in enumerate(self.tokens) if len(t) == 1 or t.startswith("<0x")}

    def made_for(self, tokens: int, name: str) -> None:
        """From now on refuse texts that a context of so many tokens cannot hold; ``name`` is the model, for the error."""
        self._most, self._context = tokens, name

    def cut(self, text: str, tokens: int) -> str:
        """As much of the beginning of a text as so many tokens may be made of."""
        if len(text) <= tokens:
            return text
        return text.encode("utf-8", "replace")[: tokens * self._longest_token].decode("utf-8", "ignore")

    def _check_length(self, text: str) -> None:
        """A token stands for a number of bytes at most, so a number of tokens does, too."""
        if not self._most or len(text) <= self._most:
            return
        size = len(text.encode("utf-8", "replace"))
        if size > self._most * self._longest_token:
            raise TextTooLong(
                f"a text has {size} bytes, the context of {self._context} holds {self._most} tokens, none of which stands for "
                f"more than {self._longest_token}; shorten it"
            )

    @functools.cached_property
    def _longest_token(self) -> int:
        """Bytes that a token stands for at most; letters of byte-level tokens stand for one each."""
        return max(
            (len(token) if self._byte_level else len(token.encode()) for token in self.tokens), default=1
        )

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


def _opened(text: str, label: str, isolate: bool) -> tuple[Any, int]:
    """What computes a ``tokenizer.json``: the package, plain Python without it, or a process of its own.

    With it the id of ``MARK``, -1 from the process, which leaves it out by itself.
    """
    try:
        import tokenizers as package
    except ImportError as error:  # kept no longer than this: it holds this frame, and that all callers
        return _without_package(parse_json(text), label, isolate, error)
    steps, model = steps_and_model(text)
    made = _model(package, model) if model else None
    published = parse_json(text) if made is None else steps
    if isolate and not trusted(published):
        return IsolatedTokenizer(label, expressions(published)), -1
    if made is None:
        built = package.Tokenizer.from_str(json.dumps(published))
        _keep_no_words(built.model)
    else:
        built = package.Tokenizer.from_str(json.dumps({**steps, "added_tokens": [], "model": _NO_MODEL}))
        built.model = made
        built.add_tokens([_added(package, **token) for token in steps.get("added_tokens") or ()])
    built.no_truncation()  # what its authors left switched on would cut texts without a word
    built.no_padding()
    built.add_tokens([package.AddedToken(MARK, normalized=False)])
    mark = built.token_to_id(MARK)
    assert mark is not None  # it was added just now
    return built, mark


def _model(package: Any, text: str) -> Any:
    """The model of a tokenizer, which the package alone reads; None where the text is not that of one model and no more.

    The package reads a model by itself where it unpickles one, of whatever kind.
    """
    model = package.models.BPE()
    try:
        model.__setstate__(text.encode())
    except Exception:  # it has no other
        return None
    _keep_no_words(model)
    return model


def _keep_no_words(model: Any) -> None:
    """Before the first text: BPE's table of words that were split already outlives its tokenizer (tokenizers 0.23).

    The package has no public way for a model that it reads itself; without this one it leaks 1.3 KB a tokenizer. Encoding
    takes 1.1 to 1.7 times as long for it (40 to 300,000 characters), which is little beside the tokens' own run.
    """
    if hasattr(model, "_resize_cache"):
        model._resize_cache(0)


def _added(package: Any, id: int, **token: Any) -> Any:
    """An added token; the package finds its number anew."""
    return package.AddedToken(**token)


def _without_package(published: Any, label: str, isolate: bool, error: ImportError) -> tuple[Any, int]:
    """The tokenizer in plain Python; raises RknnError when it is none that we can compute."""
    if isolate and not trusted(published):
        return IsolatedTokenizer(label, expressions(published)), -1
    try:
        return PlainTokenizer(published, (MARK,)), MARK_ID
    except NotHere as part:
        raise missing(
            "llm", f"{label}: {part} is not computed without the package tokenizers", error
        ) from None


def _id(pairs: dict[str, Value], key: str, count: int) -> int:
    value = pairs.get(key, -1)
    return value if type(value) is int and 0 <= value < count else -1


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
        value = parse_json(read_text(path))
    except (OSError, ValueError) as error:
        raise ModelInvalid(f"{path}: {error}") from None
    if not isinstance(value, dict) or not isinstance(value.get("model"), dict):
        raise ModelInvalid(f"{path}: not a tokenizer of the package tokenizers")
    return value
