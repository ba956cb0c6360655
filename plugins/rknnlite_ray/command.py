"""``rknnlite fleet``: what this machine offers to a cluster of Ray, and whether strangers may use that cluster."""

from __future__ import annotations

import argparse
import json
import shlex

from rknnlite import socs
from rknnlite.errors import DeviceUnavailable, ParamInvalid
from rknnlite.native.board import Board
from rknnlite.spi.command import Command, Console, Exit

from .placement import offered
from .tokens import check_token

__all__ = ["COMMAND"]


class Fleet(Command):
    """See the module."""

    name = "fleet"
    help = "what this machine offers to a cluster of Ray, and its token"
    examples = (
        "rknnlite fleet resources",
        "rknnlite fleet check 192.168.1.10:6379",
        'ray start --address=192.168.1.10:6379 --resources="$(rknnlite fleet resources)"',
        "rknnlite fleet resources --soc rk3588 --cores 2",
    )

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "what",
            choices=("resources", "check"),
            help="resources: the value of ray start --resources; check: refuse a cluster that asks for no token",
        )
        parser.add_argument("address", nargs="?", help="check: of the head, HOST:PORT")
        parser.add_argument("--soc", help="speak for this SoC, not for the one of this machine")
        parser.add_argument("--cores", type=int, help="offer so many NPU cores, not all")
        parser.add_argument(
            "--insecure",
            action="store_true",
            help="check: accept a cluster where whoever connects runs programs",
        )

    def run(self, args: argparse.Namespace, console: Console) -> int:
        if (args.what == "check") != (args.address is not None):
            raise ParamInvalid(
                "fleet check takes the address of a head, HOST:PORT, and fleet resources takes none"
            )
        return self._check(args, console) if args.what == "check" else self._resources(args, console)

    def _resources(self, args: argparse.Namespace, console: Console) -> int:
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

    def _check(self, args: argparse.Namespace, console: Console) -> int:
        asks = check_token(args.address, args.insecure)
        told = (
            "asks for a token, and ours is right"
            if asks
            else "asks for no token: keep it in a network of its own"
        )
        console.report({"address": args.address, "token": asks}, f"{args.address} {told}")
        return Exit.OK


COMMAND = Fleet()
