"""What becomes of a result when the head dies, a network splits, a node slows down, or a board is gone: nothing is lost or doubled.

Each in network name spaces on this machine, see ``networks``.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray")
pytest.importorskip("pyarrow")

from tests.ray import evaluation
from tests.ray.networks import ENTER
from tests.ray.test_results import expected, rows
from tests.support.corpus import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def spaces() -> None:
    """Skip where this user may not have networks of its own."""
    if not (shutil.which("unshare") and shutil.which("nsenter") and shutil.which("ip")):
        pytest.skip(
            "no unshare, nsenter and ip: machines with networks of their own need util-linux and iproute2"
        )
    tried = "ip link add x6a type bridge && ip link add x6b type veth peer name x6c"
    done = subprocess.run([*ENTER, "sh", "-c", tried], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this user may not have networks of its own (unshare): {done.stderr.strip()}")


@pytest.fixture
def folder() -> Iterator[Path]:
    """One whose name is short, for the sockets in it."""
    made = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


def runs(fault: str, folder: Path) -> list[dict[str, Any]]:
    """The runs of the program around a fault, after a look that the result is whole and right in the end."""
    command = [*ENTER, sys.executable, "-m", "tests.ray.networks", fault, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    told: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])["runs"]
    assert (told[-1]["code"], told[-1]["rows"]) == (0, evaluation.ROWS), told[-1]["said"][-3000:]
    found = rows(folder / "result")
    wanted = expected()
    assert {
        key: bytes(memoryview(_values(row["scores"], wanted[key]))) for key, row in found.items()
    } == wanted
    return told


def _values(scores: Any, like: bytes) -> Any:
    """A tensor as Parquet has it, as the array that it was."""
    import numpy as np

    flat = np.asarray(scores["data"] if isinstance(scores, dict) else scores, np.float32).reshape(-1)
    assert flat.nbytes == len(like)
    return flat


def test_the_head_dies(folder: Path) -> None:
    """The program ends by itself and says why; with a new head it computes what was missing."""
    first, _ = runs("head_dies", folder)
    assert first["code"] == 1 and first["rows"] is None
    assert "Failed to connect to GCS within 8 seconds" in first["said"]
    counted = evaluation.computed(folder)
    assert evaluation.ROWS <= len(counted) < 2 * evaluation.ROWS


def test_the_network_splits(folder: Path) -> None:
    """The program goes on with the board that is left; Ray ends on the other one when its cable is in again."""
    first, second = runs("network_splits", folder)
    assert (first["code"], first["rows"]) == (0, evaluation.ROWS)
    assert "marked dead" in first["said"]
    assert second["rows"] == evaluation.ROWS


def test_the_network_blinks(folder: Path) -> None:
    """A second is no split: nothing is computed again."""
    (only,) = runs("network_blinks", folder)
    assert "marked dead" not in only["said"]
    assert only["rows"] == evaluation.ROWS


def test_a_node_slows_down_to_a_tenth(folder: Path) -> None:
    """It stays in the cluster, and does less."""
    (only,) = runs("node_slows", folder)
    assert "marked dead" not in only["said"]
    assert only["rows"] == evaluation.ROWS
    assert sorted(evaluation.computed(folder)) == list(range(evaluation.ROWS))


def test_a_board_is_gone_at_the_next_run(folder: Path) -> None:
    """It goes on with fewer workers than it asks for, and says so in one line."""
    (only,) = runs("fewer_boards", folder)
    assert only["said"].count("2 workers were asked for and the cluster has cores for 1") == 1
