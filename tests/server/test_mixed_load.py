"""Everything at once on one server, for a minute: ``benchmarks/mixed_load.py`` is the same for as long as wanted."""

from __future__ import annotations

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("grpc")
pytest.importorskip("httpx")
pytest.importorskip("psutil")
pytestmark = pytest.mark.slow


def test_nothing_is_wrong_lost_crossed_or_left() -> None:
    from benchmarks.mixed_clients import CLIENTS
    from benchmarks.mixed_load import load

    crowd, left = load(40, 0.25)
    assert not crowd.wrong and not left.complaints and not left.grown, (crowd.wrong[:5], str(left))
    right = {name for name, ended in crowd.told if ended == "right"}
    assert right == {kind.__name__ for kind in CLIENTS} - {"Rude"} and left.kills >= 2
