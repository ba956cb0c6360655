"""WAV files of all kinds, whole and damaged."""

from __future__ import annotations

import io
import struct
import wave
from typing import Any

import numpy as np
import pytest
from rknnlite_speech.sound import Sound, read_wav, wav_bytes

from rknnlite.errors import InputInvalid

from .conftest import noise


def wav(
    body: bytes,
    kind: int = 1,
    bits: int = 16,
    channels: int = 1,
    rate: int = 16_000,
    claimed: int | None = None,
) -> bytes:
    frame = channels * bits // 8
    form = struct.pack("<HHIIHH", kind, channels, rate, rate * frame % 2**32, frame, bits)
    size = len(body) if claimed is None else claimed
    head = struct.pack("<4sI4s4sI", b"RIFF", 36 + len(body), b"WAVE", b"fmt ", 16) + form
    return head + struct.pack("<4sI", b"data", size) + body


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [1, 2])
def test_pcm_is_read_as_python_wrote_it(width: int, channels: int) -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(-(2 ** (8 * width - 1)), 2 ** (8 * width - 1), (100, channels))
    raw = (
        (values + 128 if width == 1 else values)
        .astype("<i8")
        .view(np.uint8)
        .reshape(100, channels, 8)[..., :width]
    )
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setnchannels(channels)
        written.setsampwidth(width)
        written.setframerate(22_050)
        written.writeframes(raw.tobytes())
    found = read_wav(file.getvalue())
    assert found.rate == 22_050
    np.testing.assert_allclose(found.samples, values.mean(1) / 2 ** (8 * width - 1), atol=1e-6)


@pytest.mark.parametrize("bits", [32, 64])
def test_floats_are_read(bits: int) -> None:
    values = np.linspace(-1, 1, 50).astype(f"<f{bits // 8}")
    np.testing.assert_allclose(read_wav(wav(values.tobytes(), 3, bits)).samples, values, atol=1e-6)


def test_what_is_written_is_read_back_by_us_and_by_python() -> None:
    sound = noise(0.3)
    data = wav_bytes(sound)
    np.testing.assert_allclose(read_wav(data).samples, sound.samples, atol=1e-4)
    with wave.open(io.BytesIO(data)) as opened:
        assert (opened.getnframes(), opened.getframerate(), opened.getsampwidth()) == (4800, 16_000, 2)
    assert read_wav(
        wav_bytes(Sound(np.array([5.0, -5.0], np.float32), 8000))
    ).samples.tolist() == pytest.approx([1, -1], abs=1e-4)


def test_chunks_between_and_endless_sizes_are_passed_over() -> None:
    plain = wav(b"\0\1" * 8)
    listed = plain[:36] + struct.pack("<4sI", b"LIST", 3) + b"abc\0" + plain[36:]
    assert len(read_wav(listed).samples) == 8
    assert len(read_wav(wav(b"\0\1" * 8, claimed=0xFFFFFFFF)).samples) == 8


NAN = np.array([0, np.nan], "<f4").tobytes()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "empty"),
        (b"ID3\4" + bytes(60), "MP3.*ffmpeg"),
        (b"\xff\xfb\x90" + bytes(60), "MP3"),
        (b"fLaC" + bytes(60), "FLAC"),
        (b"OggS" + bytes(60), "Ogg"),
        (b"\0\0\0 ftypM4A " + bytes(60), "MP4"),
        (b"hello there, this is text", "unknown format"),
        (wav(b"\0\0" * 4)[:30], "cut"),
        (wav(b"\0\0" * 4)[:40], "cut"),
        (wav(b"\0\0" * 100)[:-50], "cut: it says 200 bytes of samples, and 150 are there"),
        (wav(b"\0\0" * 4, claimed=16_000 * 2 * 36_000), "cut: it says 1152000000 bytes"),
        (wav(b"\0\0" * 4, kind=85), "format 85"),
        (wav(b"\0\0" * 4, bits=12), "12 bits"),
        (wav(b"\0\0" * 4, rate=1), "1 samples per second"),
        (wav(b"\0\0" * 4, rate=2**32 - 1), "samples per second"),
        (wav(b"", channels=0), "damaged: 0 channels"),
        (wav(bytes(70_000 * 2), channels=65), "65 channels"),
        (wav(NAN, 3, 32), "no finite numbers"),
        (wav(np.array([1e300]).tobytes(), 3, 64), "no finite numbers"),
        (wav(bytes(4000 * 3600 * 5), bits=8, rate=4000), "18000 s long"),
    ],
)  # fmt: skip
def test_what_cannot_be_heard_is_told(data: bytes, said: str) -> None:
    with pytest.raises(InputInvalid, match=said):
        read_wav(data)


def test_no_damage_of_a_header_does_more_than_that() -> None:
    rng = np.random.default_rng(0)
    whole: Any = np.frombuffer(wav_bytes(noise(0.01)), np.uint8)
    for _ in range(2000):
        broken = whole.copy()
        broken[rng.integers(0, 44, rng.integers(1, 4))] = rng.integers(0, 256)
        try:
            found = read_wav(broken[: rng.integers(0, len(broken) + 1)].tobytes())
        except InputInvalid:
            continue
        assert np.isfinite(found.samples).all()
