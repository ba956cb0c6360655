"""Makes ``data/abi.json`` from a table of measured facts: sizes, offsets, numbers and argument types, no texts.

    python -m tests.rknn3rt.make_table rknn3-abi.json > tests/rknn3rt/data/abi.json

Sections that begin with ``later`` are what a later revision of the library changes.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from tests.rknnrt import make_table

__all__ = ["compact"]


def compact(source: dict[str, Any]) -> dict[str, Any]:
    """The facts that the tests compare."""
    later = source["later_revision"]
    return {
        **make_table.compact(source),
        "callbacks": {
            name: [entry["returns"], *(arg["ctype"] for arg in entry["args"])]
            for name, entry in source["callbacks"].items()
        },
        "later structs": {
            name: make_table._struct(entry) for name, entry in later["structs_changed_or_new"].items()
        },
        "later enums": {name: entry for name, entry in later["enums"].items() if isinstance(entry, dict)},
        "later errors": {int(code): entry["name"] for code, entry in later["errors"].items()},
        "later functions": {
            "removed": later["functions_removed"],
            "added": [name for line in later["functions_added"] for name in names(line)],
        },
    }


def names(line: str) -> list[str]:
    """Functions of a line such as ``rknn3_lora_load/unload(context, ...)``."""
    head = re.split(r"\(", line)[0].split("/")
    stem = head[0].rsplit("_", 1)[0]
    return [head[0], *(f"{stem}_{rest}" for rest in head[1:])]


if __name__ == "__main__":
    print(make_table.text(compact(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))), end="")
