"""Three boards of a fleet beside one: frames per second through ``ray.data`` on the test double.

    python benchmarks/fleet.py [--frames 600] [--boards 3] [--latency 0.02]

Each node of a local cluster stands for a board with one core, on which a run takes 20 ms whatever the machine does
meanwhile. Target: three nodes answer at least 2.7 times as many frames as one. What is timed is the work: from the
moment when all workers have begun to the one when the first has no more to do.
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "plugins")]
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "plugins")])
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import numpy as np  # noqa: E402
import ray  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402
from rknnlite_ray import RknnPredictor, map_arguments  # noqa: E402

from tests.doubles.double import build, model  # noqa: E402

BOARD = {"rknpu_core": 1, "rk3588": 1}
AFFINE = ("input image int8 4 1 4 6 3 1 0", "output scores float32 4 1 3 4 6", "op affine 2 1")


class Timed(RknnPredictor):
    """Adds when each row's batch began and ended, and by whom."""

    def __call__(self, batch: Any) -> Any:
        started = time.time()
        super().__call__(batch)
        count = len(batch["id"])
        stamps = {"began": started, "ended": time.time(), "worker": os.getpid()}
        return {"id": batch["id"], **{name: np.full(count, value) for name, value in stamps.items()}}


def rate(frames: int, workers: int, latency: float) -> float:
    """Frames per second from the moment when all workers work to the end of the first that has none left."""
    arguments = map_arguments(
        model(*AFFINE, f"latency {round(latency * 1e6)}"), workers, backend="rknnrt", resources=BOARD, num_cpus=0, batch_size=10,
        inputs="image",
    )  # fmt: skip
    pixels = np.zeros((4, 6, 3), np.int8)
    rows = ray.data.range(frames, override_num_blocks=frames // 10).map(
        lambda row: {"id": row["id"], "image": pixels}
    )
    done = rows.materialize().map_batches(Timed, **arguments).to_pandas()
    assert sorted(done["id"]) == list(range(frames)) and done["worker"].nunique() == workers
    spans = done.groupby("worker").agg(began=("began", "min"), ended=("ended", "max"))
    start, end = spans["began"].max(), spans["ended"].min()
    inside = done[(done["began"] >= start) & (done["ended"] <= end)]
    return len(inside) / (end - start)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--frames", type=int, default=600)
    parser.add_argument("--boards", type=int, default=3)
    parser.add_argument("--latency", type=float, default=0.020)
    options = parser.parse_args()
    os.environ["RKNNLITE_LIBRARY"] = str(build())
    folder = tempfile.mkdtemp(prefix="fleet-", dir="/tmp")
    os.environ["RAY_TMPDIR"] = folder
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        for _ in range(options.boards):
            cluster.add_node(num_cpus=1, resources=BOARD)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        ray.data.DataContext.get_current().enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        one = rate(options.frames // options.boards, 1, options.latency)
        all_ = rate(options.frames, options.boards, options.latency)
        ratio, target = all_ / one, 0.9 * options.boards
        verdict = "met" if ratio >= target else "MISSED"
        print(
            f"{options.latency * 1e3:g} ms a frame: one board {one:.1f}/s, {options.boards} boards {all_:.1f}/s: "
            f"{ratio:.2f} times (target {target:.1f}: {verdict})"
        )
    finally:
        ray.shutdown()
        cluster.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
