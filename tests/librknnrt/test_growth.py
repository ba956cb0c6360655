"""Nothing grows with frames and contexts; memory of the zero-copy path goes through no socket."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.librknnrt.clients import program
from tests.librknnrt.measured import Measured
from tests.support.corpus import EXAMPLES, genuine
from tests.support.needs import needs

ALLOWED = 1 << 20  # bytes; allocators move by some pages
SMALL, LARGE = genuine("named.rk3588.i8"), EXAMPLES / "resnet18" / "resnet18_for_RK3588.rknn"


@pytest.mark.slow
@pytest.mark.parametrize(("what", "count"), [("frame", 40_000), ("zero", 40_000), ("init", 500)])
def test_memory_stays_flat(what: str, count: int) -> None:
    with Measured(SMALL) as program:
        program(what, count // 10)
        before = program.resident
        program(what, count)
        after = program.resident
    assert {name: after[name] - before[name] for name in after if after[name] > before[name] + ALLOWED} == {}


@pytest.mark.parametrize("what", ["zero", "frame"])
def test_no_tensor_goes_through_the_socket(tmp_path: Path, what: str) -> None:
    """A frame of 150,000 bytes costs as many bytes on the socket as one of 360."""
    needs("strace")
    assert program("measured.c") and shutil.which("strace")
    sizes = {}
    for model in (SMALL, LARGE):
        log = tmp_path / model.stem
        calls = "trace=sendmsg,recvmsg,sendto,recvfrom,read,write"
        with Measured(model, ("strace", "-o", str(log), "-e", calls)) as measured:
            measured(what, 2)
            begun = len(log.read_text().splitlines())
            measured(what, 3)
        moved = re.findall(
            r"^(?:sendmsg|recvmsg|sendto|recvfrom)\((?!.*MSG_PEEK).* = (\d+)$",  # looks whether there is something move nothing
            "\n".join(log.read_text().splitlines()[begun:]),
            re.M,
        )
        sizes[model] = [int(size) for size in moved]
    assert sizes[SMALL] and sizes[SMALL] == sizes[LARGE] and sum(sizes[LARGE]) < 3 * 500
