"""What opening a network costs beyond reading its file, in a process that comes after the one that has proven its engine.

    python benchmarks/second_open.py MODEL.rknn [...] [--engine native] [--rounds 9]

Networks of about 12 MB are meant (README.md says how to make them). A first process opens the network, infers until the engine
is settled, and leaves what it has proven and compiled in a cache of its own. Then fresh processes, one after the other. What
they need for any network is not counted: the interpreter, imports, the engine's library; each opens a tiny network before and
infers with it. Then it takes turns: it reads the whole file (``read``), opens it (``open``), infers (``first``), infers again
(``second``). Told are least and median over the processes, in milliseconds of the clock and of CPU time, of:

* open - read: the target;
* first - second: what opening has put off.

Beside them how many bytes are hashed: those of what was kept, which may be damaged, and of the file only where nobody knows its
identity (place, size, times, of which no program sets the last).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TINY = ROOT / "tests" / "data" / "conv_relu.rk3588.i8.rknn"
TARGET = 60.0
"""Milliseconds of open - read."""
PROGRAM = """
import hashlib, json, sys, time
import numpy as np, rknnlite

hashed, sha256 = [0], hashlib.sha256

def counted(data=b"", **options):
    hashed[0] += len(data)
    return sha256(data, **options)

hashlib.sha256 = counted

def spent(work):
    started, used = time.perf_counter(), time.process_time()
    found = work()
    return found, [(time.perf_counter() - started) * 1e3, (time.process_time() - used) * 1e3]

def opened(path):
    return rknnlite.open(path, backend="cpu", engine=engine)

def inputs(context):
    return [np.zeros(attr.dims, np.uint8) for attr in context.inputs]

tiny, path, engine, proves = sys.argv[1], sys.argv[2], sys.argv[3] or None, sys.argv[4] == "proves"
warm = opened(tiny)
warm.infer(inputs(warm))
_, read = spent(lambda: open(path, "rb").read())
hashed[0] = 0
context, open_ = spent(lambda: opened(path))
given, opening = inputs(context), hashed[0]
_, first = spent(lambda: context.infer(given))
sums = opening, hashed[0] - opening
_, second = spent(lambda: context.infer(given))
end = time.monotonic() + 300
while proves and (tiers := context._shapes.current.plan._tiers) and not tiers.settled:
    context.infer(given)
    if time.monotonic() > end:
        sys.exit("no engine was proven within five minutes")
print(json.dumps({"read": read, "open": open_, "first": first, "second": second, "hashed": sums}))
"""


def measured(path: Path, engine: str, cache: str, proves: bool) -> dict[str, tuple[float, float]]:
    """Milliseconds of the clock and of CPU time of each step, in a fresh process."""
    command = [
        sys.executable,
        "-c",
        PROGRAM,
        str(TINY),
        str(path.resolve()),
        engine,
        "proves" if proves else "",
    ]
    places = os.pathsep.join([str(ROOT), str(ROOT / "plugins")])
    environment = {**os.environ, "RKNNLITE_CACHE": cache, "PYTHONPATH": places}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, tuple[float, float]] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--engine", default="", help="instead of the one that is found to be the fastest")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    for path in options.models:
        with tempfile.TemporaryDirectory() as cache:
            measured(path, options.engine, cache, True)
            rounds = [measured(path, options.engine, cache, False) for _ in range(options.rounds)]
        print(f"{path.name}, {path.stat().st_size / 1e6:.1f} MB")
        for what, step, less in (("open - read", "open", "read"), ("first - second", "first", "second")):
            clock, cpu = ([each[step][kind] - each[less][kind] for each in rounds] for kind in (0, 1))
            told = f"  {what:15}{min(clock):7.1f} ms (median {statistics.median(clock):.1f}), CPU {min(cpu):.1f} ms (median {statistics.median(cpu):.1f})"  # fmt: skip
            if step == "open":
                told += f"; target {TARGET:g} ms: {'met' if min(clock) <= TARGET else 'MISSED'}"
            print(told)
        opening, first = rounds[0]["hashed"]
        print(f"  hashed by open {opening / 1e6:.1f} MB, by the first inference {first / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
