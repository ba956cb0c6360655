"""How fast several threads can decode on the native engine: what the busiest one's share of a token is, and how often they meet.

    python benchmarks/llm_thread_shares.py --folder DIR [--shape 0.5b] [--tokens 256] [--threads 2 4 8]        # needs gcc

As ``thread_shares.py`` does for networks: the tasks of each phase of a token run one after the other in one thread, so that the
machine needs no more processors. Counted are the instructions of each, where the system counts them, else nanoseconds of its CPU
time: the least of all rounds. ``bound`` is what one thread takes over the sums of the busiest ones; what is done once between two
phases counts as a whole. ``with barriers`` adds a microsecond for each phase to times.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "plugins"), str(Path(__file__).parent)]

import numpy as np  # noqa: E402
from random_llm import SHAPES, random_package  # noqa: E402
from rknnlite_cpu.llm import compiled_products  # noqa: E402
from rknnlite_cpu.llm.attention_mask import Chunk  # noqa: E402
from rknnlite_cpu.llm.decoder import Decoder  # noqa: E402
from rknnlite_cpu.llm.kv_cache import KvCache  # noqa: E402
from rknnlite_llm.container.description import read_llm  # noqa: E402
from rknnlite_llm.container.safetensors import SafeTensors  # noqa: E402
from rknnlite_llm.package import Package  # noqa: E402
from thread_shares import BARRIER, MOST_TASKS, busiest  # noqa: E402

from rknnlite.formats import ModelFile  # noqa: E402

Phases = list[tuple[list[int], int]]
"""What the tasks of each phase take, and its end."""


def phases_of(package: Package, tokens: int, rounds: int) -> tuple[Phases, bool]:
    """Of one token behind so many; whether it is instructions."""
    compiled_products._BESIDE.append(Path(__file__).with_suffix(".c"))
    try:
        products = compiled_products.Products()
    finally:
        compiled_products._BESIDE.pop()
    model = read_llm(ModelFile(package.model))
    decoder = Decoder(model, SafeTensors(ModelFile(package.weight).data), products.linear, products.attention)
    compiled, arch = decoder._compiled, model.arch
    assert compiled is not None
    cache = KvCache(arch, model.kv, 2 * tokens)
    rows = np.random.default_rng(0).standard_normal((tokens + 1, arch.hidden)).astype(np.float32)
    decoder.forward([(rows[:tokens], cache)])
    room, out = compiled.room(), np.empty((arch.vocab_size // 128 + 1) * 128, np.float32)
    kept = compiled.prepare(room, rows[-1], Chunk(arch, cache, 1), out)
    found = np.zeros(MOST_TASKS, np.int64)
    address = ctypes.c_void_p
    shares = products.library.token_shares
    shares.argtypes = [address, address, address, ctypes.c_ssize_t, ctypes.c_int, address]
    x, row = room.buffers["x"], np.ascontiguousarray(rows[-1])
    counted = shares(
        ctypes.addressof(room.step), x.ctypes.data, row.ctypes.data, arch.hidden, rounds, found.ctypes.data
    )
    del kept
    made: Phases = []
    at = 0
    while found[at]:
        end = at + 1 + int(found[at])
        made.append((found[at + 1 : end].tolist(), int(found[end])))
        at = end + 1
    return made, bool(counted)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--shape", choices=SHAPES, default="0.5b")
    parser.add_argument("--weights", nargs="+", default=["w8", "w4"])
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--threads", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    for weights in options.weights:
        package = random_package(options.folder, options.shape, weights)
        phases, counted = phases_of(package, options.tokens, options.rounds)
        ends = sum(end for _, end in phases)
        total = sum(map(sum, (tasks for tasks, _ in phases))) + ends
        amount = f"{total / 1e6:.1f} M instructions" if counted else f"{total / 1e6:.2f} ms"
        print(
            f"{weights}: {amount} for one thread behind {options.tokens} tokens, {len(phases)} phases, "
            f"{ends / total:.2%} between them"
        )
        for threads in options.threads:
            most = ends + sum(busiest(tasks, threads) for tasks, _ in phases)
            told = f"  {threads} threads: busiest thread {most / total:.3f} of all, bound {total / most:.2f}"
            if not counted:
                told += f", with barriers {total / (most + BARRIER * len(phases)):.2f}"
            print(told, flush=True)


if __name__ == "__main__":
    main()
