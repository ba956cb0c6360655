"""A thought ends after so many tokens, whatever the model would say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_llm import Tokenizer
from rknnlite_llm.answers import ThoughtBudget, answer_format, rule_behind_thought
from rknnlite_llm.constraints import JsonObject
from rknnlite_llm.grammars import Grammars

TINY = Path(__file__).parents[2] / "examples" / "llm_chat" / "models" / "tiny.tokenizer.gguf"
FORM = answer_format("<think>")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(TINY)


def said(tokenizer: Tokenizer, wanted: str, budget: int, thinking: bool, inner: Any = None) -> str:
    """What is chosen where the model would say something else: its own token wherever that is allowed."""
    limit = ThoughtBudget(FORM, tokenizer, budget, thinking, inner)
    chosen: list[int] = []
    rest = list(tokenizer.encode(wanted))
    while rest:
        logits = np.zeros(len(tokenizer), np.float32)
        logits[rest[0]] = 1
        limit.restrict(logits)
        token = int(logits.argmax())
        assert np.isfinite(logits[token])
        limit.accept(token)
        chosen.append(token)
        if token == rest[0]:
            rest.pop(0)
    return tokenizer.decode(chosen, skip_special=False)


@pytest.mark.parametrize(
    ("wanted", "budget", "thinking"),
    [
        ("1 2 3</think>4", 100, True),
        ("<think>1 2 3</think>4", 100, False),
        ("4 <think> 5 6 7 8 9", 1, False),  # what begins otherwise is no thought
        ("1 2 3 4 5 6", 1, False),
    ],
)
def test_what_is_within_the_budget_stays(
    tokenizer: Tokenizer, wanted: str, budget: int, thinking: bool
) -> None:
    assert said(tokenizer, wanted, budget, thinking) == wanted


@pytest.mark.parametrize(("before", "thinking"), [("", True), ("<think>", False), ("\n<think>", False)])
def test_a_longer_thought_is_closed_once(tokenizer: Tokenizer, before: str, thinking: bool) -> None:
    thought = "1 2 3 4 5 6 7 8"
    budget = len(tokenizer.encode(thought)) // 2
    made = said(tokenizer, before + thought, budget, thinking)
    opened, closing, _ = made.partition("</think>")
    assert closing and made.count("</think>") == 1 and made.replace("</think>", "") == before + thought
    assert len(tokenizer.encode(opened.removeprefix(before))) == budget


def test_the_answer_behind_it_keeps_its_rule(tokenizer: Tokenizer) -> None:
    pytest.importorskip("llguidance")
    ends: Sequence[int] = (tokenizer.eos_id,)
    rules = Grammars(tokenizer, len(tokenizer), ends)
    try:
        inner = rules.constraint(rule_behind_thought(FORM, JsonObject()))
        limit, chosen = ThoughtBudget(FORM, tokenizer, 3, True, inner), []
        for wanted in (*tokenizer.encode("1 2 3 4"), *tokenizer.encode('{"a": 1}') * 3):
            logits = np.zeros(len(tokenizer), np.float32)
            logits[wanted] = 1
            limit.restrict(logits)
            token = int(logits.argmax())
            limit.accept(token)
            chosen.append(token)
            if token == tokenizer.eos_id:
                break
    finally:
        rules.close()
    _, closing, answer = tokenizer.decode(chosen).partition("</think>")
    assert closing and answer.lstrip().startswith("{")
