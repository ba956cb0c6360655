"""What was said and when, and the forms in which it is told."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["FORMATS", "Segment", "Transcript", "repetition", "subtitles"]

FORMATS = ("json", "text", "srt", "verbose_json", "vtt")


@dataclass(frozen=True)
class Segment:
    """Some words; ``start``, ``end`` and ``window``, where the window they were heard in begins, in seconds."""

    start: float
    end: float
    text: str
    tokens: tuple[int, ...] = ()
    window: float = 0.0
    avg_logprob: float = 0.0
    no_speech_prob: float = 0.0
    temperature: float = 0.0

    @property
    def compression_ratio(self) -> float:
        """See ``repetition``."""
        return repetition(self.text)


@dataclass(frozen=True)
class Transcript:
    """All segments of a sound of ``seconds``."""

    segments: tuple[Segment, ...]
    seconds: float
    language: str
    task: str = "transcribe"

    @property
    def text(self) -> str:
        """All words."""
        return "".join(segment.text for segment in self.segments).strip()

    @property
    def verbose(self) -> dict[str, Any]:
        """OpenAI's ``verbose_json``."""
        return {
            "task": self.task,
            "language": self.language,
            "duration": round(self.seconds, 3),
            "text": self.text,
            "segments": [_described(index, segment) for index, segment in enumerate(self.segments)],
            "usage": self.usage,
        }

    @property
    def usage(self) -> dict[str, Any]:
        """What OpenAI bills: begun seconds."""
        return {"type": "duration", "seconds": int(-(-self.seconds // 1))}

    def told(self, form: str) -> str | dict[str, Any]:
        """One of ``FORMATS``: an object, or text."""
        if form == "verbose_json":
            return self.verbose
        if form == "json":
            return {"text": self.text, "usage": self.usage}
        if form == "text":
            return f"{self.text}\n"
        return subtitles(self.segments, form)


def subtitles(segments: Sequence[Segment] | Iterable[Segment], form: str) -> str:
    """A file of SubRip (``srt``) or WebVTT (``vtt``)."""
    mark = "," if form == "srt" else "."
    blocks = []
    for number, segment in enumerate((s for s in segments if s.text.strip()), 1):
        head = f"{number}\n" if form == "srt" else ""
        text = segment.text.strip().replace("-->", "->")
        blocks.append(f"{head}{_clock(segment.start, mark)} --> {_clock(segment.end, mark)}\n{text}\n")
    return ("" if form == "srt" else "WEBVTT\n\n") + "\n".join(blocks)


def repetition(text: str) -> float:
    """How many times smaller zlib makes it: above 2.4 it repeats itself."""
    data = text.encode()
    return len(data) / len(zlib.compress(data)) if data else 0.0


def _clock(seconds: float, mark: str) -> str:
    whole = round(seconds * 1000)
    rest, thousandths = divmod(whole, 1000)
    minutes, second = divmod(rest, 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{second:02}{mark}{thousandths:03}"


def _described(index: int, segment: Segment) -> dict[str, Any]:
    return {
        "id": index,
        "seek": round(segment.window * 100),
        "start": round(segment.start, 3),
        "end": round(segment.end, 3),
        "text": segment.text,
        "tokens": list(segment.tokens),
        "temperature": segment.temperature,
        "avg_logprob": segment.avg_logprob,
        "compression_ratio": segment.compression_ratio,
        "no_speech_prob": segment.no_speech_prob,
    }
