"""What people have to read stays readable: README and the pages of docs/ have so many words together.

Words are whatever holds a letter or a digit, code blocks included. Generated tables are data in docs/assets, which pages search.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST = 45_000
SHOWN = 12


def words(text: str) -> int:
    """How many words a text has, as ``wc -w`` counts, without what is punctuation alone."""
    return len(re.findall(r"\S*[A-Za-z0-9]\S*", text))


def test_what_a_word_is() -> None:
    assert words("| `rknn_init` | -1 | -> |\n# Two words\n") == 4


def test_the_documents_are_short() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    counted = sorted(((words(page.read_text(encoding="utf-8")), page) for page in pages), reverse=True)
    total = sum(count for count, _ in counted)
    largest = "\n".join(f"{count:7,} {page.relative_to(ROOT).as_posix()}" for count, page in counted[:SHOWN])
    assert total <= MOST, (
        f"{total:,} words in {len(pages)} pages, {total - MOST:,} more than {MOST:,}: say it shorter, link instead of repeating, "
        f"make tables of facts data in docs/assets. The largest pages:\n{largest}"
    )
