"""Packages of tiny models with a byte-level tokenizer, made once per test process, and an open face on them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_llm import Package, export_llm
from rknnlite_llm.python_tokenizer.characters import byte_letters

from rknn3lite.api import RKLLMCallback, RKNN3Lite
from tests.support.llm_models import write_model
from tests.support.needs import needs

SPECIALS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|image_pad|>",
    "<|vision_start|>",
    "<|vision_end|>",
)
VOCAB, HIDDEN = 320, 32
IMAGE = 256 + SPECIALS.index("<|image_pad|>")
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write_tokenizer(folder: Path, special: dict[str, int] | None = None) -> Path:
    """A ``tokenizer.json`` whose tokens are single bytes and the special ones."""
    special = special or {text: 256 + i for i, text in enumerate(SPECIALS)}
    added = [
        {"id": i, "content": text, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False}
        for text, i in special.items()
    ]  # fmt: skip
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    tokenizer = {
        "version": "1.0",
        "added_tokens": added,
        "pre_tokenizer": level,
        "decoder": level,
        "model": {"type": "BPE", "vocab": byte_letters(), "merges": []},
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    settings = {"eos_token": "<|im_end|>", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    """A Qwen2 model in float16, whose table programs read themselves, with its tokenizer."""
    folder = tmp_path_factory.mktemp("rknn3")
    write_model(folder / "hf", "qwen2", vocab_size=VOCAB, eos_token_id=VOCAB - 1)
    write_tokenizer(folder / "hf")
    return export_llm(folder / "hf", folder / "tiny", "f16", max_context=256)


class Talk:
    """A result callback in the vendor's style that remembers; ``plan`` are ids that a sampling callback chooses."""

    def __init__(self, package: Package) -> None:
        self.table = np.fromfile(package.embed, np.float16).reshape(-1, HIDDEN)
        self.calls: list[tuple[list[int], int]] = []
        self.texts: list[str] = []
        self.plan: list[int] = []

    @property
    def tokens(self) -> list[int]:
        return [token for tokens, _ in self.calls for token in tokens]

    @property
    def states(self) -> list[int]:
        return [state for _, state in self.calls]

    def result(self, userdata: Any, result: Any, state: int) -> int:
        ids = result.contents
        self.calls.append(([ids.token_ids[i] for i in range(ids.num_tokens)], state))
        return 0

    def tokenizer(self, userdata: Any, text: bytes, length: int, tokens: Any, room: int) -> int:
        self.texts.append(text.decode())
        for i, byte in enumerate(text):
            tokens[i] = byte
        return length

    def embed(self, userdata: Any, tokens: Any, count: int, out: Any, length: int) -> int:
        import ctypes

        rows = np.ascontiguousarray(self.table[[tokens[i] for i in range(count)]])
        assert rows.nbytes == length
        ctypes.memmove(out, rows.ctypes.data, length)
        return 0

    def sampling(self, userdata: Any, logits: Any, name: bytes) -> int:
        return self.plan.pop(0)

    def callback(self, **changes: Any) -> RKLLMCallback:
        """The structure; a keyword replaces one function, or leaves it out (None)."""
        callback = RKLLMCallback()
        given = {"result": self.result, "tokenizer": self.tokenizer, "embed": self.embed, **changes}
        for name, function in given.items():
            setattr(callback, f"{name}_callback", function)
        return callback


@pytest.fixture
def talk(package: Package) -> Talk:
    return Talk(package)


Opener = Callable[..., RKNN3Lite]
ARGS = {"max_new_tokens": 5, "ignore_eos_token": True, "max_context_len": 256}


@pytest.fixture
def extras() -> None:
    """What a session needs: its template, and the tokenizer of the package."""
    needs("jinja2", "tokenizers")


@pytest.fixture
def opened(package: Package, talk: Talk, extras: None) -> Iterator[Opener]:
    """``opened(args={...}, callback=...)``: a face on the tiny model; released at the end."""
    faces: list[RKNN3Lite] = []

    def open_face(args: Any = None, callback: Any = None, **options: Any) -> RKNN3Lite:
        rknn = RKNN3Lite(llm_mode=True)
        faces.append(rknn)
        assert rknn.load_rknn(str(package.model), str(package.weight)) == 0
        arguments = {**ARGS, **(args or {})}
        assert rknn.init_runtime("rk1820", 0xFF, [arguments], callback or talk.callback(), **options) == 0
        return rknn

    yield open_face
    for rknn in faces:
        rknn.release()


@pytest.fixture
def rknn(opened: Opener) -> RKNN3Lite:
    return opened()
