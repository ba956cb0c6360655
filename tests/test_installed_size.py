"""What README recommends to install is what is measured, and more than the limit is an error."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.support.corpus import ROOT
from tools import installed_size
from tools.installed_size import LIMITS, Taken


@pytest.mark.parametrize("document", ["README.md", "docs/getting-started.md"])
def test_what_is_recommended_is_measured(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    recommended = re.findall(r"^pip install '\.\[([\w,]+)\]'$", text, re.MULTILINE)
    assert recommended and set(recommended) <= set(LIMITS)


def test_numpy_counts_apart(tmp_path: Path) -> None:
    (tmp_path / "numpy.libs").mkdir()
    (tmp_path / "numpy.libs" / "x.so").write_bytes(b"x" * 100_000)
    (tmp_path / "other.py").write_bytes(b"x" * 5_000)
    found = {name: size / 1e6 for name, size in installed_size.sizes(tmp_path).items()}
    assert 0.1 <= Taken(found).numpy < 0.12 and 0.005 <= Taken(found).beside < 0.02


@pytest.mark.parametrize(("beside", "code"), [(30, 0), (LIMITS["pictures"] + 1, 1)])
def test_more_than_the_limit_is_an_error(
    beside: float, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(installed_size, "measure", lambda *_: Taken({"PIL": beside, "numpy": 500}))
    monkeypatch.setattr(sys, "argv", ["installed_size.py"])
    assert installed_size.main() == code
    assert f"PIL {beside}" in capsys.readouterr().out
