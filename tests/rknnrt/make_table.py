"""Makes ``data/abi.json`` from a table of measured facts: sizes, offsets, numbers and argument types, no texts.

    python -m tests.rknnrt.make_table rknnrt-abi.json > tests/rknnrt/data/abi.json

Per structure: size, alignment and ``{field: [offset, size]}``, once for 64 bits and once for 32-bit ARM.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

__all__ = ["compact"]


def compact(source: dict[str, Any]) -> dict[str, Any]:
    """The facts that the tests compare."""
    return {
        "structs": {name: _struct(entry) for name, entry in source["structs"].items()},
        "constants": source["constants"],
        "enums": source["enums"],
        "functions": {
            name: [entry["returns"], *(arg["ctype"] for arg in entry["args"])]
            for name, entry in source["functions"].items()
        },
        "errors": {int(code): entry["name"] for code, entry in source["errors"].items()},
    }


def _struct(entry: dict[str, Any]) -> dict[str, Any]:
    wide = {field["name"]: [field["offset"], field["size"]] for field in entry["fields"]}
    narrow = {name: list(place) for name, place in wide.items()}
    arm = entry.get("armv7", {})
    for name, change in arm.get("fields", {}).items():
        narrow[name] = [change.get("offset", wide[name][0]), change.get("size", wide[name][1])]
    return {
        "lp64": {"size": entry["size"], "align": entry["align"], "fields": wide},
        "armv7": {
            "size": arm.get("size", entry["size"]),
            "align": arm.get("align", entry["align"]),
            "fields": narrow,
        },
    }


def text(table: dict[str, Any]) -> str:
    """JSON with one structure, enum or function per line."""
    parts = []
    for section, entries in table.items():
        lines = ",\n".join(
            f"  {json.dumps(str(name))}: {json.dumps(entry)}" for name, entry in entries.items()
        )
        parts.append(f" {json.dumps(section)}: {{\n{lines}\n }}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    print(text(compact(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))), end="")
