"""What ``llm-eval`` and ``export-llm --check`` share: their arguments, their table, their page and their verdict."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rknnlite_pages.report import HtmlReport, need_templates

from rknnlite.commandline.options import between, output_file
from rknnlite.spi.command import Column, Console, Exit, Table

from ..quality import Agreement, EvaluationSettings, Report, Text, evaluate, text_file

__all__ = [
    "add_quality",
    "check_quality",
    "missed",
    "quality",
    "quality_data",
    "quality_page",
    "quality_table",
]


def add_quality(parser: argparse.ArgumentParser) -> None:
    """Arguments of a comparison with the source."""
    group = parser.add_argument_group("comparison with the source")
    group.add_argument(
        "--text",
        type=Path,
        action="append",
        metavar="FILE",
        help="text in UTF-8 to read; repeatable (default: short texts in nine languages and as code that come along)",
    )
    group.add_argument(
        "--tokens",
        type=between(int, 16, 10_000_000),
        default=2048,
        metavar="N",
        help="tokens to read, about; every text has its share (default: 2048)",
    )
    group.add_argument(
        "--context",
        type=between(int, 8, 1_000_000),
        default=256,
        metavar="N",
        help="tokens that are read in one piece (default: 256)",
    )
    group.add_argument(
        "--max-kl",
        type=between(float, 0, 1e9),
        metavar="X",
        help="exit code 6 when the mean divergence is larger, nats per token",
    )
    group.add_argument(
        "--min-top1",
        type=between(float, 0, 1),
        metavar="X",
        help="exit code 6 when a smaller share of the likeliest tokens is the same",
    )
    group.add_argument(
        "--transformers",
        metavar="PYTHON",
        help="an interpreter with torch and transformers: they read along, as a check of the source's own figures",
    )
    group.add_argument(
        "--work",
        type=Path,
        metavar="FOLDER",
        help="for a temporary file as large as the source (default: TMPDIR)",
    )
    group.add_argument(
        "--html", type=Path, metavar="HTML", help="write a report in one self-contained file (extra: html)"
    )


def quality(
    source: Path, prefixes: Sequence[Path], args: argparse.Namespace, console: Console
) -> list[Report]:
    """Compare packages with their source, as the arguments say."""
    texts: list[Text] = [text_file(path) for path in args.text or ()]
    settings = EvaluationSettings(
        args.context, args.tokens, args.work, args.transformers, getattr(args, "backend", None)
    )
    with console.progress("llm-eval") as progress:
        return evaluate(source, prefixes, texts, settings, progress.to)


def check_quality(args: argparse.Namespace) -> None:
    """Tell what is missing before the work."""
    if args.html:
        output_file(args.html)
        need_templates()


_COLUMNS = (
    Column("read by", least=10),
    Column("weights"),
    Column("MB", True, drop=3),
    Column("tokens", True, drop=2),
    Column("KL mean", True),
    Column("KL p99", True),
    Column("top-1 same", True),
    Column("perplexity", True),
    Column("source's", True, drop=1),
)


def quality_table(reports: Sequence[Report]) -> Table:
    """A row for each candidate."""
    return Table(
        _COLUMNS, [[report.name, report.weights, _size(report), *_cells(report.all)] for report in reports]
    )


def _size(report: Report) -> str:
    return f"{report.bytes / 1e6:.1f}" if report.bytes else "-"


def _cells(found: Agreement) -> list[str]:
    return [
        str(found.tokens),
        f"{found.kl_mean:.2e}",
        f"{found.kl_p99:.2e}",
        f"{100 * found.top1:.2f} %",
        f"{found.perplexity:.4g}",
        f"{found.source_perplexity:.4g}",
    ]


def quality_data(reports: Sequence[Report]) -> list[dict[str, Any]]:
    """For programs."""
    return [
        {
            "name": report.name,
            "weights": report.weights,
            "weight_bytes": report.bytes,
            **asdict(report.all),
            "perplexity_ratio": report.all.perplexity_ratio,
            "texts": {name: asdict(found) for name, found in report.texts.items()},
        }
        for report in reports
    ]


def quality_page(source: Path, reports: Sequence[Report]) -> HtmlReport:
    """All figures, and those of every text."""
    page = HtmlReport(
        f"Language model packages beside {source.name}",
        [
            ("source", f"{source.name}, float32"),
            ("tokens read", str(reports[0].all.tokens if reports else 0)),
        ],
        verdict=[
            f"{report.name} ({report.weights}): mean divergence {report.all.kl_mean:.2e} nats per token, "
            f"{100 * report.all.top1:.2f} % of the likeliest tokens are the same"
            for report in reports
        ],
    )
    heads = ("tokens", "KL mean (nats)", "KL p99", "top-1 same (%)", "perplexity", "source's perplexity")
    page.table(
        "All texts",
        ("read by", "weights", "weight file (MB)", *heads),
        [
            [report.name, report.weights, report.bytes / 1e6 or None, *_values(report.all)]
            for report in reports
        ],
        note="Divergence (Kullback-Leibler) of what is expected behind every token from what the source expects.",
    )
    for report in reports:
        page.table(
            f"Each text, read by {report.name}",
            ("text", *heads),
            [[name, *_values(found)] for name, found in report.texts.items()],
        )
    return page


def _values(found: Agreement) -> list[float]:
    return [
        found.tokens,
        found.kl_mean,
        found.kl_p99,
        round(100 * found.top1, 2),
        found.perplexity,
        found.source_perplexity,
    ]


def missed(reports: Sequence[Report], args: argparse.Namespace, console: Console) -> int:
    """The exit code, after a line for every figure that misses what was asked for."""
    code = Exit.OK
    for report in reports:
        found = report.all
        if args.max_kl is not None and not found.kl_mean <= args.max_kl:
            console.note(f"{report.name}: mean KL {found.kl_mean:.3e} is above {args.max_kl:g}")
            code = Exit.BELOW
        if args.min_top1 is not None and not found.top1 >= args.min_top1:
            console.note(f"{report.name}: top-1 agreement {found.top1:.4f} is below {args.min_top1:g}")
            code = Exit.BELOW
    return code
