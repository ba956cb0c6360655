"""Families of language models, ours against Hugging Face transformers on small random models.

    python -m tools.llm_families --python /path/to/python-with-transformers [--data docs/assets/llm-families-folders.js] [NAME ...]

That Python makes a random model of every case (``cases.py``), saves it as published models are, and says what transformers
computes in float32 with eager attention. Then this one exports each with ``f32`` weights and compares: the logits of a prompt in one
piece and in pieces of 7 tokens, 128 greedy tokens, a second turn behind them, and the same turn behind a saved and loaded KV
cache. ``--keep FOLDER`` keeps the models; those that are there are not made again. Fails when something does not agree.
With ``--llama-cpp FOLDER``, a checkout of llama.cpp, its converter makes GGUF files of the models for them, and those are exported.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent / "sweep")]

from cases import CASES, GGUF  # noqa: E402
from compare import Result, compare, write_results  # noqa: E402
from random_families import random_names  # noqa: E402
from table import write_table  # noqa: E402

HERE = Path(__file__).resolve().parent


def main() -> int:
    """Make, compare, print, write."""
    parser = argparse.ArgumentParser(prog="python -m tools.llm_families", description=__doc__.splitlines()[0])
    parser.add_argument("--python", type=Path, help="a Python that has transformers, torch and safetensors")
    parser.add_argument(
        "--llama-cpp", type=Path, help="a checkout of llama.cpp: compare GGUF files that its converter makes"
    )
    parser.add_argument("--keep", type=Path, help="folder of the models and of what transformers said")
    parser.add_argument("--data", type=Path, help="file of the documentation's table, written anew")
    parser.add_argument("--json", type=Path, help="file of the results")
    parser.add_argument(
        "--random", type=int, metavar="N", help="random configurations instead (see random_families.py)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the random generator")
    parser.add_argument("names", nargs="*", help="cases; all without a name")
    args = parser.parse_args()
    known = [case.name for case in (GGUF if args.llama_cpp else CASES)]
    unknown = [name for name in args.names if name not in known and not name.startswith("random-")]
    if unknown:  # a table made of nothing would replace the one that is there
        parser.error(f"no such case: {', '.join(unknown)}; there are {', '.join(known)}")
    names = args.names or (random_names(args.random, args.seed) if args.random else known)
    with tempfile.TemporaryDirectory() as folder:
        results = _results(args.python, args.keep or Path(folder), names, args.llama_cpp)
    for result in results:
        print(_line(result))
    if args.json:
        write_results(results, args.json)
    if args.data:
        write_table(results, args.data, bool(args.llama_cpp))
    bad = [result.name for result in results if not result.good]
    print(f"{len(results) - len(bad)} of {len(results)} agree" + (f"; not: {', '.join(bad)}" if bad else ""))
    return 1 if bad else 0


def _results(python: Path | None, folder: Path, names: list[str], llama_cpp: Path | None) -> list[Result]:
    if python is not None:
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        environment["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
        run = partial(subprocess.run, check=True, env=environment)
        run([str(python), str(HERE / "truth.py"), str(folder), *names])
        if llama_cpp is not None:
            run([str(python), str(HERE / "gguf_files.py"), str(llama_cpp), str(folder), *names])
    return compare(folder, names)


def _line(result: Result) -> str:
    if result.error:
        return f"{result.name:20} {result.error[:300]}"
    if result.embedding >= 0:
        return f"{result.name:20} embeddings {result.embedding:.1e}"
    if result.score >= 0:
        return f"{result.name:20} scores {result.score:.1e}"
    tokens = "/".join(map(str, (result.greedy, result.again, result.loaded)))
    return f"{result.name:20} logits {result.logits:.1e}, in pieces {result.chunked:.1e}, tokens {tokens} of {result.of}"


if __name__ == "__main__":
    sys.exit(main())
