"""What ``make lint`` says about spelling, without the misspellings that codespell knows."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("codespell_lib")

from tools import spelling


def test_documents_are_spelt_as_in_britain() -> None:
    assert spelling.main([]) == 0


def test_american_words_are_found_in_prose_only(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "The color of\n`color`, <color> and the behavior.\n\n    color = 1\n\n```python\ncolor = 1\n```\n"
    )
    forms = spelling.american()
    assert [line.rpartition(": ")[2] for line in spelling.findings(page, forms)] == [
        "color ==> colour",
        "behavior ==> behaviour",
    ]
