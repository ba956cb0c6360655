"""The genuine model files that the tests use."""

from __future__ import annotations

from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parent.parent / "data"


def genuine(name: str) -> Path:
    """A genuine model file of the corpus, or skip."""
    path = DATA / f"{name}.rknn"
    if not path.exists():
        pytest.skip(f"{path.name} is not in the corpus")
    return path
