"""How near a layer has to be, and what counts as kept."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import rknnlite_npu.kernel.verdicts as verdicts
from rknnlite_npu.backend import MachineBackend
from rknnlite_npu.kernel.self_test import difference, self_test
from rknnlite_npu.kernel.verdicts import Record, Verdict, device_key, verdicts_on

from rknnlite.formats import ModelFile
from rknnlite.spi import Context, OpenOptions
from tests.support.corpus import genuine

DEVICE = device_key("rocket 1.0.0", "rk3588")
GOOD = Verdict(DEVICE, "model.rknn", 3, 2)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelFile:
    monkeypatch.setenv("RKNNLITE_CACHE", str(tmp_path / "cache"))
    return ModelFile(genuine("conv_relu.rk3588.i8"))


@pytest.mark.parametrize(
    ("wanted", "found", "exponentials", "told"),
    [
        ([1, 2, 3], [1, 3, 2], False, ""),
        ([1, 2, 3], [1, 4, 3], False, "1 of 3 values, the first (1) is 4 instead of 2"),
        ([1, 2, 3], [1, 10, 3], True, ""),
        ([1, 2, 3], [1, 11, 3], True, "1 of 3 values"),
        ([1, 2, 3], [1, 2], False, "2 values instead of 3"),
        ([1.0, 128.0], [1.9, 128.0], False, ""),
        ([1.0, 128.0], [2.1, 128.0], False, "1 of 2 values, the first (0) is 2.1 instead of 1"),
        ([1.0, 128.0], [4.9, 128.0], True, ""),
        ([1.0, np.nan], [1.0, np.nan], False, ""),
        ([1.0, np.inf], [1.0, np.inf], False, ""),
        ([1.0, np.inf], [1.0, -np.inf], False, "1 of 2 values"),
        ([1.0, 2.0], [1.0, np.nan], False, "1 of 2 values, the first (1) is nan instead of 2"),
    ],
)
def test_how_near_a_layer_is(wanted: list[float], found: list[float], exponentials: bool, told: str) -> None:
    said = difference(np.array(wanted), np.array(found), exponentials)
    assert said.startswith(told) and bool(said) is bool(told)


def test_each_layer_is_judged_on_what_the_npu_left_for_it() -> None:
    """The machine is a step off in places; no layer of it is more than a step off, however many lie before it."""
    path = genuine("vit_like.rk3588.i8")

    def opened() -> Context:
        return MachineBackend().open(ModelFile(path), OpenOptions())

    verdict = self_test(ModelFile(path), DEVICE, opened)
    assert verdict.agrees and 0 < verdict.equal < verdict.layers


def test_an_output_of_a_whole_run_is_that_of_its_layers() -> None:
    path = genuine("resnet_like.rk3588.i8")
    context = MachineBackend().open(ModelFile(path), OpenOptions())
    answers = context.get_outputs
    context.get_outputs = lambda want_float=True: [value + 9 for value in answers(want_float)]  # type: ignore[method-assign]
    verdict = self_test(ModelFile(path), DEVICE, lambda: context)
    assert "of one run is not that of its layers one by one" in verdict.difference


def test_a_verdict_is_of_one_device_file_and_version(
    file: ModelFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = Record(file, DEVICE)
    record.keep(GOOD)
    assert record.verdict() == Record(ModelFile(file.data), DEVICE).verdict() == GOOD
    assert Record(file, device_key("rocket 1.1.0", "rk3588")).verdict() is None
    assert Record(ModelFile(genuine("conv_1x1.rk3588.i8")), DEVICE).verdict() is None
    assert verdicts_on(DEVICE) == [GOOD] and verdicts_on("another") == []
    monkeypatch.setattr(verdicts, "__version__", "9.9")
    assert Record(file, DEVICE).verdict() is None


@pytest.mark.parametrize(
    "changed",
    [
        {"device": "another"}, {"layers": 0}, {"layers": -1}, {"layers": True}, {"equal": 4}, {"equal": None}, {"difference": 0},
        {"difference": None}, {"format": 1}, {"model": 7}, {"more": 1},
    ],
)  # fmt: skip
def test_what_is_not_whole_is_nothing(file: ModelFile, changed: dict[str, object]) -> None:
    record = Record(file, DEVICE)
    record.keep(GOOD)
    (place,) = verdicts._folder().glob("*.json")
    place.write_text(json.dumps({**json.loads(place.read_text()), **changed}))
    assert record.verdict() is None


def test_a_link_in_its_place_is_not_followed(file: ModelFile, tmp_path: Path) -> None:
    record, other = Record(file, DEVICE), tmp_path / "other"
    record.keep(GOOD)
    (place,) = verdicts._folder().glob("*.json")
    other.write_text("mine")
    place.unlink()
    place.symlink_to(other)
    record.keep(GOOD)
    assert other.read_text() == "mine" and not place.is_symlink()


def test_a_comparison_leaves_no_note(file: ModelFile) -> None:
    record = Record(file, DEVICE)
    with pytest.raises(KeyboardInterrupt), record.turn(), record.begun():
        assert record.broke_off
        raise KeyboardInterrupt
    assert not record.broke_off
