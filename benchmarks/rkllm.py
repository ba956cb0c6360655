"""What a token of librkllmrt costs on its way to a program: in this process, and through the process of its own.

    python benchmarks/rkllm.py [--tokens 2000] [--rounds 7] [--library librkllmrt.so --model model.rkllm]

Without a library it measures with the test double, which says a token as soon as the callback of the one before has
returned: the time per token is then what the library and the way cost together. ``bare`` is the same loop with a ctypes
callback that does nothing.
"""

from __future__ import annotations

import argparse
import ctypes as ct
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from rknnlite_llm import open_llm
from rknnlite_rkllm.loader import Api, find

from rknnlite.spi.llm import InferParams, LlmCallbacks, LlmSession, PromptInput

TARGETS = {"in process": 60.0, "apart": 200.0}
"""Microseconds per token at most."""


def double() -> tuple[Path, Path]:
    """Library and model of the test double."""
    from tests.doubles.rkllm.standin import build, model

    path = Path(tempfile.mkdtemp()) / "count.rkllm"
    path.write_bytes(model("op count"))
    return build("1.3.0"), path


def session_us(session: LlmSession, tokens: int) -> float:
    """Microseconds from one result to the next, after the first."""
    times: list[float] = []
    session.set_callbacks(LlmCallbacks(result=lambda result, state: times.append(time.perf_counter())))
    summary = session.run(PromptInput("x"), InferParams(max_new_tokens=tokens))
    return (times[-1] - times[0]) / (summary.n_decode_tokens - 1) * 1e6


def bare_us(library: Path, model: Path) -> Callable[[int], float]:
    """The same run by plain ctypes (1.3.0)."""
    api = Api(find(library))
    abi, times = api.abi, []

    def heard(result: object, userdata: object, state: int) -> int:
        times.append(time.perf_counter())
        return 0

    param, handle = api.defaults(), ct.c_void_p()
    param.model_path, param.max_context_len = str(model).encode(), 4096
    kept = abi.LLMResultCallback(heard)
    callback = abi.RKLLMCallback(result_callback=kept)
    assert api.function("rkllm_init")(ct.byref(handle), ct.byref(param), ct.byref(callback)) == 0
    given = (abi.RKLLMInput * 1)()
    given[0].role, given[0].u.prompt_input = b"user", b"x"

    def once(tokens: int) -> float:
        times.clear()
        infer = abi.RKLLMInferParam(max_new_tokens=tokens)
        assert api.function("rkllm_run")(handle, given, ct.byref(infer), None) == 0
        return (times[-1] - times[0]) / (len(times) - 1) * 1e6

    once.kept = (kept, callback, param)  # type: ignore[attr-defined]
    return once


def main() -> int:
    """Print medians of rounds that take turns; 1 where one is above its target."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--library", type=Path)
    parser.add_argument("--model", type=Path)
    args = parser.parse_args()
    real = args.library is not None and args.model is not None
    library, model = (args.library, args.model) if real else double()
    ways: dict[str, Callable[[int], float]] = {} if real else {"bare": bare_us(library, model)}
    for name in TARGETS:
        context = open_llm(model, backend="rkllm", library=str(library), in_process=name == "in process")
        session = context.session()
        ways[name] = lambda tokens, session=session: session_us(session, tokens)
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(args.rounds):
        for name, way in ways.items():
            found[name].append(way(args.tokens))
    for name, values in found.items():
        target = f", target {TARGETS[name]:g}" if name in TARGETS and not real else ""
        print(
            f"{name:12} {statistics.median(values):7.1f} us per token ({min(values):.1f} to {max(values):.1f}){target}"
        )
    return int(not real and any(statistics.median(found[name]) > most for name, most in TARGETS.items()))


if __name__ == "__main__":
    raise SystemExit(main())
