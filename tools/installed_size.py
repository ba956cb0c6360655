#!/usr/bin/env python3
"""What installing takes: a fresh environment for each set of extras that README recommends, measured on the disk.

    tools/installed_size.py [WHEEL] [--extras SET ...]    # default: this checkout; --extras llm cpu: others, without a limit

Counted is what an installation adds to the site-packages of an environment that has pip alone, compiled modules
included, in MB of 10^6 bytes. numpy is shown by itself: nobody can do without it, and its size is not ours to choose.
Exit code 1: a set takes more beside numpy than its limit.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LIMITS = {"pictures": 50, "fast,pictures": 170}
"""Extras -> MB beside numpy. Of the second onnxruntime takes 82, onnx, which writes what it runs, 31, Pillow 22, rknnlite 20."""


class Taken(NamedTuple):
    """MB that a set of extras adds: by top-level name in site-packages, largest first."""

    names: dict[str, float]

    @property
    def numpy(self) -> float:
        return sum(size for name, size in self.names.items() if name.startswith("numpy"))

    @property
    def beside(self) -> float:
        return sum(self.names.values()) - self.numpy


def on_disk(path: Path) -> int:
    """Bytes of a file, or of all files of a folder, in whole blocks as du counts them."""
    files = [path] if path.is_file() else [Path(at, name) for at, _, names in os.walk(path) for name in names]
    return sum(file.lstat().st_blocks * 512 for file in files)


def sizes(folder: Path) -> dict[str, int]:
    return {path.name: on_disk(path) for path in folder.iterdir()}


def measure(source: Path, extras: str) -> Taken:
    """Install into a fresh environment, and look."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [ROOT / "tools" / "venv.sh", folder, sys.executable], check=True, stdout=subprocess.DEVNULL
        )
        python = Path(folder, "bin", "python")
        (site,) = Path(folder, "lib").glob("python*/site-packages")
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "pip", "setuptools"], check=True)
        before = sizes(site)
        subprocess.run([*pip, f"{source}[{extras}]"], check=True)
        added = {name: size - before.get(name, 0) for name, size in sizes(site).items()}
    largest = sorted(((size / 1e6, name) for name, size in added.items() if size > 0), reverse=True)
    return Taken({name: size for size, name in largest})


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", nargs="?", type=Path, default=ROOT, metavar="WHEEL")
    parser.add_argument("--extras", nargs="+", default=list(LIMITS), metavar="SET")
    args = parser.parse_args()
    over = 0
    print(f"{'extras':16} {'all':>6} {'numpy':>6} {'beside':>6} {'limit':>6}  MB; largest beside numpy")
    for extras in args.extras:
        taken, limit = measure(args.source.resolve(), extras), LIMITS.get(extras)
        rest = [f"{name} {size:.0f}" for name, size in taken.names.items() if not name.startswith("numpy")]
        print(
            f"{extras:16} {taken.numpy + taken.beside:6.0f} {taken.numpy:6.0f} {taken.beside:6.0f} {limit or '-':>6}  "
            + ", ".join(rest[:6])
        )
        over += limit is not None and taken.beside > limit
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
