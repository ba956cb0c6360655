"""Which ONNX operators and patterns survive the way through a .rknn file into the CPU reference.

Two steps, because they need different environments, and what keeps and checks their results:

    python tools/sweep convert --cache FOLDER                  with the vendor's PC toolkit installed
    python tools/sweep run --cache FOLDER [--markdown FILE] [--verdicts]
                                                               with rknnlite installed (no onnx needed)
    python tools/sweep pack --cache FOLDER --out tests/data/swept --only 'l2_map*' --target 'rk3588.i8,rv1106.i8'
                                                               cases with the simulator's answers, as data of the tests
    python tools/sweep check                                   are the verdicts of the random cases (verdicts.txt) whole?

All but the last take ``--only 'conv*'`` (shell pattern of case names; random cases are called ``conv.0007``) and
``--target 'rk3588.*'``. What is in the cache is not converted again; ``convert --retry`` repeats conversions that failed.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent))

from targets import TARGETS, dtype_of

if TYPE_CHECKING:
    from compare import Result
    from verdicts import Entry

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
            "dtypes": case.dtypes,
            "fingerprint": case.fingerprint(),
        }
        if fnmatch.fnmatch(name, args.only):
            chosen = (target for target in TARGETS if dtype_of(target) in case.dtypes)
            jobs += [Job(case, t, args.cache / folders[name]["folder"] / t) for t in chosen]
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
    import verdicts
    from compare import compare_all
    from random_cases import is_random
    from report import table

    index = json.loads((args.cache / INDEX).read_text())
    chosen = {name: entry for name, entry in index.items() if fnmatch.fnmatch(name, args.only)}
    results = compare_all(args.cache, chosen, args.target, TARGETS)
    print(table(results, args.verbose))
    drawn = [result for result in results if is_random(result.case)]
    entries = verdicts.read()
    if args.verdicts:
        fingerprints = {name: entry["fingerprint"] for name, entry in index.items() if is_random(name)}
        entries = verdicts.update(entries, drawn, fingerprints)
        verdicts.write(entries)
    if args.markdown:
        _write(args.markdown, entries, [result for result in results if not is_random(result.case)], drawn)


def _write(page: Path, entries: Mapping[str, Entry], by_hand: list[Result], drawn: list[Result]) -> None:
    """The section of the page, and its tables as data."""
    import report
    import report_random
    from cases import CASES
    from data_file import assets, write
    from page import put

    operators = {name: CASES[name].operators() for name in dict.fromkeys(r.case for r in by_hand)}
    put(page, "sweep", report.markdown(by_hand, report_random.markdown(entries)))
    write(assets(page, "operators"), "Cases of tools/sweep.", report.rows(by_hand, operators))
    write(assets(page, "random"), "Random cases of tools/sweep.", report_random.rows(entries))
    write(assets(page, "open"), "Random cases that do not match.", report_random.open_rows(drawn))


def _check(args: argparse.Namespace) -> None:
    import verdicts
    from random_cases import cases

    entries = verdicts.read()
    for soc, count in verdicts.counts(entries).items():
        proven = count.right - count.match
        print(
            f"{soc:8}{count.converted:6} converted{count.match:6} match{proven:4} proven{100 * count.share:8.2f} %"
        )
    found = verdicts.problems(entries, {case.name: case for case in cases()})
    if found:
        sys.exit("\n".join(found))


def _pack(args: argparse.Namespace) -> None:
    from pack import Packed, pack

    args.out.mkdir(parents=True, exist_ok=True)
    patterns = args.target.split(",")
    targets = [target for target in TARGETS if any(fnmatch.fnmatch(target, p) for p in patterns)]
    cases = [
        Packed(name, args.cache / entry["folder"], entry["judge"], entry["attributes"], targets)
        for name, entry in json.loads((args.cache / INDEX).read_text()).items()
        if any(fnmatch.fnmatch(name, pattern) for pattern in args.only.split(","))
    ]
    for name, group in [(args.together, cases)] if args.together else [(case.name, [case]) for case in cases]:
        print(f"{name}: {pack(group, args.out / f'{name}.tar.xz')} bytes")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="sweep", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="is the file of verdicts whole?")
    check.set_defaults(function=_check)
    for name, function in (("convert", _convert), ("run", _run), ("pack", _pack)):
        command = commands.add_parser(name)
        command.set_defaults(function=function)
        command.add_argument("--cache", type=Path, required=True, help="folder of conversions")
        command.add_argument("--only", default="*", help="shell pattern of case names")
        command.add_argument("--target", default="*", help="shell pattern of targets")
    convert, run = commands.choices["convert"], commands.choices["run"]
    convert.add_argument("--processes", type=int, default=2, choices=(1, 2))
    convert.add_argument("--limit", type=float, default=90, help="seconds per conversion")
    convert.add_argument("--retry", action="store_true", help="repeat failed conversions")
    pack = commands.choices["pack"]
    pack.add_argument("--out", type=Path, required=True, help="folder of the archives")
    pack.add_argument("--together", metavar="NAME", help="one archive of that name for all cases")
    run.add_argument("--markdown", type=Path, help="page: write the report there, its data beside it")
    run.add_argument("--verdicts", action="store_true", help="note the verdicts of random cases")
    run.add_argument("--verbose", action="store_true", help="show the cases that match, too")
    args = parser.parse_args()
    args.function(args)


if __name__ == "__main__":
    main()
