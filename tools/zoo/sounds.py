"""Real sounds for trained networks: sentences that espeak-ng speaks, tones of instruments, and what networks make of them."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from network import Source, packaged
from numpy.typing import NDArray
from pictures import WORDS

__all__ = ["RATE", "chained", "hum", "log_mel", "mel", "resampled", "speech", "spoken", "tones", "wave"]

Sound = NDArray[np.float32]

RATE = 16000


@lru_cache(maxsize=256)
def spoken(words: str, voice: str, speed: int, pitch: int) -> Sound:
    """A sentence at 16 kHz, mono."""
    from scipy.io import wavfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spoken.wav"
        command = ["espeak-ng", "-v", voice, "-s", str(speed), "-p", str(pitch), "-w", str(path), words]
        subprocess.run(command, check=True, capture_output=True)
        rate, samples = wavfile.read(path)
    return resampled(samples.astype(np.float32) / 32768, rate, RATE)


def resampled(sound: Sound, rate: int, wanted: int) -> Sound:
    """At another rate."""
    from scipy.signal import resample_poly

    divisor = int(np.gcd(rate, wanted))
    return resample_poly(sound, wanted // divisor, rate // divisor).astype(np.float32)


def speech(rng: np.random.Generator, seconds: float, words: str = "") -> Sound:
    """A voice among noise of 0 to 40 dB below it; ``words`` or some of the list, at 16 kHz, in [-1, 1]."""
    voice = ("en-us", "en-gb", "en-us+f3", "en-gb+f2", "en-us+m3", "en-gb+m7")[rng.integers(6)]
    count = int(RATE * seconds)
    sound = np.zeros(0, np.float32)
    while sound.size < count:
        said = words or " ".join(WORDS[n] for n in rng.integers(len(WORDS), size=10))
        part = spoken(said, voice, int(rng.integers(130, 190)), int(rng.integers(30, 70)))
        sound = np.concatenate((sound, part, np.zeros(int(rng.integers(1600, 8000)), np.float32)))
    start = 0 if words else int(rng.integers(sound.size - count + 1))
    sound = sound[start : start + count]
    noise = np.convolve(rng.standard_normal(count + 7), np.ones(8) / 8, "valid")
    level = float(np.sqrt((sound**2).mean()) + 1e-4) * 10 ** (-rng.uniform(0, 40) / 20)
    mixed = sound + level * noise / noise.std()
    return (mixed * rng.uniform(0.2, 0.9) / np.abs(mixed).max()).astype(np.float32)


def hum(rng: np.random.Generator, seconds: float) -> Sound:
    """Noise and the hum of a machine, without a voice."""
    count = int(RATE * seconds)
    time = np.arange(count) / RATE
    noise = np.convolve(rng.standard_normal(count + 15), np.ones(16) / 16, "valid")
    sound = noise + rng.uniform(0, 0.5) * np.sin(2 * np.pi * rng.uniform(50, 120) * time)
    return (sound * rng.uniform(0.02, 0.5) / np.abs(sound).max()).astype(np.float32)


def wave(count: int, scale: float = 1.0) -> Source:
    """``count`` samples of speech as (1, count)."""
    return lambda rng: [(scale * speech(rng, count / RATE)[None, :count]).astype(np.float32)]


def tones(count: int, rate: int) -> Callable[[np.random.Generator], Sound]:
    """A source of notes with overtones that ring out, as (count,)."""

    def draw(rng: np.random.Generator) -> Sound:
        time = np.arange(count) / rate
        sound = 0.003 * rng.standard_normal(count)
        for _ in range(max(1, int(4 * count / rate))):
            note = 440 * 2 ** ((int(rng.integers(40, 84)) - 69) / 12)
            start = rng.uniform(0, 0.8 * count / rate)
            ring = np.where(time >= start, np.exp(-(time - start) * rng.uniform(1, 4)), 0.0)
            for k in range(1, 7):
                sound = sound + ring * np.sin(2 * np.pi * k * note * (time - start)) / k**1.5
        return (sound * rng.uniform(0.3, 0.9) / np.abs(sound).max()).astype(np.float32)

    return draw


@lru_cache(maxsize=8)
def _filters(rate: int, size: int, bands: int) -> NDArray[np.float64]:
    """Slaney's mel filters, (bands, size // 2 + 1), each of unit area."""
    step, edge = 200 / 3, 1000.0
    slope = np.log(6.4) / 27

    def to_mel(hertz: float) -> float:
        return hertz / step if hertz < edge else edge / step + np.log(hertz / edge) / slope

    def to_hertz(m: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(m < edge / step, m * step, edge * np.exp(slope * (m - edge / step)))

    points = to_hertz(np.linspace(0, to_mel(rate / 2), bands + 2))
    bins = np.linspace(0, rate / 2, size // 2 + 1)
    rising = (bins[None] - points[:-2, None]) / np.diff(points)[:-1, None]
    falling = (points[2:, None] - bins[None]) / np.diff(points)[1:, None]
    return np.maximum(0, np.minimum(rising, falling)) * (2 / (points[2:] - points[:-2]))[:, None]


def mel(sound: Sound, size: int, hop: int, bands: int) -> NDArray[np.float64]:
    """Power in mel bands, (frames, bands)."""
    window = np.hanning(size + 1)[:size]
    padded = np.pad(sound, size // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, size)[::hop]
    return (np.abs(np.fft.rfft(frames * window, axis=1)) ** 2) @ _filters(RATE, size, bands).T


def log_mel(sound: Sound, size: int, hop: int, bands: int) -> NDArray[np.float32]:
    """Decibels below the peak, 80 at most, as (dB + 40) / 40."""
    power = np.log10(np.maximum(mel(sound, size, hop, bands), 1e-10)) * 10
    return ((np.maximum(power - power.max(), -80) + 40) / 40).astype(np.float32)


def chained(package: str, file: str) -> Callable[..., list[Any]]:
    """A packaged network in float, which makes another's input."""

    def run(*arrays: Any) -> list[Any]:
        session = _session(package, file)
        names = [i.name for i in session.get_inputs()]
        return list(session.run(None, dict(zip(names, arrays, strict=True))))

    return run


@lru_cache(maxsize=8)
def _session(package: str, file: str) -> Any:
    import onnxruntime

    return onnxruntime.InferenceSession(str(packaged(package, file)), providers=["CPUExecutionProvider"])
