"""``rknnlite pull``: a language model from a URL or a path into a folder of models."""

from __future__ import annotations

import argparse
from pathlib import Path

from rknnlite.errors import ParamInvalid
from rknnlite.spi.command import Command, Console, Exit

from ..fetching import Fetch, fetch_model, sums_in

__all__ = ["COMMAND"]


class Pull(Command):
    """See the module."""

    name = "pull"
    help = "fetch a language model; goes on where a former try was cut"
    examples = (
        "rknnlite pull https://models.example/qwen/qwen.rknn --into models",
        "rknnlite pull https://models.example/tiny.gguf#sha256=HEX --into models --name tiny:q8",
        "rknnlite pull https://models.example/qwen.rkllm --sums SHA256SUMS",
        "rknnlite pull /media/usb/Qwen2.5-0.5B-Instruct --into models",
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "source",
            metavar="SOURCE",
            help="URL or path of NAME.rknn (its parts lie beside it), .rkllm, .gguf, or a Hugging Face folder; "
            "#sha256=HEX behind it is the checksum of that file",
        )
        parser.add_argument(
            "--into",
            type=Path,
            default=Path(),
            metavar="DIR",
            help="the folder of models (default: this one)",
        )
        parser.add_argument("--name", default="", help="what it is called there (default: as its file)")
        parser.add_argument(
            "--sums",
            type=Path,
            metavar="FILE",
            help="checksums as sha256sum writes them; what is not in that list does not come",
        )

    def run(self, args: argparse.Namespace, console: Console) -> int:
        if not args.into.is_dir():
            raise ParamInvalid(f"--into {args.into} is no folder; make it: mkdir {args.into}")
        sums = sums_in(args.sums) if args.sums else ()
        fetch = Fetch(args.source, args.name, sums, listed=bool(args.sums))
        with console.progress(f"pull {fetch.called}") as bar:
            model = fetch_model(fetch, args.into, lambda name, done, total: bar.to(done, total, name))
        sizes = {str(path): path.stat().st_size for path in model.files}
        data = {"name": model.name, "kind": model.kind.value, "files": sizes}
        console.report(data, "\n".join(f"{size:>12d}  {path}" for path, size in sizes.items()))
        return Exit.OK


COMMAND = Pull()
