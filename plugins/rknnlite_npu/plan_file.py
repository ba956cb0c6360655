"""A submission as arrays in a ``.npz`` file, for programs that compare or submit it."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray

from rknnlite.files.writing import writing

from .submission import Submission
from .task import as_table

__all__ = ["HandedOver", "arrays_of", "handed_over", "write_arrays"]


class HandedOver(NamedTuple):
    """A record that reaches the kernel: its index in the task buffer (``task``), its job, and the core that it is for."""

    task: int
    job: int
    core: int


def handed_over(plan: Submission, mask: int) -> list[HandedOver]:
    """The records that the cores of a mask get, in order: job after job, core after core."""
    return [
        HandedOver(index, number, core)
        for number, job in enumerate(plan.jobs(mask))
        for core, tasks in enumerate(job.cores)
        for index in tasks
    ]


def arrays_of(plan: Submission, mask: Optional[int] = None) -> dict[str, NDArray[Any]]:
    """The arrays of a submission.

    Args:
        mask: only the records that the cores of this mask get; None: the whole task buffer, of which a run hands over a part.

    Returns:
        ``words`` (all command words as they lie in memory), ``offset`` of the first in the weight buffer, ``records`` (n, 9),
        ``sizes``, ``addresses`` and ``buffers`` (names) of the buffers, ``places`` (n, 3): index, job and core of each record,
        job and core -1 where one core alone does not need it.
    """
    over = handed_over(plan, mask or 0)
    if mask is None:
        known = {place.task: place for place in over}
        over = [known.get(index, HandedOver(index, -1, -1)) for index in range(len(plan.tasks))]
    return {
        "words": plan.words,
        "offset": np.array(plan.program.commands_offset, np.int64),
        "records": as_table(plan.tasks[place.task] for place in over),
        "sizes": np.array(plan.placement.sizes, np.int64),
        "addresses": np.array([buffer.address for buffer in plan.placement.buffers], np.int64),
        "buffers": np.array([buffer.name for buffer in plan.placement.buffers]),
        "places": np.array(over, np.int64).reshape(-1, 3),
    }


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write a ``.npz`` file that ``numpy.load`` reads. Raises OSError."""
    with writing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, np.asanyarray(array), allow_pickle=False)
            archive.writestr(f"{name}.npy", content.getvalue())
