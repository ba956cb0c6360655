"""``info --check`` lists what no verified file has."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Call
from tests.formats.test_guesses import STEM, UNKNOWN_BIT, with_register
from tests.support.corpus import genuine


def test_info_lists_guesses(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "odd.rknn"
    path.write_bytes(with_register(STEM, 0x4060, UNKNOWN_BIT))
    done = call("info", "--check", path)
    assert done.code == 0 and "not verified:\n  node " in done.out and "register 0x4060" in done.out
    (guess,) = call("info", "--check", "--json", path).data["guesses"]
    assert set(guess) == {"node", "fact"} and guess["node"] in done.out and guess["fact"] in done.out
    assert "guesses" not in call("info", "--json", path).data


def test_nothing_to_list(call: Call) -> None:
    done = call("info", "--check", genuine(STEM))
    assert "not verified:\n  nothing: every pattern has been compared" in done.out
    assert call("info", "--check", "--json", genuine(STEM)).data["guesses"] == []
