"""Makes ``data/abi.json`` from a table of measured facts: sizes, offsets, numbers and argument types, no texts.

    python -m tests.rkllm.make_table rkllm-abi.json > tests/rkllm/data/abi.json

Sections are the seven layouts. A structure is ``[size, size on 32-bit ARM, {member: [offset, size, offset on 32-bit ARM]}]``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.rknnrt.make_table import text

__all__ = ["compact"]

RENAMED = {"RKLLMMultiModelInput": "RKLLMMultiModalInput"}  # the header of 1.2.3 did
PREFIXES = ("RKLLM_RUN_", "LLM_RUN_", "RKLLM_INPUT_", "RKLLM_INFER_")


def compact(source: dict[str, Any]) -> dict[str, Any]:
    """The facts that the tests compare."""
    return {entry["versions"][0]: _revision(entry) for entry in source["revisions"].values()} | {
        "files": {
            known["git_blob_sha1"]: [known["runtime"], known["platform"]]
            for known in source["identification"]["known_files"]
        }
    }


def _revision(entry: dict[str, Any]) -> dict[str, Any]:
    return {
        "versions": entry["versions"],
        "enums": {
            name: {_plain(member): number for member, number in members.items()}
            for name, members in entry["enums"].items()
        },
        "structs": {RENAMED.get(name, name): _struct(struct) for name, struct in entry["structs"].items()},
        "callbacks": {name: _types(callback) for name, callback in entry["callbacks"].items()},
        "functions": {name: _types(function) for name, function in entry["functions"].items()},
    }


def _plain(member: str) -> str:
    return next(member[len(prefix) :] for prefix in PREFIXES if member.startswith(prefix))


def _struct(entry: dict[str, Any]) -> list[Any]:
    places = {
        field["name"]: [field["offset"], field["size"], field["offset_armv7"]] for field in entry["fields"]
    }
    return [entry["size"], entry["size_armv7"], places]


def _types(entry: dict[str, Any]) -> list[str]:
    return [entry["returns"].split(" (")[0], *(argument["ctype"] for argument in entry["args"])]


if __name__ == "__main__":
    print(text(compact(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))), end="")
