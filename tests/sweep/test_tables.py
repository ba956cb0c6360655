"""The tables of the documentation that are data: whole, written as their tools write them, and what the page says of them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.support.corpus import ROOT
from tools.sweep.data_file import DataTable, read, write

ASSETS = ROOT / "docs" / "assets"
FILES = sorted(path for path in ASSETS.glob("*-*.js") if path.name != "iframe-worker.js")
PAGE = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")


@cache
def table(name: str) -> DataTable:
    return read(ASSETS / f"{name}.js")


def rows(name: str, **cells: str) -> list[dict[str, str]]:
    """Rows of a table, those that a reader sees who chooses these values."""
    columns, _, found = table(name)
    named = [dict(zip(columns, row)) for row in found]
    return [row for row in named if all(value in row[column].split(", ") for column, value in cells.items())]


def totals(section: str) -> list[list[str]]:
    """The first table of figures behind a heading of the page."""
    text = PAGE[PAGE.index(f"\n## {section}\n") :]
    lines = re.search(r"^\|---.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert lines is not None
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1].splitlines()]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_is_whole_and_as_its_tool_writes_it(path: Path, tmp_path: Path) -> None:
    found = read(path)
    assert found.rows
    assert {len(row) for row in found.rows} == {len(found.columns)}
    assert set(found.filters) <= set(found.columns)
    title = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("// ")
    write(tmp_path / path.name, title, found)
    assert (tmp_path / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_page_shows_it(path: Path) -> None:
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md")]
    assert any(f"](assets/{path.name})" in page for page in pages)


def test_tables_of_one_paragraph_have_the_same_columns() -> None:
    for text in (page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md")):
        for paragraph in text.split("\n\n"):
            together = [table(name) for name in re.findall(r"\]\(assets/([\w-]+)\.js\)", paragraph)]
            assert len({(tuple(t.columns), tuple(t.filters)) for t in together}) <= 1, paragraph


def test_totals_of_operators_are_those_of_the_rows() -> None:
    assert len(totals("Operators")) == 12
    for where, converted, match, proven, *shares in totals("Operators"):
        soc, kind = where.split()
        mine = rows("coverage-operators", SoC=soc, type=kind)
        results = [row["result"] for row in mine]
        assert int(converted) == len(results) - results.count("not converted")
        assert int(match) == results.count("matches")
        assert 0 <= int(proven) <= results.count("differs")
        right = int(match) + int(proven)
        given = right + results.count("needs attributes")
        assert shares == [f"{100 * part / int(converted):.1f} %" for part in (right, given)]


def test_what_does_not_match_says_why() -> None:
    for row in (*rows("coverage-operators"), *rows("coverage-networks")):
        if row["result"] not in ("matches", "good"):
            assert row["remark"] and "not explained yet" not in row["remark"], row


def test_totals_of_networks_are_those_of_the_rows() -> None:
    for where, converted, good, explained, share in totals("Networks"):
        soc, kind = where.split()
        results = [row["result"] for row in rows("coverage-networks", SoC=soc, type=kind)]
        assert int(converted) == len(results) - results.count("not converted")
        assert (int(good), int(explained)) == (results.count("good"), results.count("explained"))
        assert share == f"{100 * (int(good) + int(explained)) / int(converted):.2f}".rstrip("0") + " %"


def test_results_become_rows_and_totals() -> None:
    """SoCs with one outcome share a row; a difference has its reason, a refusal what it matches with."""
    script = """
import json, report
from compare import Outcome, Result
from judge import Verdict
from proof import Proof
good, off = Verdict(1.0, "LSB", 1.0, 0.99, True), Verdict(3.0, "LSB", 0.99, 0.5, False)
told = Result("celu", "rv1106.i8", Outcome.MATCHES, (good,))
results = [
    Result("relu", "rk3588.i8", Outcome.MATCHES, (good,)),
    Result("relu", "rk3568.i8", Outcome.MATCHES, (good,)),
    Result("odd", "rk3588.i8", Outcome.DIFFERS, (off,), str(off), proof=Proof.NEARER),
    Result("celu", "rv1106.i8", Outcome.REFUSED, note="no attributes", told=told),
    Result("mod", "rk3588.i8", Outcome.UNCONVERTED, note="exit 1: no; try another"),
    Result("later", "rk3588.i8", Outcome.WAITING),
]
table = report.rows(results, {case: case.title() for case in ("relu", "odd", "celu", "mod", "later")})
print(json.dumps([table.rows, report.markdown(results, "")]))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT / "tools" / "sweep", capture_output=True, text=True, check=True
    )  # fmt: skip
    found, page = json.loads(done.stdout)
    assert found[0] == ["relu", "Relu", "RK3588, RK3568", "int8", "matches", "1 LSB", "", "6"]
    assert found[1][4:6] == ["differs", "3 LSB"] and found[1][6].endswith("proven to be no error: nearer")
    assert found[2][2:] == [
        "RV1106", "int8", "needs attributes", "", "with them given: 1 LSB, cos 1.000000, 99.0 % equal", "mini",
    ]  # fmt: skip
    assert found[3][4:7] == ["not converted", "", "exit 1: no"]
    assert len(found) == 4
    assert "| RK3588 int8 | 2 | 1 | 1 | 100.0 % | 100.0 % |" in page
    assert "| RV1106 int8 | 1 | 0 | 0 | 0.0 % | 100.0 % |" in page


def test_random_cases_are_those_of_the_verdicts() -> None:
    """Section and rows, made anew of tools/sweep/verdicts.txt."""
    script = """
import json, report_random, verdicts
entries = verdicts.read()
print(json.dumps([report_random.markdown(entries), report_random.rows(entries)]))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT / "tools" / "sweep", capture_output=True, text=True, check=True
    )  # fmt: skip
    section, made = json.loads(done.stdout)
    assert section.strip() in PAGE
    columns, filters, found = table("coverage-random")
    assert made == [columns, filters, found]


def test_first_generation_counts_its_rows() -> None:
    equal, nearly = (
        len([row for row in rows("coverage-first", result=result) if row["case"]])
        for result in ("matches", "nearly equal")
    )
    assert f"{equal} are equal bit by bit, {nearly} nearly" in PAGE


def test_every_soc_and_container_can_be_chosen() -> None:
    both = (*rows("coverage-operators"), *rows("coverage-first"))
    socs = {soc for row in both for soc in row["SoC"].split(", ")}
    assert socs == {
        "RK3588", "RK3568", "RK3562", "RK3576", "RV1126B", "RV1106", "RV1103B",
        "RK1808", "RK1806", "RK3399Pro", "RV1109", "RV1126",
    }  # fmt: skip
    assert {row["container"] for row in both} == {"6", "mini", "1 (first toolkit)"}


def test_the_short_page_of_kinds_of_layers_has_their_ways() -> None:
    ways = {way for row in rows("coverage-kinds") for way in row["the simulator's way"].split(", ")}
    assert ways and all(f"* *{way}*:" in PAGE for way in ways)
