"""Every word, record, size and job is what was recorded."""

from __future__ import annotations

import numpy as np
from rknnlite_npu.task import as_table

from .recordings import CAPTURES, GENUINE, PAGE, genuine_runtime, real_chip, recorded


@recorded(CAPTURES)
def test_a_real_chip_was_given_this(name: str) -> None:
    plan, told = real_chip(name)
    assert plan.words.tolist()[: len(told["words"])] == told["words"]
    assert as_table(plan.tasks).tolist() == told["tasks"]
    assert list(plan.placement.sizes) == told["sizes"]
    assert [plan.program.commands_offset] == told["offset"]
    assert plan.doubts == ()


@recorded(GENUINE)
def test_the_genuine_runtime_submits_this(name: str) -> None:
    recording = genuine_runtime(name)
    plan, mine = recording.plan, as_table(recording.plan.tasks)
    for task, record, words in zip(recording.names, recording.records, recording.words):
        index = int(task.rpartition("_")[2])
        assert mine[index].tolist() == record.tolist()
        assert not np.flatnonzero(plan.words_of(index) != words).tolist(), task
    assert [-(-size // PAGE) * PAGE for size in plan.placement.sizes] == recording.sizes


@recorded(GENUINE)
def test_jobs_are_those_of_the_genuine_runtime(name: str) -> None:
    recording = genuine_runtime(name)
    jobs = recording.plan.jobs()
    assert [
        f"task{number}_{core}_{index}"
        for number, job in enumerate(jobs)
        for core, tasks in enumerate(job.cores)
        for index in tasks
    ] == recording.names
