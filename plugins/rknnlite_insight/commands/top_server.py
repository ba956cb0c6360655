"""``rknnlite top URL``: what a server does, from its figures."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Optional

from rknnlite.errors import DeviceUnavailable
from rknnlite.spi.command import Column, Line, Part, Table, Tone

from .server_figures import Figures, fetch, quantile

__all__ = ["ServerLooks"]

_MOST_ROUTES = 8
_HEAD_LINES = 9  # title, state of the board, heads of tables, lines between
_TOLD_ROUTES = ("/metrics", "/health", "/v1/health", "/")


@dataclass(frozen=True)
class _Row:
    """A language model, a network or a route. Counts are since the server began, rates a second since the look before (None at
    the first), times in seconds of what came since then, and of everything where nothing came."""

    name: str
    requests: int
    failed: int
    requests_per_second: Optional[float]
    p50: Optional[float]
    p95: Optional[float]
    running: int = 0
    waiting: int = 0
    tokens: Optional[int] = None
    tokens_per_second: Optional[float] = None
    token_p50: Optional[float] = None


@dataclass(frozen=True)
class _Look:
    """A server at one moment; memory in bytes, load in percent, degrees Celsius."""

    models: list[_Row]
    networks: list[_Row]
    routes: list[_Row]
    load: list[int]
    temperatures: dict[str, float]
    memory: Optional[int]
    batches: dict[str, int]
    problem: str = ""


@dataclass
class ServerLooks:
    """Looks at the server at ``address``, which may go away in between."""

    address: str
    key: str = field(repr=False)
    get: Callable[[str, str], Figures] = fetch
    clock: Callable[[], float] = time.monotonic
    _before: Optional[tuple[float, Figures]] = None
    _seen: Optional[_Look] = None

    def look(self, live: bool, interval: float) -> tuple[Any, list[Part], str]:
        """Data, what to show, and nothing to remark; raises DeviceUnavailable where it has never answered."""
        now = self.clock()
        try:
            figures = self.get(self.address, self.key)
        except DeviceUnavailable as error:
            if self._seen is None:
                raise
            self._before = None
            self._seen = _Look([], [], [], [], {}, None, {}, str(error))
        else:
            self._seen = _look(figures, self._before, now)
            self._before = now, figures
        lines = shutil.get_terminal_size((80, 24)).lines if live else 0
        data = {"server": self.address, **_told(self._seen)}
        return data, _screen(self._seen, self.address, interval if live else None, lines), ""


def _told(look: _Look) -> dict[str, Any]:
    rows = ("models", "networks", "routes")
    data = {
        name: [_row(row) for row in value] if name in rows else value for name, value in vars(look).items()
    }
    data["memory_bytes"] = data.pop("memory")
    return data


def _row(row: _Row) -> dict[str, Any]:
    """Times in microseconds and rates a second, named as everywhere."""
    data = vars(row).copy()
    for name in ("p50", "p95", "token_p50"):
        seconds = data.pop(name)
        data[f"{name}_us"] = None if seconds is None else 1e6 * seconds
    for name in ("requests", "tokens"):
        data[f"{name}_per_s"] = data.pop(f"{name}_per_second")
    return data


def _look(now: Figures, past: Optional[tuple[float, Figures]], at: float) -> _Look:
    then, before = past or (at, Figures())
    seconds = at - then if past else 0.0

    def rate(count: float, earlier: float) -> Optional[float]:
        if not seconds > 0:
            return None
        return (
            count - earlier if count >= earlier else count
        ) / seconds  # a server that began anew counts from 0

    def rows(
        label: str, requests: str, failed: dict[str, float], times: str, prefix: str = "", tokens: str = ""
    ) -> list[_Row]:
        counts, earlier = now.of(requests, label), before.of(requests, label)
        running, waiting = (now.of(f"rknnlite_{prefix}{word}", "model") for word in ("running", "waiting"))
        made, made_before = now.of(tokens, label), before.of(tokens, label)
        names = sorted({*counts, *(running if label == "model" else ())})
        return [
            _Row(
                name,
                int(counts.get(name, 0)),
                int(failed.get(name, 0)),
                rate(counts.get(name, 0), earlier.get(name, 0)),
                _time(0.5, now, before, times, label, name),
                _time(0.95, now, before, times, label, name),
                int(running.get(name, 0)),
                int(waiting.get(name, 0)),
                int(made.get(name, 0)) if tokens else None,
                rate(made.get(name, 0), made_before.get(name, 0)) if tokens else None,
                _time(0.5, now, before, "rknnlite_token_seconds", label, name) if tokens else None,
            )
            for name in names
        ]

    models = rows(
        "model",
        "rknnlite_first_token_seconds_count",
        now.of("rknnlite_failed_runs_total", "model"),
        "rknnlite_first_token_seconds",
        tokens="rknnlite_generated_tokens_total",
    )
    networks = rows(
        "model",
        "rknnlite_network_requests_total",
        now.of("rknnlite_network_failed_total", "model"),
        "rknnlite_network_run_seconds",
        "network_",
    )
    wrong: dict[str, float] = {}
    for labels, value in now.rows("rknnlite_requests_total"):
        if not _is_good(labels.get("status", "")):
            route = labels.get("route", "")
            wrong[route] = wrong.get(route, 0) + value
    routes = rows("route", "rknnlite_requests_total", wrong, "rknnlite_request_seconds")
    load = {
        int(core): int(value)
        for core, value in now.of("rknnlite_npu_load_percent", "core").items()
        if core.isdigit()
    }
    memory = now.value("process_resident_memory_bytes")
    return _Look(
        models,
        networks,
        sorted((row for row in routes if row.name not in _TOLD_ROUTES), key=lambda row: -row.requests),
        [load[core] for core in sorted(load)],
        now.of("rknnlite_temperature_celsius", "zone"),
        int(memory) if memory is not None else None,
        {status: int(count) for status, count in now.of("rknnlite_batches", "status").items()},
    )


def _is_good(status: str) -> bool:
    return status[:1] in "123" if status[:1].isdigit() else status == "OK"


def _time(share: float, now: Figures, before: Figures, name: str, label: str, key: str) -> Optional[float]:
    counts, earlier = now.buckets(name, label, key), before.buckets(name, label, key)
    if any(counts.get(bound, 0) < count for bound, count in earlier.items()):
        earlier = {}
    found = quantile(share, counts, earlier)
    return found if found is not None else quantile(share, counts, {})


def _screen(look: _Look, address: str, interval: Optional[float], lines: int) -> list[Part]:
    every = f", every {interval:g} s, Ctrl-C ends" if interval is not None else ""
    parts: list[Part] = [Line(f"rknnlite top {address}{every}", Tone.HEAD)]
    if look.problem:
        return [*parts, Line(look.problem, Tone.BAD, 2)]
    board = [f"core{core} {percent}%" for core, percent in enumerate(look.load)]
    board += [f"{zone} {celsius:.1f} C" for zone, celsius in look.temperatures.items()]
    board += [f"memory {look.memory / 2**20:.0f} MiB"] if look.memory is not None else []
    board += [
        f"batches {count} {status.replace('_', ' ')}" for status, count in look.batches.items() if count
    ]
    parts += ["  ".join(board)] if board else []
    if look.models:
        parts += ["", _models(look.models)]
    if look.networks:
        parts += ["", _table("network", look.networks)]
    room = lines - _HEAD_LINES - len(look.models) - len(look.networks) if lines else _MOST_ROUTES
    routes = look.routes[: max(1, min(_MOST_ROUTES, room))]
    if routes:
        parts += ["", _table("route", routes, queue=False)]
    return parts


def _models(rows: list[_Row]) -> Table:
    columns = [
        Column("model", least=8),
        Column("answers", right=True, drop=1),
        Column("/s", right=True),
        Column("tokens/s", right=True),
        Column("first p50", right=True),
        Column("p95", right=True),
        Column("token", right=True, drop=2),
        Column("runs", right=True),
        Column("waits", right=True),
        Column("errors", right=True, drop=3),
    ]
    cells = [
        [
            row.name,
            str(row.requests),
            _rate(row.requests_per_second),
            _rate(row.tokens_per_second),
            *map(_ms, (row.p50, row.p95, row.token_p50)),
            *map(str, (row.running, row.waiting, row.failed)),
        ]
        for row in rows
    ]
    return Table(columns, cells)


def _table(head: str, rows: list[_Row], queue: bool = True) -> Table:
    names = ["requests", "/s", "p50", "p95", *(["runs", "waits"] if queue else []), "errors"]
    columns = [Column(head, least=8), *(Column(name, right=True) for name in names)]
    cells = [
        [
            row.name,
            str(row.requests),
            _rate(row.requests_per_second),
            *map(_ms, (row.p50, row.p95)),
            *(map(str, (row.running, row.waiting)) if queue else ()),
            str(row.failed),
        ]
        for row in rows
    ]
    return Table(columns, cells)


def _rate(value: Optional[float]) -> str:
    return "-" if value is None else f"{value:.1f}"


def _ms(seconds: Optional[float]) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"
