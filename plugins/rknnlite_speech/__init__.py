"""Speech: Whisper-like pairs of ``.rknn`` files that write down what is said, and MMS-TTS pairs that say what is written.

* Sound: ``sound`` (WAV files), ``compressed`` (others), ``resampling``, ``mel`` (what an encoder hears).
* A pair: ``pair`` (the files of a folder), ``opening``.
* Writing down: ``vocabulary`` (tokens and their bytes), ``decoding`` (one window), ``time_rules`` (which tokens of time may
  follow), ``windows`` (long sound), ``transcribing``, ``transcript`` (segments, subtitles), ``command``
  (``rknnlite transcribe``).
* Saying: ``characters`` (text to ids), ``alignment`` (how long each id sounds), ``speaking``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rknnlite import hookimpl

if TYPE_CHECKING:
    from rknnlite.spi.command import Command

__all__ = ["rknnlite_register_commands"]


@hookimpl
def rknnlite_register_commands(register: Callable[[Command], None]) -> None:
    """Offer ``transcribe``."""
    from rknnlite.libraries import commands_of

    for command in commands_of("speech"):
        register(command)
