"""``rknnlite bench-llm``: how fast a language model answers, beside what the memory of the machine allows."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Optional

from rknnlite_pages.report import HtmlReport, need_templates

from rknnlite.commandline.options import between, output_file
from rknnlite.spi.command import Column, Command, Console, Exit, Line, Table, Tone
from rknnlite.spi.llm import LlmContext

from ..draft_and_adapters import DraftAndAdapters
from ..footprint import Bandwidth, bandwidth, kv_bytes, kv_read_bytes, own_bytes, package_model, weight_bytes
from ..speed import Speed, embeddings, measure, open_package
from .options import add_draft_and_adapters, draft_and_adapters

__all__ = ["COMMAND"]


@dataclass(frozen=True)
class _Facts:
    """What holds for all rows; bytes, None where nobody knows.

    ``read_bytes``: of weights, keys and values that a step of decoding reads, by ``_seen``; ``own_bytes``: resident memory beside
    mapped files, more than before the model was opened.
    """

    model: str
    backend: str
    runtime: str
    context: int
    rope: int
    open_s: float
    step_bytes: Optional[int]
    kv_token_bytes: Optional[int]
    own_bytes: Optional[int]
    memory: Optional[Bandwidth]
    read_bytes: dict[int, int]

    def rate(self, row: Speed) -> float | None:
        """Bytes of weights, keys and values per second that one session reads."""
        read = self.read_bytes.get(_seen(row))
        return None if read is None or self.memory is None or row.sessions > 1 else read / row.tpot

    def share(self, row: Speed) -> float | None:
        """Of the limit: what that is of the bytes per second that a numpy GEMV reads."""
        rate = self.rate(row)
        return None if rate is None or self.memory is None else rate / self.memory.gemv


def _seen(row: Speed) -> int:
    """Tokens that the token in the middle of an answer sees."""
    return row.prompt_tokens + row.new_tokens // 2


class BenchLlm(Command):
    """See the module."""

    name = "bench-llm"
    help = "first token, tokens per second, memory of a language model"
    examples = (
        "rknnlite bench-llm models/qwen",
        "rknnlite bench-llm models/qwen --prompt-tokens 128,1024 --new-tokens 64 --html report.html",
        "rknnlite bench-llm models/qwen --sessions 1,4 --json",
    )
    common = ("--prompt-tokens", "--new-tokens", "--sessions", "--html", "--backend")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("prefix", metavar="PREFIX", help="the package: PREFIX.rknn, PREFIX.weight, ...")
        parser.add_argument("--backend", metavar="NAME", help="cpu, rknn3rt, ...; the best one by default")
        parser.add_argument(
            "--prompt-tokens",
            type=_counts,
            metavar="N,...",
            help="lengths of the prompt (default: 32,128,512, as far as they fit)",
        )
        parser.add_argument(
            "--new-tokens",
            type=between(int, 2, 100_000),
            default=32,
            metavar="N",
            help="tokens to generate (default: 32)",
        )
        parser.add_argument(
            "--sessions",
            type=_counts,
            default=[1],
            metavar="N,...",
            help="conversations at the same time (default: 1)",
        )
        parser.add_argument(
            "--runs",
            type=between(int, 1, 1000),
            default=3,
            metavar="N",
            help="runs of which the median counts (default: 3)",
        )
        add_draft_and_adapters(parser)
        parser.add_argument(
            "--html",
            type=Path,
            metavar="HTML",
            help="write a report in one self-contained file (extra: html)",
        )

    def run(self, args: argparse.Namespace, console: Console) -> int:
        if args.html:
            output_file(args.html)
            need_templates()
        along = draft_and_adapters(args)
        before, start = own_bytes(), time.perf_counter()
        with open_package(args.prefix, backend=args.backend, **along.options) as context:
            along.open(context)
            opened = time.perf_counter() - start
            rows = _measured(context, args, along, console)
            after = own_bytes()
            here = (
                None
                if after is None or before is None or context.traits.separate_processes
                else after - before
            )
            facts = _facts(context, args.prefix, opened, here, rows)
        if args.html:
            _page(facts, rows).write(args.html)
        remarks = [*_guesses(rows), *_remarks(facts)]
        console.report(_data(facts, rows), _table(facts, rows), *(Line(line, Tone.QUIET) for line in remarks))
        return Exit.OK


def _counts(text: str) -> list[int]:
    return [between(int, 1, 1_000_000)(word) for word in text.split(",")]


def _measured(
    context: LlmContext, args: argparse.Namespace, along: DraftAndAdapters, console: Console
) -> list[Speed]:
    embed = embeddings(args.prefix, context)
    room = (context.config.max_ctx_len or 1 << 30) - args.new_tokens
    prompts = args.prompt_tokens or [count for count in (32, 128, 512) if count <= room] or [max(1, room)]
    plans = [(sessions, prompt) for sessions in args.sessions for prompt in prompts]
    with console.progress("bench-llm", len(plans)) as progress:
        measure(context, embed, prompts[0], 2, runs=1, draft_and_adapters=along)  # the first run warms up
        rows = []
        for sessions, prompt in plans:
            rows.append(measure(context, embed, prompt, args.new_tokens, sessions, args.runs, along))
            progress.step()
    return rows


def _facts(context: LlmContext, prefix: str, opened: float, own: int | None, rows: Sequence[Speed]) -> _Facts:
    config, model, here = context.config, package_model(prefix), context.backend_name == "cpu"
    step = weight_bytes(model) if model else None
    return _Facts(
        str(prefix),
        context.backend_name,
        context.versions.api,
        config.max_ctx_len,
        config.max_position_embeddings,
        opened,
        step,
        kv_bytes(model, 1) if model else None,
        own,
        bandwidth() if here else None,
        {_seen(row): step + kv_read_bytes(model, _seen(row)) for row in rows} if model and step else {},
    )


_COLUMNS = (
    Column("Model Context", True, drop=2),
    Column("Rope Length", True, drop=1),
    Column("Sessions", True),
    Column("Input Tokens", True),
    Column("New Tokens", True),
    Column("TTFT(ms)", True),
    Column("TPOT(ms)", True),
    Column("Prefill TPS", True),
    Column("Decode TPS", True),
    Column("reads GB/s", True),
    Column("of limit", True),
)


def _table(facts: _Facts, rows: Sequence[Speed]) -> Table:
    cells = [
        [
            str(facts.context),
            str(facts.rope),
            str(row.sessions),
            str(row.prompt_tokens),
            str(row.new_tokens),
            f"{1000 * row.ttft:.1f}",
            f"{1000 * row.tpot:.2f}",
            f"{row.prefill_tps:.1f}",
            f"{row.decode_tps:.1f}",
            *_reading(facts, row),
        ]
        for row in rows
    ]
    return Table(_COLUMNS, cells, "-")


def _reading(facts: _Facts, row: Speed) -> tuple[str, str]:
    rate, share = facts.rate(row), facts.share(row)
    return ("-", "-") if rate is None or share is None else (f"{rate / 1e9:.2f}", f"{100 * share:.0f} %")


def _guesses(rows: Sequence[Speed]) -> list[str]:
    guessed = sum(row.guessed_tokens for row in rows)
    accepted = sum(row.accepted_tokens for row in rows)
    share = f"tokens guessed ahead: {guessed}, of which {accepted} were chosen"
    return [f"{share} ({100 * accepted / guessed:.0f} %)"] if guessed else []


def _remarks(facts: _Facts) -> list[str]:
    told = [f"{facts.runtime}; opened in {facts.open_s:.2f} s"]
    if facts.own_bytes is not None:
        told.append(
            f"memory of this process beside mapped files: {facts.own_bytes / 1e6:.0f} MB more than before"
        )
    if facts.kv_token_bytes is not None:
        told.append(
            f"KV cache: {facts.kv_token_bytes} bytes per token, {facts.kv_token_bytes * facts.context / 1e6:.1f} MB in all"
        )
    if facts.step_bytes is not None:
        told.append(f"weights that one step of decoding reads: {facts.step_bytes / 1e6:.1f} MB")
    if facts.memory is not None:
        told.append(
            f"memory of this machine, by numpy: GEMV reads {facts.memory.gemv / 1e9:.1f} GB/s, a copy moves "
            f"{facts.memory.copy / 1e9:.1f} GB/s"
        )
    return told


def _data(facts: _Facts, rows: Sequence[Speed]) -> dict[str, Any]:
    data = asdict(facts)
    data["open_us"] = 1e6 * data.pop("open_s")
    data["memory"] = facts.memory and {
        "gemv_bytes_per_s": facts.memory.gemv,
        "copy_bytes_per_s": facts.memory.copy,
    }
    return {**data, "rows": [_row(row, facts.share(row)) for row in rows]}


def _row(row: Speed, share: float | None) -> dict[str, Any]:
    """Times in microseconds, as everywhere."""
    data = asdict(row)
    data["ttft_us"], data["tpot_us"] = 1e6 * data.pop("ttft"), 1e6 * data.pop("tpot")
    for name in ("prefill", "decode"):
        data[f"{name}_tokens_per_s"] = data.pop(f"{name}_tps")
    return {**data, "share_of_limit": share}


def _page(facts: _Facts, rows: Sequence[Speed]) -> HtmlReport:
    page = HtmlReport(
        f"Speed of the language model {Path(facts.model).name}",
        [("backend", facts.backend), ("context of the model", f"{facts.context} tokens")],
        verdict=[*_guesses(rows), *_remarks(facts)],
    )
    page.table(
        "Sessions and prompts",
        (
            "sessions",
            "input tokens",
            "new tokens",
            "time to first token (ms)",
            "time per output token (ms)",
            "prefill, all sessions (tokens/s)",
            "decode, all sessions (tokens/s)",
            "share of the limit (%)",
        ),
        [
            [
                row.sessions,
                row.prompt_tokens,
                row.new_tokens,
                round(1000 * row.ttft, 1),
                round(1000 * row.tpot, 2),
                round(row.prefill_tps, 1),
                round(row.decode_tps, 1),
                _percent(facts.share(row)),
            ]
            for row in rows
        ],
        note="Medians. The limit is what a numpy GEMV reads per second; it is told for one session, several read together.",
    )
    return page


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 1)


COMMAND = BenchLlm()
