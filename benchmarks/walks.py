"""How far the common walks go: locks and Python calls of a frame, of opening a language model; modules behind a first open.

    python benchmarks/walks.py                     # what gcc and onnxruntime are installed for; --check: fail above a limit
    python benchmarks/walks.py --beside ../before  # another checkout as well

All figures are counts and the same at every run: a process has a cache and a configuration of its own, both empty, and sets
in the same order. A lock counts each time it is taken, wherever it was made; a call is one of a
Python function whose code lies in ``rknnlite`` or ``plugins`` (the next item of a generator is one, too), the search through what
is installed left out, which is as long as the environment. A module is one of ours.
"""

from __future__ import annotations

import argparse
import compileall
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESNET = ROOT / "examples" / "resnet18" / "resnet18_for_RK3588.rknn"
TINY = ROOT / "tests" / "data" / "conv_relu.rk3588.i8.rknn"
LLM = ROOT / "examples" / "llm_chat" / "models" / "tiny.rknn"
SIDE = 224  # of the square uint8 image, pixels
MODEL = (
    f"input image int8 4 1 {SIDE} {SIDE} 3 0.0078 -3",
    "output scores int8 2 1 1000 0.1 5",
    "op idle",
)
LIMITS = {
    "locks of a frame, engine": 3,
    "calls of a frame, engine": 65,
    "calls of a frame, librknnrt, NHWC": 12,
    "calls of a frame, librknnrt, NCHW": 19,
    "calls of a frame, server of librknnrt.so": 82,
    "calls of open_llm": 3300,
    "modules behind a first open, librknnrt": 62,
    "modules behind a first open, CPU reference": 103,
}
"""Figure -> what it is at most. Two of the locks keep BLAS to one thread, the third is the context's. Six of the modules behind
librknnrt load the library in another process first, and remember what came of it; one tells the machine's true name."""


class Counted:
    """A lock that counts how often it is taken."""

    taken = 0

    def __init__(self, lock: Any) -> None:
        self._lock = lock

    def __enter__(self) -> Any:
        return self.acquire()

    def __exit__(self, *exc: object) -> None:
        self.release()

    def acquire(self, *args: Any, **options: Any) -> Any:
        """See ``threading.Lock``."""
        Counted.taken += 1
        return self._lock.acquire(*args, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lock, name)


def calls(action: Callable[[], Any], tree: Path) -> int:
    """How many functions of a checkout one call of ``action`` goes through."""
    ours = (f"{tree / 'rknnlite'}{os.sep}", f"{tree / 'plugins'}{os.sep}")
    installed = str(tree / "rknnlite" / "extras.py")
    count = 0

    def look(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        file = frame.f_code.co_filename
        count += event == "call" and file.startswith(ours) and file != installed

    sys.setprofile(look)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


def frame(model: str, data_format: str | None) -> Callable[[], Any]:
    """One inference through the face; what the first frames set up has been done."""
    import numpy as np

    from rknnlite.api import RKNNLite

    rknn = RKNNLite()
    if rknn.load_rknn(model) or rknn.init_runtime():
        raise SystemExit(f"{model} cannot be opened")
    shape = (1, 3, SIDE, SIDE) if data_format == "nchw" else (1, SIDE, SIDE, 3)
    inputs = [np.zeros(shape, np.uint8)]

    def once() -> None:
        assert rknn.inference(inputs=inputs, data_format=data_format) is not None

    for _ in range(3):
        once()
    return once


# -- what a process of its own counts ------------------------------------------------------------------------


def of_engine(tree: Path, model: str) -> dict[str, int]:
    """A network on the CPU reference, all of it computed by onnxruntime."""
    makers = {name: getattr(threading, name) for name in ("Lock", "RLock")}
    for name, make in makers.items():
        setattr(threading, name, lambda make=make: Counted(make()))
    once = frame(model, None)
    Counted.taken = 0
    once()
    locks = Counted.taken
    return {"locks of a frame, engine": locks, "calls of a frame, engine": calls(once, tree)}


def of_librknnrt(tree: Path, model: str) -> dict[str, int]:
    """A network on the double of librknnrt."""
    words = {"NHWC": None, "NCHW": "nchw"}
    return {
        f"calls of a frame, librknnrt, {name}": calls(frame(model, word), tree)
        for name, word in words.items()
    }


def of_c_library(tree: Path, model: str) -> dict[str, int]:
    """A frame of a C program, where it is computed: inputs, run and outputs are one request."""
    import socket
    import struct

    from rknnlite_librknnrt.context_thread import ContextThread
    from rknnlite_librknnrt.open_contexts import OpenContexts
    from rknnlite_librknnrt.protocol import Call, RunFlag, Wire

    program, end = socket.socketpair()
    client, contexts, server = Wire(program), OpenContexts(), Wire(end)
    thread = ContextThread(contexts, 1, server)

    def ask(call: int, payload: bytes = b"", args: tuple[int, ...] = (), fds: tuple[int, ...] = ()) -> None:
        client.ask(call, payload, args, fds)
        thread._one(server.receive())
        code, _, told = client.told()
        assert not code, told

    ask(Call.INIT, model.encode(), (0, 0, 0))
    size = contexts.find(1).inputs[0].size
    memory = os.memfd_create("inputs")
    os.ftruncate(memory, size)
    ask(Call.INPUTS, struct.pack("=5I", 0, size, 0, 3, 1), (1, size), (memory,))  # uint8, NHWC
    ask(Call.RUN, args=(RunFlag.WITH_INPUTS, 0, 0))
    ask(Call.OUTPUTS, struct.pack("=2I", 0, 1))
    both = int(RunFlag.WITH_INPUTS | RunFlag.WITH_OUTPUTS)
    ask(Call.RUN, args=(both, 0, 0))
    client.ask(Call.RUN, args=(both, 0, 0))
    return {
        "calls of a frame, server of librknnrt.so": calls(lambda: thread._one(server.receive()), tree),
    }


def of_open_llm(tree: Path, model: str) -> dict[str, int]:
    """A language model, its tokenizer and its template, from the first import on."""

    def load() -> None:
        import rknnlite

        rknnlite.open_llm(model, backend="cpu").close()

    return {"calls of open_llm": calls(load, tree)}


def of_modules(tree: Path, model: str) -> dict[str, int]:
    """A first open in a fresh interpreter, on the backend of ``RKNNLITE_BACKEND``."""
    import rknnlite

    rknnlite.open(model).close()
    name = {"rknnrt": "librknnrt", "cpu": "CPU reference"}[os.environ["RKNNLITE_BACKEND"]]
    ours = [name for name in sys.modules if name.split(".")[0].startswith(("rknnlite", "rknn3lite"))]
    return {f"modules behind a first open, {name}": len(ours)}


WALKS = {walk.__name__: walk for walk in (of_engine, of_librknnrt, of_c_library, of_open_llm, of_modules)}


# -- the measuring process -----------------------------------------------------------------------------------


def measured(walk: str, tree: Path, model: Path, **settings: str) -> dict[str, int]:
    """The figures of one walk on the code of a checkout, whose environment has ``settings``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RKNN")}
    steady = {
        "PYTHONPATH": f"{tree}{os.pathsep}{tree / 'plugins'}",
        "PYTHONHASHSEED": "0",
        "RKNN_LOG_LEVEL": "0",
    }
    with tempfile.TemporaryDirectory() as home:
        steady.update(XDG_CACHE_HOME=home, XDG_CONFIG_HOME=home)
        done = subprocess.run(
            [sys.executable, __file__, "--walk", walk, "--tree", str(tree), "--model", str(model)],
            capture_output=True, text=True, cwd=tree, env={**kept, **steady, **settings},
        )  # fmt: skip
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    figures: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return figures


def figures_of(tree: Path, folder: Path) -> dict[str, int]:
    """All figures of a checkout that can be had on this machine."""
    for part in ("rknnlite", "plugins"):  # compiling a module makes calls of its own
        compileall.compile_dir(tree / part, quiet=1)
    found = {}
    if importlib.util.find_spec("onnxruntime") is not None:
        engine = {"RKNNLITE_BACKEND": "cpu", "RKNNLITE_ENGINE": "onnxruntime"}
        found.update(measured("of_engine", tree, RESNET, **engine))
    if shutil.which("gcc"):
        sys.path[:0] = [str(ROOT), str(ROOT / "plugins")]
        from tests.doubles.double import build, model

        path = folder / "model.rknn"
        path.write_bytes(model(*MODEL))
        library = {"RKNNLITE_BACKEND": "rknnrt", "RKNNLITE_LIBRARY": str(build())}
        for walk in ("of_librknnrt", "of_modules"):
            found.update(measured(walk, tree, path, **library))
    found.update(measured("of_modules", tree, RESNET, RKNNLITE_BACKEND="cpu", RKNNLITE_ENGINE="numpy"))
    found.update(measured("of_c_library", tree, TINY, RKNNLITE_ENGINE="numpy"))
    found.update(measured("of_open_llm", tree, LLM, RKNNLITE_ENGINE="numpy"))
    return {name: found[name] for name in LIMITS if name in found}


def main() -> None:
    """Print a line per figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for option in ("--walk", "--tree", "--model"):
        parser.add_argument(option, help=argparse.SUPPRESS)
    parser.add_argument("--beside", type=Path, help="another checkout, whose figures are printed, too")
    parser.add_argument("--check", action="store_true", help="fail when a limit is exceeded")
    arguments = parser.parse_args()
    if arguments.walk:
        print(json.dumps(WALKS[arguments.walk](Path(arguments.tree), arguments.model)))
        return
    trees = [ROOT, *([arguments.beside.resolve()] if arguments.beside else [])]
    with tempfile.TemporaryDirectory() as folder:
        found = [figures_of(tree, Path(folder)) for tree in trees]
    print(f"{'':44}{'at most':>9}", *(f"{tree.name:>9}" for tree in trees))
    for name in found[0]:
        print(f"{name:44}{LIMITS[name]:9}", *(f"{figures[name]:9}" for figures in found))
    above = [name for name, figure in found[0].items() if figure > LIMITS[name]]
    if arguments.check and above:
        raise SystemExit("\n".join(["above the limit:", *above]))


if __name__ == "__main__":
    main()
