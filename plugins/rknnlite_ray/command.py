"""``rknnlite fleet resources``: what this machine offers to a cluster of Ray."""

from __future__ import annotations

import argparse
import json
import shlex

from rknnlite import socs
from rknnlite.errors import DeviceUnavailable
from rknnlite.native.board import Board
from rknnlite.spi.command import Command, Console, Exit

from .placement import offered

__all__ = ["COMMAND"]


class Fleet(Command):
    """See the module."""

    name = "fleet"
    help = "many boards on Ray: what this machine offers to a cluster"
    examples = (
        "rknnlite fleet resources",
        'ray start --address=head:6379 --resources="$(rknnlite fleet resources)"',
        "rknnlite fleet resources --soc rk3588 --cores 2",
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "what", choices=("resources",), help="resources: the value of ray start --resources"
        )
        parser.add_argument("--soc", help="speak for this SoC, not for the one of this machine")
        parser.add_argument("--cores", type=int, help="offer so many NPU cores, not all")

    def run(self, args: argparse.Namespace, console: Console) -> int:
        soc = socs.get(args.soc) if args.soc else Board().soc()
        if soc is None:
            raise DeviceUnavailable(
                "this machine has no NPU known here, so it offers none; name one with --soc, such as --soc rk3588"
            )
        found = offered(soc, args.cores)
        text = json.dumps(found)
        console.report(
            {"soc": soc.name, "resources": found, "argument": f"--resources={shlex.quote(text)}"}, text
        )
        return Exit.OK


COMMAND = Fleet()
