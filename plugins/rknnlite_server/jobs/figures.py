"""Figures of batches for Prometheus, read when somebody asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .job_store import JobStore

__all__ = ["JobFigures"]


class JobFigures:
    """A collector of ``prometheus_client``: batches by status, their lines by what became of them, bytes of files."""

    def __init__(self, store: JobStore) -> None:
        from prometheus_client.core import GaugeMetricFamily

        self._store, self._gauge = store, GaugeMetricFamily

    def collect(self) -> Iterator[Any]:
        """All of them."""
        batches, open_batches = self._store.all(), self._store.open()
        states: dict[str, int] = {}
        for batch in batches:
            states[batch.status] = states.get(batch.status, 0) + 1
        yield self._labelled("batches", "Batches that are kept", "status", states)
        good, bad = (sum(getattr(batch, name) for batch in open_batches) for name in ("completed", "failed"))
        left = sum(batch.total for batch in open_batches) - good - bad
        lines = {"completed": good, "failed": bad, "left": left}
        yield self._labelled("batch_lines", "Lines of batches that have not ended", "state", lines)
        size = sum(file.bytes for file in self._store.files.all())
        yield self._gauge("rknnlite_file_bytes", "Bytes of files that are kept", value=size)

    def describe(self) -> Iterator[Any]:
        """None: the registry need not collect to find out names."""
        return iter(())

    def _labelled(self, name: str, text: str, label: str, values: dict[str, int]) -> Any:
        made = self._gauge(f"rknnlite_{name}", text, labels=[label])
        for key, value in values.items():
            made.add_metric([key], value)
        return made
