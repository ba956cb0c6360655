"""The speech model in a folder."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any, Union

import rknnlite
from rknnlite.errors import ModelInvalid

from .pair import Pair, PairFiles
from .speaking import Speaker
from .transcribing import Transcriber

__all__ = ["SpeechModel", "open_speech"]

SpeechModel = Union[Transcriber, Speaker]


def open_speech(folder: Path, **options: Any) -> SpeechModel:
    """A Whisper-like pair, or an MMS-TTS pair; ``options`` are those of ``rknnlite.open``.

    Raises ModelInvalid for a folder that is none, and what ``rknnlite.open`` raises.
    """
    files = PairFiles.of(folder)
    with ExitStack() as opened:
        encoder = opened.enter_context(rknnlite.open(files.encoder, **options))
        decoder = opened.enter_context(rknnlite.open(files.decoder, **options))
        kind = Speaker if len(decoder.inputs) == 4 else Transcriber
        try:
            model: SpeechModel = kind(Pair(encoder, decoder), files.vocabulary)
        except ModelInvalid as error:
            raise ModelInvalid(f"{folder}: {error}") from None
        opened.pop_all()
    return model
