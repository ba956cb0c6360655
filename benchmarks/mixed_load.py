"""Everything at once on one server, for as long as wanted: nothing may be wrong, lost, crossed or left behind.

    python -m benchmarks.mixed_load --minutes 30

64 clients stream answers (OpenAI's chat and responses, Anthropic's messages, Ollama's chat), 32 ask networks (REST in JSON, REST in
bytes, gRPC), others transcribe, send batches, load, unload, copy and delete models and write the file of keys anew; some hang up in
the middle, stop reading or send half of a request. The server is ended and killed meanwhile, but for the last third. What is right
is known from a quiet server. Prints counts and what the server had left; the exit status is 1 for anything wrong.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from benchmarks.mixed_clients import CLIENTS, Client, Known
from benchmarks.mixed_server import Left, MixedServer

KILLS = 60.0
"""Seconds between two ends of the server."""
_SETTLE, _WARM = 20.0, 20.0


class Crowd:
    """All clients, each in a thread of its own; ``told`` counts how requests ended, by kind of client."""

    def __init__(self, server: MixedServer, known: Known, share: float) -> None:
        self.told: Counter[tuple[str, str]] = Counter()
        self.wrong: list[str] = []
        self._over, self._lock = threading.Event(), threading.Lock()
        kinds = [kind for kind, count in CLIENTS.items() for _ in range(max(1, round(count * share)))]
        self._clients = [kind(number, server, known) for number, kind in enumerate(kinds)]
        self._threads = [threading.Thread(target=self._work, args=(client,)) for client in self._clients]

    def begin(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Wait until every client has its answer; one that does not get it is an error."""
        self._over.set()
        limit = time.monotonic() + 180
        for client, thread in zip(self._clients, self._threads):
            thread.join(max(0.0, limit - time.monotonic()))
            if thread.is_alive():
                self.wrong.append(f"{client.name} still waits for an answer")
        for client in self._clients:
            self.wrong += client.settle()
            client.http.close()

    def _work(self, client: Client) -> None:
        while not self._over.is_set():
            ended = client.one()
            with self._lock:
                self.told[type(client).__name__, ended.kind] += 1
                if ended.wrong:
                    self.wrong.append(f"{client.name}: {ended.wrong}")
            if ended.pause:
                self._over.wait(ended.pause)


def load(seconds: float, share: float) -> tuple[Crowd, Left]:
    """The load for so long, with a ``share`` of the clients."""
    with tempfile.TemporaryDirectory() as folder, MixedServer(Path(folder)) as server:
        server.start()
        crowd = Crowd(server, Known.of(server), share)
        begun = time.monotonic()
        crowd.begin()
        kills = 0
        while time.monotonic() - begun < seconds * 2 / 3:
            time.sleep(min(KILLS, seconds / 6))
            server.restart(politely=kills % 2 == 0)
            kills += 1
            print(
                f"{time.monotonic() - begun:6.0f} s: {sum(crowd.told.values())} requests, {len(crowd.wrong)} wrong",
                flush=True,
            )
        time.sleep(min(_WARM, seconds / 12))
        before = server.held()
        time.sleep(max(0.0, begun + seconds - time.monotonic()))
        crowd.end()
        time.sleep(_SETTLE)
        return crowd, Left(before, server.held(), kills, server.complaints())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--share", type=float, default=1.0, help="of the clients")
    args = parser.parse_args()
    crowd, left = load(60 * args.minutes, args.share)
    for (client, ended), count in sorted(crowd.told.items()):
        print(f"{client:14} {ended:12} {count:8}")
    print(left)
    for text in crowd.wrong[:40]:
        print("WRONG", text)
    bad = len(crowd.wrong) + len(left.complaints) + len(left.grown)
    print(f"{sum(crowd.told.values())} requests, {left.kills} ends of the server, {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
