"""Facts about what rows were made of are the same in every run, and differ where results would."""

from __future__ import annotations

import functools
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_ray.fingerprint import check_same, differences, facts_of, facts_of_dataset

from rknnlite.errors import ParamInvalid
from tests.support.corpus import ROOT

ANOTHER = "from tests.ray.test_fingerprint import ARGUMENTS, facts_of; print(facts_of(ARGUMENTS))"


def scaled(outputs: Any, by: float, *, names: Any = ("a",)) -> Any:
    return {name: outputs[0] * by for name in names if name in {"a", "b", "c", "d"}}


ARGUMENTS = {
    "model": b"model",
    "post": functools.partial(scaled, by=2),
    "pre": lambda value: [item for item in value if item in {"x", "y", "z"}],
    "infer": {"layout": "nchw"},
    "keep": {"id", "label", "name", "more"},
    "table": np.arange(3),
    "names": frozenset({"p", "q", "r"}),
}


def test_facts_are_the_same_in_another_process() -> None:
    told = subprocess.run(
        [sys.executable, "-c", ANOTHER], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    assert told == str(facts_of(ARGUMENTS))


def test_a_model_is_its_bytes(tmp_path: Path) -> None:
    file = tmp_path / "a.rknn"
    file.write_bytes(b"model")
    assert facts_of({"model": file}) == facts_of({"model": str(file)}) == facts_of({"model": b"model"})
    assert facts_of({"model": tmp_path / "gone.rknn"}) == {"model": f"path {tmp_path / 'gone.rknn'}"}


def test_where_and_how_fast_it_computes_is_no_fact() -> None:
    assert set(facts_of({"model": b"", "cores": "auto", "threads": 3, "infer": None})) == {"model"}


def factor(by: float) -> Any:
    return lambda outputs: outputs[0] * by


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda outputs: outputs[0] + 1, lambda outputs: outputs[0] + 2),
        (lambda outputs: outputs[0].max(), lambda outputs: outputs[0].min()),
        (factor(2), factor(3)),
        (functools.partial(scaled, by=2), functools.partial(scaled, by=3)),
        (np.arange(3), np.arange(3).astype(np.float32)),
        (np.arange(3), np.arange(1, 4)),
        (b"a", b"b"),
        (1, 1.0),
        (np.argmax, np.argmin),
    ],
)
def test_what_changes_results_changes_the_facts(one: Any, other: Any) -> None:
    assert facts_of({"model": b"", "post": one}) == facts_of({"model": b"", "post": one})
    first, second = facts_of({"model": b"", "post": one}), facts_of({"model": b"", "post": other})
    assert first["model"] == second["model"] and first["post"] != second["post"]


def test_a_folder_keeps_the_facts_and_names_what_differs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "fingerprint.json"
    check_same(file, {"model": "a", "x": "1"}, others=False)
    check_same(file, {"x": "1", "model": "a"}, others=True)
    assert not caplog.text
    with pytest.raises(
        ParamInvalid, match="something else: model was a, now it is b; y was not given, now it is 2"
    ):
        check_same(file, {"model": "b", "x": "1", "y": "2"}, others=True)
    file.write_text("{")
    with pytest.raises(ParamInvalid, match="is damaged"):
        check_same(file, {}, others=True)
    assert differences({"a": "1" * 99}, {}) == [f"a was {'1' * 57}..., now it is not given"]


def test_a_folder_from_before_is_taken_over_with_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    check_same(tmp_path / "fingerprint.json", {"model": "a"}, others=True)
    assert "its rows do not say which model made them" in caplog.text


def test_a_ray_without_plans_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    assert facts_of_dataset(object()) == {}  # type: ignore[arg-type]
    assert "does not tell which model" in caplog.text
