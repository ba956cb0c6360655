"""What it costs to ask a server instead of a context: networks behind the Open Inference Protocol, on loopback.

    python benchmarks/serve.py [--rounds 7] [--calls 200] [--only cost,throughput,workers]

Clients and servers are processes of their own; what is compared takes turns, and medians of rounds are compared.

* cost: a call with a 224x224x3 uint8 input on a network that takes no time, beside an echo of the same bytes by bare
  grpcio (a server of threads, and one of asyncio), at most 3 times as long by gRPC and 5 times by REST with tensors as bytes.
* throughput: ``serve`` with two workers beside ``rknnlite.Pool`` in this process, at least 0.85 of its calls a second at
  5 ms a frame: once on frames that only take time, as on an NPU, and once on frames that compute, with two processors or
  with the CPU reference's own (examples/resnet18, shorter frames: told without a target). Clients take processors from
  frames that compute. They are kept out of the ratio: it is that of the CPU times per call, of this process with the pool
  and of the server alone. What the clock says, with the clients, stands beside it.
* workers: on a network that takes 20 ms, three workers answer at least 2.9 times as many calls as one; at half the
  load that they can bear, 95 of 100 calls take at most 26 ms.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "plugins"), str(ROOT / "tests" / "doubles" / "stand_in")]

import grpc  # noqa: E402
import numpy as np  # noqa: E402
import psutil  # noqa: E402
import rknnlite_stand_in  # noqa: E402
from rknnlite_protocol.grpc_codec import request_message  # noqa: E402
from rknnlite_protocol.grpc_messages import INFERENCE, methods  # noqa: E402
from rknnlite_protocol.requests import InferRequest, Tensor  # noqa: E402
from rknnlite_protocol.rest_codec import HEADER_LENGTH, request_body  # noqa: E402
from rknnlite_stand_in import write_model  # noqa: E402

import rknnlite  # noqa: E402
from rknnlite import plugins  # noqa: E402
from tests.support.served import serve, stand_in_path  # noqa: E402

CLASSIFIER = ROOT / "examples" / "resnet18" / "resnet18_for_RK3588.rknn"
IMAGE = (1, 224, 224, 3)
LATENCY = 0.020
FRAME, WORKERS = 5.0, 2
"""Milliseconds, and how many frames at a time, of the throughput."""
_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--only", default="cost,throughput,workers")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        if "cost" in options.only:
            cost(Path(name), options.rounds, options.calls)
        if "throughput" in options.only:
            throughput(Path(name), options.rounds)
        if "workers" in options.only:
            workers(Path(name), options.calls)


# -- the cost of a call ---------------------------------------------------------------------------------------


def cost(folder: Path, rounds: int, calls: int) -> None:
    model = write_model(folder / "quick.rknn", input=IMAGE, output=[1, 1000])
    image = np.random.default_rng(0).integers(0, 255, IMAGE).astype(np.uint8)
    with ExitStack() as stack:
        words = (model, "--backend", "stand_in", "--workers", 1)
        server = stack.enter_context(serve(*words, path=stand_in_path(folder)))
        asked = {
            "echo by threads": stack.enter_context(bare_echo("threads", image.tobytes())),
            "echo by asyncio": stack.enter_context(bare_echo("asyncio", image.tobytes())),
            "gRPC": stack.enter_context(grpc_call(server.grpc, "quick", image)),
            "REST": stack.enter_context(rest_call(server.http, "quick", image)),
        }
        each = in_turns(asked, rounds, calls)
        spent = (
            cpu_of(server.process.pid, asked["gRPC"], calls),
            cpu_of(server.process.pid, asked["REST"], calls),
        )
    print(f"a call with {image.nbytes} bytes, on a network that takes no time")
    for name, seconds in each.items():
        print(f"  {name:<17}{seconds * 1e6:8.0f} us")
    bare = each["echo by threads"]
    show("gRPC", each["gRPC"] / bare, "times the echo by threads", 3.0, below=True)
    show("REST", each["REST"] / bare, "times the echo by threads", 5.0, below=True)
    print(f"  CPU time of the server per call: gRPC {spent[0] * 1e6:.0f} us, REST {spent[1] * 1e6:.0f} us")


def in_turns(asked: dict[str, Callable[[], Any]], rounds: int, calls: int) -> dict[str, float]:
    """Medians of the medians of rounds, in seconds."""
    found: dict[str, list[float]] = {name: [] for name in asked}
    for _ in range(rounds):
        for name, ask in asked.items():
            ask()
            found[name].append(statistics.median(timed(ask) for _ in range(calls)))
    return {name: statistics.median(times) for name, times in found.items()}


def timed(ask: Callable[[], Any]) -> float:
    start = time.perf_counter()
    ask()
    return time.perf_counter() - start


def cpu_of(pid: int, ask: Callable[[], Any], calls: int) -> float:
    process = psutil.Process(pid)
    before = sum(process.cpu_times()[:2])
    for _ in range(calls * 5):
        ask()
    return (sum(process.cpu_times()[:2]) - before) / (calls * 5)


@contextmanager
def grpc_call(address: str, model: str, image: Any) -> Iterator[Callable[[], Any]]:
    """Asks with the message made anew for each call, and looks at the numbers that come back."""
    method = methods(INFERENCE)["ModelInfer"]
    with grpc.insecure_channel(address, options=_OPTIONS) as channel:
        call = channel.unary_unary(method.path, method.request.SerializeToString, method.response.FromString)

        def ask() -> Any:
            found = call(request_message(InferRequest(model, [Tensor("x", image)])))
            return np.frombuffer(found.raw_output_contents[0], np.float32)

        yield ask


@contextmanager
def rest_call(address: str, model: str, image: Any) -> Iterator[Callable[[], Any]]:
    """The same by the standard library's client, which costs least."""
    from http.client import HTTPConnection

    connection = HTTPConnection(address)
    connection.connect()

    def ask() -> Any:
        parts, length = request_body(InferRequest(model, [Tensor("x", image)]))
        connection.request("POST", f"/v2/models/{model}/infer", b"".join(parts), {HEADER_LENGTH: str(length)})
        response = connection.getresponse()
        body = response.read()
        assert response.status == 200, body
        return np.frombuffer(body, np.float32, offset=int(response.headers[HEADER_LENGTH]))

    yield ask
    connection.close()


@contextmanager
def bare_echo(kind: str, data: bytes) -> Iterator[Callable[[], Any]]:
    process = subprocess.Popen([sys.executable, __file__, "--echo", kind], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    port = int(process.stdout.readline())
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}", options=_OPTIONS) as channel:
            call = channel.unary_unary("/echo/Echo")
            yield lambda: call(data)
    finally:
        process.kill()
        process.wait()


def echo(kind: str) -> None:
    """In a process of its own: what comes goes back."""

    def back(request: bytes, context: Any) -> bytes:
        return request

    async def back_later(request: bytes, context: Any) -> bytes:
        return request

    def handlers(call: Any) -> Any:
        return grpc.method_handlers_generic_handler(
            "echo", {"Echo": grpc.unary_unary_rpc_method_handler(call)}
        )

    if kind == "threads":
        server = grpc.server(futures.ThreadPoolExecutor(4), handlers=(handlers(back),), options=_OPTIONS)
        print(server.add_insecure_port("127.0.0.1:0"), flush=True)
        server.start()
        server.wait_for_termination()
        return
    import asyncio

    async def run() -> None:
        made = grpc.aio.server(handlers=(handlers(back_later),), options=_OPTIONS)
        print(made.add_insecure_port("127.0.0.1:0"), flush=True)
        await made.start()
        await made.wait_for_termination()

    asyncio.run(run())


# -- throughput -----------------------------------------------------------------------------------------------


def throughput(folder: Path, rounds: int) -> None:
    plugins.manager().register(rknnlite_stand_in, name="stand_in")
    path = stand_in_path(folder)
    kinds = {"takes": {"latency_ms": FRAME}, "computes": {"busy_ms": FRAME}}
    for word, fields in kinds.items():
        model = write_model(folder / f"{word}.rknn", input=IMAGE, output=[1, 1000], **fields)
        shares = beside_pool(f"a network that {word} {FRAME:g} ms", model, "stand_in", rounds, path)
        for way, (by_clock, by_cpu) in shares.items():
            share = by_cpu if "busy_ms" in fields else by_clock
            show(f"throughput by {way}", share, "of Pool's", 0.85, below=False)
    beside_pool(CLASSIFIER.name, str(CLASSIFIER), "cpu", rounds, path)


def beside_pool(
    what: str, model: str, backend: str, rounds: int, path: str, callers: int = 6, calls: int = 120
) -> dict[str, tuple[float, float]]:
    """By REST and gRPC, the share of the pool's throughput: by the clock, and by the CPU time without clients."""
    name = Path(model).stem
    with rknnlite.open(model, backend=backend) as context:
        dims = context.inputs[0].dims
    image = np.random.default_rng(0).integers(0, 255, dims).astype(np.uint8)
    with ExitStack() as stack:
        server = stack.enter_context(serve(model, "--backend", backend, "--workers", WORKERS, path=path))
        pool = stack.enter_context(rknnlite.Pool(model, WORKERS, backend=backend))
        asked = {
            "Pool": lambda: pool.submit(image).result(),
            "gRPC": stack.enter_context(grpc_call(server.grpc, name, image)),
            "REST": stack.enter_context(for_threads(lambda: rest_call(server.http, name, image))),
        }
        there = psutil.Process(server.process.pid)
        for ask in asked.values():
            rate(ask, callers, calls)
        found: dict[str, list[tuple[float, float, float]]] = {way: [] for way in asked}
        for _ in range(rounds):
            for way, ask in asked.items():
                here, before = time.process_time(), sum(there.cpu_times()[:2])
                each = 1 / rate(ask, callers, calls)
                away = (sum(there.cpu_times()[:2]) - before) / calls
                found[way].append((each, (time.process_time() - here) / calls, away))
    print(f"{what}, {WORKERS} workers, {callers} callers")
    times = {way: np.array(rows) for way, rows in found.items()}  # [rounds, (clock, CPU here, CPU there)]
    for way, rows in times.items():
        each, here, away = np.median(rows, 0)
        print(f"  {way}: {1 / each:.1f} calls a second; CPU time a call {here * 1e3:.2f} ms here, {away * 1e3:.2f} ms in the server")  # fmt: skip
    shares = {}
    for way in ("gRPC", "REST"):
        by_clock = float(np.median(times["Pool"][:, 0] / times[way][:, 0]))
        by_cpu = float(np.median(times["Pool"][:, 1]) / np.median(times[way][:, 2]))
        print(f"  {way}: {by_clock:.2f} of Pool's by the clock, {by_cpu:.2f} by the CPU time without clients")
        shares[way] = by_clock, by_cpu
    return shares


@contextmanager
def for_threads(make: Callable[[], Any]) -> Iterator[Callable[[], Any]]:
    """A connection for each thread."""
    own = threading.local()
    with ExitStack() as stack:

        def ask() -> Any:
            if not hasattr(own, "ask"):
                own.ask = stack.enter_context(make())
            return own.ask()

        yield ask


def rate(ask: Callable[[], Any], callers: int, calls: int) -> float:
    """Calls a second, from several threads."""
    left = iter(range(calls))
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                if next(left, None) is None:
                    return
            ask()

    start = time.perf_counter()
    threads = [threading.Thread(target=work) for _ in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return calls / (time.perf_counter() - start)


# -- several workers ------------------------------------------------------------------------------------------


def workers(folder: Path, calls: int) -> None:
    model = write_model(folder / "steady.rknn", input=IMAGE, output=[1, 1000], latency_ms=LATENCY * 1e3)
    image = np.zeros(IMAGE, np.uint8)
    path, rates = stand_in_path(folder), {}
    print(f"a network that takes {LATENCY * 1e3:.0f} ms")
    for count in (1, 3):
        with (
            serve(model, "--backend", "stand_in", "--workers", count, path=path) as server,
            grpc_call(server.grpc, "steady", image) as ask,
        ):
            rate(ask, 3, 12)
            rates[count] = rate(ask, 4 * count, calls * count)
            if count == 3:
                half_load(ask, calls * 2)
    print(f"  one worker {rates[1]:.1f} calls a second, three {rates[3]:.1f}")
    show("three workers", rates[3] / rates[1], "times one", 2.9, below=False)


def half_load(ask: Callable[[], Any], calls: int) -> None:
    """Calls come at irregular moments, on average at half the rate that three workers can bear."""
    draw, taken = random.Random(0), []
    period = LATENCY / 3 / 0.5
    with futures.ThreadPoolExecutor(16) as pool:
        asked = []
        at = time.perf_counter()
        for _ in range(calls):
            at += draw.uniform(0.7, 1.3) * period
            time.sleep(max(0.0, at - time.perf_counter()))
            asked.append(pool.submit(timed, ask))
        taken = sorted(each.result() for each in asked)
    p50, p95 = (taken[int(len(taken) * part) - 1] * 1e3 for part in (0.5, 0.95))
    print(f"  half load: p50 {p50:.1f} ms")
    show("p95 at half load", p95, "ms", 26.0, below=True)


def show(what: str, found: float, unit: str, target: float, *, below: bool) -> None:
    good = found <= target if below else found >= target
    word = "at most" if below else "at least"
    print(f"  {what}: {found:.2f} {unit} (target {word} {target:g}: {'met' if good else 'MISSED'})")


if __name__ == "__main__":
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    if sys.argv[1:2] == ["--echo"]:
        echo(sys.argv[2])
    else:
        main()
