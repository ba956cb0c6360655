"""An evaluation that takes a while, for tests that end it in the middle.

``python -m tests.ray.evaluation ADDRESS FOLDER [WORKERS]``; ``EVALUATION_INIT`` has more arguments of ``ray.init`` as JSON.

Each row of the result has what the model made of it; each computation adds a line to a file beside the result. While a
file ``half`` lies there, half of the rows are computed and no more.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import ray
from rknnlite_ray import Results, RknnPredictor, map_arguments, typed_errors

from tests.support.corpus import genuine

ROWS = 60
MODEL = genuine("conv_1x1.rk3588.i8")
SHAPE = (9, 11, 20)
BOARD = {"rknpu_core": 1, "rk3588": 1}


class Logged(RknnPredictor):
    """Writes a line for each row to the file that ``log`` names, and waits while ``half`` lies beside it."""

    def __init__(self, log: str, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._log = log

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        half = Path(self._log).with_name("half")
        while half.exists() and len(computed(half.parent)) >= ROWS // 2:
            time.sleep(0.02)
        found = super().__call__(batch)
        with open(self._log, "a", encoding="utf-8") as log:  # noqa: PTH123  appended to by several processes
            log.write("".join(f"{number}\n" for number in batch["id"]))
        return {**found, "node": np.array([ray.get_runtime_context().get_node_id()] * len(batch["id"]))}


def image(number: int) -> np.ndarray:
    """The input of a row."""
    return np.random.default_rng(number).integers(0, 255, SHAPE).astype(np.uint8)


def pixels(batch: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of some rows."""
    made = [image(number) for number in batch["id"]]
    return {**batch, "image": np.stack(made) if made else np.zeros((0, *SHAPE), np.uint8)}


def evaluate(folder: Path, workers: int = 3, model: Any = MODEL) -> int:
    """All rows that the result lacks; how many it has then."""
    results = Results(folder / "result")
    rows = results.missing(ray.data.range(ROWS, override_num_blocks=20))
    given = map_arguments(
        model, workers, backend="cpu", resources=BOARD, num_cpus=0, batch_size=1, inputs="image", outputs="scores",
        log=str(folder / "computed"),
    )  # fmt: skip
    with typed_errors():
        return results.write(rows.map_batches(pixels, batch_size=8).map_batches(Logged, **given))


def computed(folder: Path) -> list[int]:
    """Every computation by the number of its row."""
    file = folder / "computed"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


if __name__ == "__main__":
    ray.init(address=sys.argv[1], log_to_driver=False, **json.loads(os.environ.get("EVALUATION_INIT", "{}")))
    ray.data.DataContext.get_current().enable_progress_bars = False
    print(evaluate(Path(sys.argv[2]), *map(int, sys.argv[3:])), os.getpid())
