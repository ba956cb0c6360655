"""Alignment and speech, over stand-ins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_speech.alignment import aligned
from rknnlite_speech.pair import Pair
from rknnlite_speech.speaking import Speaker

from rknnlite.errors import InputInvalid, ModelInvalid

from .conftest import StandIn, attr

IDS, FRAMES, CHANNELS, HOP = 20, 40, 3, 4


def speaking_pair(frames_each: float = 1.5) -> Pair:
    """Every id sounds ``frames_each`` frames; a sample is the id that sounds."""

    def encode(ids: Any, mask: Any) -> list[Any]:
        durations = np.full((1, 1, IDS), np.log(frames_each), np.float32)
        means = np.repeat(ids.astype(np.float32)[..., None], CHANNELS, 2)
        return [durations, mask.astype(np.float32)[:, None], means, np.zeros_like(means)]

    def decode(attention: Any, mask: Any, means: Any, variances: Any) -> list[Any]:
        sounding = attention.reshape(FRAMES, IDS) @ means[0, :, 0] / 100
        return [np.repeat(sounding * mask.reshape(-1), HOP)[None].astype(np.float32)]

    between = [attr("prior_means", 1, IDS, CHANNELS), attr("prior_log_variances", 1, IDS, CHANNELS)]
    encoder = StandIn(
        [attr("input_ids", 1, IDS), attr("attention_mask", 1, IDS)],
        [attr("log_duration", 1, 1, IDS), attr("input_padding_mask", 1, 1, IDS), *between],
        encode,
    )
    # four dimensions, as a converter turns them round
    inputs = [attr("attn", 1, FRAMES, IDS, 1), attr("output_padding_mask", 1, 1, FRAMES), *between]
    return Pair(encoder, StandIn(inputs, [attr("waveform", 1, FRAMES * HOP)], decode))


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    path = tmp_path / "vocab.json"
    path.write_text(json.dumps({char: number for number, char in enumerate("_abcdefghij ")}), "utf-8")
    return path


def test_ids_sound_one_after_another() -> None:
    found = aligned(np.log([0.5, 1.9, 1.1, 9.0]), np.array([1, 1, 1, 0]), 8)
    wanted = np.zeros((8, 4))
    wanted[0, 0] = wanted[1:3, 1] = wanted[3:5, 2] = 1
    np.testing.assert_array_equal(found.attention[0, 0], wanted)
    assert found.length == 5 and found.mask[0, 0].tolist() == [1, 1, 1, 1, 1, 0, 0, 0]
    assert aligned(np.log([3.9, 3.9]), np.ones(2), 8, speed=2.0).length == 4
    assert aligned(np.log([39.5]), np.ones(1), 8).length == 40
    assert aligned(np.full(3, -1e9), np.zeros(3), 8).length == 1


def zoo(log_duration: Any, mask: Any, frames: int) -> Any:
    """As transformers' VitsModel aligns, with torch's cumulative sums and shifts; here in numpy."""
    duration = np.ceil(np.exp(log_duration) * mask)
    length = max(1, int(duration.sum()))
    out = (np.arange(frames) < length).astype(np.float32)
    valid = (np.arange(frames)[None] < np.cumsum(duration)[:, None]).astype(np.float32)
    shifted = valid - np.pad(valid, [[1, 0], [0, 0]])[:-1]
    return shifted.T * out[:, None] * mask[None]


def test_alignments_are_those_of_the_published_model() -> None:
    rng = np.random.default_rng(0)
    for _ in range(100):
        used = int(rng.integers(1, 21))
        mask = (np.arange(20) < used).astype(np.float32)
        durations = rng.normal(0.3, 1, 20).astype(np.float32)
        np.testing.assert_array_equal(aligned(durations, mask, 60).attention[0, 0], zoo(durations, mask, 60))


def test_a_text_is_said(letters: Path) -> None:
    (sound,) = Speaker(speaking_pair(), letters).say("Abc!")
    ids = [0, 1, 0, 2, 0, 3, 0]
    np.testing.assert_allclose(sound.samples, np.repeat(ids, 2 * HOP) / 100, atol=1e-6)
    assert sound.rate == 16_000


def test_speed_makes_it_shorter(letters: Path) -> None:
    (fast,) = Speaker(speaking_pair(), letters).say("abc", speed=2.0)
    assert len(fast.samples) == 7 * HOP


def test_a_long_text_is_said_in_parts(letters: Path) -> None:
    sounds = list(Speaker(speaking_pair(), letters).say("abc def ghi. jab!  badge"))
    said = [np.unique(np.round(s.samples * 100)).tolist() for s in sounds]
    assert [max(ids) for ids in said] == [11, 9, 10, 7]


def test_what_sounds_too_long_for_the_decoder_is_halved(letters: Path) -> None:
    sounds = list(Speaker(speaking_pair(4.5), letters).say("abcd"))
    assert len(sounds) == 2 and [len(s.samples) for s in sounds] == [25 * HOP, 25 * HOP]


@pytest.mark.parametrize("text", ["日本", "  ", "!?"])
def test_a_text_of_unknown_characters_is_refused(letters: Path, text: str) -> None:
    with pytest.raises(InputInvalid, match="no character"):
        list(Speaker(speaking_pair(), letters).say(text))


def test_durations_that_are_no_numbers_are_told(letters: Path) -> None:
    with pytest.raises(ModelInvalid, match="no finite numbers"):
        list(Speaker(speaking_pair(np.nan), letters).say("abc"))
