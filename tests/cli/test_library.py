"""The commands on librknnrt: a double of it, built from the sources in tests/doubles."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.doubles.double import build, compiler, model

from .conftest import RESNET, Call


@pytest.fixture(scope="module")
def library() -> Path:
    """The shared library."""
    if compiler() is None:
        pytest.skip("the double is written in C: install gcc")
    return build()


@pytest.fixture
def file(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model of the double; the library is named as a user would."""
    monkeypatch.setenv("RKNNLITE_LIBRARY", os.fspath(library))
    path = tmp_path / "double.rknn"
    lines = ("input image int8 4 1 4 6 3 0.5 -3", "output scores int8 2 1 10 0.25 5", "op affine 2 1")
    path.write_bytes(model(*lines))
    return path


def test_run_bench_and_perf(call: Call, file: Path) -> None:
    assert call("run", file, "--json").data["backend"] == "rknnrt"
    rows = call("bench", file, "--runs", 3, "--workers", 2, "--zero-copy", "both", "--json").data["rows"]
    assert [row["runs"] for row in rows] == [6, 6]
    assert call("perf", file, "--json").data["layers"][1]["op"] == "ConvRelu"


@pytest.mark.slow
def test_doctor_and_devices(call: Call, file: Path, library: Path) -> None:
    first = call("devices", "--json").data[0]
    assert (first["backend"], first["available"]) == ("rknnrt", True)
    done = call("doctor", RESNET, "--backend", "rknnrt")
    assert done.code == 0
    assert str(library) in done.out
    assert "model of toolkit 2.5.0, runtime 2.3.2" in done.out
    assert "update the runtime to 2.5 or newer if a layer fails" in done.out
