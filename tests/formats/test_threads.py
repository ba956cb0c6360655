"""Files are read by several threads at a time: a server opens what its clients send."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

from rknnlite.formats.flat_model import literal

FLAT = {"attrs": {f"in{i}": {"shape": [1, 20, i], "range": [0.5, [1, [2, [3]]]]} for i in range(100)}}
DEEP = {"attrs": [[[[[[[1]]]]]]] * 200}


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads take turns after a microsecond."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


class Circle:
    """Garbage whose end takes a while, in whatever thread happens to collect it: there the threads change."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        for _ in range(100):
            pass


@pytest.mark.slow
def test_attribute_texts_are_read_by_several_threads(restless: None) -> None:
    wrong: list[object] = []

    def read(value: dict[str, object]) -> None:
        text = repr(value)
        for _ in range(40):
            try:
                if literal(text) != value:
                    wrong.append("another value")
            except Exception as error:
                wrong.append(error)

    threads = [threading.Thread(target=read, args=(value,)) for value in (FLAT, DEEP) * 2]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        Circle()
    assert not wrong, wrong[:3]
