"""Templates that want to run for ever, or to fill the memory: each is ended, and by counting, not by luck."""

from __future__ import annotations

import threading
import tracemalloc
from typing import Any

import pytest
from rknnlite_llm.chat_template import JinjaTemplate, Turn
from rknnlite_llm.template_budget import Budget, RenderStopped, TemplateLimits

from rknnlite import config
from rknnlite.errors import ModelInvalid, ParamInvalid
from rknnlite.spi.llm import CallState, InferParams, LlmSession, PromptInput

pytest.importorskip("jinja2", reason="needs jinja2 (extra llm)")

LIMITS = TemplateLimits(seconds=60, size=1 << 18, steps=20_000)
"""Time is no help here: only what is counted ends a template."""
MEMORY = 64 << 20

DOUBLE = "{% set s = s ~ s %}" * 60
NEST = "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}"
ENDS = "{% endfor %}{% endfor %}{% endfor %}"

ATTACKS = {
    "nested range": NEST + ENDS,
    "nested range with text": NEST + "text" + ENDS,
    "range in a condition": "{% for a in range(9999) if range(9999)|sum < 0 %}{% endfor %}",
    "condition that is never true": "{% for b in range(9999) %}{% for a in range(9999) if false %}{% endfor %}{% endfor %}",
    "recursive loop": "{% for a in [1] recursive %}{{ loop(range(9999)) }}{% endfor %}",
    "macro tree": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(90) }}",
    "doubling by ~": "{% set s = 'xx' %}" + DOUBLE,
    "doubling by +": "{% set s = 'xx' %}" + DOUBLE.replace("~", "+"),
    "doubling of lists": "{% set s = ['xx'] %}" + DOUBLE.replace("~", "+"),
    "lists in lists": "{% set s = ['x'] %}" + "{% set s = [s, s] %}" * 60 + "{{ s }}",
    "tuples in tuples": "{% set s = ('x',) %}" + "{% set s = (s, s) %}" * 60 + "{{ s == (s,) }}",
    "maps in maps": "{% set s = {1: 1} %}" + "{% set s = {1: s, 2: s} %}" * 60 + "{{ s|tojson }}",
    "dict()": "{% set s = 1 %}" + "{% set s = dict(a=s, b=s) %}" * 60 + "{{ s }}",
    "arguments of macros": "{% macro f() %}{{ f(varargs, varargs) }}{% endmacro %}{{ f(1) }}",
    "namespaces": "{% set n = namespace() %}{% set n.a = n %}{% set m = [n, n] %}"
    + "{% set m = [m, m] %}" * 60,
    "text * number": "{{ 'x' * 999999999 }}",
    "number * text": "{{ 999999999 * 'x' }}",
    "list * number": "{{ [1] * 999999999 }}",
    "power": "{{ 9 ** (9 ** 9) }}",
    "squares": "{% set n = 99 %}" + "{% set n = n * n %}" * 60,
    "format": "{{ '%999999999d' % 1 }}",
    "format *": "{{ '%*d' % (999999999, 1) }}",
    "format filter": "{{ '%999999999s'|format(1) }}",
    "format many": "{{ ('%s' * 9999) % ((('x' * 9999),) * 9999) }}",
    "format by names": "{% set s = 'x' * 9999 %}{{ ('%(a)s' * 9999) % {'a': s} }}",
    "str.format": "{{ '{:999999999}'.format(1) }}",
    "str.format nested": "{{ '{:{}}'.format(1, 999999999) }}",
    "str.format many": "{% set s = 'x' * 9999 %}{{ ('{0}' * 9999).format(s) }}",
    "center": "{{ 'x'|center(999999999) }}",
    "center of text": "{{ 'x'.center(999999999) }}",
    "ljust": "{{ 'x'.ljust(999999999) }}",
    "zfill": "{{ 'x'.zfill(999999999) }}",
    "expandtabs": "{{ ('\t' * 9999).expandtabs(999999) }}",
    "indent": "{{ ('x\n' * 9999)|indent(999999) }}",
    "indent by text": "{% set w = 'w' * 9999 %}{{ ('x\n' * 9999)|indent(w) }}",
    "replace": "{% set w = 'w' * 9999 %}{{ w|replace('w', w) }}",
    "replace of text": "{% set w = 'w' * 9999 %}{{ w.replace('w', w) }}",
    "replace nothing": "{% set w = 'w' * 9999 %}{{ w.replace('', w) }}",
    "join": "{% set w = 'w' * 9999 %}{{ range(9999)|join(w) }}",
    "join of text": "{% set w = 'w' * 9999 %}{{ w.join(w) }}",
    "slice": "{{ range(9)|slice(999999)|list }}",
    "slice of slices": "{% for a in range(99999)|slice(99999) %}{% endfor %}",
    "batch": "{{ [1]|batch(999999999, 'x')|list }}",
    "sum of lists": "{% set w = [[1] * 9] * 999 %}{{ (w * 9)|sum(start=[]) }}",
    "map": "{{ range(99999)|map('center', 99999)|list }}",
    "map lazily": "{% for a in range(9999)|map('string') %}{% for b in range(9999)|map('string') %}{% endfor %}{% endfor %}",
    "round": "{{ 5|round(-999999999) }}{{ 5|round(999999999, 'floor') }}",
    "int": "{{ ('9' * 99999)|int }}",
    "indent of JSON": "{{ [1]|tojson(indent=999999999) }}",
    "translate": "{{ 'x'.translate({120: 'y' * 99999}) }}" * 2 + "{{ 'x'.encode() * 99999999 }}",
    "int.to_bytes": "{{ (1).to_bytes(999999999, 'big') }}",
    "lipsum": "{{ lipsum(n=99999) }}",
    "cycler": "{% set c = cycler(1, 2) %}{{ c.next() }}",
    "urlize": "{{ 'x'|urlize }}",
    "text in set blocks": "{% set s %}xx{% endset %}" + "{% set s %}{{ s }}{{ s }}{% endset %}" * 60,
    "filter block": "{% filter center(999999999) %}x{% endfilter %}",
    "long constant in a loop": "{% macro f() %}{% for i in range(999) %}"
    + "constant" * 999
    + "{% endfor %}{% endmacro %}{% set s = f() %}",
}


DEAR = ("nested range", "condition that is never true", "macro tree")  # others are of their kind


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(source, id=name, marks=[pytest.mark.slow] if name in DEAR else [])
        for name, source in ATTACKS.items()
    ],
)
def test_attacks_end(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    budgets: list[Budget] = []
    real = Budget.__init__

    def kept(self: Budget, *args: Any) -> None:
        real(self, *args)
        budgets.append(self)

    monkeypatch.setattr(Budget, "__init__", kept)
    tracemalloc.start()
    try:
        with pytest.raises(ParamInvalid, match="chat template") as caught:
            JinjaTemplate(source, limits=LIMITS).opening(Turn("x"), [])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(str(caught.value)) < 400
    assert peak < MEMORY
    assert max(budget.steps for budget in budgets) <= LIMITS.steps + 1
    assert max(budget.written for budget in budgets) <= 2 * LIMITS.size


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{% for m in messages %}{{ loop.index }}/{{ loop.length }} {{ m.role|upper }}{% endfor %}", "1/1 USER"),
        ("{{ 'a' ~ 1 ~ none }}{{ '%s-%d' % ('b', 2) }}{{ '{:>3}{x}'.format(1, x='y') }}", "a1Noneb-2  1y"),
        ("{{ [1, {'a': 'ü'}]|tojson }}{{ {'a': 1}|tojson(indent=2) }}", '[1, {"a": "ü"}]{\n  "a": 1\n}'),
        ("{{ ['a', 'b']|join(', ') }}{{ ','.join(['a', 'b']) }}{{ 'a,b'.split(',')[-1] }}", "a, ba,bb"),
        ("{% set n = namespace(x=1) %}{% for i in [1, 2, 3] if i > 1 %}{% set n.x = n.x + i %}{% endfor %}{{ n.x }}", "6"),
        ("{{ ' a '|trim }}{{ ' b '.strip() }}{{ 'x\ny'|indent(2) }}{{ 'aXa'|replace('X', '-') }}", "abx\n  ya-a"),
        ("{{ [3, 1]|sort|first }}{{ [1, 2]|sum }}{{ {'k': 2}|items|list }}{{ 2 ** 10 * 3 }}", "13[('k', 2)]3072"),
        ("{{ messages|map(attribute='content')|list }}", "['xyz']"),
        ("{{ messages|selectattr('role', 'equalto', 'user')|list|length }}", "1"),
        ("{% macro m(a, b=2) %}{{ a + b }}{% endmacro %}{{ m(1) }}{{ messages[0]['content'][::-1] }}", "3zyx"),
        ("{{ range(3)|list }}{% for a, b in {'p': 1}.items() %}{{ a }}{{ b }}{% endfor %}{{ x is defined }}", "[0, 1, 2]p1False"),
    ],
)  # fmt: skip
def test_what_templates_do_stays_as_it_was(source: str, text: str) -> None:
    assert JinjaTemplate(source)._render([{"role": "user", "content": "xyz"}], Turn("xyz"), []) == text


def test_a_stop_ends_the_rendering() -> None:
    looks: list[int] = []

    def stopping() -> bool:
        looks.append(1)
        return len(looks) >= 50

    with pytest.raises(RenderStopped):
        JinjaTemplate(NEST + ENDS, stopping=stopping, limits=LIMITS).opening(Turn("x"), [])
    assert len(looks) == 50


def test_time_ends_the_rendering() -> None:
    limits = TemplateLimits(seconds=0.05, steps=1 << 40)
    with pytest.raises(
        ParamInvalid, match=r"ran longer than 0\.05 s \(setting template_ms\).*set_chat_template"
    ):
        JinjaTemplate(NEST + ENDS, limits=limits).opening(Turn("x"), [])


def test_limits_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    assert TemplateLimits.configured() == TemplateLimits()
    monkeypatch.setenv("RKNNLITE_TEMPLATE_MS", "500")
    monkeypatch.setenv("RKNNLITE_TEMPLATE_KIB", "1")
    assert TemplateLimits.configured() == TemplateLimits(0.5, 1024)
    with pytest.raises(ParamInvalid, match="more than 1 KiB"):
        JinjaTemplate("{{ 'x' * 2000 }}").opening(Turn("x"), [])
    for wrong in ("0", "-1", "fast", "1e9", "9" * 400, "\u0663"):
        monkeypatch.setenv("RKNNLITE_TEMPLATE_MS", wrong)
        with pytest.raises(ParamInvalid, match="RKNNLITE_TEMPLATE_MS"):
            TemplateLimits.configured()
    assert {"template_ms", "template_kib"} <= set(config.KEYS)


@pytest.mark.parametrize(
    "source",
    [
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
        "{% if 1 %}" * 3000 + "{% endif %}" * 3000,
        "{{ " + "[" * 400 + "]" * 400 + " }}",
        "{{ -" + "-" * 5000 + "1 }}",
        "{% for a in b %}" * 25 + "{% endfor %}" * 25,
        "{{ 1" + "9" * 10000 + " }}",
        "x" * (1 << 19),
        "{% include 'x' %}{% for",
    ],
    ids=range(8),
)
def test_odd_templates_of_a_model_name_the_model(source: str) -> None:
    with pytest.raises((ModelInvalid, ParamInvalid), match=r"chat.template") as caught:
        JinjaTemplate.of_model("tiny", source).opening(Turn("x"), [])
    assert isinstance(caught.value, ParamInvalid) or "model tiny, chat_template" in str(caught.value)
    assert len(str(caught.value)) < 500


def test_stopping_a_session_while_its_template_runs(
    session: LlmSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendering = threading.Event()
    real = Budget.step

    def step(self: Budget) -> None:
        rendering.set()
        real(self)

    monkeypatch.setattr(Budget, "step", step)
    limits = TemplateLimits(seconds=600, steps=1 << 60)
    template = JinjaTemplate(NEST + ENDS, stopping=session._stop.is_set, limits=limits)  # type: ignore[attr-defined]
    monkeypatch.setattr(session._engine, "chat_template", lambda stopping: template)  # type: ignore[attr-defined]
    future = session.run_async(PromptInput("a"), InferParams(max_new_tokens=2))
    assert rendering.wait(30)
    session.stop()
    assert future.result(30).state == CallState.STOP
    session.set_chat_template("", "", "")
    assert session.run(PromptInput("a"), InferParams(max_new_tokens=2)).n_decode_tokens == 2
