"""Byte-level BPE in plain Python gives what the package ``tokenizers`` gives, and works where that is missing."""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rknnlite_llm.gguf import read_gguf, write_gguf
from rknnlite_llm.python_tokenizer.from_gguf import SPLITS, published_of
from rknnlite_llm.python_tokenizer.pipeline import PlainTokenizer
from rknnlite_llm.tokenizer import HF_JSON, Tokenizer

from rknnlite.errors import BackendUnavailable, ModelInvalid, ModelUnsupported
from tests.support.brothers import slow_unless
from tests.support.corpus import EXAMPLES

FILE = EXAMPLES / "llm_chat" / "models" / "tiny.tokenizer.gguf"
PAIRS = read_gguf(memoryview(FILE.read_bytes()), FILE.name)
PUBLISHED = json.loads(str(PAIRS[HF_JSON]))
WORDS = [
    "<|im_start|>",
    "<|im_end|>",
    "What",
    " is",
    "'s",
    "'LL",
    " \n\n ",
    "\r\n",
    "½Ⅷ",
    "中文",
    "é",
    "e\u0301",
    "\x1c",
    "\u3000",
]
texts = st.lists(st.sampled_from(WORDS) | st.text(max_size=4), max_size=12).map("".join)


def toy(added: list[dict[str, Any]] | None = None, **more: Any) -> PlainTokenizer:
    vocabulary = {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4, "bc": 5, "Ġ": 6}
    split = {"type": "Split", "pattern": {"Regex": r" ?\p{L}+|\s+"}, "behavior": "Isolated", "invert": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    return PlainTokenizer(
        {
            "added_tokens": added,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]},
            "decoder": level,
            "model": {"type": "BPE", "vocab": vocabulary, "merges": ["b c", "a b"], **more},
        }
    )


@pytest.mark.parametrize(
    ("text", "ids"), [("abc", [0, 5]), ("ab", [3]), ("cab bca", [2, 3, 6, 5, 0]), ("", [])]
)
def test_the_pair_that_was_learnt_first_is_joined_first(text: str, ids: list[int]) -> None:
    assert toy().encode(text).ids == ids


def test_whole_words_come_before_merges() -> None:
    assert toy(ignore_merges=True).encode("abc").ids == [4]


def test_of_added_tokens_the_longest_is_taken_and_special_ones_are_hidden() -> None:
    bpe = toy([{"content": "<a>", "id": 7}, {"content": "<a>b", "id": 8, "special": True}])
    assert bpe.encode("a<a>b<a>c").ids == [0, 8, 7, 2]
    assert bpe.decode([0, 8, 7, 2]) == "a<a>c"
    assert bpe.decode([0, 8, 7, 2], skip_special_tokens=False) == "a<a>b<a>c"


def settings_of(pre: str) -> dict[str, Any]:
    """The published tokenizer with the split of a family."""
    changed: dict[str, Any] = json.loads(json.dumps(PUBLISHED))
    if pre:
        changed["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = SPLITS[pre]
        changed["model"]["ignore_merges"] = pre == "llama-bpe"
        changed["normalizer"] = {"type": "NFC"}
    return changed


@pytest.mark.parametrize("pre", slow_unless(lambda pre: pre in ("", "qwen2", "llama-bpe"), ["", *SPLITS]))
def test_same_ids_and_texts_as_the_package(pre: str) -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="needs the package tokenizers (extra llm)")
    settings = settings_of(pre)
    theirs, ours = tokenizers.Tokenizer.from_str(json.dumps(settings)), PlainTokenizer(settings)

    @given(texts, st.lists(st.integers(0, len(settings["model"]["vocab"]) - 1), max_size=20))
    def agree(text: str, ids: list[int]) -> None:
        assert ours.encode(text).ids == theirs.encode(text, add_special_tokens=False).ids
        assert ours.decode(ids) == theirs.decode(ids)

    agree()


@pytest.mark.parametrize(
    "pre, split, whole",
    [
        ("glm4", "llama-bpe", True),
        ("refact", "smollm", False),
        ("deepseek-r1-qwen", "qwen2", False),
        ("gpt-2", "olmo", False),
        ("command-r", "smollm", False),
        ("starcoder", "smollm", False),
    ],
)
def test_names_of_llama_cpp_for_the_same_split(pre: str, split: str, whole: bool) -> None:
    pairs = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": ["a", "b"], "tokenizer.ggml.merges": []}
    made = published_of({**pairs, "tokenizer.ggml.pre": pre}, "file")
    assert made["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] == SPLITS[split]
    assert made["model"]["ignore_merges"] is whole
    with pytest.raises(ModelUnsupported, match="pre-tokenizer 'deepseek-llm'"):
        published_of({**pairs, "tokenizer.ggml.pre": "deepseek-llm"}, "file")


@pytest.fixture
def without_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)


@pytest.mark.usefixtures("without_package")
def test_a_session_has_a_tokenizer_without_the_package() -> None:
    tokenizer = Tokenizer(FILE)
    text = "<|im_start|>user\nWhat is 47 + 38?<|im_end|>\n"
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids, skip_special=False) == text
    assert len(ids) < len(text) // 2


@pytest.mark.usefixtures("without_package")
def test_the_missing_package_holds_no_caller() -> None:
    """An error that is kept keeps its frames, and these a model."""
    gc.collect()
    gc.disable()
    try:
        Tokenizer(FILE).encode("a")
        assert [held for held in gc.get_objects() if type(held) is ModuleNotFoundError] == []
    finally:
        gc.enable()


@pytest.mark.usefixtures("without_package")
def test_what_is_not_known_here_names_the_extra(tmp_path: Path) -> None:
    pairs = {**PAIRS, HF_JSON: json.dumps({**PUBLISHED, "normalizer": {"type": "Strange"}})}
    file = tmp_path / "x.tokenizer.gguf"
    file.write_bytes(write_gguf(pairs))
    with pytest.raises(BackendUnavailable, match=r"normalizer 'Strange'.*\(extra llm;"):
        Tokenizer(file)


@pytest.mark.usefixtures("without_package")
@pytest.mark.parametrize("split", ["(", "[", "a{9999999999999}"])
def test_a_broken_split_is_an_invalid_model(tmp_path: Path, split: str) -> None:
    settings = settings_of("")
    settings["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = split
    file = tmp_path / "x.tokenizer.gguf"
    file.write_bytes(write_gguf({**PAIRS, HF_JSON: json.dumps(settings)}))
    with pytest.raises(ModelInvalid, match="unusable tokenizer"):
        Tokenizer(file)
