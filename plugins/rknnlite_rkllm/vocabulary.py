"""The tokenizer beside a ``.rkllm`` file, as far as conversations need it: the template, and how many tokens there are.

``PREFIX.tokenizer.gguf`` is llama.cpp's form of a tokenizer; that in the ``.rkllm`` file itself is masked.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rknnlite_llm.gguf import read_gguf
from rknnlite_llm.package import Package, file_bytes

__all__ = ["Vocabulary"]


@dataclass(frozen=True)
class Vocabulary:
    """``size`` 0 and an empty ``template`` are not known; ``marks`` begin a text and end an answer."""

    size: int = 0
    template: str = ""
    marks: tuple[str, str] = ("", "")

    @classmethod
    def beside(cls, model: Path) -> Vocabulary:
        """Of the file beside a model, if there is one; raises ModelInvalid for a damaged one."""
        path = Package.of(model).tokenizer
        if not path.is_file():
            return cls()
        pairs = read_gguf(file_bytes(path), str(path))
        tokens, template = pairs.get("tokenizer.ggml.tokens"), pairs.get("tokenizer.chat_template")
        known = tokens if isinstance(tokens, list) else []
        marks = [_mark(known, pairs.get(f"tokenizer.ggml.{word}_token_id")) for word in ("bos", "eos")]
        return cls(len(known), template if isinstance(template, str) else "", (marks[0], marks[1]))


def _mark(tokens: list[str], number: object) -> str:
    return tokens[number] if isinstance(number, int) and 0 <= number < len(tokens) else ""
