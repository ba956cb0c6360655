"""``POST /v1/audio/speech``: a text is said."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator

import numpy as np
from rknnlite_speech.compressed import MEDIA, sound_file
from rknnlite_speech.resampling import resampled
from rknnlite_speech.sound import Sound, pcm_bytes, wav_bytes
from rknnlite_speech.speaking import RATE, Speaker
from starlette.requests import Request
from starlette.responses import Response

from .app_state import served_speech, state_of
from .async_helpers import closing, in_thread, within
from .errors import ApiError, bad_request
from .rate_limits import spend_tokens
from .served_speech import ServedSpeech
from .streaming import event_stream, while_connected

__all__ = ["speech"]

_PCM_RATE = 24_000
"""Hz, as OpenAI's API has it."""
_MEDIA = {"wav": "audio/wav", "pcm": f"audio/pcm;rate={_PCM_RATE}", **MEDIA}
_MOST_TEXT = 4096


async def speech(request: Request) -> Response:
    """The route. WAV where no format is named, as every server has that."""
    state = state_of(request)
    body = await state.json(request)
    model = served_speech(request, body.text("model"))
    speaker = model.speaker
    text = body.text("input")
    if not text.strip() or len(text) > _MOST_TEXT:
        raise bad_request(f"input is {len(text)} characters, must be 1..{_MOST_TEXT}", "input")
    form = body.text("response_format", "wav")
    if form == "aac":
        raise bad_request(f"response_format aac is not supported; {', '.join(_MEDIA)} are", "response_format")
    form = body.text("response_format", "wav", tuple(_MEDIA))
    if form in MEDIA:  # told before the model speaks
        await in_thread(sound_file, Sound(np.zeros(1, np.float32), RATE), form)
    speed = body.number("speed", 1.0, 0.25, 4.0)
    spend_tokens(len(text))
    if body.text("stream_format", "audio", ("audio", "sse")) == "sse":
        return await event_stream(request, _events(model, speaker, text, speed, form))
    try:
        work = within(_said(model, speaker, text, speed), state.settings.timeout)
        sound = await while_connected(request, work)
    except asyncio.TimeoutError:
        raise ApiError(
            504, "timeout_error", f"the speech was not complete within {state.settings.timeout:g} s"
        ) from None
    data = await in_thread(_encoded, sound, form)
    return Response(data, media_type=_MEDIA[form])


async def _said(model: ServedSpeech, speaker: Speaker, text: str, speed: float) -> Sound:
    async with closing(model.pieces(lambda: speaker.say(text, speed))) as pieces:
        parts = [piece.samples async for piece in pieces]
    return Sound(np.concatenate(parts), RATE)


async def _events(
    model: ServedSpeech, speaker: Speaker, text: str, speed: float, form: str
) -> AsyncGenerator[str, None]:
    """OpenAI's events: Base64 of each sentence."""
    async with closing(model.pieces(lambda: speaker.say(text, speed))) as pieces:
        async for piece in pieces:
            data = await in_thread(_encoded, piece, form)
            yield json.dumps({"type": "speech.audio.delta", "audio": base64.b64encode(data).decode()})
    usage = {"input_tokens": len(text), "output_tokens": 0, "total_tokens": len(text)}
    yield json.dumps({"type": "speech.audio.done", "usage": usage})


def _encoded(sound: Sound, form: str) -> bytes:
    if form in MEDIA:
        return sound_file(sound, form)
    return wav_bytes(sound) if form == "wav" else pcm_bytes(resampled(sound, _PCM_RATE).samples)
