"""Figures of networks and of the board for Prometheus, read when somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rknnlite.native.board import Board

from .network import ServedNetwork
from .statistics import BOUNDS, Distribution

__all__ = ["NetworkFigures"]


class NetworkFigures:
    """A collector of ``prometheus_client``. Labels are the loaded models, rows of a batch, cores and thermal zones."""

    def __init__(self, networks: Callable[[], Iterable[ServedNetwork]], board: Board) -> None:
        from prometheus_client import core

        self._networks, self._board, self._core = networks, board, core

    def collect(self) -> Iterator[Any]:
        """All of them."""
        networks = list(self._networks())
        yield from self._counters(networks)
        yield from self._gauges(networks)
        yield self._histogram(
            "queue_seconds",
            "Time from a request to the beginning of its run",
            [(network.name, network.statistics.waited) for network in networks],
        )
        yield self._histogram(
            "run_seconds",
            "Time of a run in the model",
            [(network.name, network.statistics.computed) for network in networks],
        )
        yield from self._of_the_board()

    def describe(self) -> Iterator[Any]:
        """None: the registry need not collect to find out names."""
        return iter(())

    def _counters(self, networks: Iterable[ServedNetwork]) -> Iterator[Any]:
        def counter(name: str, text: str, *labels: str) -> Any:
            return self._core.CounterMetricFamily(f"rknnlite_network_{name}", text, labels=["model", *labels])

        requests = counter("requests", "Requests that a network answered, with outputs or an error")
        failed = counter("failed", "Requests that ended with an error, or that nobody waited for")
        runs = counter("runs", "Runs of a network by the rows of requests that shared them", "rows")
        replaced = counter("workers_replaced", "Workers that were replaced after a failure")
        for network in networks:
            found = network.statistics
            requests.add_metric([network.name], found.success.count + found.fail.count)
            failed.add_metric([network.name], found.fail.count)
            for rows, each in sorted(found.runs.items()):
                runs.add_metric([network.name, str(rows)], each.compute_infer.count)
            workers = network.pool.stats().workers
            replaced.add_metric([network.name], sum(worker.replaced for worker in workers))
        return iter((requests, failed, runs, replaced))

    def _gauges(self, networks: Iterable[ServedNetwork]) -> Iterator[Any]:
        for name, text in (("running", "Requests that are computed"), ("waiting", "Requests in the queue")):
            gauge = self._core.GaugeMetricFamily(f"rknnlite_network_{name}", text, labels=["model"])
            for network in networks:
                gauge.add_metric([network.name], getattr(network.turnstile, name))
            yield gauge

    def _histogram(self, name: str, text: str, found: Iterable[tuple[str, Distribution]]) -> Any:
        made = self._core.HistogramMetricFamily(f"rknnlite_network_{name}", text, labels=["model"])
        for model, distribution in found:
            total, buckets = 0, []
            for bound, count in zip((*BOUNDS, float("inf")), distribution.counts):
                total += count
                buckets.append(("+Inf" if bound == float("inf") else str(float(bound)), total))
            made.add_metric([model], buckets, distribution.seconds)
        return made

    def _of_the_board(self) -> Iterator[Any]:
        """Nothing where the kernel does not tell."""
        gauge = self._core.GaugeMetricFamily
        load = self._board.load().value
        if load:
            made = gauge("rknnlite_npu_load_percent", "Load of an NPU core", labels=["core"])
            for core, percent in enumerate(load):
                made.add_metric([str(core)], percent)
            yield made
        degrees = self._board.temperatures()
        if degrees:
            made = gauge("rknnlite_temperature_celsius", "Temperature of a thermal zone", labels=["zone"])
            for zone, celsius in degrees.items():
                made.add_metric([zone], celsius)
            yield made
