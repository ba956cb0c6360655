"""Tokenizers in plain Python give what the package ``tokenizers`` gives, in every part that families of models use."""

from __future__ import annotations

import base64
import functools
import itertools
import json
import struct
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rknnlite_llm.python_tokenizer.from_gguf import SPLITS
from rknnlite_llm.python_tokenizer.pipeline import PlainTokenizer
from rknnlite_llm.python_tokenizer.regular_expressions import NotHere
from rknnlite_llm.streaming import TextPieces

from tests.support.texts import corpus, strings

pytestmark = pytest.mark.slow

tokenizers = pytest.importorskip("tokenizers", reason="needs the package tokenizers (extra llm)")
MARK = "\u2581"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
LLAMA = {
    "type": "Sequence",
    "normalizers": [
        {"type": "Prepend", "prepend": MARK},
        {"type": "Replace", "pattern": {"String": " "}, "content": MARK},
    ],
}
LLAMA_BACK = {
    "type": "Sequence",
    "decoders": [
        {"type": "Replace", "pattern": {"String": MARK}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ],
}
LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def added(text: str, number: int, **more: Any) -> dict[str, Any]:
    """An added token."""
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": number, "content": text, **plain, **more}


@functools.cache
def trained(kind: str, pre: str = "") -> str:
    """The model of a small tokenizer, as JSON."""
    special = ["<unk>", "<s>", "</s>"]
    if kind == "bpe":
        made = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>", byte_fallback=True))
        made.normalizer = tokenizers.normalizers.Replace(" ", MARK)
        made.pre_tokenizer = tokenizers.pre_tokenizers.Split(MARK, "merged_with_next")
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=900, special_tokens=[*special, *BYTES], limit_alphabet=150
        )
    elif kind == "level":
        made = tokenizers.Tokenizer(tokenizers.models.BPE())
        made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
        trainer = tokenizers.trainers.BpeTrainer(vocab_size=900, initial_alphabet=alphabet)
    elif kind == "unigram":
        made = tokenizers.Tokenizer(tokenizers.models.Unigram())
        made.normalizer = tokenizers.normalizers.NFKC()
        made.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
        trainer = tokenizers.trainers.UnigramTrainer(
            vocab_size=700, special_tokens=[*special, *BYTES], unk_token="<unk>", show_progress=False
        )
    else:
        made = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
        made.normalizer = tokenizers.normalizers.BertNormalizer()
        made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
        trainer = tokenizers.trainers.WordPieceTrainer(
            vocab_size=900, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], limit_alphabet=200
        )
    made.train_from_iterator(corpus(), trainer)
    return str(made.to_str())


def model(kind: str, **more: Any) -> dict[str, Any]:
    """A trained model with some settings changed."""
    return {**json.loads(trained(kind))["model"], **more}


def charsmap(table: dict[str, str]) -> str:
    """A small table of replacements as SentencePiece writes it: every unit of the double array lies in a block of its own."""
    texts, places = b"", {}
    for key, text in table.items():
        places[key.encode()] = len(texts)
        texts += text.encode() + b"\0"
    units: dict[int, int] = {}
    free = 1

    def place(at: int, prefix: bytes) -> None:
        nonlocal free
        block, free = free * 256, free + 1
        offset = at ^ block
        label = prefix[-1] if prefix else 0
        wide = offset >= 1 << 21
        assert not wide or offset % 256 == 0
        packed = (offset >> 8 << 10 | 1 << 9) if wide else offset << 10
        units[at] = packed | (1 << 8 if prefix in places else 0) | label
        if prefix in places:
            units[block] = 1 << 31 | places[prefix]
        for byte in sorted({key[len(prefix)] for key in places if key.startswith(prefix) and key != prefix}):
            place(block ^ byte, prefix + bytes([byte]))

    place(0, b"")
    packed = b"".join(struct.pack("<I", units.get(i, 0)) for i in range(free * 256))
    return base64.b64encode(struct.pack("<I", len(packed)) + packed + texts).decode()


TABLE = {
    "²": "2",
    "①": "1",
    "ﬁ": "fi",
    "½": "1\u20442",
    "\t": " ",
    "\n": " ",
    "\r": " ",
    "\u200b": " ",
    "\u3000": " ",
    "\x07": "x",
    "Ⅷ": "VIII",
    "e\u0301": "é",
    "ｶ": "カ",
}
XLM = {
    "type": "Sequence",
    "normalizers": [
        {"type": "Precompiled", "precompiled_charsmap": charsmap(TABLE)},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
    ],
}
BERT = {
    "type": "BertNormalizer",
    "clean_text": True,
    "handle_chinese_chars": True,
    "strip_accents": None,
    "lowercase": True,
}


def space(where: str, split: bool = True) -> dict[str, Any]:
    return {"type": "Metaspace", "replacement": MARK, "prepend_scheme": where, "split": split}


def split_by(pattern: str, behaviour: str = "Isolated", invert: bool = False) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behaviour, "invert": invert}


def row(*steps: dict[str, Any], key: str = "pretokenizers") -> dict[str, Any]:
    return {"type": "Sequence", key: list(steps)}


MARKS = [added("<s>", 1), added("</s>", 2)]
TEMPLATE = {
    "type": "TemplateProcessing", "pair": [],
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
               {"SpecialToken": {"id": "</s>", "type_id": 0}}],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}, "</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]}},
}  # fmt: skip


def numbered(vocabulary: dict[str, int], *tokens: dict[str, Any]) -> list[dict[str, Any]]:
    """Added tokens with the ids of the vocabulary, or those behind it."""
    new = itertools.count(len(vocabulary))
    return [{**token, "id": vocabulary.get(token["content"]) or next(new)} for token in tokens]


def cases() -> dict[str, dict[str, Any]]:
    """Tokenizers as the families have them, and one for each part besides."""
    level, unigram = model("level"), model("unigram")
    count = len(level["vocab"])
    chat = [
        added("<|im_start|>", count),
        added("<|im_end|>", count + 1),
        added("<tool>", count + 2, special=False),
    ]
    byte_level = {"decoder": LEVEL, "model": level, "added_tokens": chat}
    odd = numbered(
        model("bpe")["vocab"],
        added("<mask>", 0, lstrip=True),
        added("[MASK]", 0, rstrip=True, special=False),
        added("fox", 0, single_word=True),
        added("Über", 0, normalized=True, special=False),
        added("世界", 0, normalized=True, lstrip=True, rstrip=True),
    )
    made: dict[str, dict[str, Any]] = {
        "llama 2": {
            "normalizer": LLAMA,
            "decoder": LLAMA_BACK,
            "model": model("bpe", fuse_unk=True),
            "added_tokens": MARKS,
            "post_processor": TEMPLATE,
        },
        "gemma": {
            "normalizer": LLAMA["normalizers"][1],
            "pre_tokenizer": {
                "type": "Split",
                "pattern": {"String": " "},
                "behavior": "MergedWithPrevious",
                "invert": False,
            },
            "decoder": row(*LLAMA_BACK["decoders"][:3], key="decoders"),
            "model": model("bpe", fuse_unk=True),
            "added_tokens": MARKS,
        },
        "mistral, first": {
            "pre_tokenizer": space("first", False),
            "decoder": LLAMA_BACK,
            "model": model("bpe"),
            "added_tokens": MARKS,
        },
        "odd added tokens": {
            "normalizer": {"type": "Lowercase"},
            "pre_tokenizer": space("always"),
            "decoder": space("always"),
            "model": model("bpe", byte_fallback=False),
            "added_tokens": [*MARKS, *odd],
        },
        "unknown one by one": {
            "normalizer": LLAMA,
            "decoder": LLAMA_BACK,
            "model": model("bpe", byte_fallback=False, fuse_unk=False),
        },
        "no unknown": {
            "pre_tokenizer": {"type": "WhitespaceSplit"},
            "model": model("bpe", byte_fallback=False, unk_token=None),
        },
        "xlm-roberta": {
            "normalizer": XLM,
            "pre_tokenizer": space("always"),
            "decoder": space("always"),
            "model": unigram,
            "added_tokens": [
                *MARKS,
                *numbered(
                    {token: i for i, (token, _) in enumerate(unigram["vocab"])},
                    added("<mask>", 0, lstrip=True),
                ),
            ],
            "post_processor": TEMPLATE,
        },
        "t5": {
            "normalizer": row(XLM, {"type": "NFKC"}, {"type": "Nmt"}, key="normalizers"),
            "model": {**unigram, "byte_fallback": True},
            "pre_tokenizer": row({"type": "WhitespaceSplit"}, space("first")),
            "decoder": LLAMA_BACK,
        },
        "unigram, whole": {"normalizer": LLAMA, "decoder": LLAMA_BACK, "model": unigram},
        "bert": {
            "normalizer": BERT,
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "model": model("wordpiece"),
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
            "added_tokens": [added("[MASK]", 4), added("[CLS]", 2)],
            "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
        },
        "bert, cased": {
            "normalizer": {**BERT, "lowercase": False, "strip_accents": False},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "model": model("wordpiece", max_input_chars_per_word=6),
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": False},
        },
        "gpt-2": {**byte_level, "pre_tokenizer": {**LEVEL, "use_regex": True}},
        "roberta": {
            **byte_level,
            "pre_tokenizer": {**LEVEL, "add_prefix_space": True, "use_regex": True},
            "post_processor": {
                "type": "RobertaProcessing",
                "sep": ["a", 2],
                "cls": ["b", 0],
                "trim_offsets": True,
                "add_prefix_space": True,
            },
        },
        "o200k": {**byte_level, "pre_tokenizer": row(split_by(O200K, "Removed", True), LEVEL)},
        "deepseek": {
            **byte_level,
            "pre_tokenizer": row(
                split_by(r"\p{N}{1,3}"),
                split_by("[一-龥぀-ゟ゠-ヿ]+"),
                split_by(
                    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"
                    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
                ),
                LEVEL,
            ),
        },
        "smollm": {
            **byte_level,
            "pre_tokenizer": row({"type": "Digits", "individual_digits": True}, {**LEVEL, "use_regex": True}),
        },
        "deepseek coder": {
            **byte_level,
            "pre_tokenizer": row(
                split_by("[\r\n]"),
                split_by(r"\s?\p{L}+"),
                split_by(r"\s?\p{P}+"),
                {"type": "Digits", "individual_digits": False},
                LEVEL,
            ),
        },
        "modernbert": {
            **byte_level,
            "normalizer": {"type": "NFC"},
            "pre_tokenizer": {**LEVEL, "use_regex": True},
        },
        "bytes first": {
            **byte_level,
            "normalizer": row({"type": "NFD"}, {"type": "ByteLevel"}, key="normalizers"),
        },
        "ends of words": {
            "pre_tokenizer": row({"type": "Whitespace"}, {"type": "FixedLength", "length": 5}),
            "model": model("bpe", end_of_word_suffix="</w>", byte_fallback=False, merges=[]),
            "decoder": {"type": "BPEDecoder", "suffix": "</w>"},
        },
        "normalizers": {
            **byte_level,
            "normalizer": row(
                {"type": "Strip", "strip_left": False, "strip_right": True},
                {"type": "NFKD"},
                {"type": "StripAccents"},
                key="normalizers",
            ),
            "pre_tokenizer": row({"type": "CharDelimiterSplit", "delimiter": "a"}, LEVEL),
        },
    }
    for behaviour in ("Removed", "Isolated", "Contiguous", "MergedWithPrevious", "MergedWithNext"):
        steps = row({"type": "Punctuation", "behavior": behaviour}, split_by(r"\s+|\d", behaviour), LEVEL)
        made[behaviour] = {**byte_level, "pre_tokenizer": steps}
    for pre, pattern in SPLITS.items():
        made[pre] = {**byte_level, "pre_tokenizer": row(split_by(pattern), LEVEL)}
    return made


CASES = cases()


def published(name: str) -> dict[str, Any]:
    """A whole ``tokenizer.json``."""
    empty = dict.fromkeys(
        ["truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder"]
    )
    return {"version": "1.0", "added_tokens": [], **empty, **CASES[name]}


def both(name: str) -> tuple[Any, PlainTokenizer]:
    """Theirs and ours."""
    theirs = tokenizers.Tokenizer.from_str(json.dumps(published(name)))
    return theirs, PlainTokenizer(published(name))


@pytest.mark.parametrize("name", CASES)
def test_two_thousand_texts_have_the_ids_and_the_text_of_the_package(name: str) -> None:
    theirs, ours = both(name)
    started = time.process_time()
    for text in strings():
        for special in (False, True):
            ids = theirs.encode(text, add_special_tokens=special).ids
            assert ours.encode(text, special).ids == ids, (text, theirs.encode(text).tokens)
        for hidden in (False, True):
            assert ours.decode(ids, hidden) == theirs.decode(ids, skip_special_tokens=hidden), text
    assert time.process_time() - started < 30


def test_digits_by_themselves_in_one_expression() -> None:
    """SmolLM's and Granite's own tokenizers cut digits off first, then words as GPT-2 does."""
    digits, level = {"type": "Digits", "individual_digits": True}, {**LEVEL, "use_regex": True}
    theirs = tokenizers.Tokenizer.from_str(
        json.dumps({**published("smollm"), "pre_tokenizer": row(digits, level)})
    )
    ours = PlainTokenizer(published("smollm"))
    assert SPLITS["gpt-4o"] == O200K
    for text in (*corpus(), *strings(1000, 3)):
        assert ours.encode(text).ids == theirs.encode(text).ids, text


@pytest.mark.parametrize("name", ["llama 2", "gemma", "xlm-roberta", "bert", "odd added tokens", "o200k"])
def test_any_text_and_any_ids(name: str) -> None:
    theirs, ours = both(name)
    known = [chr(i) for i in (*range(0x250), *range(0x370, 0x500), 0x4E2D, 0x1F600, 0xFE0F, 0x200D, 0x2581)]
    parts = st.sampled_from([*known, "<s>", "<mask>", "[MASK]", "fox", "Über", "世界", "  "])

    @settings(deadline=None)
    @given(
        st.lists(parts, max_size=20).map("".join),
        st.lists(st.integers(0, theirs.get_vocab_size() - 1), max_size=20),
    )
    def agree(text: str, ids: list[int]) -> None:
        assert ours.encode(text).ids == theirs.encode(text, add_special_tokens=False).ids
        assert ours.decode(ids) == theirs.decode(ids)

    agree()


@pytest.mark.parametrize("name", ["llama 2", "xlm-roberta", "bert", "gpt-2", "t5"])
def test_a_stream_of_tokens_becomes_the_text_of_all(name: str) -> None:
    theirs, ours = both(name)
    for text in strings(120, seed=3):
        ids = ours.encode(text).ids
        pieces = TextPieces(ours.decode)
        streamed = "".join([*(pieces.push([number]) for number in ids), pieces.push([], last=True)])
        assert streamed == theirs.decode(ids)


@pytest.mark.parametrize("name", ["llama 2", "mistral, first", "unigram, whole", "bert", "gpt-2"])
def test_the_time_grows_with_the_text_alone(name: str) -> None:
    """100 kB, for some one word of that length."""
    ours = PlainTokenizer(published(name))
    text = ("".join(strings(2000)) * 2)[:60_000]
    assert len(text.encode()) > 100_000

    def seconds(part: str) -> float:
        started = time.process_time()
        ours.encode(part)
        return time.process_time() - started

    seconds(text[:1000])
    assert seconds(text) < 8 and seconds("a" * 100_000) < 8


@pytest.mark.parametrize(
    ("part", "what"),
    [
        ({"normalizer": {"type": "Strange"}}, "normalizer 'Strange'"),
        ({"pre_tokenizer": {"type": "UnicodeScripts"}}, "pre_tokenizer 'UnicodeScripts'"),
        ({"decoder": {"type": "CTC"}}, "decoder 'CTC'"),
        ({"model": {"type": "Strange", "vocab": {}}}, "model 'Strange'"),
        ({"model": {"type": "BPE", "vocab": {}, "merges": [], "dropout": 0.1}}, "dropout 0.1"),
        ({"pre_tokenizer": split_by(r"\p{Han}+")}, r"p\{Han\}"),
        ({"pre_tokenizer": split_by(r"\w+")}, r"\\w"),
        ({"pre_tokenizer": split_by(r"[a-z&&[^b]]")}, "&&"),
        ({"pre_tokenizer": split_by(r"[[:alpha:]]")}, r"\["),
        ({"pre_tokenizer": split_by(r"^a")}, r"\^"),
        ({"pre_tokenizer": split_by(r"(?m:a.)")}, r"\(\?m:"),
    ],
)
def test_what_is_not_computed_here_is_refused_by_name(part: dict[str, Any], what: str) -> None:
    with pytest.raises(NotHere, match=what):
        PlainTokenizer({**published("gpt-2"), **part})


@pytest.mark.parametrize(
    "part",
    [
        {"added_tokens": [added("a", 5), added("b", -1)]},
        {"model": {"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": 7}},
        {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}},
        {
            "model": {
                "type": "WordPiece",
                "vocab": {},
                "unk_token": "?",
                "continuing_subword_prefix": "",
                "max_input_chars_per_word": 9,
            }
        },
        {
            "normalizer": {
                "type": "Precompiled",
                "precompiled_charsmap": base64.b64encode(b"\xff\xff\0\0" * 2).decode(),
            }
        },
    ],
)
def test_a_damaged_tokenizer_is_an_error(part: dict[str, Any]) -> None:
    with pytest.raises((ValueError, KeyError)):
        PlainTokenizer({**published("gpt-2"), **part})
