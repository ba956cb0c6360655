"""As much of the package of that name as the scripts beside it use, on top of ``tokenizers``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tokenizers


class _Encoding(dict):
    @property
    def input_ids(self) -> Any:
        return self["input_ids"]


class AutoTokenizer:
    """A tokenizer read from the ``tokenizer.json`` of a directory."""

    def __init__(self, directory: str) -> None:
        self._tokenizer = tokenizers.Tokenizer.from_file(str(Path(directory) / "tokenizer.json"))

    @classmethod
    def from_pretrained(cls, directory: str) -> AutoTokenizer:
        return cls(directory)

    def __call__(self, text: str, return_tensors: str = "np", truncation: bool = True) -> _Encoding:
        return _Encoding(input_ids=np.array([self._tokenizer.encode(text).ids], np.int64))

    def decode(self, ids: Any, skip_special_tokens: bool = False, **_: Any) -> str:
        return self._tokenizer.decode(list(ids), skip_special_tokens=skip_special_tokens)

    def apply_chat_template(self, messages: Any, tokenize: bool, add_generation_prompt: bool) -> str:
        turns = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
        return turns + ("<|im_start|>assistant\n" if add_generation_prompt else "")
