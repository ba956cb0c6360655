"""Two hundred prompts at temperature 1: every call and every answer of a given form is whole and valid."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from .conftest import MODEL, Served, ServerSettings, running

jsonschema = pytest.importorskip("jsonschema")
pytest.importorskip("llguidance")
pytestmark = pytest.mark.slow

PROMPTS, CLIENTS = 100, 4
WILD = {"temperature": 1, "top_k": 0, "top_p": 1, "max_tokens": 500}
QUESTIONS = [
    "What is the weather in Lisbon?", "Turn off the light in the kitchen.", "What is 47 + 38?", "Who are you?",
    "What day comes after Sunday?", "What do red and blue make?", "Grüße aus Köln 🎉", "Say nothing at all.",
]  # fmt: skip


def closed(optional: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    """The schema of an object with these properties and no others, all but some of them required."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


WORD = {"type": "string", "maxLength": 12}
SCHEMAS: dict[str, dict[str, Any]] = {
    "enum": closed(colour={"enum": ["red", "green", "blue"]}, level={"enum": [1, 2.5, None, True, "high"]}),
    "array": closed(numbers={"type": "array", "items": {"type": "integer", "minimum": -9, "maximum": 9},
                             "minItems": 2, "maxItems": 5}),
    "nested": closed(a=closed(b=closed(c=closed(d={"type": "boolean"}, e=WORD)), f={"type": "null"})),
    "any of": closed(value={"anyOf": [closed(kind={"const": "text"}, text=WORD),
                                      closed(kind={"const": "pair"}, x={"type": "integer", "minimum": 0, "maximum": 99}),
                                      {"type": "array", "items": {"type": "boolean"}, "maxItems": 3}]}),
    "ranges": closed(age={"type": "integer", "minimum": 17, "exclusiveMaximum": 1234},
                     below={"type": "integer", "exclusiveMinimum": -300, "maximum": -7},
                     price={"type": "number", "minimum": 0.5, "maximum": 99.75, "multipleOf": 0.25}),
    "pattern": closed(plate={"type": "string", "pattern": "^[A-Z]{1,3}-[A-Z]{1,2} [1-9][0-9]{0,3}$"},
                      day={"type": "string", "format": "date"}, id={"type": "string", "pattern": r"^(\d{3}|[x-z]+7){1}$",
                                                                    "maxLength": 9}),
    "optional": closed(("nick", "tags", "boss"), name=WORD, nick=WORD, boss=closed(("name",), name=WORD),
                       tags={"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 4}),
    "unicode": closed(**{"größe": {"enum": ["klein", "groß", "大きい", "🎉🎈", 'a "quoted" \\ one\n']},
                         "名前": {"type": "string", "minLength": 1, "maxLength": 6}, "é/~ %": {"const": "ünï"}}),
    "references": {**closed(top={"$ref": "#/$defs/node"}, other={"$ref": "#/$defs/word"}),
                   "$defs": {"node": closed(("left",), word={"$ref": "#/$defs/word"}, left={"$ref": "#/$defs/word"}),
                             "word": WORD}},
    "tuple": {"type": "array", "prefixItems": [{"type": "integer", "minimum": 1, "maximum": 12}, WORD, {"type": "boolean"}],
              "items": False, "minItems": 3},
    "map": {"type": "object", "properties": {"v": {"const": 1}}, "required": ["v", "f"], "additionalProperties": False,
            "patternProperties": {"^[a-f]{1,3}$": WORD}, "maxProperties": 4},
    "all of": closed(point={"allOf": [{"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
                                      closed(x={"minimum": 3, "maximum": 40}, y={"type": "boolean"})]}),
}  # fmt: skip
FUNCTIONS = {
    "get_weather": closed(("unit",), city=WORD, unit={"enum": ["celsius", "fahrenheit"]}),
    "set_light": closed(room=WORD, on={"type": "boolean"}),
    "book": closed(
        ("seats",), train=SCHEMAS["pattern"], passenger=SCHEMAS["optional"], seats=SCHEMAS["array"]
    ),
    "draw.shape": closed(shape=SCHEMAS["any of"], size=SCHEMAS["unicode"]),
    "nothing-to-say": closed(),
}


@pytest.fixture(scope="module")
def four_at_a_time() -> Iterator[Served]:
    settings = ServerSettings(models=(replace(MODEL, ctx_size=0),), parallel=CLIENTS)
    with running(settings) as served:
        yield served


def told(prompts: int, ask: Callable[[int], None]) -> None:
    """Ask everything from several threads, then say what was not right, and how long it took."""
    begin, wrong = time.monotonic(), []

    def one(number: int) -> None:
        try:
            ask(number)
        except Exception as error:
            wrong.append(f"{number}: {type(error).__name__}: {error}"[:600])

    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(one, range(prompts)))
    print(f"{prompts - len(wrong)} of {prompts} valid in {time.monotonic() - begin:.1f} s")
    assert not wrong, "\n".join(wrong)


def choice_of(response: Any) -> Any:
    assert response.status_code == 200, response.text
    (choice,) = response.json()["choices"]
    return choice


def test_answers_of_a_form(four_at_a_time: Served) -> None:
    def ask(number: int) -> None:
        draw = random.Random(number)
        name, schema = list(SCHEMAS.items())[number % len(SCHEMAS)]
        form = {"type": "json_schema", "json_schema": {"name": "form", "schema": schema, "strict": True}}
        talk = [{"role": "user", "content": draw.choice(QUESTIONS)}]
        choice = choice_of(four_at_a_time.chat(messages=talk, response_format=form, seed=number, **WILD))
        assert choice["finish_reason"] == "stop", f"{name}: {choice}"
        check(choice["message"]["content"], schema, name)

    told(PROMPTS, ask)


def test_calls_of_tools(four_at_a_time: Served) -> None:
    def ask(number: int) -> None:
        draw = random.Random(number)
        names = draw.sample(sorted(FUNCTIONS), draw.randint(1, 3))
        wanted = draw.choice([None, None, names[-1]])
        how = {"type": "function", "function": {"name": wanted}} if wanted else "required"
        choice = called(four_at_a_time, draw, names, how, number)
        assert choice["finish_reason"] == "tool_calls", f"{names}: {choice}"
        calls = check_calls(choice, [wanted] if wanted else names)
        assert calls

    told(PROMPTS, ask)


def test_calls_that_nobody_demands(four_at_a_time: Served) -> None:
    calls = []

    def ask(number: int) -> None:
        draw = random.Random(number)
        names = ["get_weather", draw.choice(sorted(FUNCTIONS.keys() - {"get_weather"}))]
        choice = called(four_at_a_time, draw, names, "auto", number)
        if choice["finish_reason"] != "length":  # content has no bounds here
            calls.append(check_calls(choice, names))

    told(PROMPTS // 2, ask)
    assert sum(calls) >= PROMPTS // 10 and len(calls) > PROMPTS // 3


def called(server: Served, draw: random.Random, names: list[str], how: Any, seed: int) -> Any:
    """The answer to a question with these tools."""
    tools = [
        {"type": "function", "function": {"name": name, "parameters": FUNCTIONS[name]}} for name in names
    ]
    return choice_of(server.chat(
        messages=[{"role": "user", "content": draw.choice(QUESTIONS)}], tools=tools, tool_choice=how, seed=seed,
        parallel_tool_calls=draw.random() < 0.5, **WILD,
    ))  # fmt: skip


def check_calls(choice: Any, names: list[str]) -> int:
    """All calls of an answer are of these tools and valid; how many there are."""
    calls = choice["message"].get("tool_calls", [])
    for call in calls:
        function = call["function"]
        assert function["name"] in names
        check(function["arguments"], FUNCTIONS[function["name"]], function["name"])
    return len(calls)


def check(text: str, schema: Any, name: str) -> None:
    """The text is JSON that the schema accepts."""
    formats = jsonschema.FormatChecker()
    try:
        jsonschema.Draft202012Validator(schema, format_checker=formats).validate(json.loads(text))
    except (ValueError, jsonschema.ValidationError) as error:
        raise AssertionError(f"{name}: {text!r}: {error}") from None
