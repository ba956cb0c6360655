"""The figures of a server, as its ``/metrics`` tells them in Prometheus' form of text: fetched, read, and compared."""

from __future__ import annotations

import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional
from urllib.parse import urlsplit

from rknnlite.errors import DeviceUnavailable, ParamInvalid, shown
from rknnlite.files.reading import read_text

__all__ = ["Figures", "address_of", "fetch", "key_of", "quantile"]

_MOST = 8 << 20  # bytes of an answer
_SECONDS = 5.0
_ROW = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)",?')
_ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}
Labels = tuple[tuple[str, str], ...]


class Figures:
    """Values by name and labels; lines that are none are passed over."""

    def __init__(self, text: str = "") -> None:
        self._rows: dict[str, dict[Labels, float]] = {}
        for line in text.splitlines():
            found = _ROW.match(line)
            if found is None:
                continue
            try:
                value = float(found[3])
            except ValueError:
                continue
            labels = tuple((name, _unescaped(given)) for name, given in _LABEL.findall(found[2] or ""))
            self._rows.setdefault(found[1], {})[labels] = value

    @property
    def known(self) -> bool:
        """Whether there are any of a server of ours."""
        return any(name.startswith("rknnlite_") for name in self._rows)

    def of(self, name: str, label: str) -> dict[str, float]:
        """Values by one label, those of the others summed."""
        found: dict[str, float] = {}
        for labels, value in self._rows.get(name, {}).items():
            key = dict(labels).get(label, "")
            found[key] = found.get(key, 0.0) + value
        return found

    def rows(self, name: str) -> Iterator[tuple[Mapping[str, str], float]]:
        """Labels and value of each."""
        for labels, value in self._rows.get(name, {}).items():
            yield dict(labels), value

    def value(self, name: str) -> Optional[float]:
        """The value without labels."""
        return self._rows.get(name, {}).get(())

    def buckets(self, name: str, label: str, key: str) -> dict[float, float]:
        """Of a histogram: how many were at most so long, by seconds."""
        found: dict[float, float] = {}
        for labels, value in self.rows(f"{name}_bucket"):
            if labels.get(label) == key:
                try:
                    found[float(labels["le"])] = value
                except (KeyError, ValueError):
                    continue
        return found


def quantile(share: float, now: Mapping[float, float], before: Mapping[float, float]) -> Optional[float]:
    """The seconds that ``share`` of what came since ``before`` took at most; None where nothing came.

    Values inside a bucket are taken to lie evenly, as Prometheus' ``histogram_quantile`` does.
    """
    counts = {bound: count - before.get(bound, 0.0) for bound, count in sorted(now.items())}
    total = counts.get(float("inf"), 0.0)
    if not total > 0:
        return None
    low, below, wanted = 0.0, 0.0, share * total
    for bound, count in counts.items():
        if count >= wanted:
            inside = count - below
            return low if bound == float("inf") else low + (bound - low) * (wanted - below) / (inside or 1)
        low, below = bound, count
    return low


def address_of(given: str) -> str:
    """``http://HOST:PORT`` of what a user wrote; raises ParamInvalid."""
    url = given if "://" in given else f"http://{given}"
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good or parts.username is not None or not url.isprintable() or " " in url:
        raise ParamInvalid(f"{shown(given)} is no address of a server: http://HOST:PORT or HOST:PORT")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def key_of(path: str) -> str:
    """The first word of a file that is no comment: a file of keys of the server's will do; raises ParamInvalid."""
    try:
        words = [line.split()[0] for line in read_text(Path(path)).splitlines() if line.split()]
    except (OSError, ValueError) as error:
        raise ParamInvalid(f"--key-file {path}: {shown(error)}") from None
    key = next((word for word in words if not word.startswith("#")), "")
    if not key or not key.isascii() or not key.isprintable():
        raise ParamInvalid(f"--key-file {path}: holds no key")
    return key


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The key goes where the user said, nowhere else."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirects, urllib.request.ProxyHandler({}))


def fetch(address: str, key: str) -> Figures:
    """Raises DeviceUnavailable, which says what to do."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    request = urllib.request.Request(f"{address}/metrics", headers=headers)
    try:
        with _OPENER.open(request, timeout=_SECONDS) as answer:
            content = answer.read(_MOST + 1)
    except urllib.error.HTTPError as error:
        with error:
            raise DeviceUnavailable(f"{address}: {_refusals(error)}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise DeviceUnavailable(
            f"{address} does not answer ({shown(reason)}); is the server running there?"
        ) from None
    if len(content) > _MOST:
        raise DeviceUnavailable(
            f"{address}/metrics has more than {_MOST} bytes: these are no figures of a server"
        )
    found = Figures(content.decode("utf-8", "replace"))
    if not found.known:
        raise DeviceUnavailable(f"{address}/metrics has no figures of rknnlite: is it rknnlite serve?")
    return found


def _refusals(error: urllib.error.HTTPError) -> str:
    if error.code == 501:
        return "the server keeps no figures; start it with --metrics"
    if error.code == 401:
        return "the server wants a key that it knows: --key-file FILE"
    if error.code == 429:
        return (
            "the key has asked too often (429); look less often with --interval, or use a key without limits"
        )
    return f"/metrics answers with status {error.code}"


def _unescaped(text: str) -> str:
    return re.sub(r"\\.", lambda found: _ESCAPES.get(found[0], found[0]), text)
