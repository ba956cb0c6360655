"""JSON of strangers: whatever is no JSON, or beyond what JSON is used for, is a ValueError."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hypothesis")

from hypothesis import given
from hypothesis import strategies as st

from rknnlite.files.json_text import MOST_DEPTH, parse_json

ROOT = Path(__file__).parents[2]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_json_is_read_as_the_package_reads_it(value: Any) -> None:
    text = json.dumps(value)
    assert parse_json(text) == parse_json(text.encode()) == value


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def test_depth_is_bounded() -> None:
    assert parse_json(nested(MOST_DEPTH)) is not None
    brackets = json.dumps(["[{" * 5000, '\\"[', {"[" * 500: 1}])
    assert parse_json(brackets)[0] == "[{" * 5000, "brackets in texts do not count"
    for text in ('["]",' * 200 + "1" + "]" * 200, '{"a}":' * 200 + "1" + "}" * 200):  # nor hide others
        with pytest.raises(ValueError, match="nested deeper than 128"):
            parse_json(text)
    wide = [[1]] * 10_000
    assert parse_json(json.dumps(wide)) == wide
    for text in (nested(MOST_DEPTH + 1), nested(1_000_000), '{"a":' * 200 + "1" + "}" * 200, "[" * 100_000):
        with pytest.raises(ValueError, match="nested deeper than 128"):
            parse_json(text)


def test_numbers_are_bounded() -> None:
    assert parse_json(f"[{'9' * 400}, 0.{'3' * 5000}]") == [int("9" * 400), float("0." + "3" * 300)]
    for text in ("1" + "0" * 5000, "-" + "9" * 50_000):
        with pytest.raises(ValueError, match="digits"):
            parse_json(text)


def test_objects_are_bounded_where_others_wait() -> None:
    many = json.dumps([{}] * 70_000)
    assert len(parse_json(many)) == 70_000
    with pytest.raises(ValueError, match="more than 65536 objects"):
        parse_json(many, takes_turns=True)
    for few in (json.dumps([{"a": 1.5}] * 60_000), json.dumps(["{"] * 70_000)):  # in texts there are none
        assert parse_json(few, takes_turns=True) == json.loads(few)


@pytest.mark.parametrize("text", ["", "{", b"\xff", "nul", "[1,]", "1 2"])
def test_what_is_no_json(text: Any) -> None:
    with pytest.raises(ValueError):
        parse_json(text)


OWN = {
    "rknnlite/files/json_text.py": "the one place",
    "rknnlite/cli/plugin_probe.py": "what our own child wrote",
    "plugins/rknnlite_llm/quality/transformers_reader.py": "what our own child wrote; and a line of ours in the child",
    "plugins/rknnlite_programs/toolkit_script.py": "a file of ours, in the toolkit's process, which has no rknnlite",
}


def test_json_is_read_in_one_place() -> None:
    for folder in ("rknnlite", "plugins"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            calls = {
                ast.unparse(n.func)
                for n in ast.walk(ast.parse(path.read_text("utf-8")))
                if isinstance(n, ast.Call)
            }
            name = path.relative_to(ROOT).as_posix()
            assert not calls & {"json.load", "json.loads"} or name in OWN, (
                f"{name}: call rknnlite.files.json_text.parse_json"
            )
