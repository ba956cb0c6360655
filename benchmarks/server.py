"""The server beside the session below it, in one run, on random weights of a real shape.

    python benchmarks/server.py [--shape 0.5b] [--weights w8] [--folder DIR] [--rounds 3] [--clients 4]

Ratios of medians; what is compared takes turns. The server is a process of its own and computes with the cores that
the session in this process computes with when it is its turn.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from random_llm import SHAPES, random_package
from rknnlite_llm import EmbedTable, Package, Tokenizer, open_llm

from rknnlite.spi.llm import (
    InferParams,
    KvPolicy,
    LlmCallbacks,
    LlmParams,
    MessagesInput,
    SamplingParams,
    TokenInput,
    VocabInfo,
)

TOKENS, PROMPT, CONVERSATION, TURN = 24, 64, 500, 20


@dataclass
class Times:
    """Seconds: until the first text, and per token behind it."""

    first: float
    each: float


class Direct:
    """A session in this process."""

    def __init__(self, package: Package, vocab: int, width: int) -> None:
        self._context = open_llm(package.model, package.weight, backend="cpu")
        calls = LlmCallbacks(
            tokenizer=Tokenizer(package.tokenizer), embed=EmbedTable(package.embed, vocab, width)
        )
        params = LlmParams(2048, vocab=VocabInfo(), sampling=SamplingParams(temperature=0))
        self._session, self._calls = self._context.session(params, calls), calls
        self._session.set_kvcache_policy(KvPolicy.NORMAL)

    def tokens(self, question: str) -> list[int]:
        """What a server has the model read for a question."""
        return self._session.rendered(MessagesInput([{"role": "user", "content": question}]))

    def run(self, tokens: list[int]) -> Times:
        seen: list[float] = []
        self._session.set_callbacks(
            replace(
                self._calls,
                result=lambda result, state: seen.append(time.perf_counter()) if result.token_ids else None,
            )
        )
        start = time.perf_counter()
        self._session.run(TokenInput(tuple(tokens), whole=True), InferParams(max_new_tokens=TOKENS))
        return times(start, seen)


@dataclass(frozen=True)
class Route:
    """A way to ask for a stream: its path, the body of a question, and the text of an event."""

    path: str
    body: Callable[[str], dict[str, Any]]
    text: Callable[[dict[str, Any]], str]


def _messages(question: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": question}], "max_tokens": TOKENS, "temperature": 0}


ROUTES = (
    Route("/v1/chat/completions", _messages, lambda event: event["choices"][0]["delta"].get("content") or ""),
    Route(
        "/v1/responses",
        lambda question: {"input": question, "max_output_tokens": TOKENS, "temperature": 0},
        lambda event: event["delta"] if event["type"] == "response.output_text.delta" else "",
    ),
    Route(
        "/v1/messages",
        _messages,
        lambda event: event["delta"].get("text", "") if event["type"] == "content_block_delta" else "",
    ),
)
"""Those that take text; what they are held to is the same."""


class Client:
    """A client of the server."""

    def __init__(self, url: str) -> None:
        self.http = httpx.Client(base_url=url, timeout=600)

    def run(self, tokens: list[int], count: int = TOKENS) -> Times:
        body = {"prompt": tokens, "max_tokens": count, "temperature": 0, "stream": True}
        start = time.perf_counter()
        with self.http.stream("POST", "/v1/completions", json=body) as response:
            texts = (json.loads(line[6:]) for line in response.iter_lines() if line.startswith("data: {"))
            seen = [time.perf_counter() for text in texts if text["choices"][0]["text"]]
        return times(start, seen)

    def ask(self, route: Route, question: str) -> Times:
        """The times of a stream of text."""
        start = time.perf_counter()
        with self.http.stream("POST", route.path, json={**route.body(question), "stream": True}) as response:
            lines = (line[5:].strip() for line in response.iter_lines() if line.startswith("data:"))
            events = (json.loads(line) for line in lines if line.startswith("{"))
            seen = [time.perf_counter() for event in events if route.text(event)]
        return times(start, seen)

    def answer(self, tokens: list[int]) -> tuple[float, list[int]]:
        """Seconds until the first token, and that token."""
        start = time.perf_counter()
        body = {"prompt": tokens, "max_tokens": 1, "temperature": 0}
        self.http.post("/v1/completions", json=body).raise_for_status()
        return time.perf_counter() - start, tokens


def times(start: float, seen: list[float]) -> Times:
    return Times(seen[0] - start, (seen[-1] - seen[0]) / max(1, len(seen) - 1))


@contextmanager
def server(package: Package, parallel: int) -> Iterator[str]:
    """``rknnlite serve`` on a free port."""
    words = [
        "--llm",
        package.model,
        "--port",
        0,
        "--parallel",
        parallel,
        "--ctx-size",
        2048,
        "--backend",
        "cpu",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "rknnlite", "serve", *map(str, words)],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    assert process.stderr is not None
    url = ""
    for line in process.stderr:
        url = url or "".join(re.findall(r"(http://\S+) \(models", line))
        if "ready: " in line:
            break
    try:
        yield url
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", choices=SHAPES, default="0.5b")
    parser.add_argument("--weights", default="w8")
    parser.add_argument("--folder", type=Path, help="where packages are kept")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, default=4)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as own:
        package = random_package(args.folder or Path(own), args.shape, args.weights)
        with server(package, args.clients) as url:
            measure(url, package, args)


def measure(url: str, package: Package, args: Any) -> None:
    random = np.random.default_rng(1)

    def prompt(length: int) -> list[int]:
        return random.integers(300, 8000, length).tolist()

    shape, client = SHAPES[args.shape], Client(url)
    direct = Direct(package, shape["vocab_size"], shape["hidden_size"])
    direct.run(prompt(8))
    client.run(prompt(8))
    ours, theirs = [], []
    for _ in range(args.rounds):
        tokens = prompt(PROMPT)
        ours.append(client.run(tokens))
        theirs.append(direct.run(tokens))
    report("/v1/completions", ours, theirs)
    report_routes(client, direct, args.rounds)
    report_turns(client, prompt, args.rounds)
    report_parallel(url, prompt, args)


def report(path: str, ours: list[Times], theirs: list[Times]) -> None:
    """A route beside the session below it: 5 ms over 1.1 x, and 1.05 x are wanted."""
    first = [statistics.median(t.first for t in side) * 1e3 for side in (ours, theirs)]
    each = [statistics.median(t.each for t in side) * 1e3 for side in (ours, theirs)]
    over, ratio = first[0] - 1.1 * first[1], each[0] / each[1]
    print(
        f"{path:21} first token {first[0]:.1f} ms, session {first[1]:.1f} ms: {over:+.1f} ms over 1.1 x; per token "
        f"{each[0]:.2f} ms, session {each[1]:.2f} ms: {ratio:.3f} x{'' if over < 5 and ratio < 1.05 else '  MISSED'}"
    )


def report_routes(client: Client, direct: Direct, rounds: int) -> None:
    """Routes that take text, in turns with the session on the same tokens."""
    draw = np.random.default_rng(2)

    def question() -> str:
        return "".join(chr(letter) for letter in draw.integers(97, 123, PROMPT))

    seen: dict[str, tuple[list[Times], list[Times]]] = {route.path: ([], []) for route in ROUTES}
    for _ in range(rounds):
        for route in ROUTES:
            ours, theirs = seen[route.path]
            ours.append(client.ask(route, question()))
            theirs.append(direct.run(direct.tokens(question())))
    for path, (ours, theirs) in seen.items():
        report(path, ours, theirs)


def report_turns(client: Client, prompt: Any, rounds: int) -> None:
    """A conversation of 500 tokens, then a second turn."""
    ratios = []
    for _ in range(rounds):
        talk = prompt(CONVERSATION)
        first, _ = client.answer(talk)
        second, _ = client.answer(talk + prompt(TURN))
        ratios.append(second / first)
    print(f"second turn of {CONVERSATION} tokens: {statistics.median(ratios):.3f} of the first")


def report_parallel(url: str, prompt: Any, args: Any) -> None:
    """Several clients at once beside one alone, tokens per second."""
    clients = [Client(url) for _ in range(args.clients)]
    count = 2 * TOKENS
    alone, together = [], []
    with ThreadPoolExecutor(args.clients) as pool:
        for _ in range(args.rounds):
            start = time.perf_counter()
            clients[0].run(prompt(4), count)
            alone.append(count / (time.perf_counter() - start))
            start = time.perf_counter()
            list(pool.map(lambda client: client.run(prompt(4), count), clients))
            together.append(count * args.clients / (time.perf_counter() - start))
    one, many = statistics.median(alone), statistics.median(together)
    print(f"{args.clients} clients: {many:.1f} tokens/s, one {one:.1f} tokens/s: {many / one:.2f} x")


if __name__ == "__main__":
    main()
