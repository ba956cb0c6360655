"""What it costs that a model runs on a board from afar: ``RKNNLite.inference`` there and here, on loopback.

    python benchmarks/remote.py [--rounds 9] [--calls 60]

The board's server is a process of its own. The same program asks it and its own context in turns, on a network that
takes no time (the stand-in backend) and on examples/resnet18 on the CPU reference. Of the difference an echo of the same
bytes by bare grpcio is taken off: what is left is the price of everything but the network, at most 1.2 ms.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [
    str(ROOT),
    str(ROOT / "plugins"),
    str(ROOT / "benchmarks"),
    str(ROOT / "tests" / "doubles" / "stand_in"),
]

import numpy as np  # noqa: E402
import rknnlite_stand_in  # noqa: E402
from serve import CLASSIFIER, IMAGE, bare_echo, in_turns  # noqa: E402

from rknnlite import plugins  # noqa: E402
from rknnlite.api import RKNNLite  # noqa: E402
from tests.support.served import serve, stand_in_path  # noqa: E402

MOST_MS = 1.2


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--calls", type=int, default=60)
    options = parser.parse_args()
    os.environ["RKNNLITE_CONFIG"] = ""
    if not plugins.manager().has_plugin("stand_in"):
        plugins.manager().register(rknnlite_stand_in, name="stand_in")
    with tempfile.TemporaryDirectory() as name:
        quick = rknnlite_stand_in.write_model(Path(name) / "quick.rknn", input=IMAGE, output=[1, 1000])
        measure("a network that takes no time", quick, "stand_in", Path(name), options)
        measure(CLASSIFIER.name, str(CLASSIFIER), "cpu", Path(name), options)


def measure(title: str, model: str, backend: str, folder: Path, options: argparse.Namespace) -> None:
    image = np.random.default_rng(0).integers(0, 255, IMAGE).astype(np.uint8)
    with ExitStack() as stack:
        words = (model, "--backend", backend, "--workers", 1)
        server = stack.enter_context(serve(*words, path=stand_in_path(folder)))
        echo = stack.enter_context(bare_echo("threads", image.tobytes()))
        there = stack.enter_context(opened(model, image, device_id=server.grpc))
        os.environ["RKNNLITE_BACKEND"] = backend
        try:
            here = stack.enter_context(opened(model, image))
        finally:
            del os.environ["RKNNLITE_BACKEND"]
        same = all(np.array_equal(a, b) for a, b in zip(there(), here()))
        each = in_turns({"echo": echo, "there": there, "here": here}, options.rounds, options.calls)
    more = (each["there"] - each["here"] - each["echo"]) * 1e3
    print(f"RKNNLite.inference, {image.nbytes} bytes, {title}")
    for what, seconds in each.items():
        print(f"  {what:<6}{seconds * 1e3:8.3f} ms")
    print(f"  there - here - echo: {more:.3f} ms (at most {MOST_MS}): {'yes' if more <= MOST_MS else 'NO'}")
    print(f"  the same numbers: {'yes' if same else 'NO'}")


@contextmanager
def opened(model: str, image: Any, **options: Any) -> Iterator[Callable[[], Any]]:
    rknn = RKNNLite()
    assert rknn.load_rknn(model) == 0
    assert rknn.init_runtime(**options) == 0
    yield lambda: rknn.inference(inputs=[image])
    rknn.release()


if __name__ == "__main__":
    main()
