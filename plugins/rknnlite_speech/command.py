"""``rknnlite transcribe``: what is said in sound files."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from rknnlite.commandline.options import between, output_file
from rknnlite.errors import InputInvalid, ParamInvalid
from rknnlite.files.reading import read_bytes
from rknnlite.files.writing import write_text
from rknnlite.spi.command import Command, Console, Exit, Line

from .compressed import read_sound
from .opening import open_speech
from .sound import Sound
from .transcribing import Transcriber, Wanted
from .transcript import Transcript, subtitles

__all__ = ["COMMAND"]

_STDIN = Path("-")
_MOST_PIPED = 1 << 30
"""Bytes that are read from stdin."""


class Transcribe(Command):
    """See the module."""

    name = "transcribe"
    help = "write down what is said in sound files (Whisper-like models)"
    examples = (
        "rknnlite transcribe talk.wav --model models/whisper",
        "rknnlite transcribe talk.wav --model models/whisper --language de --translate",
        "rknnlite transcribe talk.wav --model models/whisper --output talk.srt",
        "ffmpeg -v error -i talk.mp3 -ac 1 -ar 16000 -f wav - | rknnlite transcribe - --model models/whisper",
    )
    common = ("--language", "--translate", "--output")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "files",
            metavar="FILE",
            type=Path,
            nargs="+",
            help="the sound (WAV; with the extra sound FLAC, MP3, Ogg); -: from stdin",
        )
        parser.add_argument(
            "--model",
            metavar="DIR",
            type=Path,
            required=True,
            help="a folder with the encoder, the decoder (*encoder*.rknn, *decoder*.rknn) and the vocabulary",
        )
        parser.add_argument(
            "--language", metavar="CODE", default="", help="en, de, zh, ...; found out by default"
        )
        parser.add_argument("--translate", action="store_true", help="into English")
        parser.add_argument(
            "--temperature",
            type=between(float, 0.0, 1.0),
            default=0.0,
            metavar="T",
            help="0: the likeliest words (default)",
        )
        parser.add_argument(
            "--output", metavar="FILE", type=Path, help="text, or subtitles, of one file: .txt, .srt, .vtt"
        )
        parser.add_argument("--backend", metavar="NAME", help="cpu, rknnrt, ...; the best one by default")

    def run(self, args: argparse.Namespace, console: Console) -> int:
        form = args.output.suffix[1:] if args.output else "txt"
        if form not in ("txt", "srt", "vtt"):
            raise ParamInvalid(f"--output {args.output}: the name must end in .txt, .srt or .vtt")
        if args.output:
            if len(args.files) > 1:
                raise ParamInvalid(f"--output takes what is said in one file, there are {len(args.files)}")
            output_file(args.output)
        sounds = [_sound(path) for path in args.files[:1]]  # what is wrong is told before a model is loaded
        model = open_speech(args.model, backend=args.backend)
        try:
            if not isinstance(model, Transcriber):
                raise ParamInvalid(f"{args.model} speaks, it does not transcribe")
            wanted = Wanted(args.language, args.translate, args.temperature)
            for path in args.files:
                sound = sounds.pop() if sounds else _sound(path)
                found = _transcript(model, sound, wanted, console)
                named = {"file": str(path)} if len(args.files) > 1 else {}
                head = f"{path}: " if named else ""
                if args.output:
                    text = f"{found.text}\n" if form == "txt" else subtitles(found.segments, form)
                    write_text(args.output, text)
                console.report({**named, **found.verbose}, Line(head + found.text))
        finally:
            model.close()
        return Exit.OK


def _sound(path: Path) -> Sound:
    try:
        if path != _STDIN:
            return read_sound(read_bytes(path))
        data = sys.stdin.buffer.read(_MOST_PIPED + 1)
        if len(data) > _MOST_PIPED:
            raise InputInvalid(f"there are more than {_MOST_PIPED} bytes")
        return read_sound(data)
    except InputInvalid as error:
        raise InputInvalid(f"{'stdin' if path == _STDIN else path}: {error}") from None


def _transcript(model: Transcriber, sound: Sound, wanted: Wanted, console: Console) -> Transcript:
    """All of it, with a bar, and a remark how fast that was."""
    begun = time.perf_counter()
    with console.progress("transcribe") as bar:
        found = model.transcript(sound, wanted, bar.to)
    seconds = time.perf_counter() - begun
    console.note(
        f"{sound.seconds:.1f} s of sound in {seconds:.1f} s, {seconds / sound.seconds:.2f} of real time"
    )
    return found


COMMAND = Transcribe()
