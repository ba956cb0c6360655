"""Stand-ins for the two networks of a speech model, and sound that is made here."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_speech.pair import Pair
from rknnlite_speech.sound import Sound
from rknnlite_speech.vocabulary import LANGUAGES

from rknnlite.tensor import DType, Layout, TensorAttr

# The live comparison wants torch (gigabytes) and transformers, as that of the language models does.
collect_ignore = (
    [] if all(find_spec(name) for name in ("torch", "transformers")) else ["test_transformers.py"]
)

Array = Any
BANDS, FRAMES, STATES, WIDTH = 80, 200, 100, 8
"""Of the encoder: a window is two seconds."""


def attr(name: str, *dims: int, dtype: DType = DType.FLOAT32) -> TensorAttr:
    return TensorAttr(index=0, name=name, dims=dims, dtype=dtype, layout=Layout.UNDEFINED)


class StandIn:
    """A network of one function."""

    def __init__(
        self, inputs: Sequence[TensorAttr], outputs: Sequence[TensorAttr], compute: Callable[..., list[Array]]
    ) -> None:
        self.inputs, self.outputs, self._compute = list(inputs), list(outputs), compute
        self.runs: list[list[Array]] = []
        self.closed = 0

    def infer(self, inputs: Sequence[Any]) -> list[Array]:
        assert [value.shape for value in inputs] == [tensor.dims for tensor in self.inputs]
        self.runs.append(list(inputs))
        return self._compute(*inputs)

    def close(self) -> None:
        self.closed += 1


def whisper_vocabulary(folder: Path) -> Path:
    """256 bytes, the tokens that steer, and those of time: ``vocab.json``; as many as the file maps."""
    from rknnlite_speech.vocabulary import _BYTES

    names = dict(_BYTES)
    steer = [
        "endoftext",
        "startoftranscript",
        *LANGUAGES[:99],
        "translate",
        "transcribe",
        "startoflm",
        "startofprev",
    ]
    names.update({f"<|{name}|>": 256 + i for i, name in enumerate([*steer, "nospeech", "notimestamps"])})
    names.update({f"<|{i * 0.02:.2f}|>": 363 + i for i in range(1501)})
    path = folder / "vocab.json"
    path.write_text(json.dumps(names), "utf-8")
    return path


COUNT = 363 + 1501
END, START, FIRST_LANGUAGE, TRANSLATE, TRANSCRIBE, NO_SPEECH, NO_TIMES, FIRST_TIME = (
    256,
    257,
    258,
    357,
    358,
    361,
    362,
    363,
)


def spelling_pair(
    text: Callable[[Array], Sequence[int]],
    size: int = 12,
    frames: int = FRAMES,
    language: str = "en",
    silent: float = -9.0,
) -> Pair:
    """Says ``text(mel)``, tokens, one behind the other: the decoder finds out by the prompt how many there were."""
    heard: list[Sequence[int]] = [()]
    made: dict[tuple[int, ...], int] = {}

    def encode(mel: Array) -> list[Array]:
        heard[0] = (*text(mel), END)
        made.clear()
        return [np.zeros((1, STATES, WIDTH), np.float32)]

    def step(tokens: Array, audio: Array) -> list[Array]:
        row = [int(token) for token in tokens[0]]
        logits = np.full((1, size, COUNT), -9.0, np.float32)
        if row[1] == END:  # the start alone: which language is it?
            logits[0, 0, FIRST_LANGUAGE + LANGUAGES.index(language)] = 5
            logits[0, 0, NO_SPEECH] = silent
            return [logits]
        prompt = 4 if NO_TIMES in row[:4] else 3
        done = made.setdefault(tuple(row), len(made))
        filled = prompt + done
        logits[0, min(size, filled) - 1, heard[0][done]] = 9
        return [logits]

    encoder = StandIn([attr("x", 1, BANDS, frames)], [attr("out", 1, STATES, WIDTH)], encode)
    decoder = StandIn(
        [attr("tokens", 1, size, dtype=DType.INT64), attr("audio", 1, STATES, WIDTH)],
        [attr("out", 1, size, COUNT)],
        step,
    )
    return Pair(encoder, decoder)


def tone(seconds: float, rate: int = 16_000, hz: float = 440.0) -> Sound:
    """A sine of half the full scale."""
    at = np.arange(round(seconds * rate)) / rate
    return Sound((0.5 * np.sin(2 * np.pi * hz * at)).astype(np.float32), rate)


def noise(seconds: float, rate: int = 16_000, seed: int = 0) -> Sound:
    """White noise that swells, with a tone in it."""
    count = round(seconds * rate)
    rough = np.random.default_rng(seed).normal(0, 0.1, count) * np.linspace(0, 1, count)
    return Sound((rough + 0.3 * tone(seconds, rate).samples).astype(np.float32), rate)


@pytest.fixture(scope="session")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return whisper_vocabulary(tmp_path_factory.mktemp("vocabulary"))
