"""Every process collects the same tests under the same names: workers that disagree run none."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def collecting(folder: Path, **environment: str) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        str(folder),
    ]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def names(process: subprocess.Popen[str]) -> Iterator[str]:
    """The collected tests, in their order."""
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output[-2000:]
    yield from (line for line in output.splitlines() if "::" in line)


def collected_apart(folder: Path, tmp_path: Path) -> tuple[list[str], list[str]]:
    """The names as two processes find them that differ in clock, hash seed, locale, time zone and home."""
    first = collecting(folder, PYTHONHASHSEED="1")
    time.sleep(2.1)  # archives hold whole seconds, some of them every second one
    second = collecting(folder, PYTHONHASHSEED="2", LC_ALL="C", TZ="Asia/Tokyo", HOME=str(tmp_path))
    return list(names(first)), list(names(second))


@pytest.mark.slow
def test_every_process_collects_the_same_names_in_the_same_order(tmp_path: Path) -> None:
    one, other = collected_apart(ROOT / "tests", tmp_path)
    assert len(one) > 10_000
    assert one == other, sorted({*one} ^ {*other})[:20]


@pytest.mark.slow
def test_a_name_that_holds_the_clock_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "test_clock.py").write_text(
        "import time, pytest\n@pytest.mark.parametrize('now', [str(time.time())])\ndef test_now(now): pass\n"
    )
    one, other = collected_apart(tmp_path, tmp_path)
    assert len(one) == len(other) == 1 and one != other


@pytest.mark.parametrize("packed", [b"\x1f\x8b a clock", b"\x1f\x8b another clock"])
def test_bytes_have_the_name_of_their_argument(packed: bytes, request: pytest.FixtureRequest) -> None:
    assert packed and request.node.name.startswith("test_bytes_have_the_name_of_their_argument[packed")
