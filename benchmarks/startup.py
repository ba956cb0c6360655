"""Instructions until a program on a board can infer: import, and the first ``init_runtime``, on the double of librknnrt.

    python benchmarks/startup.py            # needs gcc and valgrind; --check: fail when a target is missed

Exact counts of callgrind, user space, the interpreter's own start included in the import (``import numpy`` for comparison). The
process sees a folder of packages as pip leaves one: numpy, pluggy and ours, byte code compiled; a development environment with its
finders and hundreds of packages would count for more.

numpy is imported with us and not later: a program cannot make an input, nor take an output, without it, so every program on a board
pays for it before its first inference, and what ``import`` saved the first ``init_runtime`` would add. The start of the interpreter and
numpy are 342 M together (Python 3.11, numpy 2.4), so 330 M for all of the import is out of reach with it; what is ours is
the difference, and that has the target. Of it pathlib and logging are 27 M, pluggy 9, dataclasses and threading 8.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "plugins")]

from tests.doubles.double import build, compiler, model  # noqa: E402

OURS_LIMIT, METADATA_LIMIT, INIT_LIMIT = 124e6, 30e6, 60e6
THIRD_PARTY = ("numpy", "pluggy", "ruamel")
MODEL = ("input image int8 4 1 224 224 3 0.0078 -3", "output scores int8 2 1 1000 0.1 5", "op idle")
NUMPY = "import os, numpy; os.getppid()"
START = """\
import os, sys
from rknnlite.api import RKNNLite
os.getppid()
rknn = RKNNLite()
assert rknn.load_rknn(sys.argv[1]) == 0 and rknn.init_runtime() == 0
os.getppid()
rknn.release()
"""
METADATA = """\
import os, sys
import rknnlite.api
from rknnlite.formats import ModelFile
os.getppid()
assert ModelFile(sys.argv[1]).model.inputs
os.getppid()
"""
INFO = "import sys; from rknnlite.cli import main; main(['info', sys.argv[1]]); import os; os.getppid()"


def installed(folder: Path) -> Path:
    """A folder as ``pip install --target`` makes it, with byte code."""
    for name in THIRD_PARTY:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations:
            package = Path(next(iter(spec.submodule_search_locations)))
            (folder / name).symlink_to(package)
            for beside in package.parent.glob(f"{name}*[.-]*"):
                (folder / beside.name).symlink_to(beside)
    for package in (ROOT / "rknnlite", *(ROOT / "plugins").iterdir()):
        (folder / package.name).symlink_to(package)
    table = (
        (ROOT / "pyproject.toml")
        .read_text("utf-8")
        .split("[project.entry-points.rknnlite]\n")[1]
        .split("\n\n")[0]
    )
    info = folder / "rknnlite-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rknnlite\nVersion: 1\n")
    (info / "entry_points.txt").write_text(re.sub('"', "", f"[rknnlite]\n{table}\n"))
    return folder


def environment(site: Path) -> dict[str, str]:
    """Nothing of the developer's, our double as the library, the same hashes every time."""
    return {
        "PATH": os.environ["PATH"], "PYTHONPATH": str(site), "PYTHONHASHSEED": "0", "PYTHONPYCACHEPREFIX": f"{site}-pyc",
        "RKNNLITE_LIBRARY": str(build()), "RKNNLITE_BACKEND": "rknnrt", "RKNNLITE_SOC": "rk3588", "RKNNLITE_CONFIG": "",
    }  # fmt: skip


def counts(program: str, path: Path, site: Path) -> list[int]:
    """Instructions from the start to each call of getppid, one after the other; a run before fills the caches."""
    command = [sys.executable, "-S", "-c", program, str(path)]
    subprocess.run(
        command, env=environment(site), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    with tempfile.TemporaryDirectory() as folder:
        tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", "--dump-before=getppid"]
        run = subprocess.run([*tool, *command], env=environment(site), capture_output=True, text=True)
        if run.returncode:
            raise SystemExit(run.stderr)
        parts = sorted(Path(folder).glob("out.*"), key=lambda part: int(part.suffix[1:]))
        return [int(re.findall(r"^totals: (\d+)", part.read_text(), re.M)[-1]) for part in parts]


def main() -> None:
    """Print each figure beside its target."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="fail when a target is missed")
    arguments = parser.parse_args()
    if shutil.which("valgrind") is None or compiler() is None:
        print("startup.py needs gcc and valgrind: make packages")
        return
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder) / "site"
        site.mkdir()
        installed(site)
        path = Path(folder) / "model.rknn"
        path.write_bytes(model(*MODEL))
        genuine = ROOT / "examples" / "resnet18" / "resnet18_for_RK3588.rknn"
        alone = counts(NUMPY, path, site)[0]
        imported, opened = counts(START, path, site)[:2]
        rows = [
            ("import numpy", alone, None),
            ("import rknnlite.api", imported, None),
            ("  beyond numpy", imported - alone, OURS_LIMIT),
            ("first init_runtime", opened, INIT_LIMIT),
            ("  reading a file", counts(METADATA, genuine, site)[1], METADATA_LIMIT),
            ("rknnlite info", counts(INFO, genuine, site)[0], None),
        ]
    missed = False
    for what, figure, limit in rows:
        word = "" if limit is None else f"at most {limit / 1e6:.0f}: {'met' if figure <= limit else 'MISSED'}"
        missed |= limit is not None and figure > limit
        print(f"{what:20} {figure / 1e6:7.1f} M instructions   {word}", flush=True)
    if arguments.check and missed:
        raise SystemExit("a target is missed")


if __name__ == "__main__":
    main()
