"""The pages of perf and compare: what they say first, that they hold together alone, and what hostile names can do."""

from __future__ import annotations

import base64
import hashlib
import math
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rknnlite_pages
from rknnlite_backend.perf import MemorySize, PerfRow, PerfTable
from rknnlite_insight import Comparison, Distance, TensorError, judge
from rknnlite_insight.commands import compare_page, perf_page
from rknnlite_insight.commands.perf_text import perf_parts
from rknnlite_insight.commands.perf_verdict import verdict
from rknnlite_pages.chart import Chart, Series
from rknnlite_pages.report import Bar, HtmlReport

from rknnlite.spi.command import Exit, Line
from tests.support.corpus import genuine, golden_of
from tests.support.needs import needs
from tests.support.onnx_twin import write_twin

from .conftest import RESNET, Call

HOSTILE = "</title></style></script><script>alert(1)</script>\"><img src=x onerror=alert(1)>' onload=alert(1) {{ 7 * 7 }}"
FETCHES = {"src", "href", "srcset", "data", "action", "background", "poster", "xlink:href", "formaction"}
TABLE = PerfTable(
    [
        PerfRow("1", "Conv", "NPU", "Conv:a", 600.0, data_type="INT8", rw_kb=2.0),
        PerfRow("2", "Conv", "NPU", "Conv:b", 300.0, data_type="INT8"),
        PerfRow("3", "Softmax", "CPU", "Softmax:c", 90.0),
        PerfRow("4", "Relu", "NPU", "Relu:d", 10.0),
    ]
)


@pytest.fixture(autouse=True)
def with_jinja2(monkeypatch: pytest.MonkeyPatch) -> None:
    needs("jinja2")
    monkeypatch.setenv("RKNNLITE_BACKEND", "cpu")


class Seen(HTMLParser):
    """Tags with their attributes, the text, and what is in scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.raw: dict[str, str] = {"script": "", "style": ""}
        self._inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside in self.raw:
            self.raw[self._inside] += data
        else:
            self.text += data

    def of(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]


def tensor(name: str, off: float, role: str = "activation") -> TensorError:
    away = Distance(1 - off**2 / 2, off)
    return TensorError(name, "Conv", (1, 4), role, away, away, length=1.0, step=0.1)


def page_of(found: Comparison) -> HtmlReport:
    return compare_page.page(found, judge(found))


def comparison(*tensors: TensorError, **about: Any) -> Comparison:
    return Comparison("model.rknn", "model.onnx", "single", tensors, **about)


def pages(name: str = "plain") -> list[str]:
    """One page of each command, full of a name."""
    rows = [PerfRow("1", name, name, name, 5.0, data_type=name, input_shape=name, rw_kb=1.0), *TABLE]
    perf = perf_page.page(PerfTable(rows, note=name), None, name, name, name)
    tensors = [tensor(name, 0.9, "output"), tensor(f"{name}2", 0.01)]
    found = Comparison(
        name, name, "single", tensors, [name] * 9, [name], runtime=True, floating=name
    )  # fmt: skip
    return [str(perf), str(page_of(found))]


# -- one file, safe ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 1], ids=["perf", "compare"])
def test_a_page_fetches_nothing_and_runs_its_own_script_only(number: int) -> None:
    seen = Seen(pages()[number])
    assert not [pair for pair in seen.tags if FETCHES & set(pair[1])]
    assert not re.search(r"url\(|@import|https?:", seen.raw["style"] + seen.raw["script"])
    (policy,) = [meta["content"] for meta in seen.of("meta") if "http-equiv" in meta]
    known = base64.b64encode(hashlib.sha256(seen.raw["script"].encode()).digest()).decode()
    assert policy.startswith("default-src 'none';") and f"script-src 'sha256-{known}';" in policy
    assert not re.search(r"\b(fetch|XMLHttpRequest|eval|innerHTML|import)\b", seen.raw["script"])


@pytest.mark.parametrize("number", [0, 1], ids=["perf", "compare"])
def test_hostile_names_are_text(number: int) -> None:
    plain, hostile = (Seen(pages(name)[number]) for name in ("plain", HOSTILE))
    assert hostile.text.count(HOSTILE) > 5
    assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in plain.tags]
    assert hostile.raw == plain.raw
    known = {name for _, attributes in plain.tags for name in attributes}
    assert {name for _, attributes in hostile.tags for name in attributes} == known


@pytest.mark.parametrize(("command", "words"), [("perf", [RESNET]), ("compare", [RESNET, RESNET])])
def test_without_jinja2_it_is_told_before_the_work(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, words: list[Path]
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    monkeypatch.setattr(
        f"rknnlite_insight.commands.{command}.arrays_for", lambda *_: pytest.fail("has begun")
    )
    done = call(command, *words, "--html", tmp_path / "page.html")
    assert done.code == Exit.UNAVAILABLE
    assert "pip install jinja2 (extra html" in done.err and "apt install python3-jinja2" in done.err
    assert not (tmp_path / "page.html").exists()


def test_templates_are_in_the_wheel() -> None:
    from tests.packaging.project import package_data

    folder = Path(rknnlite_pages.__file__).parent / "templates"
    assert "templates/*" in package_data()["rknnlite_pages"]
    assert {path.name for path in folder.iterdir()} == {
        "parts.html",
        "report.css",
        "report.html",
        "report.js",
    }


# -- for everybody ----------------------------------------------------------------------------------------------


def test_heads_of_columns_are_heads_and_have_units() -> None:
    counts = {
        "layer",
        "layers",
        "times the typical layer",
        "1 - cosine",
        "Euclidean",
    }  # numbers without a unit
    for page in pages():
        seen = Seen(page)
        assert all(head["scope"] == "col" for head in seen.of("th"))
        heads = re.findall(r'<th scope="col" class="(?:number|bar)">(.*?)</th>', page)
        assert heads
        for head in heads:
            assert "(" in head or head.partition(",")[0] in counts, head


def test_charts_are_named_for_those_who_do_not_see_them() -> None:
    for page in pages():
        charts = [svg for svg in Seen(page).of("svg") if svg.get("role") == "img"]
        assert charts and all("largest" in svg["aria-label"] for svg in charts)


def test_pages_fit_narrow_screens_and_dark_ones() -> None:
    for page in pages():
        seen = Seen(page)
        assert "width=device-width" in next(
            m["content"] for m in seen.of("meta") if m.get("name") == "viewport"
        )
        assert page.count('<div class="scroll"') == page.count("<table>")
        assert "prefers-color-scheme: dark" in seen.raw["style"]


# -- charts -----------------------------------------------------------------------------------------------------


def test_columns_of_a_chart() -> None:
    chart = Chart("t", "us", ["a", "b", "c"], [Series("s", [50.0, None, 100.0])], marked=[2])
    assert [(c.x, c.height, c.marked) for c in chart.columns] == [(0.75, 50.0, False), (20.75, 100.0, True)]
    assert chart.columns[1].tip == "3: c: 100 us"
    assert [text for _, text in chart.ticks] == ["0", "20", "40", "60", "80", "100"]
    assert chart.summary.startswith("t, us; largest: 3: c")


def test_logarithmic_charts() -> None:
    values = [1e-12, 0.0, 0.01, 1.0, math.inf, math.nan]
    chart = Chart("t", "%", list("abcdef"), [Series("s", values)], logarithmic=True)
    heights = [column.height for column in chart.columns]
    assert heights[:2] == [0.0, 0.0] and heights[3:] == [100.0] * 3
    assert heights[2] == pytest.approx(100 * 5 / 7, abs=0.01)
    assert [text for _, text in chart.ticks][:3] == ["1e-7", "1e-6", "1e-5"] and len(chart.ticks) == 8


@pytest.mark.parametrize("values", [[], [None], [0.0, 0.0], [1e-30, 1e30], [math.nan]])
@pytest.mark.parametrize("logarithmic", [False, True])
def test_odd_values_have_a_chart(values: list[float | None], logarithmic: bool) -> None:
    chart = Chart("t", "u", ["x"] * len(values), [Series("s", values)], logarithmic=logarithmic)
    report = HtmlReport("t")
    report.chart(chart)
    assert all(0 <= column.height <= 100 for column in chart.columns) and len(chart.ticks) < 10
    assert "<figure>" in str(report)


def test_cells_are_sorted_by_numbers() -> None:
    report = HtmlReport("t")
    report.table("x", ["a", "b", "c"], [[Bar("9 us", 0.5, 9.0), 3, "z"], [Bar("10 us", 1.0, 10.0), None, ""]])
    page = str(report)
    assert 'data-key="9.0"' in page and 'data-key="10.0"' in page and 'data-key="3"' in page
    assert re.findall(r'<th scope="col" class="(\w+)">', page) == ["bar", "number", "text"]


# -- verdicts ---------------------------------------------------------------------------------------------------


def test_perf_says_where_the_time_goes() -> None:
    headline, lines = verdict(TABLE, "rknnrt")
    assert headline == "1 ms per run on the backend rknnrt"
    assert lines == [
        "Costliest layers: Conv:a 600 us (60 %), Conv:b 300 us (30 %), Softmax:c 90 us (9 %); together 99 %.",
        "Costliest operator types: Conv 900 us (90 %), Softmax 90 us (9 %), Relu 10 us (1 %); together 100 %.",
        "Of 4 layers a board runs 3 on the NPU and 1 on the CPU, Softmax:c.",
    ]


def test_perf_says_whose_time_it_is() -> None:
    headline, lines = verdict(PerfTable(TABLE, timed_on="CPU"), "cpu")
    assert headline == "1 ms per run on the CPU reference"
    assert "this machine's CPU, not of the NPU" in lines[0]


def test_perf_without_times() -> None:
    headline, lines = verdict(PerfTable([PerfRow("1", "Conv", "NPU", "a", None)]), "rknn3rt")
    assert headline == "No time is known on the backend rknn3rt" and len(lines) == 1
    assert "No time is known" in str(perf_page.page(PerfTable(), None, "m", "x", "y"))


def test_perf_page_of_a_file(call: Call, tmp_path: Path) -> None:
    assert call("perf", RESNET, "--html", tmp_path / "page.html").code == 0
    seen = Seen((tmp_path / "page.html").read_text())
    for text in (
        "ms per run on the CPU reference",
        "not of the NPU",
        "Time per layer (us)",
        "memory on the NPU",
    ):
        assert text in seen.text


@pytest.mark.parametrize(
    ("tensors", "mood", "says"),
    [
        ([tensor("a", 0.0), tensor("b", 0.0, "output")], "good", "Identical"),
        ([tensor("a", 0.01), tensor("b", 0.02, "output")], "good", "Quantisation noise"),
        ([tensor("a", 0.01), tensor("b", 0.9, "output")], "bad", "Something is wrong from [Conv] b on"),
        ([tensor("b", 0.9), tensor("a", 0.01, "output")], "doubtful", "[Conv] b differs, the outputs do not"),
    ],
)
def test_compare_says_first_what_it_found(tensors: list[TensorError], mood: str, says: str) -> None:
    page = str(page_of(comparison(*tensors)))
    assert f'class="verdict {mood}"' in page and f"<strong>{says}</strong>" in page
    assert ("Where the error is born" in page) == (says != "Identical")


def test_compare_tells_what_was_not_compared() -> None:
    found = comparison(
        tensor("a", 0.0, "output"), unmatched=[f"extra{i}" for i in range(9)], missing=["fused"]
    )
    page = str(page_of(found))
    assert "9 tensors of the model have no counterpart" in page
    assert "<summary><h2>Only in the model (9)</h2>" in page and "<h2>Only in the reference (1)</h2>" in page


def test_compare_page_of_two_files(call: Call, tmp_path: Path) -> None:
    model = genuine("resnet_like.rk3588.i8")
    np.save(
        tmp_path / "x.npy", np.full(call("info", model, "--json").data["inputs"][0]["shape"], 90, np.uint8)
    )
    words = (model, model, tmp_path / "x.npy", "--mode", "single", "--html", tmp_path / "page.html")
    assert call("compare", *words).code == 0
    assert "Identical" in Seen((tmp_path / "page.html").read_text()).text


@pytest.mark.parametrize("mode", ["single", "entire"])
def test_terminal_page_and_json_say_the_same(call: Call, tmp_path: Path, mode: str) -> None:
    needs("onnx", "onnxruntime")
    two = "two_images.rk3588.i8"
    twin, page = write_twin(genuine(two), tmp_path / "twin.onnx"), tmp_path / "page.html"
    files = [tmp_path / f"{number}.npy" for number in range(len(golden_of(two).inputs))]
    for file, array in zip(files, golden_of(two).inputs):
        np.save(file, array)
    words = ("compare", genuine(two), twin, *files, "--mode", mode, "--quantisation", "--html", page)
    printed = call(*words).out.splitlines()
    told = call(*words, "--json").data["verdict"]
    assert printed[-1 - len(told["lines"]) :] == [told["headline"], *told["lines"]]
    seen = Seen(page.read_text()).text
    assert all(line in seen for line in (told["headline"], *told["lines"]))


def test_perf_terminal_and_page_say_the_same() -> None:
    memory = MemorySize(weight=3 << 20, internal=2048, total=4 << 20)
    printed = [part.text for part in perf_parts(TABLE, memory, "rknnrt") if isinstance(part, Line)]
    seen = Seen(str(perf_page.page(TABLE, memory, "m", "rknnrt", "rk3588"))).text
    headline, lines = verdict(TABLE, "rknnrt")
    assert printed[-1 - len(lines) :] == [headline, *lines]
    assert all(line in seen for line in (headline, *lines))
    for size in ("2.00 KiB", "3.00 MiB", "4.00 MiB"):
        assert size in seen and any(size in line for line in printed)
