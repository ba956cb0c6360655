"""Windows, tokens, times and transcripts, over stand-ins that spell what a test wants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_speech.decoding import Answer, Rules, decode, fitted
from rknnlite_speech.pair import Pair, PairFiles
from rknnlite_speech.sound import Sound
from rknnlite_speech.time_rules import bind_times
from rknnlite_speech.transcribing import Transcriber, Wanted, timed
from rknnlite_speech.transcript import Segment, Transcript, subtitles
from rknnlite_speech.vocabulary import SpecialTokens
from rknnlite_speech.windows import window_end

from rknnlite.errors import InputInvalid, ModelInvalid, ParamInvalid

from .conftest import (
    BANDS,
    COUNT,
    END,
    FIRST_TIME,
    NO_TIMES,
    START,
    STATES,
    TRANSCRIBE,
    WIDTH,
    StandIn,
    attr,
    noise,
    spelling_pair,
    tone,
)


def test_a_short_sound_is_written_down(vocabulary: Path) -> None:
    pair = spelling_pair(lambda mel: list(b"hello there, world"))
    found = Transcriber(pair, vocabulary).transcript(noise(1.5), Wanted("en"))
    assert found.text == "hello there, world"
    (segment,) = found.segments
    assert (segment.start, segment.end) == (0.0, 1.5) and segment.no_speech_prob < 1e-3
    assert -0.5 < segment.avg_logprob < 0


def test_the_language_is_found_out_and_goes_into_the_prompt(vocabulary: Path) -> None:
    pair = spelling_pair(lambda mel: list(b"ja"), language="de")
    found = Transcriber(pair, vocabulary).transcript(noise(1.0), Wanted(translate=True))
    assert (found.language, found.task, found.text) == ("de", "translate", "ja")
    rows = [[int(t) for t in run[0][0]] for run in pair.decoder.runs]  # type: ignore[attr-defined]
    assert rows[0] == [START] + [END] * 11 and rows[2][:5] == [START, 260, 357, NO_TIMES, END]
    assert rows[3][:6] == [START, 260, 357, NO_TIMES, ord("j"), END]


def test_long_sound_is_heard_in_windows_that_end_where_it_is_quiet(vocabulary: Path) -> None:
    samples = noise(5.0, seed=3).samples + np.float32(0.2)
    samples[28_000:30_000] = 0  # 1.75 s, in the last quarter of the first window
    pair = spelling_pair(lambda mel: list(b"part "))
    found = Transcriber(pair, vocabulary).transcript(Sound(samples, 16_000), Wanted("en"))
    assert found.segments[0].end == pytest.approx(1.82, abs=0.06)
    assert found.text == " ".join(["part"] * len(found.segments)) and len(found.segments) == 3
    assert [s.start for s in found.segments[1:]] == [s.end for s in found.segments[:-1]]
    assert found.segments[-1].end == pytest.approx(5.0)


def test_nothing_is_heard_in_silence(vocabulary: Path) -> None:
    pair = spelling_pair(lambda mel: list(b" thanks for watching"), silent=30.0)
    transcriber = Transcriber(pair, vocabulary)
    assert not transcriber.transcript(Sound(np.zeros(50_000, np.float32), 16_000), Wanted("en")).segments
    assert len(pair.decoder.runs) == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize("count", [0, 1, 1599])
def test_a_few_samples_are_refused(vocabulary: Path, count: int) -> None:
    transcriber = Transcriber(spelling_pair(lambda mel: []), vocabulary)
    with pytest.raises(InputInvalid, match=f"{count} samples.*at least 0.1 s"):
        transcriber.transcript(Sound(np.ones(count, np.float32), 16_000), Wanted())


def test_an_unknown_language_is_refused(vocabulary: Path) -> None:
    transcriber = Transcriber(spelling_pair(lambda mel: []), vocabulary)
    with pytest.raises(ParamInvalid, match="'klingon'; the model knows en, zh"):
        transcriber.transcript(noise(1), Wanted("klingon"))


def test_a_decoder_that_computes_no_numbers_is_told(vocabulary: Path) -> None:
    decoder = StandIn(
        [attr("tokens", 1, 12), attr("audio", 1, STATES, WIDTH)],
        [attr("out", 1, 12, COUNT)],
        lambda tokens, audio: [np.full((1, 12, COUNT), np.nan, np.float32)],
    )
    pair = Pair(spelling_pair(lambda mel: []).encoder, decoder)
    with pytest.raises(ModelInvalid, match="no finite numbers"):
        Transcriber(pair, vocabulary).transcript(noise(1), Wanted("en"))


def test_an_answer_without_end_is_ended(vocabulary: Path) -> None:
    pair = spelling_pair(lambda mel: list(b"x" * 500))
    (segment,) = Transcriber(pair, vocabulary).transcript(noise(1), Wanted("en")).segments
    assert len(segment.tokens) == 224 and segment.compression_ratio > 2.4


def test_what_is_no_pair_is_told(vocabulary: Path) -> None:
    pair = spelling_pair(lambda mel: [])
    with pytest.raises(ModelInvalid, match="no Whisper-like pair"):
        Transcriber(Pair(pair.decoder, pair.encoder), vocabulary)
    with pytest.raises(ModelInvalid, match="takes 3 tokens"):
        Transcriber(spelling_pair(lambda mel: [], size=3), vocabulary)


def test_tokens_are_in_their_places_and_then_those_of_the_zoos_program() -> None:
    prompt = [1, 2, 3, 4]
    assert fitted([*prompt, 5], 4, 12, 0) == ([1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 0, 0], 4)
    made = list(range(10, 40))
    for count in range(
        9, 30
    ):  # the prompt three times; what is made takes the place of its copies, then of the oldest
        window, place = prompt * 3, 12
        for token in made[:count]:
            window.append(token)
            place = max(4, place - 1)
            window.pop(place)
        assert fitted([*prompt, *made[:count]], 4, 12, 0) == (window, 11)


def test_tokens_are_drawn_above_temperature_zero() -> None:
    special = SpecialTokens(END, START, {}, 357, TRANSCRIBE, 361, NO_TIMES, FIRST_TIME)
    logits = np.full(COUNT, -50.0, np.float32)
    logits[[97, 98, END]] = 3.0

    def drawn(temperature: float, seed: int = 0) -> Any:
        rng = np.random.default_rng(seed)
        return decode(lambda tokens: logits, [START], Rules(special), temperature, rng).tokens

    assert {drawn(1.0, seed)[0] for seed in range(20)} == {97, 98} and drawn(0.0) == (97,) * 224


def test_times_come_in_pairs_and_never_back() -> None:
    special = SpecialTokens(END, START, {}, 357, TRANSCRIBE, 361, NO_TIMES, FIRST_TIME)

    def allowed(*made: int) -> set[str]:
        logits = np.zeros(COUNT, np.float32)
        logits[[65, END]] = 20  # text is likelier than all times together
        bind_times(logits, made, special)
        free = np.isfinite(logits)
        early, late = free[FIRST_TIME : FIRST_TIME + 50].any(), free[FIRST_TIME + 51 :].any()
        named = {"text": free[65], "end": free[END], "early": early, "late": late}
        assert not free[NO_TIMES]
        return {name for name, value in named.items() if value}

    assert allowed() == {"early"}
    assert allowed(FIRST_TIME) == {"text", "end"}
    assert allowed(FIRST_TIME, 65) == {"text", "end", "early", "late"}
    assert allowed(FIRST_TIME, 65, FIRST_TIME + 60) == {"end", "late"}
    assert allowed(FIRST_TIME, 65, FIRST_TIME + 60, FIRST_TIME + 60) == {"text", "end"}
    unsure = np.zeros(COUNT, np.float32)  # all times together are likelier than any text
    bind_times(unsure, [FIRST_TIME, 65], special)
    assert not np.isfinite(unsure[:FIRST_TIME]).any()


def test_segments_are_between_times() -> None:
    t = FIRST_TIME
    assert timed([65, 66], t, 3.0) == ([(0.0, 3.0, (65, 66))], 3.0)
    assert timed([t, 65, t + 100], t, 9.0) == ([(0.0, 2.0, (t, 65, t + 100))], 9.0)
    two = [t, 65, t + 50, t + 60, 66, t + 100]
    assert timed(two, t, 9.0) == ([(0.0, 1.0, tuple(two[:3])), (1.2, 2.0, tuple(two[3:]))], 9.0)
    unfinished = [t, 65, t + 50, t + 50, 66]
    assert timed(unfinished, t, 9.0) == ([(0.0, 1.0, (t, 65, t + 50))], 1.0)
    assert timed([], t, 9.0) == ([(0.0, 9.0, ())], 9.0)


def test_a_pair_that_tells_times_is_believed(vocabulary: Path) -> None:
    t = FIRST_TIME
    said = [t + 10, *b" one", t + 500, t + 500, *b" two", t + 1000]
    pair = spelling_pair(lambda mel: said, size=64, frames=3000)
    found = Transcriber(pair, vocabulary).transcript(noise(30.0), Wanted("en"))
    assert [(s.start, s.end, s.text) for s in found.segments] == [(0.2, 10.0, " one"), (10.0, 20.0, " two")]


def test_what_a_window_does_not_finish_is_heard_again(vocabulary: Path) -> None:
    t = FIRST_TIME
    pair = spelling_pair(lambda mel: [t, *b" one", t + 1000, t + 1000, *b" tw"], size=64, frames=3000)
    found = Transcriber(pair, vocabulary).transcript(noise(45.0), Wanted("en"))
    assert [(s.start, s.end) for s in found.segments] == [(0.0, 20.0), (20.0, 40.0), (40.0, 45.0)]


def test_windows_always_go_on() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        size, count = int(rng.integers(1, 9000)), int(rng.integers(1, 30_000))
        samples = rng.normal(size=count).astype(np.float32)
        start = 0
        while start < count:
            end = window_end(samples, start, size)
            assert start < end <= min(count, start + size)
            start = end


SEGMENTS = (
    Segment(0.0, 1.5, " Hello --> you"),
    Segment(1.5, 2.0, "  "),
    Segment(3661.0004, 3662.9996, " Bye"),
)


def test_subtitles_are_written() -> None:
    assert subtitles(SEGMENTS, "srt") == (
        "1\n00:00:00,000 --> 00:00:01,500\nHello -> you\n\n2\n01:01:01,000 --> 01:01:03,000\nBye\n"
    )
    assert subtitles(SEGMENTS, "vtt") == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nHello -> you\n\n01:01:01.000 --> 01:01:03.000\nBye\n"
    )


def test_a_transcript_is_told_in_all_forms() -> None:
    found = Transcript(SEGMENTS[:1], 1.2, "en")
    assert found.told("text") == "Hello --> you\n"
    assert found.told("json") == {"text": "Hello --> you", "usage": {"type": "duration", "seconds": 2}}
    verbose = found.verbose
    assert verbose["segments"][0]["seek"] == 0 and verbose["duration"] == 1.2


def test_the_files_of_a_folder_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(ModelInvalid, match="no folder"):
        PairFiles.of(tmp_path / "none")
    for name in ("whisper_encoder_base_20s.rknn", "whisper_decoder_base_20s.rknn"):
        with pytest.raises(ModelInvalid, match=r"coder\*.rknn is needed, there is none"):
            PairFiles.of(tmp_path)
        (tmp_path / name).touch()
    with pytest.raises(ModelInvalid, match="vocab"):
        PairFiles.of(tmp_path)
    (tmp_path / "vocab_en.txt").touch()
    assert PairFiles.of(tmp_path).vocabulary.name == "vocab_en.txt"
    (tmp_path / "tokenizer.json").touch()
    assert PairFiles.of(tmp_path).vocabulary.name == "tokenizer.json"


def test_another_rate_is_heard_as_the_same(vocabulary: Path) -> None:
    heard: list[Any] = []
    pair = spelling_pair(lambda mel: (heard.append(mel), list(b"ja"))[1])
    transcriber = Transcriber(pair, vocabulary)
    for rate in (16_000, 48_000):
        transcriber.transcript(tone(2.0, rate), Wanted("en"))
    assert heard[0].shape == (1, BANDS, 200)
    loud = heard[0] > heard[0].max() - 1
    np.testing.assert_allclose(heard[0][loud], heard[1][loud], atol=0.02)


def test_of_answers_that_fail_the_likeliest_is_taken(
    vocabulary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {0.0: Answer(tuple(b"abc " * 40), -0.1), 0.2: Answer(tuple(b"one"), -2.0)}
    answers |= {0.4: Answer(tuple(b"two"), -1.5), 0.6: Answer(tuple(b"three"), -1.8)}
    pair = spelling_pair(lambda mel: list(b"none"))

    def decoded(step: Any, prompt: Any, rules: Any, temperature: float, rng: Any) -> Answer:
        return answers.get(temperature, Answer(tuple(b"bad"), -3.0))

    monkeypatch.setattr("rknnlite_speech.transcribing.decode", decoded)
    (segment,) = Transcriber(pair, vocabulary).transcript(noise(1.0), Wanted("en")).segments
    assert (segment.text, segment.temperature) == ("two", 0.4)
