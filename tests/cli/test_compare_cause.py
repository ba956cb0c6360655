"""``compare --cause`` as it is called."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx

from rknnlite.spi.command import Exit
from tests.insight.accuracy.networks import FAULTS
from tests.support.corpus import DATA

from .conftest import Call


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    """A folder with ``model.rknn``, ``model.onnx``, ``set`` and ``trained``: the network whose mean is wrong."""
    fault = next(fault for fault in FAULTS if fault.name == "mean_shown")
    with tarfile.open(DATA / "faults.tar.xz") as archive:
        content = archive.extractfile("mean_shown.rknn")
        assert content is not None
        (tmp_path / "model.rknn").write_bytes(content.read())
    onnx.save(fault.build(fault), str(tmp_path / "model.onnx"))
    for folder in ("set", "trained"):
        (tmp_path / folder).mkdir()
    for number, picture in enumerate(fault.samples()):
        np.save(tmp_path / "set" / f"{number}.npy", picture)
        np.save(tmp_path / "trained" / f"{number}.npy", fault.network_inputs(picture))
    return tmp_path


def test_it_is_led_through(call: Call) -> None:
    lines = call("compare", "--help-all").out.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("  1. "))
    assert [line[:5] for line in lines[first : first + 5]] == [f"  {n}. " for n in range(1, 6)]
    text = "\n".join(lines[first : first + 5])
    for option in ("--cause", "--pictures", "--network-inputs", "--calibration", "--hybrid"):
        assert option in text
        assert option in "\n".join(lines[first + 5 :]), "explained below"


def test_the_file_alone_and_with_what_training_fed(call: Call, faulty: Path) -> None:
    model, network = faulty / "model.rknn", faulty / "model.onnx"
    words = ["compare", model, network, "--pictures", faulty / "set", "--cause"]
    done = call(*words)
    assert done.code == 0 and "Nothing is wrong" in done.out, "the network gets the same wrong mean"
    done = call(*words, "--network-inputs", faulty / "trained", "--min-cosine", "0.99")
    assert done.code == Exit.BELOW and "below 0.99" in done.err
    assert "another mean or deviation" in done.out
    assert "-> rknn.config(mean_values=[[123.675" in done.out.replace("\n  ", " ")


def test_for_programs(call: Call, faulty: Path) -> None:
    listing = faulty / "dataset.txt"
    listing.write_text("".join(f"set/{number}.npy\n" for number in range(4)))
    words = ["compare", faulty / "model.rknn", faulty / "model.onnx", "--pictures", listing, "--cause"]
    data = call(*words, "--calibration", listing, "--hybrid", "--json").data
    assert (data["cause"], data["samples"], data["where"]) == ("none", 4, [])
    assert data["hybrid"][0]["cosine"] > 0.99 and len(data["notes"]) >= 1
    first = data["tensors"][0]
    assert first["name"] == "x" and len(first["channels"]) == 3
    assert set(first["channels"][0]) == {"channel", "low", "high", "levels", "lost", "alone"}


def test_what_is_refused(call: Call, faulty: Path) -> None:
    model, network, picture = faulty / "model.rknn", faulty / "model.onnx", faulty / "set" / "0.npy"
    for words, why in (
        ((model, network, "--pictures", faulty / "set"), "belong to --cause"),
        ((model, network, "--hybrid"), "belong to --cause"),
        ((model, network, picture, "--pictures", faulty / "set", "--cause"), "not both"),
        ((network, model, picture, "--cause"), "is none"),
        ((model, "--cause"), "that it was made of"),
        ((model, network, picture, "--cause", "--mode", "single"), "a report of its own"),
    ):
        done = call("compare", *words)
        assert done.code == Exit.USAGE and why in done.err
