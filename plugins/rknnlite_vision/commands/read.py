"""``rknnlite read``: what is written in pictures, of one line each, or of all that a detector finds in them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.commandline.options import between
from rknnlite.errors import ModelInvalid, RknnError
from rknnlite.spi import Context
from rknnlite.spi.command import Column

from ..crops import cut_out
from ..heads.head import ASKED, Limits
from ..results import Detections, Words
from .look import Look
from .looker import Looker, Seen, open_looker
from .options import COMMON

__all__ = ["COMMAND"]

Array = NDArray[Any]
_LEAST = 0.3
_OVERLAP = 0.5


class Read(Look):
    """See the module."""

    name = "read"
    help = "read text in pictures of a line, or in what a detector finds"
    examples = (
        "rknnlite read recognise.rknn line.png --labels characters.txt",
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
            help="a .rknn file that finds boxes; what is in each is read",
        )
        parser.add_argument(
            "--detector-score",
            type=between(float, 0.0, 1.0),
            default=_LEAST,
            metavar="S",
            help=f"least score of its boxes (default: {_LEAST})",
        )

    def cells(self, found: dict[str, Any]) -> list[str]:
        box = [f"{value:.0f}" for value in found["box"]] if "box" in found else [""] * 4
        return [found["text"], f"{found['score']:.3f}", *box]

    def open(self, args: argparse.Namespace, count: Optional[int]) -> Looker:
        reader = open_looker(args, Limits(score=args.score), self.tasks, None if args.detector else count)
        if not args.detector:
            return reader
        try:
            finding = argparse.Namespace(
                **{**vars(args), "model": args.detector, "labels": None, "fit": None, "hint": ""}
            )
            limits = Limits(args.detector_score, _OVERLAP)
            boxes = frozenset(ASKED["detect"])
            return FoundReader(reader, open_looker(finding, limits, boxes, count))
        except BaseException:
            reader.close()
            raise


@dataclass(frozen=True)
class SeenText(Seen):
    """Boxes and the text in each, whose number is its class."""

    @property
    def found(self) -> list[dict[str, Any]]:
        things = super().found
        return [{"text": one["label"], "score": one["score"], "box": one["box"]} for one in things]


class FoundReader(Looker):
    """Reads what a detector finds, from the top down; the pool that it offers is the detector's."""

    def __init__(self, reader: Looker, detector: Looker) -> None:
        super().__init__(detector.pool, reader.model, reader.limits)
        self._reader, self._detector = reader, detector

    def look(self, context: Context, picture: Array) -> Seen:
        seen = self._detector.look(context, picture)
        found = seen.result
        if not isinstance(found, Detections):
            raise ModelInvalid("the detector finds no boxes")
        found = found[np.lexsort((found.boxes[:, 0], found.boxes[:, 1]))]
        texts, scores, run_us = [], [], seen.run_us
        pieces = ((row, cut_out(picture, found, row)) for row in range(len(found)))
        for _, one in self._reader.look_all(pieces):
            if isinstance(one, RknnError):
                raise one
            words = one.result
            run_us += one.run_us
            texts.append(words.text if isinstance(words, Words) else "")
            scores.append(words.score if isinstance(words, Words) else 0.0)
        read = replace(
            found, classes=np.arange(len(found)), scores=np.array(scores), masks=None, keypoints=None
        )
        return SeenText(picture, read, texts.__getitem__, run_us)

    def close(self) -> None:
        super().close()
        self._reader.close()


COMMAND = Read()
