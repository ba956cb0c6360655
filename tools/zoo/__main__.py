"""Networks as people export them, through the converter into the CPU reference.

Three steps, because they need different environments:

    python tools/zoo export  --cache FOLDER                  what tools/zoo/setup.sh installs
    python tools/zoo convert --cache FOLDER                  with the vendor's PC toolkit installed
    python tools/zoo run     --cache FOLDER [--markdown docs/coverage.md]    with rknnlite installed (no onnx needed)

Where a network is not good, its layers tell: each computes on the simulator's values.

    python tools/zoo layers  --cache FOLDER --only NAME --target rk3588.i8    with rknnlite installed

Trained networks that packages ship are compared on many real inputs, with what a user reads in their answers:

    python tools/zoo trained --cache FOLDER [--markdown docs/fidelity.md]    with rknnlite installed

All take ``--only 'yolo*'`` (shell pattern of names), all but the first ``--target 'rk3588.*'`` as well. What is in the cache
is not made again; ``export --again`` and ``convert --retry`` do.
"""

from __future__ import annotations

import argparse
import fnmatch
import multiprocessing
import pickle
import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent / "sweep")]

from stored import Stored, networks_in, targets_of  # noqa: E402
from targets import TARGETS  # noqa: E402


def _export(args: argparse.Namespace) -> None:
    from export import export
    from network import registered
    from networks import load_all

    kept = load_all()
    for network in registered():
        folder = args.cache / network.name
        done = (folder / "zoo.json").exists() or (folder / "export.fail").exists()
        if fnmatch.fnmatch(network.name, args.only) and (args.again or not done):
            print(network.name, "ok" if export(network, folder) else "FAIL", flush=True)
    del kept


def _chosen(args: argparse.Namespace) -> list[tuple[Stored, list[str]]]:
    """Networks with the targets that each is meant for."""
    found = []
    for network in networks_in(args.cache):
        if fnmatch.fnmatch(network.name, args.only):
            wanted = [t for t in targets_of(network.name, TARGETS) if fnmatch.fnmatch(t, args.target)]
            found.append((network, wanted))
    return found


def _convert(args: argparse.Namespace) -> None:
    from convert import Job, convert_all

    jobs = [
        Job(network, t, network.folder / t, args.layers)
        for network, targets in _chosen(args)
        for t in targets
    ]
    if args.retry:
        for job in jobs:
            for suffix in (".fail", ".layers.fail"):
                Path(f"{job.stem}{suffix}").unlink(missing_ok=True)
    waiting = sorted((job for job in jobs if not job.done), key=_order)
    convert_all(waiting, args.processes, args.limit)


def _order(job: Any) -> tuple[bool, int, int]:
    """First what each network is converted for, then network by network; small ones first."""
    size = (job.stem.parent / "model.onnx").stat().st_size
    place = TARGETS.index(job.target)
    first = job.target.startswith("rk3588.")
    return not first, *((place, size) if first else (size, place))


def _run(args: argparse.Namespace) -> None:
    from measure import measure
    from table import terminal

    chosen = _chosen(args)
    pairs = [(network, t) for network, targets in chosen for t in targets]
    judge = measure if args.measured is None else partial(_kept, args.measured)
    with multiprocessing.get_context("fork").Pool(args.processes) as pool:
        results = pool.starmap(judge, pairs, chunksize=1)
    print(terminal(results))
    if args.markdown:
        _write(args.markdown, results, [network for network, _ in chosen])


def _write(page: Path, results: list[Any], networks: list[Stored]) -> None:
    """The section of the page, and its tables as data."""
    from data_file import assets, write
    from page import put
    from table import markdown, rows
    from table_layers import kinds

    put(page, "zoo", markdown(results))
    write(assets(page, "networks"), "Networks of tools/zoo.", rows(results, networks))
    write(assets(page, "layers"), "Layers of all int8 networks of tools/zoo.", kinds(results))


def _kept(folder: Path, network: Stored, target: str) -> Any:
    """Measure what is not in the folder yet; what is not converted is asked for again."""
    from compare import Outcome
    from measure import measure

    path = folder / f"{network.name}.{target}.pkl"
    if path.exists():
        return pickle.loads(path.read_bytes())
    found = measure(network, target)
    if found.outcome is not Outcome.WAITING:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps(found))
    return found


def _trained(args: argparse.Namespace) -> None:
    from data_file import assets, write
    from page import put
    from trained import judge, markdown, rows

    networks = [network for network, _ in _chosen(args) if network.many]
    targets = [t for t in ("rk3588.i8", "rk3588.fp16") if fnmatch.fnmatch(t, args.target)]
    results = {target: [judge(network, target) for network in networks] for target in targets}
    found = rows(results)
    print("\n".join("  ".join(cells) for cells in found.rows))
    if args.markdown:
        put(args.markdown, "trained", markdown(results))
        write(assets(args.markdown, "trained"), "Trained networks of tools/zoo.", found)


def _layers(args: argparse.Namespace) -> None:
    from layers import judge_layers

    for network, targets in _chosen(args):
        for target in targets:
            print(network.name, target)
            for layer in judge_layers(network, target):
                if args.verbose or layer.same < 0.999:
                    print("  ", layer)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="zoo", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    functions = {"export": _export, "convert": _convert, "run": _run, "layers": _layers, "trained": _trained}
    for name, function in functions.items():
        command = commands.add_parser(name)
        command.set_defaults(function=function)
        command.add_argument("--cache", type=Path, required=True, help="folder of networks and conversions")
        command.add_argument("--only", default="*", help="shell pattern of network names")
        command.add_argument("--target", default="*", help="shell pattern of targets")
    export, convert, run = (commands.choices[name] for name in ("export", "convert", "run"))
    export.add_argument("--again", action="store_true", help="export what has been exported")
    convert.add_argument("--processes", type=int, default=1, choices=(1, 2))
    run.add_argument("--processes", type=int, default=1)
    run.add_argument("--measured", type=Path, help="folder of results: what is there is not measured again")
    convert.add_argument("--limit", type=float, default=900, help="seconds per conversion")
    convert.add_argument("--retry", action="store_true", help="repeat failed conversions")
    convert.add_argument(
        "--layers", action="store_true", help="keep the simulator's value of every tensor, too"
    )
    for command in (run, commands.choices["trained"]):
        command.add_argument(
            "--markdown", type=Path, help="put the section into this page, its data beside it"
        )
    commands.choices["layers"].add_argument(
        "--verbose", action="store_true", help="show layers that are equal, too"
    )
    args = parser.parse_args()
    args.function(args)


if __name__ == "__main__":
    main()
