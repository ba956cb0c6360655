"""British spelling in README and docs: American forms are listed, by the dictionary that codespell brings.

    python tools/spelling.py [FILE ...]

Names in code, links and blocks are left out. Misspellings are codespell's own business (``[tool.codespell]``).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NO_PROSE = re.compile(
    r"^```.*?^```$|^ {4,}[^\n]*$|`[^`\n]*`|\]\([^)]*\)|https?://\S+|<[^>]+>", re.MULTILINE | re.DOTALL
)
WORD = re.compile(r"\b[A-Za-z]+\b")
ALSO_BRITISH = frozenset(("disk", "license", "program"))
"""Right in British text too: computers have programs and disks, LICENSE is a file."""


def american() -> dict[str, str]:
    """American form -> British form."""
    text = (files("codespell_lib") / "data" / "dictionary_en-GB_to_en-US.txt").read_text(encoding="utf-8")
    pairs = (line.split("->") for line in text.splitlines() if "->" in line)
    forms = {one.strip(): british for british, us in pairs for one in us.rstrip(",").split(",")}
    return {us: british for us, british in forms.items() if us not in ALSO_BRITISH}


def findings(path: Path, forms: dict[str, str]) -> Iterator[str]:
    """One line per American form in a document."""
    text = NO_PROSE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), path.read_text(encoding="utf-8"))
    for match in WORD.finditer(text):
        if british := forms.get(match[0].lower()):
            yield f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]} ==> {british}"


def main(names: list[str]) -> int:
    paths = [Path(name) for name in names] or sorted(
        (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md"))
    )
    forms = american()
    found = [line for path in paths for line in findings(path, forms)]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
