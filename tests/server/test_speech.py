"""Speech over OpenAI's routes: the unmodified package, plain HTTP, and what is wrong with requests."""

from __future__ import annotations

import io
import json
import socket
import sys
import threading
import time
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_server.errors import ApiError
from rknnlite_server.form_body import parse_form
from rknnlite_server.settings import ServerSettings
from rknnlite_speech.sound import Sound, wav_bytes
from rknnlite_speech.speaking import Speaker
from rknnlite_speech.transcribing import Transcriber

from tests.speech.conftest import noise, spelling_pair, whisper_vocabulary
from tests.speech.test_speaking import speaking_pair
from tests.support.needs import needs
from tests.support.npm import run_node

from .conftest import MODEL, Served, running

SAID = "one two "


@pytest.fixture(scope="module")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with one model of each kind, over stand-ins for their networks."""
    folder = tmp_path_factory.mktemp("models")
    letters = folder / "letters.json"
    letters.write_text(json.dumps({char: number for number, char in enumerate("_abcdefghij ")}), "utf-8")
    vocabulary = whisper_vocabulary(folder)

    def opened(path: Path, **options: Any) -> Any:
        assert options == {"backend": None}
        if path.name == "mms":
            return Speaker(speaking_pair(), letters)
        return Transcriber(spelling_pair(lambda mel: list(SAID.encode()), language="de"), vocabulary)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rknnlite_server.served_speech.open_speech", opened)
        settings = ServerSettings(
            models=(MODEL,), speech=(str(folder / "whisper"), str(folder / "mms")), metrics=True, queue=8
        )
        with running(settings) as served:
            yield served


@pytest.fixture(scope="module")
def openai(speech: Served) -> Any:
    return pytest.importorskip("openai").OpenAI(base_url=f"{speech.url}/v1", api_key="none", max_retries=0)


def sound_file(seconds: float = 1.5, rate: int = 16_000) -> tuple[str, bytes]:
    return "talk.wav", wav_bytes(noise(seconds, rate))


def post(served: Served, data: bytes, path: str = "transcriptions", **fields: Any) -> Any:
    return served.http.post(
        f"/v1/audio/{path}", files={"file": ("a.wav", data)}, data={"model": "whisper", **fields}
    )


def test_openai_transcribes(openai: Any) -> None:
    found = openai.audio.transcriptions.create(model="whisper", file=sound_file())
    assert found.text == SAID.strip() and found.usage.seconds == 2
    text = openai.audio.transcriptions.create(model="whisper", file=sound_file(), response_format="text")
    assert text == "one two\n"


def test_openai_gets_segments_and_the_language(openai: Any) -> None:
    found = openai.audio.transcriptions.create(
        model="whisper",
        file=sound_file(5.0, 44_100),
        response_format="verbose_json",
        timestamp_granularities=["segment"],
        temperature=0,
    )
    assert found.language == "de" and found.duration == 5.0
    assert len(found.segments) == 3 and found.segments[0].start == 0 and found.segments[-1].end == 5.0
    assert found.segments[1].start == found.segments[0].end and found.text == (SAID * 3).strip()


def test_openai_gets_subtitles(openai: Any) -> None:
    made = {
        form: openai.audio.transcriptions.create(
            model="whisper", file=sound_file(), language="en", response_format=form
        )
        for form in ("srt", "vtt")
    }
    assert made["srt"] == "1\n00:00:00,000 --> 00:00:01,500\none two\n"
    assert made["vtt"] == "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\none two\n"


def test_openai_streams_a_transcript(openai: Any) -> None:
    events = list(openai.audio.transcriptions.create(model="whisper", file=sound_file(5.0), stream=True))
    assert [event.type for event in events] == ["transcript.text.delta"] * 3 + ["transcript.text.done"]
    assert "".join(event.delta for event in events[:-1]) == events[-1].text == SAID * 3


def test_openai_translates(openai: Any) -> None:
    found = openai.audio.translations.create(
        model="whisper", file=sound_file(), response_format="verbose_json"
    )
    assert found.text == SAID.strip() and found.language == "de"


def test_openai_speaks(openai: Any, tmp_path: Path) -> None:
    found = openai.audio.speech.create(model="mms", voice="alloy", input="Abc!", response_format="wav")
    with wave.open(io.BytesIO(found.content)) as opened:
        assert (opened.getnframes(), opened.getframerate()) == (56, 16_000)
    assert found.response.headers["content-type"] == "audio/wav"
    assert openai.audio.speech.create(model="mms", voice="alloy", input="Abc!").content == found.content
    pcm = openai.audio.speech.create(model="mms", voice="x", input="Abc!", response_format="pcm", speed=2.0)
    assert len(pcm.content) == 28 * 3 // 2 * 2
    with openai.audio.speech.with_streaming_response.create(
        model="mms", voice="alloy", input="Abc", response_format="wav"
    ) as stream:
        stream.stream_to_file(tmp_path / "a.wav")
    assert (tmp_path / "a.wav").read_bytes() == found.content


@pytest.mark.parametrize(("form", "media"), [("mp3", "mpeg"), ("flac", "flac"), ("opus", "ogg")])
def test_openai_gets_and_sends_compressed_sound(openai: Any, form: str, media: str) -> None:
    needs("soundfile")
    found = openai.audio.speech.create(model="mms", voice="alloy", input="Abc! " * 40, response_format=form)
    assert found.response.headers["content-type"] == f"audio/{media}"
    heard = openai.audio.transcriptions.create(model="whisper", file=(f"a.{form}", found.content))
    assert heard.text == SAID.strip()


def test_what_cannot_be_compressed_is_told_before_a_word(
    openai: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(pytest.importorskip("openai").BadRequestError, match=r"\(extra sound;"):
        openai.audio.speech.create(model="mms", voice="alloy", input="Abc!", response_format="mp3")


def test_npm_clients_transcribe_and_speak(speech: Served, tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(sound_file()[1])
    program = Path(__file__).with_name("npm_speech.mjs")
    packages = ("openai", "ai", "@ai-sdk/openai")
    found = run_node(program, f"{speech.url}/v1", str(tmp_path / "a.wav"), packages=packages)
    text, size = SAID.strip(), 44 + 2 * 56
    assert found == {
        "text": text,
        "segments": 1,
        "subtitles": f"WEBVTT\n\n00:00:00.000 --> 00:00:01.500\n{text}\n",
        "translated": text,
        "events": ["transcript.text.delta", "transcript.text.done"],
        "said": size,
        "heard": text,
        "spoken": ["audio/wav", size],
    }


def test_speech_is_streamed_sentence_by_sentence(speech: Served) -> None:
    body = {"model": "mms", "input": "abc. def.", "stream_format": "sse", "response_format": "pcm"}
    lines = [line for line in speech.post("/v1/audio/speech", **body).text.split("\n") if line]
    events = [json.loads(line[6:]) for line in lines[:-1]]
    assert [event["type"] for event in events] == ["speech.audio.delta"] * 2 + ["speech.audio.done"]


def test_openai_lists_speech_models_with_others(openai: Any) -> None:
    assert [model.id for model in openai.models.list()] == ["tiny", "whisper", "mms"]
    assert openai.models.retrieve("mms").meta == {"task": "speech"}


def test_openai_reports_what_is_wrong(openai: Any) -> None:
    package = pytest.importorskip("openai")
    create = openai.audio.transcriptions.create
    with pytest.raises(package.NotFoundError, match="there is whisper, mms"):
        create(model="whisper-1", file=sound_file())
    with pytest.raises(package.BadRequestError, match="MP4, no WAV file; ffmpeg"):
        create(model="whisper", file=("a.m4a", b"\0\0\0 ftypM4A " + bytes(100)))
    with pytest.raises(package.BadRequestError, match="times of words"):
        create(
            model="whisper",
            file=sound_file(),
            response_format="verbose_json",
            timestamp_granularities=["word"],
        )
    with pytest.raises(package.BadRequestError, match="aac is not supported"):
        openai.audio.speech.create(model="mms", voice="alloy", input="Abc", response_format="aac")
    with pytest.raises(package.InternalServerError, match="transcribes, it does not speak"):
        openai.audio.speech.create(model="whisper", voice="alloy", input="Abc")
    with pytest.raises(package.InternalServerError, match="speaks, it does not transcribe"):
        create(model="mms", file=sound_file())


@pytest.mark.parametrize(
    ("data", "fields", "said"),
    [
        (b"", {}, "empty"),
        (sound_file()[1][:-100], {}, "cut: it says 48000 bytes of samples, and 47900 are there"),
        (wav_bytes(Sound(np.ones(1, np.float32), 16_000)), {}, "1 samples"),
        (sound_file()[1], {"language": "klingon"}, "language is 'klingon'"),
        (sound_file()[1], {"temperature": "hot"}, "temperature is"),
        (sound_file()[1], {"temperature": "nan"}, "temperature is"),
        (sound_file()[1], {"temperature": "2"}, "temperature is"),
        (sound_file()[1], {"response_format": "diarized_json"}, "response_format is"),
        (sound_file()[1], {"stream": "maybe"}, "stream is"),
        (sound_file()[1], {"stream": "true", "response_format": "srt"}, "must be json in a stream"),
        (sound_file()[1], {"prompt": "Names: Anna"}, "prompt is not supported"),
        (sound_file()[1], {"include[]": "logprobs"}, "include is not supported"),
        (sound_file()[1], {"language": ["en", "de"]}, "language is there 2 times"),
    ],
)  # fmt: skip
def test_a_wrong_request_is_told_what_is_wrong(
    speech: Served, data: bytes, fields: dict[str, str], said: str
) -> None:
    found = post(speech, data, **fields)
    assert found.status_code == 400, found.text
    assert said in found.json()["error"]["message"]


def test_a_body_that_is_no_form_is_refused(speech: Served) -> None:
    assert speech.post("/v1/audio/transcriptions", model="whisper").status_code == 415
    found = speech.http.post(
        "/v1/audio/transcriptions", files={"other": ("a", b"b")}, data={"model": "whisper"}
    )
    assert found.json()["error"]["message"] == "0 files are named file, must be one"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"input": ""}, "0 characters"),
        ({"input": "a" * 4097}, "4097 characters"),
        ({"input": "日本"}, "no character that the model knows"),
        ({"input": "a", "speed": 9}, "speed is 9"),
        ({"input": "a", "response_format": "midi"}, "response_format is"),
    ],
)
def test_a_wrong_text_is_told_what_is_wrong(speech: Served, body: dict[str, Any], said: str) -> None:
    found = speech.post("/v1/audio/speech", model="mms", **body)
    assert found.status_code == 400 and said in found.json()["error"]["message"]


def test_many_at_once_get_their_own_answers(speech: Served) -> None:
    answers: dict[int, str] = {}

    def ask(number: int) -> None:
        answers[number] = post(speech, wav_bytes(noise(1.0 + 2 * number)), language="en").json()["text"]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lengths = [answers[number].count("one") for number in range(6)]
    assert lengths == sorted(lengths) and lengths[0] == 1 and lengths[-1] > 5


def figure(served: Served, name: str) -> float:
    line = next(
        line for line in served.http.get("/metrics").text.split("\n") if line.startswith(f"rknnlite_{name} ")
    )
    return float(line.split()[-1])


def test_sound_is_counted(speech: Served) -> None:
    post(speech, sound_file(1.5)[1])
    before = figure(speech, 'sound_seconds_total{model="whisper"}')
    post(speech, sound_file(5.0)[1])
    assert figure(speech, 'sound_seconds_total{model="whisper"}') == pytest.approx(before + 5.0)
    assert figure(speech, 'sound_run_seconds_total{model="whisper"}') > 0
    assert figure(speech, 'running{model="whisper"}') == figure(speech, 'waiting{model="mms"}') == 0


@pytest.fixture
def held(speech: Served, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[threading.Semaphore, list[int]]]:
    """Windows wait for permits, and tell where they begin."""
    permits, begun = threading.Semaphore(0), []
    heard = Transcriber._heard

    def waiting(self: Any, samples: Any, start: int, *others: Any) -> Any:
        begun.append(start)
        assert permits.acquire(timeout=30)
        return heard(self, samples, start, *others)

    monkeypatch.setattr(Transcriber, "_heard", waiting)
    yield permits, begun
    permits.release(1000)


def until(condition: Any) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("stream", ["true", "false"])
def test_a_client_that_goes_away_is_worked_for_no_longer(
    speech: Served, held: tuple[threading.Semaphore, list[int]], stream: str
) -> None:
    permits, begun = held
    body = build_form(sound_file(60.0)[1], stream=stream)
    host, port = speech.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as gone:
        gone.sendall(body)
        until(lambda: len(begun) == 1)
        permits.release()
        until(lambda: len(begun) == 2)
    until(lambda: figure(speech, 'running{model="whisper"}') == 1)
    time.sleep(0.2)  # until the server has seen it
    permits.release()
    until(lambda: figure(speech, 'running{model="whisper"}') == 0)
    assert len(begun) <= 3 and begun[0] == 0


def test_who_finds_the_queue_full_is_sent_away(
    speech: Served, held: tuple[threading.Semaphore, list[int]]
) -> None:
    permits, _ = held
    found: list[int] = []
    threads = [
        threading.Thread(
            target=lambda: found.append(post(speech, sound_file()[1], language="en").status_code)
        )
        for _ in range(9)
    ]
    for thread in threads:
        thread.start()
    until(lambda: figure(speech, 'waiting{model="whisper"}') == 8)
    refused = post(speech, sound_file()[1])
    assert refused.status_code == 429 and int(refused.headers["retry-after"]) > 0
    permits.release(100)
    for thread in threads:
        thread.join()
    assert found == [200] * 9


def build_form(data: bytes, **fields: str) -> bytes:
    """A whole request."""
    parts = {"model": "whisper", "language": "en", **fields}
    texts = [
        f'Content-Disposition: form-data; name="{name}"\r\n\r\n{value}'.encode()
        for name, value in parts.items()
    ]
    file = b'Content-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n' + data
    body = form(*texts, file)
    head = (
        "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer none\r\n"
        f"Content-Type: multipart/form-data; boundary=B\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def form(*parts: bytes, end: bytes = b"--B--\r\n") -> bytes:
    return b"".join(b"--B\r\n" + part + b"\r\n" for part in parts) + end


TEXT = b'Content-Disposition: form-data; name="a"\r\n\r\nb'


def test_forms_are_read() -> None:
    file = b'content-disposition: form-data; name="f"; filename="x y.wav"\r\nContent-Type: audio/wav\r\n\r\n\r\n--\0\r\n'
    found = parse_form(b"preamble\r\n" + form(TEXT, file, TEXT), "B")
    assert found.texts == {"a": ["b", "b"]} and found.files == {"f": [b"\r\n--\0\r\n"]}
    empty = parse_form(form(b'Content-Disposition: form-data; name="f"; filename=""\r\n\r\n'), "B")
    assert empty.files == {"f": [b""]}


@pytest.mark.parametrize(
    ("data", "boundary", "said"),
    [
        (b"", "B", "no parts"),
        (b"hello", "B", "no parts"),
        (form(TEXT), "", "boundary"),
        (form(TEXT), "x" * 71, "boundary"),
        (form(TEXT, end=b""), "B", "cut"),
        (form(TEXT)[:20], "B", "cut"),
        (form(b"no head"), "B", "no head"),
        (form(b"X: y\r\n\r\nz"), "B", "no name"),
        (form(TEXT + b"\xff"), "B", "no UTF-8"),
        (form(TEXT + bytes(1 << 20)), "B", "bytes of text"),
        (form(*[TEXT] * 65), "B", "more than 64 parts"),
    ],
)
def test_what_is_no_form_is_told(data: bytes, boundary: str, said: str) -> None:
    with pytest.raises(ApiError, match=said):
        parse_form(data, boundary)


def test_no_damage_of_a_form_does_more_than_that() -> None:
    rng = np.random.default_rng(0)
    whole = np.frombuffer(form(TEXT, TEXT), np.uint8)
    for _ in range(3000):
        broken = whole.copy()
        broken[rng.integers(0, len(broken), 2)] = rng.integers(0, 256)
        try:
            parse_form(broken[: rng.integers(0, len(broken) + 1)].tobytes(), "B")
        except ApiError:
            continue


def test_sound_and_what_is_said_count_as_tokens_of_the_key(
    speech: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent: list[int] = []
    for module in ("transcriptions", "speech"):
        monkeypatch.setattr(f"rknnlite_server.{module}.spend_tokens", spent.append)
    assert post(speech, sound_file(1.5)[1]).status_code == 200
    assert speech.post("/v1/audio/speech", model="mms", input="abc", voice="x").status_code == 200
    assert spent == [75, 3]
