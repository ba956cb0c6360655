"""Tokenizers whose regular expressions nobody knows, in a process of their own that ends when it takes too long.

How a text is cut comes with the model, so it is as trustworthy as the file. No library that computes such expressions
can be told to stop, and a hostile one may try more ways than there is time for. Expressions of the known families need
time in proportion to the text; everything else computes over there.
"""

from __future__ import annotations

import base64
import json
import math
import socket
import struct
import subprocess
import threading
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from rknnlite_programs.childprocess import ChildProcess, exactly

from rknnlite.errors import ModelInvalid, RknnError, RunTimeout, shown
from rknnlite.files.json_text import parse_json
from rknnlite.native.processes import python_main

from .python_tokenizer.from_gguf import SPLITS
from .python_tokenizer.from_sentencepiece import ENDS
from .python_tokenizer.pipeline import Encoded
from .template_budget import RenderStopped, whole_setting

__all__ = ["IsolatedTokenizer", "expressions", "receive", "send", "trusted"]

_KNOWN = {
    *SPLITS.values(),
    r"\p{N}| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+",
    r"\p{N}{1,3}",
    r"\p{N}",
    r"\d",
    r"[0-9]",
    r"\s+$",
    " {2,}",
    ENDS,
}
_LONGEST_WORD = 1000
"""Characters of a word that WordPiece tries all beginnings of: time goes with the square."""
_MOST_GROWTH = 16
"""Characters that a trusted normalizer may make of one."""
_MILLISECONDS, _START_LIMIT = 10_000, 60.0
_LENGTH = struct.Struct("<I")
_LARGEST = 256 << 20  # bytes of a message


def _members(tree: Any) -> Iterator[Mapping[str, Any]]:
    """All objects of a JSON tree."""
    left = [tree]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            yield value
            left.extend(value.values())
        elif isinstance(value, list):
            left.extend(value)


def _steps(published: Mapping[str, Any]) -> list[Any]:
    return [published.get(key) for key in ("normalizer", "pre_tokenizer", "decoder", "post_processor")]


def expressions(published: Any) -> list[str]:
    """The regular expressions of a parsed ``tokenizer.json``."""
    steps = _steps(published) if isinstance(published, dict) else []
    return [str(member["Regex"]) for member in _members(steps) if "Regex" in member]


def trusted(published: Any) -> bool:
    """Whether a parsed ``tokenizer.json`` needs time and memory in proportion to the text."""
    model = published.get("model") if isinstance(published, dict) else None
    longest = model.get("max_input_chars_per_word", 100) if isinstance(model, dict) else 100
    if type(longest) is not int or longest > _LONGEST_WORD:
        return False
    growth = 1.0
    for member in _members(_steps(published) if isinstance(published, dict) else []):
        content, pattern = member.get("content"), member.get("pattern")
        if member.get("type") == "Replace" and isinstance(content, str):
            plain = pattern.get("String") if isinstance(pattern, dict) else None
            growth *= max(1.0, len(content) / max(1, len(str(plain or ""))))
        elif member.get("type") == "Precompiled":
            growth *= _growth(member.get("precompiled_charsmap"))
    return growth <= _MOST_GROWTH and all(text in _KNOWN for text in expressions(published))


def _growth(charsmap: Any) -> float:
    """How much longer SentencePiece's table makes a text at most: it replaces characters by texts that end in a zero byte.

    The longest one of the published tables stands for a character of three bytes.
    """
    try:
        data = base64.b64decode(charsmap, validate=True)
        (trie,) = _LENGTH.unpack_from(data)
    except (TypeError, ValueError, struct.error):
        return 1.0 if charsmap is None else math.inf
    texts = data[_LENGTH.size + trie :].split(b"\0")
    return max(1.0, max(map(len, texts)) / 3)


@dataclass
class IsolatedTokenizer:
    """``encode`` and ``decode`` of a tokenizer that a process of its own reads from ``path``; any thread may call.

    Raises ModelInvalid for a file or a text that it cannot use, also when time or memory are used up; the next call
    starts anew. ``patterns`` are for messages.
    """

    path: str
    patterns: Sequence[str]

    def __post_init__(self) -> None:
        self._limit = whole_setting("tokenizer_ms", _MILLISECONDS) / 1000
        self._lock = threading.Lock()
        self._child: Optional[ChildProcess] = None
        self._asking: Optional[int] = None  # the thread that waits for an answer
        self._ended = False
        with self._lock:
            self._running()

    def encode(self, text: str, add_special_tokens: bool = False) -> Encoded:
        """Token ids of a text."""
        answer = self._ask("encode", [text, add_special_tokens], len(text))
        if not isinstance(answer, list) or not all(type(number) is int for number in answer):
            raise ModelInvalid(f"{self.path}: the tokenizer answered no tokens")
        return Encoded(answer)

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Text of some tokens."""
        return str(self._ask("decode", [list(ids), skip_special_tokens], len(ids)))

    def end(self, threads: Container[int]) -> None:
        """End what one of these threads computes, in which RenderStopped is raised; any thread may call."""
        child = self._child
        if child is not None and self._asking in threads:
            self._ended = True
            child.end()

    def _ask(self, step: str, argument: Any, size: int) -> Any:
        with self._lock:
            child = self._running()
            self._ended, self._asking = False, threading.get_ident()
            try:
                answer = _exchange(child, step, {step: argument}, self._limit)
            except RunTimeout:
                raise ModelInvalid(
                    f"{self.path}: the tokenizer took longer than {self._limit:g} s to {step} {size} "
                    f"{'characters' if step == 'encode' else 'tokens'} and was ended; it uses the regular expressions "
                    f"{self._shown()}. Take the model from a source that you trust, or allow more (setting tokenizer_ms)"
                ) from None
            except RknnError as error:
                if self._ended:
                    raise RenderStopped from None
                raise ModelInvalid(
                    f"{self.path}: the tokenizer used up its memory or crashed ({error}); it uses the regular expressions "
                    f"{self._shown()}. Take the model from a source that you trust"
                ) from None
            finally:
                self._asking = None
        if "result" not in answer:
            raise ModelInvalid(
                f"{self.path}: unusable tokenizer: {answer.get('error')}; it uses {self._shown()}"
            )
        return answer["result"]

    def _shown(self) -> str:
        return ", ".join(shown(pattern) for pattern in self.patterns[:3]) or "none"

    def _running(self) -> ChildProcess:
        """The process; it ends with this object, and a fork of this program gets one of its own."""
        if self._child is None or not self._child.alive:
            child = ChildProcess(
                "tokenizer", python_main(f"{__package__}.tokenizer_process"), stderr=subprocess.DEVNULL
            )
            answer = _exchange(child, "open", {"open": self.path}, _START_LIMIT)
            if "result" not in answer:
                child.close()
                raise ModelInvalid(str(answer.get("error")))
            self._child = child
        return self._child


def _exchange(child: ChildProcess, step: str, request: Any, limit: float) -> dict[str, Any]:
    with child.exchange(step, limit) as sock:
        send(sock, request)
        answer = receive(sock)
        if not isinstance(answer, dict):
            raise EOFError("an answer that is no object")
        return answer


def send(sock: socket.socket, message: Any) -> None:
    """One message to the other side."""
    data = json.dumps(message).encode()
    sock.sendall(_LENGTH.pack(len(data)) + data)


def receive(sock: socket.socket) -> Any:
    """The message that the other side sends; EOFError when that is gone, or sends what is none."""
    (size,) = _LENGTH.unpack(exactly(sock, _LENGTH.size))
    if size > _LARGEST:
        raise EOFError(f"a message of {size} bytes")
    try:
        return parse_json(exactly(sock, size))
    except ValueError as error:
        raise EOFError(f"a message that cannot be read: {error}") from None
