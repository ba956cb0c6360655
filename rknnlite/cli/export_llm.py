"""``rknnlite export-llm``: a Hugging Face folder -> the files of a language model package."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..formats.llm_families import Pooling
from ..formats.llm_weights import WEIGHT_TYPES
from ..llm.export import KV_CACHES, export_llm
from ..spi.command import Command, Console, Exit
from .options import between

__all__ = ["COMMAND"]


class ExportLlm(Command):
    """See the module."""

    name = "export-llm"
    help = "make a language model package from a Hugging Face folder"
    examples = (
        "rknnlite export-llm Qwen2.5-0.5B-Instruct models/qwen --weights w8 --kvcache int8",
        "rknnlite export-llm bge-small-en-v1.5 models/bge --weights w8",
        "rknnlite export-llm bge-reranker-v2-m3 models/reranker --weights f16",
    )

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
        parser.add_argument("--weights", choices=tuple(WEIGHT_TYPES), default="f16", help="default: f16")
        parser.add_argument("--kvcache", choices=tuple(KV_CACHES), help="default: f16; f32 with f32 weights")
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
            "--pooling", choices=[kind.value for kind in Pooling],
            help="a model of embeddings, made of the last token, the mean of all, or the first (default: as its files say)",
        )  # fmt: skip
        parser.add_argument(
            "--normalise", action=argparse.BooleanOptionalAction, help="embeddings have length 1 (default: as its files say)"
        )  # fmt: skip

    def run(self, args: argparse.Namespace, console: Console) -> int:
        with console.progress("export-llm") as progress:
            package = export_llm(
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
        files = [
            file
            for file in (package.model, package.weight, package.embed, package.tokenizer)
            if file.exists()
        ]
        sizes = {str(file): file.stat().st_size for file in files}
        text = "\n".join(f"{size:>12d}  {name}" for name, size in sizes.items())
        console.report({"files": sizes}, text)
        return Exit.OK


COMMAND = ExportLlm()
