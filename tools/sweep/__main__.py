"""Which ONNX operators and patterns survive the way through a .rknn file into the CPU reference.

Two steps, because they need different environments:

    python tools/sweep convert --cache FOLDER                  with the vendor's PC toolkit installed
    python tools/sweep run --cache FOLDER [--markdown FILE]    with rknnlite installed (no onnx needed)

Both take ``--only 'conv*'`` (shell pattern of case names) and ``--target 'rk3588.*'``. What is in the cache is not
converted again; ``convert --retry`` repeats conversions that failed.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from targets import TARGETS

INDEX = "index.json"
"""In the cache: which folder belongs to which case, and how it is judged."""


def _convert(args: argparse.Namespace) -> None:
    from cases import CASES
    from convert import Job, convert_all

    folders, jobs = {}, []
    for name, case in CASES.items():
        digest = case.digest()
        folders[name] = {
            "folder": f"{name}-{digest}",
            "judge": case.judge.value,
            "attributes": case.attributes(),
        }
        if fnmatch.fnmatch(name, args.only):
            jobs += [Job(case, t, args.cache / folders[name]["folder"] / t) for t in TARGETS]
    args.cache.mkdir(parents=True, exist_ok=True)
    (args.cache / INDEX).write_text(json.dumps(folders, indent=1))
    jobs = [job for job in jobs if fnmatch.fnmatch(job.target, args.target)]
    if args.retry:
        for job in jobs:
            Path(f"{job.stem}.fail").unlink(missing_ok=True)
    order = {target: place for place, target in enumerate(TARGETS)}
    convert_all(
        sorted((job for job in jobs if not job.done), key=lambda job: order[job.target]),
        args.processes,
        args.limit,
    )


def _run(args: argparse.Namespace) -> None:
    from compare import compare_all
    from page import put
    from report import markdown, table

    index = json.loads((args.cache / INDEX).read_text())
    chosen = {name: entry for name, entry in index.items() if fnmatch.fnmatch(name, args.only)}
    results = compare_all(args.cache, chosen, args.target, TARGETS)
    print(table(results, args.verbose))
    if args.markdown:
        put(args.markdown, "sweep", markdown(results))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="sweep", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, function in (("convert", _convert), ("run", _run)):
        command = commands.add_parser(name)
        command.set_defaults(function=function)
        command.add_argument("--cache", type=Path, required=True, help="folder of conversions")
        command.add_argument("--only", default="*", help="shell pattern of case names")
        command.add_argument("--target", default="*", help="shell pattern of targets")
    convert, run = commands.choices["convert"], commands.choices["run"]
    convert.add_argument("--processes", type=int, default=2, choices=(1, 2))
    convert.add_argument("--limit", type=float, default=90, help="seconds per conversion")
    convert.add_argument("--retry", action="store_true", help="repeat failed conversions")
    run.add_argument("--markdown", type=Path, help="write the report there")
    run.add_argument("--verbose", action="store_true", help="show the cases that match, too")
    args = parser.parse_args()
    args.function(args)


if __name__ == "__main__":
    main()
