"""``rknnlite transcribe``: files, stdin, outputs and what is wrong with them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rknnlite_speech import command
from rknnlite_speech.sound import wav_bytes
from rknnlite_speech.transcribing import Transcriber

from rknnlite.cli import main

from .conftest import noise, spelling_pair


@pytest.fixture
def sounds(tmp_path: Path, vocabulary: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two files, and a model that says the same of both."""

    def opened(folder: Path, **options: Any) -> Transcriber:
        return Transcriber(spelling_pair(lambda mel: list(b"one two")), vocabulary)

    monkeypatch.setattr(command, "open_speech", opened)
    paths = [tmp_path / "a.wav", tmp_path / "b.wav"]
    for path in paths:
        path.write_bytes(wav_bytes(noise(1.0)))
    return [str(path) for path in paths]


def test_one_file_is_its_text(sounds: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["transcribe", sounds[0], "--model", "m"]) == 0
    told = capsys.readouterr()
    assert told.out == "one two\n" and "1.0 s of sound in" in told.err


def test_several_files_are_told_apart(sounds: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["transcribe", *sounds, "--model", "m"]) == 0
    assert capsys.readouterr().out == "".join(f"{path}: one two\n" for path in sounds)
    assert main(["transcribe", *sounds, "--model", "m", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["file"], line["text"]) for line in lines] == [(path, "one two") for path in sounds]


def test_stdin_is_heard(
    sounds: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(wav_bytes(noise(1.0)))))
    assert main(["transcribe", "-", "--model", "m"]) == 0
    assert capsys.readouterr().out == "one two\n"


def test_subtitles_are_written(sounds: list[str], tmp_path: Path) -> None:
    target = tmp_path / "a.srt"
    assert main(["transcribe", sounds[0], "--model", "m", "--output", str(target)]) == 0
    assert target.read_text() == "1\n00:00:00,000 --> 00:00:01,000\none two\n"


def test_one_output_is_of_one_file(sounds: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["transcribe", *sounds, "--model", "m", "--output", "a.srt"]) != 0
    assert "one file, there are 2" in capsys.readouterr().err


def test_what_is_no_sound_is_named(
    sounds: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "c.wav").write_bytes(b"hello")
    assert main(["transcribe", str(tmp_path / "c.wav"), "--model", "m"]) != 0
    assert "c.wav: the sound is of an unknown format" in capsys.readouterr().err
