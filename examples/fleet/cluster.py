"""The cluster of the examples: one that is there, or three nodes on this machine that stand for boards with a core each."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import Optional

import ray
from ray.cluster_utils import Cluster

__all__ = ["connected"]

BOARD = {"rknpu_core": 1, "rk3588": 1}


@contextlib.contextmanager
def connected(address: Optional[str]) -> Iterator[Optional[str]]:
    """Gives the backend: ``cpu`` on nodes of this machine, None (each board's own) on a cluster that is there."""
    if address:
        with ray.init(address=address, log_to_driver=False):
            yield None
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    folder = tempfile.mkdtemp(prefix="fleet-", dir="/tmp")  # sockets lie in it: its name must be short
    os.environ["RAY_TMPDIR"] = folder
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        for _ in range(3):
            cluster.add_node(num_cpus=1, resources=BOARD)
        with ray.init(address=cluster.address, log_to_driver=False):
            yield "cpu"
    finally:
        cluster.shutdown()
        shutil.rmtree(folder, ignore_errors=True)
