"""Mel frames, resampling and vocabularies.

``test_transformers.py`` compares them with the published implementation where that is installed.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from rknnlite_speech.characters import parts, read_characters
from rknnlite_speech.mel import log_mel
from rknnlite_speech.resampling import resampled
from rknnlite_speech.vocabulary import SpecialTokens, read_vocabulary

from rknnlite.errors import ModelInvalid

from .conftest import noise, tone

GOLDEN = Path(__file__).parent / "data" / "mel.npz"


def test_mel_frames_are_those_that_transformers_computed_once() -> None:
    """For machines without it: every tenth frame of a second of sound."""
    kept = np.load(GOLDEN)["frames"]
    np.testing.assert_allclose(log_mel(noise(1.0).samples, 80, 3000)[:, :100:10], kept, atol=2e-3)  # float16


@pytest.mark.parametrize("rate", [8000, 11_025, 22_050, 24_000, 44_100, 48_000, 96_000, 16_001])
def test_a_tone_is_the_same_tone_at_another_rate(rate: int) -> None:
    found = resampled(tone(0.5, rate), 16_000)
    assert found.rate == 16_000 and len(found.samples) == -(-round(0.5 * rate) * 16_000 // rate)
    wanted = tone(0.5).samples
    inside = slice(1000, len(wanted) - 1000)  # beside the ends, where sound begins at once
    np.testing.assert_allclose(found.samples[inside], wanted[inside], atol=2e-4)


def test_what_a_rate_cannot_hold_is_gone() -> None:
    found = resampled(tone(0.5, 48_000, hz=12_000), 16_000)
    assert np.abs(found.samples[1000:-1000]).max() < 1e-3


@pytest.mark.slow
def test_resampling_is_as_good_as_that_of_scipy() -> None:
    signal = pytest.importorskip("scipy.signal")
    sound = noise(0.5, 44_100)
    low = signal.sosfiltfilt(signal.butter(8, 5000, fs=44_100, output="sos"), sound.samples)
    from rknnlite_speech.sound import Sound

    found = resampled(Sound(low.astype(np.float32), 44_100), 16_000).samples
    np.testing.assert_allclose(found[500:-500], signal.resample_poly(low, 160, 441)[500:-500], atol=2e-3)


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_a_few_samples_are_resampled(count: int) -> None:
    from rknnlite_speech.sound import Sound

    assert len(resampled(Sound(np.ones(count, np.float32), 44_100), 16_000).samples) == -(-count * 160 // 441)


def test_tokens_that_steer_are_where_the_published_models_have_them() -> None:
    many = SpecialTokens.of_count(51_865)
    assert (many.end, many.start, many.languages["en"], many.languages["zh"]) == (50257, 50258, 50259, 50260)
    assert (many.translate, many.transcribe, many.no_speech, many.no_times) == (50358, 50359, 50362, 50363)
    assert many.prompt("en", False, False) == [50258, 50259, 50359, 50363]
    assert "yue" not in many.languages and SpecialTokens.of_count(51_866).languages["yue"] == 50358
    english = SpecialTokens.of_count(51_864)
    assert (english.end, english.prompt("en", False, False)) == (50256, [50257, 50362])
    with pytest.raises(ModelInvalid, match="1000 tokens, as no published Whisper"):
        SpecialTokens.of_count(1000)


def test_the_zoos_vocabularies_are_read(tmp_path: Path) -> None:
    english, chinese = tmp_path / "vocab_en.txt", tmp_path / "vocab_zh.txt"
    english.write_text("0 !\n1 Ġthe\n2 Ċ\n3 Ã©\n4 \n", "utf-8")
    chinese.write_text("0 IQ==\n1 5L2g\n2 5aW9\n3 5Q==\n", "utf-8")
    assert read_vocabulary(english, 51_865).text([1, 0, 2, 3, 4, 50259]) == " the!\né"
    assert read_vocabulary(chinese, 51_865).text([1, 2, 0]) == "你好!"
    assert read_vocabulary(chinese, 51_865).text([3]) == "\ufffd"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("vocab.json", "{", "vocab.json: "),
        ("vocab.json", "[]", "maps no pieces"),
        ("vocab.json", '{"a": "b"}', "maps no pieces"),
        ("vocab.json", '{"<|startoftranscript|>": 1}', "no token <|endoftext|>"),
        ("vocab_en.txt", "hello there\n", "ID PIECE"),
        ("vocab_zh.txt", "0 IQ==\n1 5L2\n", "vocab_zh.txt"),
    ],
)
def test_what_is_no_vocabulary_is_told(tmp_path: Path, name: str, text: str, said: str) -> None:
    import re

    (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(ModelInvalid, match=re.escape(said)):
        read_vocabulary(tmp_path / name, 51_865)


def test_characters_become_ids_between_blanks(tmp_path: Path) -> None:
    path = tmp_path / "vocab.json"
    path.write_text(json.dumps({char: number for number, char in enumerate("_ abcÉ")}), "utf-8")
    found = read_characters(path)
    assert found.known(" A-b\tÉ é!") == "abÉ"
    assert found.encoded("ab") == [0, 2, 0, 3, 0]


def test_signs_are_not_spoken(tmp_path: Path) -> None:
    pieces = ["the", "Ġ-", "-", "[", "ĠâĻª", "âĻ", "(", "Ġ[[", "Ġ'", "'s"]
    (tmp_path / "vocab_en.txt").write_text(
        "".join(f"{i} {piece}\n" for i, piece in enumerate(pieces)), "utf-8"
    )
    assert read_vocabulary(tmp_path / "vocab_en.txt", 51_865).unspoken() == [1, 3, 4, 5, 6, 7, 8]


def test_texts_are_cut_between_sentences_and_words() -> None:
    text = "One two. Three four five six; seven! " + "x" * 25
    assert parts(text, 10) == ["One two.", "Three four", "five six;", "seven!", "x" * 10, "x" * 10, "x" * 5]
    assert parts(" \n ", 10) == []
