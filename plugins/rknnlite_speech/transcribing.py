"""Sound of any length into a transcript, by a Whisper-like pair."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import InputInvalid, ModelInvalid, ParamInvalid

from .decoding import Answer, Rules, decode, fitted, language_of, no_speech
from .mel import HOP, RATE, log_mel
from .pair import Pair, by_name, infer
from .resampling import resampled
from .sound import Sound
from .transcript import Segment, Transcript, repetition
from .vocabulary import read_vocabulary
from .windows import window_end

__all__ = ["Heard", "Transcriber", "Wanted", "timed"]

Array = NDArray[Any]
_SHORTEST = 0.1  # seconds
_WHOLE_WINDOW = 3000
"""Frames of the window that Whisper was trained with. What the zoo cuts shorter has no true times."""
_TIMES_NEED = 64
"""Tokens that a decoder must hold to tell times: with fewer it no longer sees when a segment began."""
_NO_SPEECH, _UNSURE = 0.6, -1.0
"""Nobody speaks where that is likelier than the first, and the mean of the answer's log probabilities below the second."""

_REPEATED = 2.4
"""Above this ``repetition``, or when it is unsure, an answer is drawn anew, as Whisper's authors do, at the next temperature."""
_TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


@dataclass(frozen=True)
class Wanted:
    """``language``: a code such as ``en``, found out where it is empty; ``translate`` into English; ``temperature`` 0..1.

    0 is the likeliest answer, unless it fails: then drawn ones are tried.
    """

    language: str = ""
    translate: bool = False
    temperature: float = 0.0


@dataclass(frozen=True)
class Heard:
    """The segments of a window, none where nobody speaks; the sample (16 kHz) at which it begins, and the next one does."""

    segments: tuple[Segment, ...]
    start: int
    end: int

    @property
    def seconds(self) -> float:
        """How much sound is behind it then."""
        return (self.end - self.start) / RATE


class Transcriber:
    """An encoder of sound and a decoder of tokens, as the model zoo cuts Whisper.

    Raises ModelInvalid for a pair or a vocabulary that is none.
    """

    def __init__(self, pair: Pair, vocabulary: Path) -> None:
        self._pair = pair
        encoder, decoder = pair.encoder, pair.decoder
        if len(encoder.inputs) != 1 or len(encoder.inputs[0].dims) != 3 or len(decoder.inputs) != 2:
            raise ModelInvalid(
                "no Whisper-like pair: the encoder takes (1, bands, frames), the decoder tokens and audio"
            )
        _, self._bands, self._frames = encoder.inputs[0].dims
        self._tokens, self._audio = by_name(decoder.inputs, ("tokens", "audio"))
        self._size = int(decoder.inputs[self._tokens].dims[-1])
        count = int(decoder.outputs[0].dims[-1])
        self.vocabulary = read_vocabulary(vocabulary, count)
        self.special = self.vocabulary.special
        if self._size < len(self.special.prompt("en" if self.special.languages else "", False, False)) + 1:
            raise ModelInvalid(f"the decoder takes {self._size} tokens, too few for a prompt")
        self.tells_times = self._frames == _WHOLE_WINDOW and self._size >= _TIMES_NEED
        blank = [token for token, piece in self.vocabulary.pieces.items() if piece == b" "]
        self._rules = Rules(self.special, self.tells_times, self.vocabulary.unspoken(), blank)

    @property
    def languages(self) -> list[str]:
        """Codes of those that it knows."""
        return list(self.special.languages) or ["en"]

    def transcript(
        self, sound: Sound, wanted: Wanted, progress: Callable[[int, int], None] = lambda done, total: None
    ) -> Transcript:
        """All of it; ``progress`` gets seconds that were heard, of how many. Raises what ``settled`` and ``windows`` raise."""
        wanted = self.settled(sound, wanted)
        found: list[Segment] = []
        for heard in self.windows(sound, wanted):
            found += heard.segments
            progress(heard.end // RATE, int(sound.seconds))
        return Transcript(
            tuple(found), sound.seconds, wanted.language, "translate" if wanted.translate else "transcribe"
        )

    def settled(self, sound: Sound, wanted: Wanted) -> Wanted:
        """The same with its language. Raises ParamInvalid for one, or a task, that the model does not know."""
        if wanted.translate and not self.special.languages:
            raise ParamInvalid("the model knows English only, it cannot translate")
        if wanted.language:
            if wanted.language not in self.languages:
                known = "English (en) only" if self.languages == ["en"] else ", ".join(self.languages)
                raise ParamInvalid(f"language is {wanted.language[:40]!r}; the model knows {known}")
            return wanted
        if not self.special.languages:
            return Wanted("en", False, wanted.temperature)
        _check(sound)
        samples = resampled(Sound(sound.samples[: self._window(sound.rate)], sound.rate), RATE).samples
        language = language_of(lambda tokens: self._logits(tokens, self._encoded(samples)), self.special)
        return Wanted(language, wanted.translate, wanted.temperature)

    def windows(self, sound: Sound, wanted: Wanted) -> Iterator[Heard]:
        """What is said in one window after another; ``wanted`` is settled.

        Raises InputInvalid for sound of less than a tenth of a second.
        """
        _check(sound)
        samples = resampled(sound, RATE).samples
        rng = np.random.default_rng(0)
        start = 0
        while len(samples) - start >= _SHORTEST * RATE:
            heard = self._heard(samples, start, wanted, rng)
            yield heard
            start = heard.end

    def close(self) -> None:
        """Release the networks; may be called again."""
        self._pair.close()

    def _window(self, rate: int) -> int:
        return self._frames * HOP * rate // RATE

    def _heard(self, samples: Array, start: int, wanted: Wanted, rng: np.random.Generator) -> Heard:
        size = self._frames * HOP
        end = min(len(samples), start + size) if self.tells_times else window_end(samples, start, size)
        window = samples[start:end]
        if not window.any():
            return Heard((), start, end)
        audio = self._encoded(window)

        def step(tokens: Sequence[int]) -> Array:
            return self._logits(tokens, audio)

        silence = no_speech(step, self.special)
        prompt = self.special.prompt(wanted.language, wanted.translate, self.tells_times)
        tried: list[tuple[bool, Answer, float]] = []
        for temperature in [wanted.temperature] if wanted.temperature else _TEMPERATURES:
            answer = decode(step, prompt, self._rules, temperature, rng)
            unsure = answer.avg_logprob < _UNSURE
            if silence > _NO_SPEECH and unsure:
                return Heard((), start, end)
            varied = repetition(self.vocabulary.text(answer.tokens)) <= _REPEATED
            tried.append((varied, answer, temperature))
            if varied and not unsure:
                break
        _, answer, temperature = max(tried, key=lambda each: (each[0], each[1].avg_logprob))
        return self._told(answer, silence, start, end, temperature)

    def _told(self, answer: Answer, silence: float, start: int, end: int, temperature: float) -> Heard:
        length = (end - start) / RATE
        spans, used = timed(answer.tokens, self.special.first_time, length)
        begin = start / RATE
        segments = [
            Segment(
                begin + first, begin + last, self.vocabulary.text(tokens), tokens, begin, answer.avg_logprob, silence,
                temperature,
            )
            for first, last, tokens in spans
        ]  # fmt: skip
        following = start + round(used * RATE)
        spoken = tuple(segment for segment in segments if segment.text.strip())
        return Heard(spoken, start, following if start < following < end else end)

    def _encoded(self, samples: Array) -> Array:
        mel = log_mel(samples, self._bands, self._frames)
        return infer(self._pair.encoder, [(0, mel)])[0]

    def _logits(self, tokens: Sequence[int], audio: Array) -> Array:
        prompt = len(self.special.prompt(self.languages[0], False, self.tells_times))
        row, last = fitted(tokens, prompt, self._size, self.special.end)
        given = [(self._tokens, np.array(row, np.int64)), (self._audio, audio)]
        found: Array = infer(self._pair.decoder, given)[0].reshape(self._size, -1)[last]
        return found


def timed(
    tokens: Sequence[int], first_time: int, length: float
) -> tuple[list[tuple[float, float, tuple[int, ...]]], float]:
    """Segments ``(start, end, tokens)`` of a window of ``length`` seconds, and up to where they tell of it.

    Tokens of time come in pairs between segments; what begins and does not end is heard again in the next window.
    """
    is_time = [token >= first_time for token in tokens]
    cuts = [i for i in range(1, len(tokens)) if is_time[i - 1] and is_time[i]]

    def at(index: int) -> float:
        return min(length, (tokens[index] - first_time) * 0.02)

    alone = is_time[-2:] == [False, True]
    if not cuts:
        times = [i for i in range(len(tokens)) if is_time[i]]
        begin = at(0) if tokens and is_time[0] else 0.0
        end = at(times[-1]) if times and at(times[-1]) > begin else length
        return [(begin, end, tuple(tokens))], length
    spans = []
    for low, high in zip([0, *cuts], [*cuts, *([len(tokens)] if alone else [])]):
        spans.append((at(low), max(at(low), at(high - 1)), tuple(tokens[low:high])))
    return spans, length if alone else at(cuts[-1] - 1)


def _check(sound: Sound) -> None:
    if sound.seconds < _SHORTEST:
        raise InputInvalid(
            f"the sound is {len(sound.samples)} samples, {sound.seconds:.3g} s; at least {_SHORTEST} s are needed"
        )
