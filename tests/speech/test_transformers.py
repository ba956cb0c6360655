"""Live comparison with Hugging Face transformers, where it is installed (``make compare``): what lies between the networks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_speech import transcribing
from rknnlite_speech.characters import read_characters
from rknnlite_speech.mel import log_mel
from rknnlite_speech.pair import Pair
from rknnlite_speech.resampling import resampled
from rknnlite_speech.sound import Sound
from rknnlite_speech.speaking import Speaker
from rknnlite_speech.time_rules import bind_times
from rknnlite_speech.transcribing import Transcriber, Wanted
from rknnlite_speech.vocabulary import LANGUAGES, SpecialTokens, read_vocabulary

from .conftest import (
    BANDS,
    COUNT,
    END,
    FIRST_LANGUAGE,
    FIRST_TIME,
    NO_SPEECH,
    NO_TIMES,
    START,
    TRANSCRIBE,
    TRANSLATE,
    StandIn,
    attr,
    noise,
    tone,
    whisper_vocabulary,
)

torch = pytest.importorskip("torch", reason="needs torch and transformers")
transformers = pytest.importorskip("transformers", reason="needs torch and transformers")

SOUNDS = {
    "noise": lambda seconds: noise(seconds).samples,
    "sweep": lambda seconds: np.sin(
        2 * np.pi * np.cumsum(np.linspace(20, 7900, round(seconds * 16_000))) / 16_000
    ),
    "pulses": lambda seconds: np.where(np.arange(round(seconds * 16_000)) % 133 == 0, 0.9, 0.0),
    "silence": lambda seconds: np.zeros(round(seconds * 16_000)),
}


@pytest.mark.parametrize("bands", [80, 128])
@pytest.mark.parametrize("kind", SOUNDS)
@pytest.mark.parametrize(
    ("chunk", "seconds"),
    [(20, 3.0), (20, 25.0), (30, 1 / 16_000), (30, 29.99), (30, 30.0), (30, 31.0)],
)
def test_mel_frames(bands: int, kind: str, chunk: int, seconds: float) -> None:
    extractor = transformers.WhisperFeatureExtractor(feature_size=bands, chunk_length=chunk)
    samples = SOUNDS[kind](seconds).astype(np.float32)
    wanted = extractor(samples, sampling_rate=16_000, return_tensors="np").input_features[0]
    found = log_mel(samples, bands, chunk * 100)
    assert found.shape == wanted.shape and found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, atol=1e-4)


@pytest.mark.parametrize("rate", [8000, 11_025, 22_050, 44_100, 48_000])
def test_mel_frames_of_sound_at_another_rate(rate: int) -> None:
    """The same tones at 16 kHz, as the extractor hears them, within half a decibel wherever there is power."""
    extractor = transformers.WhisperFeatureExtractor()

    def chord(rate: int) -> Any:
        return sum(tone(2.0, rate, hz).samples / 4 for hz in (220, 700, 1900, 3100))

    wanted = extractor(chord(16_000), sampling_rate=16_000, return_tensors="np").input_features[0]
    found = log_mel(resampled(Sound(chord(rate), rate), 16_000).samples, 80, 3000)
    loud = wanted[:, 5:195] > wanted.max() - 0.5  # 20 dB below the loudest
    assert np.abs(found - wanted)[:, 5:195][loud].max() < 0.0125


def test_languages() -> None:
    from transformers.models.whisper.tokenization_whisper import LANGUAGES as published

    assert list(published) == LANGUAGES


def _tokenizer(folder: Path) -> Any:
    names = json.loads(whisper_vocabulary(folder).read_text("utf-8"))
    special = [name for name, number in names.items() if 256 <= number < 363]
    plain = {name: number for name, number in names.items() if number < 363}
    return transformers.WhisperTokenizer(plain, [], additional_special_tokens=special)


@pytest.mark.parametrize("text", ["Hello, world!", "naïve café – 日本語", "emoji 🎉 \n\t ~", "Привет"])
def test_tokens_say_the_same_wherever_they_are_cut(tmp_path: Path, text: str) -> None:
    tokenizer = _tokenizer(tmp_path)
    tokens = tokenizer(text, add_special_tokens=False).input_ids
    found = read_vocabulary(tmp_path / "vocab.json", COUNT)
    assert len(tokens) == len(text.encode()) and found.text([START, *tokens, FIRST_TIME, END]) == text
    for start in range(len(tokens)):
        for end in range(start, len(tokens) + 1):
            cut = [START, FIRST_LANGUAGE, *tokens[start:end], END]
            assert found.text(cut) == tokenizer.decode(cut, skip_special_tokens=True)


def _special() -> SpecialTokens:
    languages = {name: FIRST_LANGUAGE + i for i, name in enumerate(LANGUAGES[:99])}
    return SpecialTokens(END, START, languages, TRANSLATE, TRANSCRIBE, NO_SPEECH, NO_TIMES, FIRST_TIME)


def test_rules_of_times() -> None:
    """For answers of up to eight tokens that keep the rules, and logits at random."""
    from transformers.generation.logits_process import WhisperTimeStampLogitsProcessor

    config = transformers.GenerationConfig(eos_token_id=END, bos_token_id=END)
    config.no_timestamps_token_id, config.max_initial_timestamp_index = NO_TIMES, 50
    prompt = [START, FIRST_LANGUAGE, TRANSCRIBE]
    published = WhisperTimeStampLogitsProcessor(config, begin_index=len(prompt))
    rng = np.random.default_rng(0)
    for _ in range(200):
        made: list[int] = []
        for _ in range(8):
            logits = rng.normal(0, 3, COUNT).astype(np.float32)
            logits[:END] += rng.choice([-4.0, 4.0, 9.0])  # text, or times
            wanted = published(torch.tensor([prompt + made]), torch.tensor(logits)[None])[0].numpy()
            bind_times(logits, made, _special())
            np.testing.assert_array_equal(np.isfinite(logits), np.isfinite(wanted))
            free = np.flatnonzero(np.isfinite(logits))
            token = int(free[rng.integers(len(free))])
            if END <= token < FIRST_TIME:
                break
            made.append(token)


@pytest.fixture(scope="module")
def whisper() -> Any:
    """A model of random weights with the vocabulary of the stand-ins."""
    torch.manual_seed(3)
    config = transformers.WhisperConfig(
        vocab_size=COUNT, d_model=32, encoder_layers=1, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64, num_mel_bins=BANDS, init_std=0.35,
        decoder_start_token_id=START, bos_token_id=END, eos_token_id=END, pad_token_id=END,
    )  # fmt: skip
    model = transformers.WhisperForConditionalGeneration(config).eval()
    made = model.generation_config
    made.is_multilingual, made.no_timestamps_token_id, made.max_initial_timestamp_index = True, NO_TIMES, 50
    made.lang_to_id = {f"<|{name}|>": number for name, number in _special().languages.items()}
    made.task_to_id = {"translate": TRANSLATE, "transcribe": TRANSCRIBE}
    made.begin_suppress_tokens = [32, END]
    return model


def _pair(model: Any, size: int, frames: int = 3000) -> Pair:
    """As the zoo cuts it."""

    def encode(mel: Any) -> list[Any]:
        with torch.no_grad():
            return [model.model.encoder(torch.from_numpy(mel)).last_hidden_state.numpy()]

    def step(tokens: Any, audio: Any) -> list[Any]:
        with torch.no_grad():
            states = model.model.decoder(
                input_ids=torch.from_numpy(tokens), encoder_hidden_states=torch.from_numpy(audio)
            ).last_hidden_state
            return [model.proj_out(states).numpy()]

    states = attr("audio", 1, frames // 2, 32)
    return Pair(
        StandIn([attr("x", 1, BANDS, frames)], [states], encode),
        StandIn([attr("tokens", 1, size), states], [attr("out", 1, size, COUNT)], step),
    )


def _features(samples: Any) -> Any:
    extractor = transformers.WhisperFeatureExtractor()
    options = {"truncation": False, "padding": "longest"} if len(samples) > 480_000 else {}
    return extractor(samples, sampling_rate=16_000, return_tensors="pt", **options).input_features


@pytest.mark.parametrize("seed", range(4))
def test_the_language(whisper: Any, vocabulary: Path, seed: int) -> None:
    sound = noise(30.0, seed=seed)
    wanted = whisper.detect_language(_features(sound.samples))
    found = Transcriber(_pair(whisper, 12), vocabulary).settled(sound, Wanted())
    assert _special().languages[found.language] == int(wanted[0])


@pytest.mark.parametrize("task", ["transcribe", "translate"])
def test_greedy_tokens(whisper: Any, vocabulary: Path, monkeypatch: pytest.MonkeyPatch, task: str) -> None:
    """Of 224, without times: the vocabulary of bytes has no signs but these."""
    monkeypatch.setattr(transcribing, "_TEMPERATURES", (0.0,))
    monkeypatch.setattr(transcribing, "_TIMES_NEED", 10_000)
    sound = noise(30.0, seed=1)
    transcriber = Transcriber(_pair(whisper, 228), vocabulary)
    wanted = whisper.generate(
        _features(sound.samples), language="de", task=task, max_new_tokens=224, return_timestamps=False,
        suppress_tokens=[*transcriber.vocabulary.unspoken(), *range(END + 1, COUNT)],
    )[0].tolist()  # fmt: skip
    (segment,) = transcriber.transcript(sound, Wanted("de", task == "translate")).segments
    answer = wanted[wanted.index(NO_TIMES) + 1 :] if NO_TIMES in wanted else wanted
    assert [*segment.tokens] == [token for token in answer if token != END] and len(segment.tokens) > 5


def test_segments_of_long_sound(whisper: Any, vocabulary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows that begin where the last segment ended."""
    monkeypatch.setattr(transcribing, "_TEMPERATURES", (0.0,))
    transcriber = Transcriber(_pair(whisper, 228), vocabulary)
    sound = noise(75.0, seed=2)
    assert transcriber.tells_times
    wanted = whisper.generate(
        _features(sound.samples), language="de", task="transcribe", max_new_tokens=224, return_timestamps=True,
        return_segments=True, suppress_tokens=[*transcriber.vocabulary.unspoken(), *range(END + 1, FIRST_TIME)],
    )["segments"][0]  # fmt: skip
    for segment in wanted:  # theirs may end with the token that begins the next
        tokens = segment["tokens"].tolist()
        segment["tokens"] = tokens[:-1] if min(tokens[-2:]) >= FIRST_TIME else tokens
    # theirs fills up the last window with zeros behind the logarithm, not with silence
    segments = transcriber.transcript(sound, Wanted("de")).segments
    found = [segment for segment in segments if segment.window + 30 <= sound.seconds]
    assert len({segment.window for segment in found}) > 1
    assert [(round(s.start, 2), round(s.end, 2), [*s.tokens]) for s in found] == [
        (round(float(s["start"]), 2), round(float(s["end"]), 2), s["tokens"]) for s in wanted[: len(found)]
    ]


LETTERS = {char: number for number, char in enumerate("kzy'ud h-0abcefgijlmnopqrstvwx ßÉ_")}


@pytest.mark.parametrize(
    "text",
    [
        "Mister Quilter is the apostle.",
        "  KÉZ é, 5 straße! ",
        "日本",
        "a",
        "",
        "tab\tand\nline",
        "<unk> <pad>",
    ],
)
def test_characters(tmp_path: Path, text: str) -> None:
    path = tmp_path / "vocab.json"
    path.write_text(json.dumps(LETTERS), "utf-8")
    tokenizer = transformers.VitsTokenizer(str(path), phonemize=False, pad_token="_", unk_token="<unk>")
    found = read_characters(path)
    known = found.known(text)
    assert (found.encoded(known) if known else []) == tokenizer(text).input_ids


IDS = 100


@pytest.fixture(scope="module")
def vits() -> Any:
    """A voice of random weights, whose sound is drawn from the means alone; every id sounds a few frames."""
    torch.manual_seed(0)
    config = transformers.VitsConfig(
        vocab_size=len(LETTERS), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, ffn_dim=16, flow_size=16,
        spectrogram_bins=17, upsample_initial_channel=16, upsample_rates=[4, 4], upsample_kernel_sizes=[8, 8],
        resblock_kernel_sizes=[3], resblock_dilation_sizes=[[1, 3, 5]], prior_encoder_num_flows=1,
        use_stochastic_duration_prediction=False, duration_predictor_filter_channels=8, wavenet_dilation_rate=1,
        prior_encoder_num_wavenet_layers=1, posterior_encoder_num_wavenet_layers=1, noise_scale=0.0, initializer_range=0.3,
    )  # fmt: skip
    return transformers.VitsModel(config).eval()


def _speaking(model: Any) -> Pair:
    """As the zoo cuts it, with room for two frames an id."""

    def encode(ids: Any, mask: Any) -> list[Any]:
        with torch.no_grad():
            padding = torch.from_numpy(mask)[..., None].float()
            made = model.text_encoder(
                input_ids=torch.from_numpy(ids), padding_mask=padding, attention_mask=torch.from_numpy(mask)
            )
            padding = padding.transpose(1, 2)
            durations = model.duration_predictor(made.last_hidden_state.transpose(1, 2), padding, None)
        return [each.numpy() for each in (durations, padding, made.prior_means, made.prior_log_variances)]

    def decode(attention: Any, mask: Any, means: Any, variances: Any) -> list[Any]:
        with torch.no_grad():
            latents = torch.matmul(torch.from_numpy(attention).squeeze(1), torch.from_numpy(means)).transpose(
                1, 2
            )
            mask = torch.from_numpy(mask)
            return [
                model.decoder(model.flow(latents, mask, None, reverse=True) * mask, None).squeeze(1).numpy()
            ]

    width, frames = model.config.flow_size, 8 * IDS
    between = [attr("prior_means", 1, IDS, width), attr("prior_log_variances", 1, IDS, width)]
    return Pair(
        StandIn(
            [attr("input_ids", 1, IDS), attr("attention_mask", 1, IDS)],
            [attr("log_duration", 1, 1, IDS), attr("input_padding_mask", 1, 1, IDS), *between],
            encode,
        ),
        StandIn(
            [attr("attn", 1, 1, frames, IDS), attr("output_padding_mask", 1, 1, frames), *between],
            [attr("waveform", 1, frames * 16)],
            decode,
        ),
    )


@pytest.mark.parametrize("speed", [0.5, 1.0, 1.7])
@pytest.mark.parametrize("text", ["a", "mister quilter is the apostle"])
def test_sound(vits: Any, tmp_path: Path, text: str, speed: float) -> None:
    """The whole pair beside the whole model: durations, alignment, and where the sound ends."""
    path = tmp_path / "vocab.json"
    path.write_text(json.dumps(LETTERS), "utf-8")
    ids = read_characters(path).encoded(text)
    with torch.no_grad():
        wanted = vits(torch.tensor([ids]), speaking_rate=speed).waveform[0].numpy()
    (sound,) = Speaker(_speaking(vits), path).say(text, speed)
    assert len(sound.samples) == len(wanted)
    kept = slice(0, max(1, len(wanted) - 400))  # the decoder sees frames behind the end
    np.testing.assert_allclose(sound.samples[kept], wanted[kept], atol=1e-4)
