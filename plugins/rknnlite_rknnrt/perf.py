"""The runtime's per-layer table as rows. Versions print different columns: cells are found by their header."""

from __future__ import annotations

import re

from rknnlite.spi import PerfRow

__all__ = ["parse"]

_RULE = r"^\s*-{5,}\s*$"
_TIME = r"(?i)^time\s*\(us\)$"
_NAMES = {
    "op": ("optype",),
    "target": ("target",),
    "name": ("fullname", "name"),
    "data_type": ("datatype",),
    "input_shape": ("inputshape",),
    "output_shape": ("outputshape",),
    "mac_usage": ("macusage",),
    "work_load": ("workload",),
}
"""Fields of a row and the headers that stand for them, without blanks, units and case."""


def parse(text: str) -> list[PerfRow]:
    """Rows of the first table in ``text``; empty when there is none.

    Columns are as wide as their header and the blanks after it; a cell longer than that pushes the others to
    the right, so a line is cut at blanks first and only then by position.
    """
    lines = text.splitlines()
    for number, line in enumerate(lines):
        headers = re.split(r"\s{1,}", re.sub(r"(\w) (Cycles|Number|Size|Type)\b", r"\1_\2", line.strip()))
        if len(headers) >= 4 and headers[0] == "ID":
            titles = [header.replace("_", " ") for header in headers]
            return _rows(titles, lines[number + 1 :])
    return []


def _rows(headers: list[str], lines: list[str]) -> list[PerfRow]:
    rows = []
    for line in lines:
        if re.match(_RULE, line):
            continue
        cells = _cells(line, len(headers))
        if not cells or not cells[0].isdigit():
            break
        rows.append(_row(dict(zip(headers, cells))))
    return rows


def _cells(line: str, count: int) -> list[str]:
    """The words of a line; shapes in brackets and ``a - Up:b`` are one cell, the last cell may hold blanks."""
    joined = re.sub(r"\s+-\s+(?=Up:)", "-", re.sub(r",\s+(?=[\[(\d])", ",", line.strip()))
    return joined.split(None, count - 1) if joined else []


def _row(cells: dict[str, str]) -> PerfRow:
    plain = {_plain(header): cell for header, cell in cells.items()}
    found = {
        field: next((plain[name] for name in names if name in plain), "") for field, names in _NAMES.items()
    }
    time = next((cell for header, cell in cells.items() if re.match(_TIME, header)), "")
    return PerfRow(
        id=cells["ID"], time_us=_number(time), rw_kb=_number(plain.get("rw", "")), cells=cells, **found
    )


def _plain(header: str) -> str:
    """``WorkLoad(0/1/2)-ImproveTherical`` -> ``workload``."""
    return header.partition("(")[0].replace(" ", "").lower()


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
