"""Language models with encoders of images and audio, ours against Hugging Face transformers on small random models.

    python -m tools.llm_media --python PYTHON [--toolkit PYTHON] [--markdown docs/llm-media.md] [NAME ...]

The first Python has transformers: it makes a random model of every case (``cases.py``), saves it as published models are, takes its
encoder apart as ONNX, and says what the whole model computes in float32. Then this one exports the language part with ``f32``
weights, gives it what the float encoder gave, and compares the logits of every step of every turn, prefilled in one piece and in
pieces of 7 tokens. With ``--toolkit``, a Python that has the vendor's PC toolkit, the encoders are converted to float16 ``.rknn``
files and run by the CPU reference, and the same is compared for what they give. Fails when logits differ by 2e-3, tokens differ, or
a tower that ``export-llm`` writes gives rows that differ by 1e-4.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent / "sweep")]

from cases import CASES  # noqa: E402
from compare import Result, compare, encode, write_results  # noqa: E402
from table import write_table  # noqa: E402

HERE = Path(__file__).resolve().parent


def main() -> int:
    """Make, compare, print, write."""
    parser = argparse.ArgumentParser(prog="python -m tools.llm_media", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--python", type=Path, help="a Python that has transformers, torch, onnx and safetensors"
    )
    parser.add_argument("--toolkit", type=Path, help="a Python that has the vendor's PC toolkit")
    parser.add_argument("--platform", default="rk3588", help="chip that encoders are converted for")
    parser.add_argument("--keep", type=Path, help="folder of the models and of what transformers said")
    parser.add_argument("--markdown", type=Path, help="document whose table is written anew")
    parser.add_argument("--json", type=Path, help="file of the results")
    parser.add_argument("names", nargs="*", help="cases; all without a name")
    args = parser.parse_args()
    known = [case.name for case in CASES]
    unknown = [name for name in args.names if name not in known]
    if unknown:  # a table made of nothing would replace the one that is there
        parser.error(f"no such case: {', '.join(unknown)}; there are {', '.join(known)}")
    with tempfile.TemporaryDirectory() as temporary:
        results = _results(args, (args.keep or Path(temporary)).resolve())
    for result in results:
        print(_line(result))
    if args.json:
        write_results(results, args.json)
    if args.markdown:
        write_table(results, args.markdown)
    bad = [result.name for result in results if not result.good]
    print(f"{len(results) - len(bad)} of {len(results)} agree" + (f"; not: {', '.join(bad)}" if bad else ""))
    return 1 if bad else 0


def _results(args: argparse.Namespace, folder: Path) -> list[Result]:
    if args.python:
        _run(args.python, "truth.py", folder, *args.names)
    if args.toolkit:
        _run(args.toolkit, "convert.py", folder, args.platform, *args.names)
        for case in CASES:
            if not case.stands_in and (not args.names or case.name in args.names):
                encode(folder / case.name)
    if args.toolkit and args.python:
        _run(args.python, "truth.py", folder, *args.names, "--encoded")
    return compare(folder, args.names)


def _run(python: Path, script: str, folder: Path, *words: str) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    with tempfile.TemporaryDirectory() as scratch:  # the toolkit leaves files where it runs
        subprocess.run(
            [str(python), str(HERE / script), str(folder), *words], check=True, env=environment, cwd=scratch
        )


def _line(result: Result) -> str:
    worst = max(max(turn.logits, turn.pieces) for turn in result.turns)
    same = sum(turn.same for turn in result.turns)
    encoder = (
        "" if result.encoder is None else f", encoder {result.encoder:.1e}, behind it {result.encoded:.1e}"
    )
    tower = "" if result.tower is None else f", tower {result.tower:.1e}"
    return f"{result.name:16} logits {worst:.1e}, same tokens in {same} of {len(result.turns)} turns{tower}{encoder}"


if __name__ == "__main__":
    sys.exit(main())
