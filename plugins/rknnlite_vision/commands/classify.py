"""``rknnlite classify``: what a picture is."""

from __future__ import annotations

import argparse

from rknnlite.commandline.options import between

from ..heads.head import ASKED, Limits
from .look import Look
from .looker import Looker, open_looker
from .options import COMMON

__all__ = ["COMMAND"]

_MOST = 4096


class Classify(Look):
    """See the module."""

    name = "classify"
    help = "say what pictures are: the likeliest classes"
    examples = (
        "rknnlite classify resnet.rknn picture.jpg --labels labels.txt",
        "rknnlite classify resnet.rknn pictures/ --top 1 --json",
        "rknnlite classify resnet.rknn 0 --show",
    )
    common = (*COMMON, "--top")
    tasks = frozenset(ASKED["classify"])

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        super().arguments(parser)
        parser.set_defaults(score=0.0)
        parser.add_argument(
            "--top", type=between(int, 1, _MOST), default=5, metavar="N", help="classes to show (default: 5)"
        )

    def open(self, args: argparse.Namespace, count: int | None) -> Looker:
        return open_looker(args, Limits(score=args.score, most=args.top), self.tasks, count)


COMMAND = Classify()
