"""``rknnlite npu-plan``: what a runtime would hand to the kernel for a model, from the file alone."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from rknnlite.commandline.options import core_mask, model_file, output_file
from rknnlite.errors import ParamInvalid
from rknnlite.spi.command import Column, Command, Console, Exit, Line, Part, Table, Tone, bytes_text

if TYPE_CHECKING:
    from .submission import Submission

__all__ = ["COMMAND"]

_ALL = 0xFFFF
_BUFFERS = ("weight", "internal", "task")
_BUFFER_COLUMNS = [Column("buffer"), Column("address", right=True), Column("bytes", right=True)]
_JOB_COLUMNS = [
    Column("job", right=True),
    Column("core", right=True),
    Column("nodes"),
    Column("tasks", right=True),
    Column("words", right=True),
    Column("tables"),
]


def _address(text: str) -> int:
    """A number of 32 bits, for argparse."""
    try:
        value = int(text, 0)
    except ValueError:
        value = -1
    if not 0 <= value < 1 << 32:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no address; give a number of 32 bits, such as 0xffef0000"
        )
    return value


def _base(text: str) -> tuple[str, int]:
    """``weight=0xffef0000``, for argparse."""
    name, _, address = text.partition("=")
    if name not in _BUFFERS or not address:
        raise argparse.ArgumentTypeError(
            f"{text!r} names no buffer; give weight=ADDRESS and internal=ADDRESS, and task=ADDRESS if you like"
        )
    return name, _address(address)


class NpuPlan(Command):
    """See the module."""

    name = "npu-plan"
    help = "the NPU's command words and task records, for driver authors"
    examples = (
        "rknnlite npu-plan model.rknn --base weight=0xffef0000 internal=0xffee0000",
        "rknnlite npu-plan model.rknn --base weight=0xffef0000 internal=0xffee0000 --io 0xffed0000 0xffec0000 "
        "--uint8 --cores 0x7 --out plan.npz",
    )
    common = ("--io", "--uint8", "--out")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("model", type=Path, metavar="MODEL", help="the .rknn file")
        parser.add_argument(
            "--base",
            nargs="+",
            type=_base,
            required=True,
            metavar="BUFFER=ADDRESS",
            help="where the NPU sees the buffers: weight (constants, command words) and internal (activations)",
        )
        parser.add_argument(
            "--io",
            nargs="+",
            type=_address,
            default=[],
            metavar="ADDRESS",
            help="buffers of inputs and outputs, one each in the model's order; default: they lie in the internal buffer",
        )
        parser.add_argument(
            "--uint8", action="store_true", help="inputs are uint8 pixels, which the NPU converts"
        )
        parser.add_argument(
            "--cores",
            type=core_mask,
            metavar="MASK",
            help="core mask: only the records that its cores get; default: all of the file, for every way of dividing cores",
        )
        parser.add_argument(
            "--out",
            type=Path,
            metavar="FILE",
            help="write the arrays words, offset, records, sizes and more, as .npz",
        )
        parser.add_argument(
            "--shape",
            type=int,
            metavar="N",
            help="of a model for several sets of shapes: which, counted from 0 as 'rknnlite info' lists them",
        )
        parser.add_argument("--words", action="store_true", help="print every command word")

    def run(self, args: argparse.Namespace, console: Console) -> int:
        named = dict(args.base)
        lacking = [name for name in _BUFFERS[:2] if name not in named]
        if lacking:
            raise ParamInvalid(f"--base lacks {' and '.join(lacking)}; give {lacking[0]}=ADDRESS")
        from .cores import legal_masks  # what reads graphs is loaded when a file is planned
        from .placement import Bases
        from .plan_file import arrays_of, write_arrays
        from .submission import plan

        out = output_file(args.out) if args.out is not None else None
        file = model_file(args.model)
        with console.progress("npu-plan"), file.naming():
            found = plan(file.model, Bases(io=args.io, **named), args.uint8, args.shape)
            mask = args.cores if args.cores != _ALL else max(legal_masks(found.program))
            arrays = arrays_of(found, mask)
        if out is not None:
            write_arrays(out, arrays)
        for doubt in found.doubts:
            console.note(f"never recorded: {doubt}")
        parts = [*_summary(found, mask or 0), *(_listing(found, mask or 0) if args.words else ())]
        console.report(_data(found, mask or 0, out), *parts)
        return Exit.OK


def _data(found: Submission, mask: int, out: Optional[Path]) -> dict[str, Any]:
    return {
        "family": found.program.family,
        "buffers": [{"name": b.name, "address": b.address, "bytes": b.size} for b in found.placement.buffers],
        "commands": found.placement.commands,
        "words": len(found.words),
        "records": len(found.tasks),
        "jobs": found.jobs(mask),
        "cpu_nodes": [str(node) for node in found.cpu_nodes],
        "never_recorded": found.doubts,
        "file": out,
    }


def _summary(found: Submission, mask: int) -> Iterator[Part]:
    rows = [[b.name, f"{b.address:#x}", str(b.size)] for b in found.placement.buffers]
    yield Table(_BUFFER_COLUMNS, rows)
    yield ""
    yield (
        f"{len(found.words)} command words from {found.placement.commands:#x} on "
        f"({bytes_text(8 * len(found.words))}), {len(found.tasks)} task records"
    )
    yield ""
    yield Table(_JOB_COLUMNS, list(_job_rows(found, mask)))
    if found.cpu_nodes:
        yield ""
        yield Line("On the CPU", Tone.HEAD)
        yield from (str(node) for node in found.cpu_nodes)


def _job_rows(found: Submission, mask: int) -> Iterator[list[str]]:
    for number, job in enumerate(found.jobs(mask)):
        first, last = job.nodes
        nodes = str(first) if first == last else f"{first} to {last}"
        for core, tasks in enumerate(job.cores):
            words = sum(found.tasks[i].amount for i in tasks)
            yield [
                str(number),
                str(core),
                nodes,
                str(len(tasks)),
                str(words),
                "yes" if job.tables else "",
            ]


def _listing(found: Submission, mask: int) -> Iterator[Part]:
    from .command_words import CommandWord
    from .plan_file import handed_over

    for index, job, core in handed_over(found, mask):
        task = found.tasks[index]
        node = found.program.nodes[task.node]
        yield ""
        yield Line(
            f"task {index}, job {job}, core {core}: {node}, units {task.enable:#x}, at {task.address:#x}",
            Tone.HEAD,
        )
        yield from (str(CommandWord.of(word)) for word in found.words_of(index))


COMMAND = NpuPlan()
