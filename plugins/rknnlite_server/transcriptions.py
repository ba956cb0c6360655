"""``POST /v1/audio/transcriptions`` and ``/v1/audio/translations``: what is said in a sound file."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from typing import Any

from rknnlite_speech.compressed import read_sound
from rknnlite_speech.sound import Sound
from rknnlite_speech.transcribing import Heard, Transcriber, Wanted
from rknnlite_speech.transcript import FORMATS, Transcript
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from .app_state import served_speech, state_of
from .async_helpers import closing, in_thread, within
from .errors import ApiError, bad_request
from .form_body import read_form
from .rate_limits import TOKENS_A_SECOND, spend_tokens
from .request_body import Body
from .served_speech import ServedSpeech
from .streaming import event_stream, while_connected

__all__ = ["transcriptions", "translations"]

_MEDIA = {"vtt": "text/vtt", "srt": "application/x-subrip", "text": "text/plain"}


async def transcriptions(request: Request) -> Response:
    """The route: in the language that is spoken."""
    return await _answer(request, translate=False)


async def translations(request: Request) -> Response:
    """The route: in English."""
    return await _answer(request, translate=True)


async def _answer(request: Request, translate: bool) -> Response:
    state = state_of(request)
    state.check_ready()
    form = await read_form(request, state.settings.max_body)
    body = form.body(numbers=("temperature",), flags=("stream",))
    model = served_speech(request, body.text("model"))
    transcriber = model.transcriber
    stream = body.flag("stream") and not translate
    told = body.text("response_format", "json", FORMATS)
    _check(body, told, stream)
    wanted = Wanted(body.text("language").lower(), translate, body.number("temperature", 0.0, 0.0, 1.0))
    sound = await in_thread(read_sound, form.file("file"))
    del form
    spend_tokens(round(sound.seconds * TOKENS_A_SECOND))
    if stream:
        return await event_stream(request, _events(model, transcriber, sound, wanted))
    work = within(_transcript(model, transcriber, sound, wanted), state.settings.timeout)
    try:
        found = await while_connected(request, work)
    except asyncio.TimeoutError:
        raise ApiError(
            504, "timeout_error", f"the transcript was not complete within {state.settings.timeout:g} s"
        ) from None
    answer = found.told(told)
    return (
        PlainTextResponse(answer, media_type=_MEDIA[told])
        if isinstance(answer, str)
        else JSONResponse(answer)
    )


def _check(body: Body, told: str, stream: bool) -> None:
    """Raise ApiError for what is not done here, rather than answer as if it had been."""
    if body.text("prompt").strip():
        raise bad_request("prompt is not supported: the decoders hold too few tokens for one", "prompt")
    if "word" in (body.items("timestamp_granularities") or []):
        raise bad_request(
            "timestamp_granularities: times of words are not supported, those of segments are",
            "timestamp_granularities",
        )
    if body.items("include"):
        raise bad_request("include is not supported", "include")
    if stream and told != "json":
        raise bad_request(f"response_format is {told}, must be json in a stream", "response_format")


async def _transcript(
    model: ServedSpeech, transcriber: Transcriber, sound: Sound, wanted: Wanted
) -> Transcript:
    language = ""

    def windows() -> Iterator[Heard]:
        nonlocal language
        settled = transcriber.settled(sound, wanted)
        language = settled.language
        return transcriber.windows(sound, settled)

    async with closing(model.pieces(windows)) as pieces:
        segments = [segment async for heard in pieces for segment in heard.segments]
    return Transcript(
        tuple(segments), sound.seconds, language, "translate" if wanted.translate else "transcribe"
    )


async def _events(
    model: ServedSpeech, transcriber: Transcriber, sound: Sound, wanted: Wanted
) -> AsyncGenerator[str, None]:
    """OpenAI's events: a delta for each segment, and the whole text."""
    text = ""
    pieces = model.pieces(lambda: transcriber.windows(sound, transcriber.settled(sound, wanted)))
    async with closing(pieces):
        async for heard in pieces:
            for segment in heard.segments:
                delta = segment.text if text else segment.text.lstrip()
                text += delta
                yield _event(type="transcript.text.delta", delta=delta)
    yield _event(type="transcript.text.done", text=text)


def _event(**fields: Any) -> str:
    return json.dumps(fields, ensure_ascii=False)
