"""The LLM engine beside Hugging Face transformers (float32, eager), in one run on random weights of one shape.

    python benchmarks/llm.py [--weights f32 w8] [--folder DIR] [--shape 0.5b]

Needs torch and transformers; 5 GB of disk for the shape of Qwen2.5-0.5B (kept in ``--folder`` if given). Engines
take turns in one process (a prompt and some tokens each), and medians are compared; memory is that of a fresh
process per format.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from random_llm import SHAPES
from rknnlite_llm import EmbedTable, Package, export_llm
from rknnlite_llm.container.description import read_llm
from rknnlite_llm.container.safetensors import SafeTensors

from rknnlite.formats import ModelFile

PREFILL, ROUNDS, DECODES = 256, 5, 8
EARLY, LATE = 64, 1024


class Ours:
    """The engine on one package."""

    def __init__(self, package: Package) -> None:
        from rknnlite_cpu.llm.decoder import Decoder
        from rknnlite_cpu.llm.kv_cache import KvCache

        self._model = read_llm(ModelFile(package.model))
        arch = self._model.arch
        self._decoder = Decoder(self._model, SafeTensors(ModelFile(package.weight).data))
        self._embed = EmbedTable(package.embed, arch.vocab_size, arch.hidden)
        self._cache = KvCache(arch, self._model.kv, 2048)

    def twin(self) -> Ours:
        """The same weights with a cache of its own."""
        other = copy.copy(self)
        other._cache = copy.deepcopy(self._cache)
        return other

    def start(self, ids: np.ndarray) -> None:
        """Prefill behind an empty cache."""
        self._cache.truncate(0)
        for chunk in np.split(ids, range(PREFILL, len(ids), PREFILL)):
            (hidden,) = self._decoder.forward([(self._embed(chunk).astype(np.float32), self._cache)])
        self._token = int(self._decoder.logits([hidden[-1:]])[0].argmax())

    def step(self) -> None:
        """One more token."""
        rows = self._embed(np.array([self._token])).astype(np.float32)
        hidden = self._decoder.forward([(rows, self._cache)])
        self._token = int(self._decoder.logits(hidden)[0].argmax())


class Theirs:
    """transformers."""

    def __init__(self, folder: Path) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        self._torch = torch
        self._model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager"
        )
        self._model.eval()

    def start(self, ids: np.ndarray) -> None:
        """Prefill with a fresh cache."""
        self._cache = None
        self._next(self._torch.tensor(ids[None]))

    def step(self) -> None:
        """One more token."""
        self._next(self._token)

    def _next(self, ids: object) -> None:
        with self._torch.inference_mode():
            answer = self._model(ids, past_key_values=self._cache, use_cache=True, logits_to_keep=1)
        self._cache, self._token = answer.past_key_values, answer.logits[:, -1:].argmax(-1)


def make(folder: Path, shape: str) -> Path:
    """A Hugging Face directory with random weights."""
    target = folder / f"hf-{shape}"
    if not (target / "config.json").exists():
        import torch
        from transformers import Qwen2Config, Qwen2ForCausalLM

        torch.manual_seed(0)
        Qwen2ForCausalLM(Qwen2Config(**SHAPES[shape], tie_word_embeddings=True)).save_pretrained(target)
    return target


def packages(folder: Path, source: Path, formats: list[str]) -> dict[str, Package]:
    """One package per weight format, exported where it is missing."""
    made = {}
    for weights in formats:
        package = Package.of(folder / f"{source.name}-{weights}")
        made[weights] = (
            package
            if package.model.exists()
            else export_llm(source, folder / f"{source.name}-{weights}", weights)
        )
    return made


def seconds(call: Callable[[], None]) -> float:
    """Wall clock of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def compare(theirs: Theirs, ours: dict[str, Ours], vocab: int) -> None:
    """Prefill and decode, engines in turns."""
    ids = np.random.default_rng(0).integers(0, vocab, PREFILL)
    engines = {"transformers f32": theirs, **{f"rknnlite {name}": engine for name, engine in ours.items()}}
    prefill: dict[str, list[float]] = {name: [] for name in engines}
    decode: dict[str, list[float]] = {name: [] for name in engines}
    for turn in range(ROUNDS + 1):
        for name, engine in engines.items():
            times = [seconds(lambda engine=engine: engine.start(ids))]
            times += [seconds(engine.step) for _ in range(DECODES + 1)]
            if turn:  # the first turn reads the files and wakes the threads
                prefill[name].append(times[0])
                decode[name] += times[2:]
    base = next(iter(engines))
    print(f"{'engine':20s} {'prefill 256':>12s} {'ratio':>7s} {'decode':>10s} {'ratio':>7s}")
    for name in engines:
        p, d = statistics.median(prefill[name]), statistics.median(decode[name])
        p0, d0 = statistics.median(prefill[base]), statistics.median(decode[base])
        print(f"{name:20s} {p:10.2f} s {p0 / p:6.2f}x {1000 * d:7.0f} ms {d0 / d:6.2f}x")
    print("targets: prefill 0.8x, decode 1.5x")


def growth(ours: dict[str, Ours], vocab: int) -> None:
    """Time per token behind few and behind many tokens, in turns."""
    ids = np.random.default_rng(0).integers(0, vocab, LATE)
    for name, engine in ours.items():
        pair = engine.twin(), engine.twin()
        for one, position in zip(pair, (EARLY, LATE)):
            one.start(ids[:position])
        times = [[seconds(one.step) for one in pair] for _ in range(4 * DECODES)]
        early, late = (1000 * statistics.median(column) for column in zip(*times))
        print(
            f"rknnlite {name}: {early:.0f} ms at {EARLY}, {late:.0f} ms at {LATE}: {late / early:.2f}x (target 1.3)"
        )


def memory(package: Package, vocab: int) -> float:
    """Resident megabytes of a fresh process that has prefilled and decoded, less those before loading."""
    import psutil

    process = psutil.Process()
    before = process.memory_info().rss
    engine = Ours(package)
    engine.start(np.arange(64) % vocab)
    for _ in range(3):
        engine.step()
    return (process.memory_info().rss - before) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=SHAPES, default="0.5b")
    parser.add_argument("--weights", nargs="+", default=["f32", "w8"])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--memory-of", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    vocab = SHAPES[args.shape]["vocab_size"]
    if args.memory_of:
        print(json.dumps(memory(Package.of(args.memory_of), vocab)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        source = make(folder, args.shape)
        made = packages(folder, source, args.weights)
        ours = {name: Ours(package) for name, package in made.items()}
        compare(Theirs(source), ours, vocab)
        growth(ours, vocab)
        base = None
        for name, package in made.items():
            command = [sys.executable, __file__, "--shape", args.shape, "--memory-of", str(package.model)]
            held = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            base = base or held
            print(
                f"rknnlite {name}: {held:.0f} MB resident, {held / base:.2f} of the first (target of w8: 0.40 of f32)"
            )


if __name__ == "__main__":
    main()
