"""Makes ``data/abi.json`` from a table of measured facts: sizes, offsets, numbers and argument types, no texts.

python -m tests.rknn1rt.make_table rknn1-abi.json > tests/rknn1rt/data/abi.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.rknnrt.make_table import text

__all__ = ["compact"]


def compact(source: dict[str, Any]) -> dict[str, Any]:
    """The facts that the tests compare, those of the host flavour in sections of their own."""
    host = source["host_flavour"]
    return {
        "structs": _structs(source["structs"]),
        "host_structs": _structs(host["structs_only_here_or_different"]),
        "constants": {**source["constants"], **host["constants_only_here"]},
        "enums": source["enums"],
        "functions": _functions(source["functions"]),
        "host_functions": _functions(host["functions_only_here"]),
        "host_lacks": {"functions": host["functions_absent_here"]},
        "errors": {code: entry["name"] for code, entry in source["errors"].items()},
    }


def _structs(entries: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {model: _layout(entry, model) for model in ("lp64", "armv7")} for name, entry in entries.items()
    }


def _layout(entry: dict[str, Any], model: str) -> dict[str, Any]:
    total = {**entry, **entry.get(model, {})}
    places = {field["name"]: {**field, **field.get(model, {})} for field in entry["fields"]}
    fields = {name: [place["offset"], place["size"]] for name, place in places.items()}
    return {"size": total["size"], "align": total["align"], "fields": fields}


def _functions(entries: dict[str, Any]) -> dict[str, Any]:
    return {
        name: [entry["returns"], *(arg["ctype"] for arg in entry["args"])] for name, entry in entries.items()
    }


if __name__ == "__main__":
    print(text(compact(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))), end="")
