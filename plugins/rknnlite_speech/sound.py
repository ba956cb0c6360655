"""Sound as samples, out of WAV files and into them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid

__all__ = [
    "FASTEST",
    "MOST_CHANNELS",
    "MOST_SECONDS",
    "REMEDY",
    "SLOWEST",
    "Sound",
    "kind_of",
    "pcm_bytes",
    "read_wav",
    "wav_bytes",
]

Array = NDArray[Any]
_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
SLOWEST, FASTEST = 4000, 384_000
"""Samples per second: of fewer, a small file would be days long."""
MOST_SECONDS = 4 * 3600
MOST_CHANNELS = 64
_UNTIL_THE_END = (0xFFFFFFFF, 0x7FFFFFFF)
"""Sizes that programs write which cannot know how much will follow."""
_OTHERS = {
    b"ID3": "MP3", b"\xff\xfb": "MP3", b"\xff\xf3": "MP3", b"\xff\xf2": "MP3", b"\xff\xfa": "MP3", b"\xff\xf1": "AAC",
    b"\xff\xf9": "AAC", b"fLaC": "FLAC", b"OggS": "Ogg", b"\x1aE\xdf\xa3": "WebM", b"RF64": "RF64", b"FORM": "AIFF",
}  # fmt: skip
REMEDY = "ffmpeg -i FILE -ac 1 -ar 16000 FILE.wav makes a WAV file"


@dataclass(frozen=True)
class Sound:
    """``samples`` float32 (n,), -1 to 1, of one channel; ``rate`` in Hz."""

    samples: Array
    rate: int

    @property
    def seconds(self) -> float:
        """How long it is."""
        return len(self.samples) / self.rate


@dataclass(frozen=True)
class _Format:
    kind: int
    channels: int
    rate: int
    frame: int  # bytes of one sample of all channels
    bits: int


def read_wav(data: bytes) -> Sound:
    """The sound of a WAV file: PCM of 8 to 32 bits, or float; channels are averaged.

    Raises InputInvalid: another format, a cut file, values that are no numbers.
    """
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        raise InputInvalid(f"the sound is {kind_of(data)}, no WAV file; {REMEDY}")
    found, start, size = _chunks(data)
    if found.kind not in (_PCM, _FLOAT) or found.bits not in (
        (8, 16, 24, 32) if found.kind == _PCM else (32, 64)
    ):
        raise InputInvalid(f"the WAV file has format {found.kind} of {found.bits} bits; {REMEDY}")
    if not SLOWEST <= found.rate <= FASTEST:
        raise InputInvalid(
            f"the WAV file has {found.rate} samples per second, must be in {SLOWEST}..{FASTEST}"
        )
    if not 0 < found.channels <= MOST_CHANNELS or found.frame * 8 != found.channels * found.bits:
        raise InputInvalid(
            f"the WAV file is damaged: {found.channels} channels of {found.bits} bits in {found.frame} bytes"
        )
    count = size // found.frame
    if count > MOST_SECONDS * found.rate:
        raise InputInvalid(
            f"the sound is {count / found.rate:.0f} s long, must be at most {MOST_SECONDS}; cut it into parts"
        )
    every = _values(data, start, count * found.channels, found).reshape(count, found.channels)
    samples = every[:, 0] if found.channels == 1 else every.mean(1, dtype=np.float32)
    if not np.isfinite(samples).all():
        raise InputInvalid("the WAV file holds samples that are no finite numbers")
    return Sound(np.ascontiguousarray(samples), found.rate)


def wav_bytes(sound: Sound) -> bytes:
    """A WAV file of 16 bits."""
    body = pcm_bytes(sound.samples)
    form = struct.pack("<HHIIHH", _PCM, 1, sound.rate, 2 * sound.rate, 2, 16)
    head = struct.pack("<4sI4s4sI", b"RIFF", 36 + len(body), b"WAVE", b"fmt ", 16) + form
    return head + struct.pack("<4sI", b"data", len(body)) + body


def pcm_bytes(samples: Array) -> bytes:
    """Samples as little-endian integers of 16 bits."""
    return np.round(np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes()


def kind_of(data: bytes) -> str:
    """What the first bytes say that it is."""
    if not data:
        return "empty"
    if data[4:8] == b"ftyp":
        return "MP4"
    return next((name for start, name in _OTHERS.items() if data.startswith(start)), "of an unknown format")


def _chunks(data: bytes) -> tuple[_Format, int, int]:
    """The format, and where the samples begin and how many bytes they are."""
    found = None
    place = 12
    while place + 8 <= len(data):
        name, size = struct.unpack_from("<4sI", data, place)
        place += 8
        there = len(data) - place
        if name == b"data":
            if found is None:
                raise InputInvalid("the WAV file is damaged: no format before its samples")
            if size > there and size not in _UNTIL_THE_END:
                raise InputInvalid(
                    f"the WAV file is cut: it says {size} bytes of samples, and {there} are there"
                )
            return found, place, min(size, there)
        if size > there:
            break
        if name == b"fmt ":
            found = _format(data[place : place + size])
        place += size + size % 2
    raise InputInvalid("the WAV file is cut: it has no samples")


def _format(chunk: bytes) -> _Format:
    if len(chunk) < 16:
        raise InputInvalid(f"the WAV file is damaged: its format is {len(chunk)} bytes, must be 16 or more")
    kind, channels, rate, _, frame, bits = struct.unpack_from("<HHIIHH", chunk)
    if kind == _EXTENSIBLE and len(chunk) >= 26:
        kind = struct.unpack_from("<H", chunk, 24)[0]
    return _Format(kind, channels, rate, frame, bits)


def _values(data: bytes, start: int, count: int, found: _Format) -> Array:
    """float32 values of -1 to 1."""
    if found.kind == _FLOAT:
        with np.errstate(over="ignore"):  # infinities are told later
            return np.frombuffer(data, f"<f{found.bits // 8}", count, start).astype(np.float32)
    if found.bits == 8:
        return (np.frombuffer(data, np.uint8, count, start).astype(np.float32) - 128) / 128
    if found.bits == 24:
        wide = np.zeros((count, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(data, np.uint8, count * 3, start).reshape(count, 3)
        return wide.view("<i4")[:, 0].astype(np.float32) / 2**31
    scale = np.float32(2 ** (found.bits - 1))
    return np.frombuffer(data, f"<i{found.bits // 8}", count, start).astype(np.float32) / scale
