"""``rknnlite llm-eval``: how far language model packages are from the checkpoint that they were made of."""

from __future__ import annotations

import argparse
from pathlib import Path

from rknnlite.commandline.options import model_file
from rknnlite.spi.command import Command, Console

from ..package import Package
from .llm_quality import (
    add_quality,
    check_quality,
    missed,
    quality,
    quality_data,
    quality_page,
    quality_table,
)

__all__ = ["COMMAND"]


class LlmEval(Command):
    """See the module."""

    name = "llm-eval"
    help = "how far language model packages are from their source"
    examples = (
        "rknnlite llm-eval models/qwen --source Qwen2.5-0.5B-Instruct --max-kl 0.05",
        "rknnlite llm-eval qwen-w8 qwen-w4 --source Qwen2.5-0.5B-Instruct --html report.html",
        "rknnlite llm-eval models/qwen --source Qwen2.5-0.5B-Instruct --transformers venv/bin/python",
    )
    common = ("--text", "--max-kl", "--min-top1", "--html")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "prefixes",
            nargs="+",
            type=Path,
            metavar="PREFIX",
            help="packages: PREFIX.rknn, PREFIX.weight, ...",
        )
        parser.add_argument(
            "--source",
            type=Path,
            required=True,
            metavar="HF_DIR",
            help="what they were made of, a Hugging Face folder",
        )
        parser.add_argument(
            "--backend", metavar="NAME", help="of the packages: cpu, rknn3rt, ...; the best one by default"
        )
        add_quality(parser)

    def run(self, args: argparse.Namespace, console: Console) -> int:
        check_quality(args)
        for prefix in args.prefixes:
            model_file(Package.of(prefix).model)
        reports = quality(args.source, args.prefixes, args, console)
        if args.html:
            quality_page(args.source, reports).write(args.html)
        console.report(
            {"source": str(args.source), "packages": quality_data(reports)}, quality_table(reports)
        )
        return missed(reports, args, console)


COMMAND = LlmEval()
