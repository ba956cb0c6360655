"""Arguments that commands for language models share."""

from __future__ import annotations

import argparse

from rknnlite.commandline.options import between

from ..draft_and_adapters import DraftAndAdapters

__all__ = ["add_draft_and_adapters", "draft_and_adapters"]


def add_draft_and_adapters(parser: argparse.ArgumentParser) -> None:
    """What goes along with a language model."""
    group = parser.add_argument_group("beside the model")
    group.add_argument(
        "--draft",
        metavar="PREFIX",
        default="",
        help="a smaller model of the same vocabulary, which guesses tokens ahead",
    )
    group.add_argument(
        "--speculate",
        type=int,
        metavar="N",
        help="tokens that are guessed ahead at most, 0 to 15 (default: 4 with --draft, else 0)",
    )
    group.add_argument(
        "--lora",
        metavar="PATH",
        default="",
        help="adapters: a folder as PEFT saves it, or one of such folders",
    )
    group.add_argument(
        "--lora-scale",
        type=between(float, -1e6, 1e6),
        metavar="X",
        default=1.0,
        help="what adapters are multiplied by (default: 1.0)",
    )


def draft_and_adapters(args: argparse.Namespace) -> DraftAndAdapters:
    """The arguments of ``add_draft_and_adapters``."""
    return DraftAndAdapters(args.draft, args.speculate, args.lora, args.lora_scale)
