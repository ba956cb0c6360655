"""``rknnlite read``: what is written in pictures, of one line each, or of all that a detector finds in them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

from numpy.typing import NDArray

from rknnlite.commandline.options import between
from rknnlite.errors import RknnError
from rknnlite.spi import Context
from rknnlite.spi.command import Column

from ..crops import cut_out
from ..heads.head import ASKED, Limits
from ..reading import finding_limits, in_reading_order
from ..results import Lines, Words
from .look import Look
from .looker import Looker, Seen, open_looker
from .options import COMMON

__all__ = ["COMMAND"]

Array = NDArray[Any]


class Read(Look):
    """See the module."""

    name = "read"
    help = "read text in pictures of a line, or in what a detector finds"
    examples = (
        "rknnlite read recognise.rknn line.png --labels characters.txt",
        "rknnlite read ppocr_rec.rknn page.jpg --labels characters.txt --detector ppocr_det.rknn --out read.png",
        "rknnlite read plates.rknn street.jpg --labels plates.txt --detector yolo.rknn",
    )
    common = (*COMMON, "--detector")
    tasks = frozenset(ASKED["read"])
    columns: Sequence[Column] = (
        Column("text"),
        Column("score", right=True),
        *(Column(name, right=True) for name in ("x1", "y1", "x2", "y2")),
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        super().arguments(parser)
        parser.set_defaults(score=0.0)
        parser.add_argument(
            "--detector",
            type=Path,
            metavar="MODEL",
            help="a .rknn file that finds lines of text, or boxes; what is in each is read",
        )
        parser.add_argument(
            "--detector-score",
            type=between(float, 0.0, 1.0),
            metavar="S",
            help="least score of what it finds (default: 0.5 of lines of text, 0.3 of boxes)",
        )
        parser.add_argument(
            "--detector-hint",
            metavar="NAME",
            default="",
            help="what its head is, where names and shapes leave a choice",
        )

    def cells(self, found: dict[str, Any]) -> list[str]:
        box = [f"{value:.0f}" for value in found["box"]] if "box" in found else [""] * 4
        return [found["text"], f"{found['score']:.3f}", *box]

    def open(self, args: argparse.Namespace, count: Optional[int]) -> Looker:
        reading = "give a network that finds text as --detector, and one that reads a line as MODEL"
        reader = open_looker(
            args, Limits(score=args.score), self.tasks, None if args.detector else count, reading
        )
        if not args.detector:
            return reader
        try:
            given = {"model": args.detector, "labels": None, "fit": None, "hint": args.detector_hint}
            finding = argparse.Namespace(**{**vars(args), **given})
            detector = open_looker(finding, Limits(), frozenset(ASKED["detect"]), count, reading)
            detector.limits = finding_limits(detector.model.head.task, args.detector_score)
            return FoundReader(reader, detector)
        except BaseException:
            reader.close()
            raise


class FoundReader(Looker):
    """Reads what a detector finds, in order; the pool that it offers is the detector's."""

    def __init__(self, reader: Looker, detector: Looker) -> None:
        super().__init__(detector.pool, reader.model, reader.limits)
        self._reader, self._detector = reader, detector

    def look(self, context: Context, picture: Array) -> Seen:
        seen = self._detector.look(context, picture)
        places = in_reading_order(seen.result)
        words, run_us = [], seen.run_us
        pieces = ((row, cut_out(picture, places, row)) for row in range(len(places)))
        for _, one in self._reader.look_all(pieces):
            if isinstance(one, RknnError):
                raise one
            run_us += one.run_us
            words.append(one.result if isinstance(one.result, Words) else Words("", 0.0))
        return Seen(picture, Lines(places, tuple(words)), seen.name_of, run_us)

    def close(self) -> None:
        super().close()
        self._reader.close()


COMMAND = Read()
