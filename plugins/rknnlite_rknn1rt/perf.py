"""The runtime's per-layer table as rows: columns are found by their headers, which differ between versions."""

from __future__ import annotations

import re

from rknnlite_backend.perf import UNKNOWN

from rknnlite.spi import PerfRow

__all__ = ["parse"]

_HEADER = re.compile(r"\s*Layer\s?ID\b.*\bTime\s?\(us\)", re.IGNORECASE)
_WORDS = re.compile(r"(layer id|layerid|name|operation|uid|time\(us\)|\S+)", re.IGNORECASE)
_ID, _NAME, _OP, _TIME = "layer id", "name", "operation", "time(us)"


def parse(text: str) -> list[PerfRow]:
    """Rows of the first table in ``text``; empty when there is none that is understood."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if _HEADER.match(line):
            titles = _WORDS.findall(line.replace("Time (us)", "Time(us)"))
            return _rows(titles, lines[number + 1 :])
    return []


def _rows(titles: list[str], lines: list[str]) -> list[PerfRow]:
    rows: list[PerfRow] = []
    for line in lines:
        words = line.split()
        if not words or set(line.strip()) <= set("-="):
            if rows and not words:
                break
            continue
        if not words[0].isdigit() or len(words) < len(titles):
            break
        rows.append(_row(titles, words))
    return rows


def _row(titles: list[str], words: list[str]) -> PerfRow:
    """A row; where there are more words than columns the name is the one that holds blanks."""
    plain = [title.lower().replace("layerid", _ID) for title in titles]
    at, more = plain.index(_NAME) if _NAME in plain else 1, len(words) - len(titles)
    words = [*words[:at], " ".join(words[at : at + more + 1]), *words[at + more + 1 :]]
    cells = dict(zip(titles, words))
    found = dict(zip(plain, words))
    name = found.get(_NAME, UNKNOWN)
    return PerfRow(
        id=found[_ID],
        op=found.get(_OP, name.partition(".")[0]),
        target="NPU",
        name=name,
        time_us=_number(found.get(_TIME, "")),
        cells=cells,
    )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
