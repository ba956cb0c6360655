"""Try programs of others on rknnlite:   python -m tools.adopters [NAME...] [--checkout NAME=FOLDER]...

Each gets an environment of its own under --folder, kept for the next time. Without a name all are tried that PyPI has, and
those of which a checkout is named. Exit code 1 when one does not do what it should.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.adopters.adopter_rows import ADOPTERS
from tools.adopters.adopter_trial import ROOT, Outcome, Trial, wheel_of


def chosen(names: list[str], checkouts: dict[str, Path]) -> list[str]:
    """The adopters to try, in the order of the rows."""
    known = [adopter.name for adopter in ADOPTERS]
    unknown = sorted({*names, *checkouts} - {*known})
    if unknown:
        raise SystemExit(f"no such adopter: {', '.join(unknown)}; there are {', '.join(known)}")
    there = [a.name for a in ADOPTERS if not a.checkout or a.name in checkouts]
    return [name for name in known if name in (names or there)]


def checkout(text: str) -> tuple[str, Path]:
    name, found, folder = text.partition("=")
    path = Path(folder).resolve()
    if not found or not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=FOLDER with a folder that is there")
    return name, path


def line(outcome: Outcome) -> str:
    words = [outcome.adopter.name, outcome.version, "fine" if outcome.good else "FAILED"]
    return f"{' '.join(filter(None, words))} ({outcome.seconds:.0f} s): {outcome.seen}"


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.adopters", description=(__doc__ or "").split("\n", 2)[2]
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--checkout", action="append", type=checkout, default=[], metavar="NAME=FOLDER")
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "build" / "adopters", help="default: build/adopters"
    )
    parser.add_argument(
        "--list", action="store_true", help="name the adopters, their licence and where their code comes from"
    )
    options = parser.parse_args(words)
    if options.list:
        for adopter in ADOPTERS:
            origin = f"checkout of {adopter.source}" if adopter.checkout else f"PyPI: {adopter.source}"
            print(
                f"{adopter.name}: {adopter.licence}, {origin}{'; ' * bool(adopter.command)}{adopter.command}"
            )
        return 0
    checkouts = dict(options.checkout)
    names = chosen(options.names, checkouts)
    options.folder.mkdir(parents=True, exist_ok=True)
    wheel = wheel_of(ROOT, options.folder)
    outcomes = []
    for adopter in (a for a in ADOPTERS if a.name in names):
        outcomes.append(Trial(adopter, options.folder, wheel, checkouts.get(adopter.name)).run())
        print(line(outcomes[-1]), flush=True)
    return 0 if all(outcome.good for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
