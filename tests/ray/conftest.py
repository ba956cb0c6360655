"""A local cluster of Ray for all slow tests of a process: a head, and three nodes that stand for boards with one core."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.corpus import ROOT

BOARD = {"rknpu_core": 1, "rk3588": 1}
STORE = 80_000_000
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
    "PYTHONPATH": os.pathsep.join(
        filter(None, [str(ROOT), str(ROOT / "plugins"), os.environ.get("PYTHONPATH")])
    ),
    "OMP_NUM_THREADS": "1",
    "RKNNLITE_CONFIG": "",
    "RKNNLITE_ENGINE": "numpy",
}


@pytest.fixture(scope="session")
def ray_environment() -> Iterator[Path]:
    """Settings of all processes of Ray, and the folder for their files, whose name must be short for sockets in it."""
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        patch.setenv("RAY_TMPDIR", str(folder))
        yield folder
    shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def boards(count: int = 3) -> Iterator[Any]:
    """A cluster with so many boards, to which this process is connected; ``cluster.boards`` are their nodes."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 2, "include_dashboard": False, "object_store_memory": STORE}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        cluster.boards = [add_board(cluster) for _ in range(count)]
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        ray.data.DataContext.get_current().enable_progress_bars = False
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def add_board(cluster: Any, **settings: Any) -> Any:
    """One more node."""
    given = {
        "num_cpus": 1,
        "resources": BOARD,
        "object_store_memory": STORE,
        **settings,
    }
    return cluster.add_node(**given)


def until(condition: Callable[[], Any], seconds: float = 300) -> None:
    """Wait for something; fail when it does not come."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


def meet(folder: Path, name: str, count: int) -> None:
    """Wait until so many have come to a folder of this machine, each with a name of its own."""
    (folder / name).touch()
    until(lambda: len(list(folder.iterdir())) >= count)


@pytest.fixture(scope="session")
def cluster(ray_environment: Path) -> Iterator[Any]:
    """Three boards, for tests that leave them as they are."""
    with boards() as made:
        yield made
