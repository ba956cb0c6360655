"""Recordings of what the NPU was given, made by others: of a real RK3588, and of the genuine runtime 1.6.0."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from rknnlite_npu.placement import Bases
from rknnlite_npu.submission import Submission, plan

from rknnlite.formats import ModelFile
from tests.support.corpus import DATA, EXAMPLES, SILICON

CAPTURES = sorted(path.stem for path in SILICON.glob("*.json"))
GENUINE = sorted(path.stem for path in (SILICON / "genuine-1.6.0").glob("*.npz"))
PAGE = 4096
"""The genuine runtime asks for whole pages."""


def recorded(names: list[str]) -> pytest.MarkDecorator:
    """A test of each recording; where there are none it is skipped."""
    absent = pytest.mark.skip(
        reason="no recordings: set RKNNLITE_SILICON to the folder of third-party recordings"
    )
    return pytest.mark.parametrize("name", names or [pytest.param("none", marks=absent)])


@dataclass(frozen=True)
class Recording:
    """What was submitted: records, each with its words and ends, and their names ``task{job}_{core}_{index}``."""

    plan: Submission
    sizes: list[int]
    names: list[str]
    records: np.ndarray
    words: list[np.ndarray]


def genuine_runtime(name: str) -> Recording:
    """A recording of the genuine runtime, beside our plan for the same addresses; it was given uint8 pixels."""
    model = DATA / f"{name}.rknn"
    model = model if model.exists() else EXAMPLES / name.partition("_for_")[0] / f"{name}.rknn"
    with np.load(SILICON / "genuine-1.6.0" / f"{name}.npz") as stored:
        arrays = dict(stored)
    task, weight, internal, *io = arrays["buffers"][:, 1].tolist()
    found = plan(ModelFile(model).model, Bases(weight, internal, task, io), pixels=True)
    words = np.split(arrays["words"], np.cumsum(arrays["lengths"])[:-1])
    return Recording(
        found, arrays["buffers"][:, 2].tolist(), arrays["names"].tolist(), arrays["records"], words
    )


def real_chip(name: str) -> tuple[Submission, dict[str, list[int]]]:
    """A capture of a real RK3588 beside our plan: its sizes, words, records, and where the words begin."""
    path = SILICON / f"{name}.json"
    told = json.loads(path.read_text(encoding="utf-8"))
    base = {buffer: facts["dma"] for buffer, facts in told["buffers"].items()}
    bases = Bases(base["weight"], base["internal"], base["task"], [base["input"], base["output"]])
    return plan(ModelFile(path.with_suffix(".rknn")).model, bases), {
        "sizes": [facts["size"] for facts in told["buffers"].values()],
        "words": [int(word, 16) for word in told["commands"]],
        "offset": [told["commands_offset_in_weight_buffer"]],
        "tasks": told["tasks"],
    }


def model_path(name: str) -> Path:
    """A file of ours for RK3588."""
    return DATA / f"{name}.rk3588.i8.rknn"
