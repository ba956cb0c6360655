"""FLAC, MP3 and Ogg by libsndfile: whole, damaged, endless, and where the package is missing."""

from __future__ import annotations

import io
import sys
from typing import Any

import numpy as np
import pytest
from rknnlite_speech import compressed
from rknnlite_speech.compressed import MEDIA, read_sound, sound_file
from rknnlite_speech.sound import read_wav, wav_bytes

from rknnlite.errors import InputInvalid
from tests.support.needs import needs

from .conftest import noise, tone


@pytest.fixture(scope="module")
def soundfile() -> Any:
    needs("soundfile")
    import soundfile

    return soundfile


@pytest.mark.parametrize("form", ["FLAC", "MP3", "OGG"])
@pytest.mark.parametrize("channels", [1, 2])
def test_what_libsndfile_wrote_is_heard(soundfile: Any, form: str, channels: int) -> None:
    sound = tone(1.0, 44_100)
    file = io.BytesIO()
    soundfile.write(file, np.stack([sound.samples] * channels, 1), 44_100, format=form)
    found = read_sound(file.getvalue())
    assert found.rate == 44_100 and abs(len(found.samples) - 44_100) < 3000  # MP3 has frames
    count = min(len(found.samples), 44_100)
    limit = 1e-4 if form == "FLAC" else 0.05
    inside = slice(4000, count - 4000)
    assert np.abs(found.samples[inside] - sound.samples[inside]).max() < limit


@pytest.mark.parametrize("form", MEDIA)
def test_what_is_written_is_heard_again(soundfile: Any, form: str) -> None:
    sound = tone(1.0)
    found = read_sound(sound_file(sound, form))
    assert abs(found.seconds - 1.0) < 0.1
    middle = found.samples[len(found.samples) // 4 : -len(found.samples) // 4]
    assert np.sqrt(np.mean(np.square(middle))) == pytest.approx(0.5 / np.sqrt(2), abs=0.02)


def test_waves_of_all_kinds_are_heard_as_libsndfile_hears_them(soundfile: Any) -> None:
    rng = np.random.default_rng(0)
    for form in ("WAV", "WAVEX"):
        for kind in ("PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"):
            for channels in (1, 2, 6):
                file = io.BytesIO()
                soundfile.write(file, rng.uniform(-1, 1, (777, channels)), 22_050, kind, format=form)
                wanted, rate = soundfile.read(io.BytesIO(file.getvalue()), dtype="float32", always_2d=True)
                found = read_sound(file.getvalue())
                assert found.rate == rate
                np.testing.assert_allclose(found.samples, wanted.mean(1), atol=1e-6)


def test_wav_needs_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "soundfile", None)
    data = wav_bytes(noise(0.3))
    np.testing.assert_array_equal(read_sound(data).samples, read_wav(data).samples)
    with pytest.raises(
        InputInvalid, match=r"FLAC needs the package soundfile .*\(extra sound;.*ffmpeg -i FILE"
    ):
        read_sound(b"fLaC" + bytes(60))
    with pytest.raises(InputInvalid, match="mp3 needs the package soundfile"):
        sound_file(noise(0.3), "mp3")


@pytest.mark.parametrize("form", ["FLAC", "MP3", "OGG"])
def test_no_damage_does_more_than_that(soundfile: Any, form: str) -> None:
    file = io.BytesIO()
    soundfile.write(file, noise(0.2).samples, 16_000, format=form)
    whole = np.frombuffer(file.getvalue(), np.uint8)
    rng = np.random.default_rng(0)
    for _ in range(150):
        broken = whole.copy()
        broken[rng.integers(0, len(broken), 4)] = rng.integers(0, 256, 4)
        try:
            found = read_sound(broken[: rng.integers(0, len(broken) + 1)].tobytes())
        except InputInvalid:
            continue
        assert np.isfinite(found.samples).all()


def test_what_lasts_too_long_is_refused(soundfile: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compressed, "_MOST_SAMPLES", 40_000)
    data = sound_file(tone(60.0), "flac")
    with pytest.raises(InputInvalid, match="longer than 2 s"):
        read_sound(data)


def test_a_file_of_another_kind_is_not_shown_to_libsndfile(soundfile: Any) -> None:
    file = io.BytesIO()
    soundfile.write(file, noise(0.1).samples, 16_000, format="AIFF")
    with pytest.raises(InputInvalid, match="AIFF, no WAV file"):
        read_sound(file.getvalue())
