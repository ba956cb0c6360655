"""``rknnlite serve``, and ``rkllm3-server`` with the arguments of the RKNN3 guide."""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path

from rknnlite.commandline.options import model_file
from rknnlite.spi.command import Command, Console, Exit

from .arguments import (
    add_model_arguments,
    add_network_arguments,
    add_repository_arguments,
    add_server_arguments,
    settings_of_arguments,
)
from .control import ServerStatus, serve
from .settings import ServerSettings

__all__ = ["COMMAND", "main"]


class Serve(Command):
    """See the module."""

    name = "serve"
    help = "offer networks and language models to other programs"
    examples = (
        "rknnlite serve examples/resnet18/resnet18_for_RK3588.rknn",
        "rknnlite serve --repository models --workers 3 --api-key-file keys.txt --host 0.0.0.0",
        "rknnlite serve --llm models/tiny",
        "rknnlite serve --llm models/tiny --alias tiny --port 8080 --parallel 4",
        "rknnlite serve --llm-repository models --llm-models 2 --keep-alive 10m",
        "rknnlite serve --params-file params.json --api-key-file keys.txt --host 0.0.0.0",
    )
    common = (
        "--llm",
        "--repository",
        "--alias",
        "--host",
        "--port",
        "--api-key-file",
        "--workers",
        "--params-file",
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--llm",
            "-m",
            "--model",
            action="append",
            metavar="PREFIX",
            default=[],
            help="a language model: PREFIX.rknn and its parts; repeatable",
        )
        parser.add_argument(
            "--speech",
            action="append",
            metavar="DIR",
            default=[],
            help="a speech model: a folder with an encoder, a decoder and a vocabulary; repeatable",
        )
        add_network_arguments(parser)
        add_repository_arguments(parser)
        add_model_arguments(parser)
        add_server_arguments(parser)
        parser.add_argument("--usage", action="help", help="as --help")

    def run(self, args: argparse.Namespace, console: Console) -> int:
        settings = settings_of_arguments(args, args.llm)
        _check_files(settings)
        return _serve(settings, console, args.log_level)


def _check_files(settings: ServerSettings) -> None:
    """Models that are not there are told before anybody can ask for them."""
    models = [
        model.model for model in settings.models if not model.model.isdigit()
    ]  # a number is a descriptor
    for path in (*settings.networks, *models):
        model_file(Path(path))


def _serve(settings: ServerSettings, console: Console, log_level: int) -> int:
    failed: list[str] = []

    def on_status(status: ServerStatus, text: str) -> None:
        if status is ServerStatus.ERROR:
            failed.append(text)
        elif status is ServerStatus.MODEL_INITED:
            console.note(f"ready: {text}")

    def listening(url: str, grpc: str) -> None:
        if grpc:
            console.note(grpc)
        console.note(f"{url} (models are being loaded; Ctrl-C ends)")

    serve(settings, on_status, log_level, listening)
    return Exit.FAILED if failed else Exit.OK


COMMAND = Serve()


def main() -> None:
    """The console script: ``rknnlite serve`` under the guide's name."""
    sys.argv[1:1] = [COMMAND.name]
    runpy.run_module("rknnlite", run_name="__main__", alter_sys=True)
