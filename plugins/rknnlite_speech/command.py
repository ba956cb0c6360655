"""``rknnlite transcribe``: what is said in a WAV file."""

from __future__ import annotations

import argparse
from pathlib import Path

from rknnlite.commandline.options import between, output_file
from rknnlite.errors import InputInvalid, ParamInvalid
from rknnlite.files.reading import read_bytes
from rknnlite.files.writing import write_text
from rknnlite.spi.command import Command, Console, Exit, Line

from .opening import open_speech
from .sound import read_wav
from .transcribing import Transcriber, Wanted
from .transcript import subtitles

__all__ = ["COMMAND"]


class Transcribe(Command):
    """See the module."""

    name = "transcribe"
    help = "write down what is said in a sound file, by a Whisper-like model"
    examples = (
        "rknnlite transcribe talk.wav --model models/whisper",
        "rknnlite transcribe talk.wav --model models/whisper --language de --translate",
        "rknnlite transcribe talk.wav --model models/whisper --output talk.srt",
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", type=Path, help="the sound (.wav)")
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
            "--output", metavar="FILE", type=Path, help="text, or subtitles: .txt, .srt, .vtt"
        )
        parser.add_argument("--backend", metavar="NAME", help="cpu, rknnrt, ...; the best one by default")

    def run(self, args: argparse.Namespace, console: Console) -> int:
        form = args.output.suffix[1:] if args.output else "txt"
        if form not in ("txt", "srt", "vtt"):
            raise ParamInvalid(f"--output {args.output}: the name must end in .txt, .srt or .vtt")
        if args.output:
            output_file(args.output)
        try:
            sound = read_wav(read_bytes(args.file))
        except InputInvalid as error:
            raise InputInvalid(f"{args.file}: {error}") from None
        model = open_speech(args.model, backend=args.backend)
        try:
            if not isinstance(model, Transcriber):
                raise ParamInvalid(f"{args.model} speaks, it does not transcribe")
            found = model.transcript(sound, Wanted(args.language, args.translate, args.temperature))
        finally:
            model.close()
        if args.output:
            text = f"{found.text}\n" if form == "txt" else subtitles(found.segments, form)
            write_text(args.output, text)
        console.report(found.verbose, Line(found.text))
        return Exit.OK


COMMAND = Transcribe()
