"""``rknnlite export-llm``: a Hugging Face folder -> the files of a language model package."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rknnlite.commandline.options import between
from rknnlite.errors import ParamInvalid
from rknnlite.spi.command import Column, Command, Console, Exit, Part, Progress, Table

from ..container.description import AUTO
from ..container.family import Pooling
from ..container.weight_types import WEIGHT_TYPES
from ..export import KV_CACHES, export_llm
from ..package import Package
from ..quality import Mixed, export_mixed, text_file
from .export_vision import add_vision, check_vision, written_vision
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

_MAX_KL = 0.05  # nats per token, of --weights auto


class ExportLlm(Command):
    """See the module."""

    name = "export-llm"
    help = "make a language model package from a Hugging Face folder"
    examples = (
        "rknnlite export-llm Qwen2.5-0.5B-Instruct models/qwen --weights w8 --kvcache int8",
        "rknnlite export-llm Qwen2.5-0.5B-Instruct models/qwen --weights w4 --check --max-kl 0.2",
        "rknnlite export-llm Qwen2.5-0.5B-Instruct models/qwen --weights auto --max-kl 0.03",
        "rknnlite export-llm Qwen2.5-VL-3B-Instruct models/qwen-vl --weights w8 --image-size 392x392",
        "rknnlite export-llm bge-small-en-v1.5 models/bge --weights w8",
        "rknnlite export-llm bge-reranker-v2-m3 models/reranker --weights f16",
    )
    common = ("--weights", "--kvcache", "--max-context", "--check", "--html")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "source",
            type=Path,
            metavar="HF_DIR",
            help="config.json, *.safetensors, tokenizer.json; or a GGUF file",
        )
        parser.add_argument(
            "prefix", type=Path, metavar="PREFIX", help="writes PREFIX.rknn, PREFIX.weight, ..."
        )
        parser.add_argument(
            "--weights",
            choices=(*WEIGHT_TYPES, AUTO),
            default="f16",
            help="default: f16; auto: w4, and w8 where --max-kl (0.05) needs it, which is measured",
        )
        parser.add_argument(
            "--kvcache",
            choices=tuple(KV_CACHES),
            metavar="TYPE",
            help=f"{', '.join(KV_CACHES)} (default: f16; f32 with f32 weights)",
        )
        parser.add_argument(
            "--max-context",
            type=int,
            metavar="N",
            help="tokens of the KV cache, or of a text (default: 4096)",
        )
        parser.add_argument(
            "--core-num",
            type=between(int, 1, 32),
            default=8,
            metavar="N",
            help="cores of the coprocessor (default: 8)",
        )

        parser.add_argument(
            "--pooling",
            choices=[kind.value for kind in Pooling],
            help="a model of embeddings, made of the last token, the mean of all, or the first (default: as its files say)",
        )
        parser.add_argument(
            "--normalise",
            action=argparse.BooleanOptionalAction,
            help="embeddings have length 1 (default: as its files say)",
        )

        add_vision(parser)
        parser.add_argument(
            "--check", action="store_true", help="compare the package with its source, as llm-eval does"
        )
        add_quality(parser)

    def run(self, args: argparse.Namespace, console: Console) -> int:
        check_quality(args)
        check_vision(args)
        mixed, package = None, Package.of(args.prefix)
        with console.progress("export-llm") as progress:
            if args.weights == AUTO:
                mixed = _mixed(args, progress)
            else:
                export_llm(
                    args.source,
                    args.prefix,
                    args.weights,
                    args.kvcache,
                    args.max_context,
                    args.core_num,
                    progress.to,
                    args.pooling,
                    args.normalise,
                )
        files = [*package.files(), *written_vision(args, console)]
        sizes = {str(file): file.stat().st_size for file in files if file.exists()}
        data: dict[str, Any] = {"files": sizes}
        parts: list[Part] = ["\n".join(f"{size:>12d}  {name}" for name, size in sizes.items())]
        if mixed is not None:
            data["auto"] = mixed
            parts += ["", *_choice(mixed)]
        if not _checks(args):
            console.report(data, *parts)
            return Exit.OK
        reports = quality(args.source, [args.prefix], args, console)
        if args.html:
            quality_page(args.source, reports).write(args.html)
        data["check"] = quality_data(reports)
        console.report(data, *parts, "", quality_table(reports))
        return missed(reports, args, console)


def _checks(args: argparse.Namespace) -> bool:
    """Whether the package is compared with its source: --check, or an argument that means nothing without it."""
    limit = args.max_kl is not None and args.weights != AUTO
    return bool(args.check or args.html or args.transformers or limit or args.min_top1 is not None)


def _mixed(args: argparse.Namespace, progress: Progress) -> Mixed:
    if args.pooling is not None or args.normalise is not None:
        raise ParamInvalid(
            "--weights auto is for models that generate text, --pooling for embeddings; use w4 or w8"
        )
    return export_mixed(
        args.source,
        args.prefix,
        _MAX_KL if args.max_kl is None else args.max_kl,
        args.kvcache,
        args.max_context,
        args.core_num,
        progress.to,
        [text_file(path) for path in args.text or ()],
        args.work,
    )


def _choice(mixed: Mixed) -> list[Part]:
    """Every matrix and its error, and what the package comes to."""
    wide = sum(one.weights == "w8" for one in mixed.chosen)
    columns = (Column("matrix", least=12), Column("weights"), Column("lost of its products", True))
    return [
        Table(columns, [[one.name, one.weights, f"{one.error:.2e}"] for one in mixed.chosen]),
        f"{wide} of {len(mixed.chosen)} matrices have eight bits: mean KL {mixed.agreement.kl_mean:.2e} on "
        f"{mixed.agreement.tokens} tokens, {mixed.narrow.kl_mean:.2e} with w4 alone, {mixed.wide.kl_mean:.2e} with w8 alone",
    ]


COMMAND = ExportLlm()
