"""Tokenizers come with the model: what their regular expressions do is limited and ends with a typed error."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from rknnlite_llm.gguf import read_gguf, write_gguf
from rknnlite_llm.isolated_tokenizer import IsolatedTokenizer, trusted
from rknnlite_llm.plain_text import MARK
from rknnlite_llm.python_tokenizer.from_gguf import SPLITS
from rknnlite_llm.tokenizer import HF_JSON, Tokenizer

from rknnlite import config
from rknnlite.errors import ModelInvalid, ParamInvalid
from rknnlite.spi.llm import (
    CallState,
    InferParams,
    LlmCallbacks,
    LlmContext,
    LlmParams,
    PromptInput,
    VocabInfo,
)
from tests.llm.conftest import Maker, embed_of
from tests.support.corpus import EXAMPLES

FILE = EXAMPLES / "llm_chat" / "models" / "tiny.tokenizer.gguf"
PAIRS = read_gguf(memoryview(FILE.read_bytes()), FILE.name)
PUBLISHED = json.loads(str(PAIRS[HF_JSON]))
HOSTILE = "(a+)+b|[^b]"
"""Exponential where no b follows; just below what the package itself would give up at, again and again."""
ENDLESS = ("a" * 18 + " ") * 20_000 + "b"


def file_with(tmp_path: Path, **changes: Any) -> Path:
    """The example's tokenizer, changed."""
    path = tmp_path / "x.tokenizer.gguf"
    path.write_bytes(write_gguf({**PAIRS, HF_JSON: json.dumps({**PUBLISHED, **changes})}))
    return path


def split_by(pattern: str) -> dict[str, Any]:
    """Changes that cut texts by ``pattern``."""
    steps = json.loads(json.dumps(PUBLISHED["pre_tokenizer"]))
    steps["pretokenizers"][0]["pattern"]["Regex"] = pattern
    return {"pre_tokenizer": steps}


@pytest.fixture
def a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RKNNLITE_TOKENIZER_MS", "1000")


@pytest.mark.slow
@pytest.mark.usefixtures("a_second")
def test_a_hostile_split_is_ended_and_named(tmp_path: Path) -> None:
    file = file_with(tmp_path, **split_by(HOSTILE))
    tokenizer = Tokenizer(file)
    for _ in range(2):
        with pytest.raises(ModelInvalid, match="longer than 1 s to encode 380001 characters") as caught:
            tokenizer.encode(ENDLESS)
        assert str(file) in str(caught.value) and HOSTILE in str(caught.value)
        assert "tokenizer_ms" in str(caught.value)
    assert tokenizer.decode(tokenizer.encode("usable afterwards")) == "usable afterwards"


@pytest.mark.slow
@pytest.mark.usefixtures("a_second")
def test_a_hostile_split_is_ended_without_the_package(tmp_path: Path) -> None:
    """``re`` knows no limit at all; here the process gets the plain tokenizer, as where nothing else is installed."""
    (tmp_path / "tokenizers.py").write_text("raise ImportError('not installed')")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        tokenizer = Tokenizer(file_with(tmp_path, **split_by(HOSTILE)))
        with pytest.raises(ModelInvalid, match="longer than 1 s"):
            tokenizer.encode("a" * 200)


@pytest.mark.slow
@pytest.mark.usefixtures("a_second")
def test_a_normalizer_that_doubles_without_end(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    double = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
    tokenizer = Tokenizer(file_with(tmp_path, normalizer={"type": "Sequence", "normalizers": [double] * 48}))
    with pytest.raises(ModelInvalid, match=r"used up its memory or crashed|longer than"):
        tokenizer.encode("aaaa")
    assert tokenizer.encode("b")


def test_the_package_giving_up_is_a_typed_error(tmp_path: Path) -> None:
    """It ends the search after ten million steps by an exception that is no Exception."""
    pytest.importorskip("tokenizers")
    tokenizer = Tokenizer(file_with(tmp_path, **split_by(HOSTILE)))
    with pytest.raises(ModelInvalid, match="retry-limit-in-match"):
        tokenizer.encode("a" * 40 + "cb")


@pytest.mark.parametrize("pattern", [r"[a-z]+|.", r"\p{L}+(?=\s)|\p{L}|\s"])
def test_unknown_splits_give_the_same_tokens_apart(tmp_path: Path, pattern: str) -> None:
    file = file_with(tmp_path, **split_by(pattern))
    apart, here = Tokenizer(file), Tokenizer(file, isolate=False)
    assert isinstance(apart._tokenizer, IsolatedTokenizer)
    text = "<|im_start|>What is 2+2?\nßü \ud800"
    assert apart.encode(text) == here.encode(text)
    assert apart.decode(apart.encode(text)) == here.decode(here.encode(text))


def test_a_broken_split_is_refused_when_the_file_is_opened(tmp_path: Path) -> None:
    with pytest.raises(ModelInvalid, match="unusable tokenizer"):
        Tokenizer(file_with(tmp_path, **split_by("(")))


def _written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "x.tokenizer.gguf"
    path.write_bytes(write_gguf({**PAIRS, HF_JSON: text}))
    return path


def test_a_known_tokenizer_is_read_by_the_package_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its model, which is nearly all of it, is not read in Python before; that took as long as the package itself."""
    tokenizers = pytest.importorskip("tokenizers")
    whole = tokenizers.Tokenizer.from_str(json.dumps(PUBLISHED))
    whole.add_tokens([tokenizers.AddedToken(MARK, normalized=False)])
    file = _written(tmp_path, json.dumps(PUBLISHED, indent=2) + "\n")
    monkeypatch.setattr(json, "loads", lambda text: pytest.fail(f"{len(text)} characters are read in Python"))
    made = Tokenizer(file)._tokenizer
    assert made.to_str() == whole.to_str()


def test_steps_behind_the_model_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the hostile split stands, and whatever stood before it; a text that is cut is refused."""
    monkeypatch.setattr("rknnlite_llm.tokenizer.IsolatedTokenizer", lambda label, patterns: patterns)
    steps, model = split_by(HOSTILE)["pre_tokenizer"], json.dumps(PUBLISHED["model"])
    twice = f'{json.dumps(PUBLISHED)[:-1]}, "pre_tokenizer": {json.dumps(steps)}}}'
    first = f'{{"model": {model}, {json.dumps({**PUBLISHED, "pre_tokenizer": steps})[1:]}'
    for text in (twice, first):
        assert HOSTILE in Tokenizer(_written(tmp_path, text))._tokenizer
    whole = json.dumps(PUBLISHED)
    for cut in (whole[:-1], whole[:-2], f"{whole[:-1]}, ", whole + "}", "", "{"):
        with pytest.raises(ModelInvalid, match="unusable tokenizer"):
            Tokenizer(_written(tmp_path, cut))


def test_members_in_another_order_give_the_same_tokens(tmp_path: Path) -> None:
    turned = json.dumps(dict(reversed(PUBLISHED.items())))
    text = "<|im_start|>What is 2+2?\nßü"
    assert Tokenizer(_written(tmp_path, turned)).encode(text) == Tokenizer(FILE).encode(text)


def test_known_tokenizers_compute_here() -> None:
    assert not isinstance(Tokenizer(FILE)._tokenizer, IsolatedTokenizer)
    assert all(trusted({**PUBLISHED, **split_by(pattern)}) for pattern in SPLITS.values())
    space = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    assert trusted({**PUBLISHED, "normalizer": space}) and trusted(
        {**PUBLISHED, "normalizer": {"type": "NFC"}}
    )
    assert not trusted({**PUBLISHED, "normalizer": {**space, "content": "x" * 1000}})
    assert not trusted({**PUBLISHED, "decoder": {**space, "pattern": {"Regex": "(a+)+b"}}})


def test_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "tokenizer_ms" in config.KEYS
    monkeypatch.setenv("RKNNLITE_TOKENIZER_MS", "soon")
    with pytest.raises(ParamInvalid, match="RKNNLITE_TOKENIZER_MS"):
        Tokenizer(file_with(tmp_path, **split_by(HOSTILE)))


def test_stopping_a_session_ends_its_tokenizer(tmp_path: Path, context: LlmContext, package: Maker) -> None:
    """Ten seconds are the tokenizer's limit; the session does not wait for it."""
    tokenizer = Tokenizer(file_with(tmp_path, **split_by(HOSTILE)))
    assert isinstance(tokenizer._tokenizer, IsolatedTokenizer)
    callbacks = LlmCallbacks(embed=embed_of(package()), tokenizer=tokenizer)
    with context.session(LlmParams(vocab=VocabInfo(ignore_eos_token=True)), callbacks) as session:
        future = session.run_async(PromptInput(ENDLESS), InferParams(max_new_tokens=2))
        while tokenizer._tokenizer._asking is None:
            assert not future.done()
            time.sleep(0.01)
        session.stop()
        assert future.result(60).state == CallState.STOP
        assert tokenizer.decode(tokenizer.encode("usable afterwards")) == "usable afterwards"


def test_a_stop_is_for_the_threads_of_the_session_alone(tmp_path: Path) -> None:
    tokenizer = Tokenizer(file_with(tmp_path, **split_by(HOSTILE)))
    asked = threading.Thread(target=lambda: tokenizer.encode("short"))
    asked.start()
    tokenizer.end_encoding({threading.get_ident()})
    asked.join()
    assert tokenizer._tokenizer._child.alive  # type: ignore[union-attr]
    tokenizer.end_encoding(())
    assert tokenizer.encode("short")
