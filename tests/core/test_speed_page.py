"""benchmarks/speed_page.py: from a folder of networks to the tables of a page."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.corpus import ROOT, genuine
from tools.sweep.data_file import read

SCRIPT = ROOT / "benchmarks" / "speed_page.py"


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("speed_page", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["speed_page"] = module
    spec.loader.exec_module(module)
    return module


def rows(script: Any) -> list[Any]:
    def measured(network: str, kind: str, own: tuple[float, float]) -> Any:
        medians = {"onnxruntime float": {"1": 10.0, "2": 5.0}, "default": {"1": own[0], "2": own[1]}}
        return script.Measured(network, kind, medians, "native")

    return [
        measured("small", "i8", (4.0, 3.0)),
        measured("large", "i8", (12.0, 6.0)),
        measured("large", "fp16", (9.0, 5.0)),
    ]


def test_ratios_medians_and_what_is_above_the_aim(script: Any) -> None:
    text = script.page(rows(script), "Measured.\n")
    assert "| i8, 1 thread | 0.80 | 1.20 |" in text
    assert "* i8, 1 thread: median 0.80 (at most 0.6 is the aim), above 1: large." in text
    assert "* fp16, 2 threads: median 1.00 (at most 1 is the aim), none above 1.4." in text
    assert "* Two threads, 2 networks above 5 ms: 1.80 to 2.00 times as fast as one, median 1.90" in text


def test_the_table_has_every_network_type_and_number_of_threads(script: Any) -> None:
    table = script.data(rows(script))
    assert table.columns == ["network", "type", "threads", "float", "default", "default is"]
    assert len(table.rows) == 6
    assert ["small", "i8", "1", "10.00 ms", "0.40", "native"] in table.rows
    assert ["large", "fp16", "2", "5.00 ms", "1.00", "native"] in table.rows


def test_what_stands_outside_of_the_marks_stays(script: Any, tmp_path: Path) -> None:
    page, figures = tmp_path / "speed.md", tmp_path / "figures.json"
    page.write_text(f"# Speed\n{script.BEGIN}\nold\n{script.END}\nmore\n")
    figures.write_text(json.dumps({"about": "Measured.", "rows": [vars(row) for row in rows(script)]}))
    script.main(["--again", str(figures), "--page", str(page)])
    text = page.read_text()
    assert text.startswith(f"# Speed\n{script.BEGIN}\n\nMeasured.") and text.endswith(f"{script.END}\nmore\n")
    assert "old" not in text
    assert read(tmp_path / "assets" / "speed-networks.js") == script.data(rows(script))
    script.main(["--again", str(figures), "--page", str(page)])
    assert page.read_text() == text


def test_the_page_has_the_marks(script: Any) -> None:
    text = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    assert text.index(script.BEGIN) < text.index(script.END)


def test_a_run_measures_every_pair_in_a_folder(script: Any, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    import rknnlite

    model = genuine("resnet_like.rk3588.i8")
    (tmp_path / "resnet_like.rk3588.i8.rknn").write_bytes(model.read_bytes())
    (tmp_path / "resnet_like.onnx").write_bytes(rknnlite.to_onnx(model).SerializeToString())
    page = tmp_path / "speed.md"
    page.write_text(f"{script.BEGIN}{script.END}")
    words = [
        tmp_path,
        "--page",
        page,
        "--figures",
        tmp_path / "figures.json",
        "--rounds",
        2,
        "--threads",
        1,
        "--engines",
        "numpy",
    ]
    subprocess.run([sys.executable, str(SCRIPT), *map(str, words)], check=True)
    assert "| files | numpy | default | slowest default |" in page.read_text()
    (row,) = read(tmp_path / "assets" / "speed-networks.js").rows
    assert row[:3] == ["resnet_like", "i8", "1"]
