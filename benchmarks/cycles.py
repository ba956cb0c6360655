"""Open, compute, close, again and again: resident memory, descriptors, threads and processes at the beginning and the end.

    python benchmarks/cycles.py KIND [--count 20000]

Kinds are ``cpu``, ``face`` (``RKNNLite``), ``llm`` (a chat with tokenizer, session and one token), and the vendor's runtimes,
played by the test doubles (tests/doubles): ``rknnrt``, ``rknn3rt``, ``rknn3rt-llm``, ``rkllm`` in this process and
``rkllm-apart`` in one of its own. The first tenth is a warm-up. What is left for each cycle shows in every round of them,
a heap that the allocator takes once in a while does not. The exit code is 1 where anything grows.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

NETWORK = ROOT / "tests/data/conv_relu.rk3588.i8.rknn"
PACKAGE = ROOT / "examples/llm_chat/models/tiny"
ALLOWED = 1 << 20
"""Bytes by which the allocator's heaps may move, whatever the number of cycles."""
ATTEMPTS = 3
PER_CYCLE = {"llm": 300}
"""Bytes that a cycle is known to leave: the package tokenizers keeps a little for each tokenizer that is read."""
Cycle = Callable[[], object]


def cpu() -> Cycle:
    """A network on the CPU reference."""
    import rknnlite

    def cycle() -> None:
        with rknnlite.open(NETWORK, backend="cpu") as context:
            context.infer([np.zeros(attr.dims, np.uint8) for attr in context.inputs])

    return cycle


def face() -> Cycle:
    """The same through RKNNLite."""
    from rknnlite.api import RKNNLite

    def cycle() -> None:
        rknn = RKNNLite()
        if rknn.load_rknn(str(NETWORK)) or rknn.init_runtime() or rknn.rknn_runtime is None:
            raise SystemExit("the model could not be opened")
        rknn.inference([np.zeros(rknn.rknn_runtime.get_tensor_attr(0).dims, np.uint8)])
        rknn.release()

    os.environ["RKNNLITE_BACKEND"] = "cpu"
    return cycle


def llm() -> Cycle:
    """All of a chat for one token."""
    from rknnlite_llm import Chat

    def cycle() -> None:
        with Chat(PACKAGE, backend="cpu") as chat:
            chat.ask("What is 2 + 3?", max_new_tokens=1)

    return cycle


def rknnrt() -> Cycle:
    """A network on the double of librknnrt."""
    import rknnlite
    from tests.doubles.double import build, model
    from tests.rknnrt.models import AFFINE, picture

    library, network, image = str(build(False, ())), model(*AFFINE), picture()

    def cycle() -> None:
        with rknnlite.open(network, backend="rknnrt", library=library) as context:
            context.infer(image)

    return cycle


def rknn3rt() -> Cycle:
    """A network on the double of librknn3_api."""
    import rknnlite
    from tests.doubles.rknn3.double3 import model
    from tests.rknn3rt.conftest import CNN

    network, image, options = model(*CNN), np.zeros((1, 4, 6, 3), np.uint8), _rknn3()

    def cycle() -> None:
        with rknnlite.open(network, **options) as context:
            context.infer(image)

    return cycle


def rknn3rt_llm() -> Cycle:
    """A language model on the double of librknn3_api."""
    from rknnlite_llm import open_llm

    from rknnlite.spi.llm import InferParams, LlmParams, PromptInput
    from tests.doubles.rknn3.double3 import model
    from tests.rknn3rt.conftest import LLM, callbacks

    package, options = model(*LLM), _rknn3()

    def cycle() -> None:
        with open_llm(package, **options) as context, context.session(LlmParams(), callbacks()) as session:
            session.run(PromptInput("a"), InferParams(max_new_tokens=1))

    return cycle


def _rknn3() -> dict[str, Any]:
    from tests.doubles.rknn3.double3 import Double3, build

    os.environ["RKNNLITE_RKNN3_LIBRARY"] = str(build("1.0.5"))
    Double3(build("1.0.5")).devices(1)
    return {"backend": "rknn3rt"}


def rkllm(apart: bool = False) -> Cycle:
    """A model on the double of librkllmrt."""
    from rknnlite_llm import open_llm

    from rknnlite.spi.llm import InferParams, PromptInput
    from tests.doubles.rkllm.standin import build, model

    path = Path(tempfile.mkdtemp()) / "count.rkllm"
    path.write_bytes(model("op count"))
    options: dict[str, Any] = {
        "backend": "rkllm",
        "library": str(build("1.2.3")),
        "in_process": not apart,
    }

    def cycle() -> None:
        with open_llm(path, **options) as context, context.session() as session:
            session.run(PromptInput("x"), InferParams(max_new_tokens=1))

    return cycle


KINDS: dict[str, Callable[[], Cycle]] = {
    "cpu": cpu,
    "face": face,
    "llm": llm,
    "rkllm": rkllm,
    "rkllm-apart": lambda: rkllm(apart=True),
    "rknn3rt": rknn3rt,
    "rknn3rt-llm": rknn3rt_llm,
    "rknnrt": rknnrt,
}


def held() -> tuple[int, list[int]]:
    """Resident bytes; and descriptors, threads and children of this process."""
    gc.collect()
    process = psutil.Process()
    return process.memory_info().rss, [
        process.num_fds(),
        threading.active_count(),
        len(process.children(recursive=True)),
    ]


def main() -> int:
    """Print the figures; 1 where something grows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--count", type=int, default=20_000)
    args = parser.parse_args()
    logging.getLogger("rknnlite").setLevel(logging.CRITICAL)
    cycle = KINDS[args.kind]()
    for _ in range(max(min(100, args.count), args.count // 10)):
        cycle()
    for attempt in range(ATTEMPTS):
        before, others = held()
        for _ in range(args.count):
            cycle()
        after, found = held()
        flat = found == others and after - before <= ALLOWED + PER_CYCLE.get(args.kind, 0) * args.count
        again = not flat and found == others and attempt + 1 < ATTEMPTS
        print(
            f"{args.kind}: {args.count} cycles, resident set {before / 1e6:.1f} MB before, {(after - before) / 1e3:+.0f} kB; "
            f"descriptors, threads, processes {others} before, {found} after: "
            f"{'flat' if flat else 'once more' if again else 'GROWS'}"
        )
        if not again:
            break
    return int(not flat)


if __name__ == "__main__":
    raise SystemExit(main())
