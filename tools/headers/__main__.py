"""Writes the headers: ``python -m tools.headers`` from the repository's folder."""

from __future__ import annotations

from pathlib import Path

from .files import ROOT, texts


def main() -> None:
    """Write every header that differs, and say which."""
    for path, text in texts().items():
        file = Path(ROOT, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
            print(path)


main()
