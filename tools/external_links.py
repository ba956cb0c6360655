"""Try every link of README and docs that leads to another site; needs a network, so no test runs it.

    python tools/external_links.py

Ends with 1 and a line per link that does not answer.
"""

from __future__ import annotations

import re
import sys
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ADDRESS = re.compile(r"https?://[\w-]+\.[^\s<>()\"'`\]]+")
HERE = ("http://127.0.0.1", "http://localhost", "http://0.0.0.0", "https://example.")


def addresses() -> dict[str, str]:
    """Address -> the first document that has it."""
    found: dict[str, str] = {}
    for path in sorted((*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md"))):
        for address in ADDRESS.findall(path.read_text(encoding="utf-8")):
            if not address.startswith(HERE):
                found.setdefault(address.rstrip(".,;:"), path.relative_to(ROOT).as_posix())
    return found


def problem(address: str) -> str:
    """What is wrong with an address, empty where it answers."""
    request = urllib.request.Request(address, headers={"User-Agent": "link check"})
    try:
        with urllib.request.urlopen(request, timeout=20):
            return ""
    except (OSError, ValueError) as error:
        return str(error)


def main() -> int:
    links = addresses()
    problems = [f"{page}: {address}: {said}" for address, page in links.items() if (said := problem(address))]
    print("\n".join(problems) or f"external_links: all {len(links)} answer")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
