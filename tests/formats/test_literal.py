"""The generator's dict in a file, read while other threads read theirs."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from rknnlite.errors import ModelInvalid
from rknnlite.formats.flat_model import literal


def test_what_another_thread_does_to_the_parser_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.11 says ``SystemError: AST constructor recursion depth mismatch`` where threads parse at the same time."""
    parse, failures = (
        ast.parse,
        [SystemError("AST constructor recursion depth mismatch (before=150, after=85)")] * 3,
    )

    def sometimes(*arguments: Any, **options: Any) -> Any:
        if failures:
            raise failures.pop()
        return parse(*arguments, **options)

    monkeypatch.setattr(ast, "parse", sometimes)
    assert literal("{'a': [1, -2.5], 'b': ('x',)}") == {"a": [1, -2.5], "b": ("x",)} and not failures
    with pytest.raises(ModelInvalid):
        literal("{'a': print()}")
