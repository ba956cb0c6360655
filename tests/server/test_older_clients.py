"""Clients that want an older openai than others: programs of tests/server/clients, in an environment of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import MODEL, TINY, ModelSettings, Served, ServerSettings, running

PYTHON = Path(sys.prefix, "clients", "bin", "python")
PROGRAMS = sorted(Path(__file__).with_name("clients").glob("with_*.py"))


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    embeds = ModelSettings(model=str(TINY), alias="embeds", embedding=True)
    with running(ServerSettings(models=(MODEL, embeds), parallel=2)) as found:
        yield found


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info < (3, 10), reason="the clients are for Python 3.10 and newer")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_clients(served: Served, program: Path) -> None:
    """Each program checks what it gets."""
    if not PYTHON.exists():
        pytest.skip("needs an environment with tests/server/clients/requirements.txt, which make test makes")
    ran = subprocess.run([PYTHON, program, served.url], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr[-3000:]
