"""Answers bound to rules: whatever the model wants to say, what it says fulfils them."""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rknnlite_llm import Chat, Tokenizer, gbnf
from rknnlite_llm.constraints import Choice, Gbnf, JsonObject, JsonSchema, Lark, Regex, Rule
from rknnlite_llm.gbnf_lark import lark_of_gbnf
from rknnlite_llm.gguf import write_gguf
from rknnlite_llm.grammars import Grammars

from rknnlite.errors import BackendUnavailable, ParamInvalid
from rknnlite.spi.llm import LlmParams, SamplingParams
from tests.support.brothers import slow_unless
from tests.support.examples import examples

pytest.importorskip("llguidance")

VOCAB = 700
"""Of the logits: more than the tokenizer has."""
EXAMPLE = Path(__file__).parents[2] / "examples" / "llm_chat" / "models" / "tiny"
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"enum": ["a", "b", "ü 😀"]}, "maxItems": 3},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(f"{EXAMPLE}.tokenizer.gguf")


@pytest.fixture(scope="module")
def grammars(tokenizer: Tokenizer) -> Grammars:
    return Grammars(tokenizer, VOCAB, (tokenizer.eos_id,), check=False)


@pytest.fixture(scope="module")
def strict(tokenizer: Tokenizer) -> Iterator[Grammars]:
    made = Grammars(tokenizer, VOCAB, (tokenizer.eos_id,))
    yield made
    made.close()


def walk(grammars: Grammars, tokenizer: Tokenizer, rule: Rule, seed: int = 0, most: int = 3000) -> str:
    """What a model says that wants nothing in particular, but sooner or later an end."""
    constraint, rng, ids = grammars.constraint(rule), np.random.default_rng(seed), []
    ends = [tokenizer.eos_id, *(tokenizer.tokens.index(mark) for mark in ('"', "}", "]", "0", "=", "Ċ"))]
    for step in range(most):
        logits = rng.normal(0, 3, VOCAB).astype(np.float32)
        logits[ends] += 0.1 * step
        constraint.restrict(logits)
        assert logits.max() > -np.inf
        token = int(logits.argmax())
        constraint.accept(token)
        if token == tokenizer.eos_id:
            return tokenizer.decode(ids, skip_special=False)
        assert token < len(tokenizer)
        ids.append(token)
    raise AssertionError(f"no end: {tokenizer.decode(ids)[-200:]!r}")


# -- kinds of rules ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_json(grammars: Grammars, tokenizer: Tokenizer, seed: int) -> None:
    assert isinstance(json.loads(walk(grammars, tokenizer, JsonObject(), seed)), dict)
    made = json.loads(walk(grammars, tokenizer, JsonSchema(PERSON), seed))
    assert {"name", "age"} <= set(made) <= {"name", "age", "tags"}
    assert len(made["name"]) <= 12 and 0 <= made["age"] <= 150 and type(made["age"]) is int
    json.loads(walk(grammars, tokenizer, JsonSchema(True), seed))


def test_choices_are_said_as_they_stand(grammars: Grammars, tokenizer: Tokenizer) -> None:
    texts = ("yes", "yes!", 'a "b"/\\c\n', "日本 😀", "[a-z]*", "\x00\x7f")
    said = {walk(grammars, tokenizer, Choice(texts), seed) for seed in range(60)}
    assert said == set(texts)


def test_a_regular_expression_is_matched_as_a_whole(grammars: Grammars, tokenizer: Tokenizer) -> None:
    pattern = r"^[A-C]{2,3}-\d{1,4}(é|😀)+$"
    for seed in range(20):
        said = walk(grammars, tokenizer, Regex(pattern), seed)
        assert re.fullmatch(pattern, said), said


def test_a_grammar_of_lark(grammars: Grammars, tokenizer: Tokenizer) -> None:
    rule = Lark('start: "(" start ")" | "x"')
    for seed in range(10):
        said = walk(grammars, tokenizer, rule, seed)
        assert re.fullmatch(r"\(*x\)*", said) and said.count("(") == said.count(")")


ARITHMETIC = r"""
# as llama.cpp's examples are written
root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*   # comments
term  ::= ident | num | ( "(" ws
    expr ")" ) ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]{1,3} ws
ws    ::= [ \t]?
"""


def test_a_grammar_of_llama_cpp(grammars: Grammars, tokenizer: Tokenizer) -> None:
    for seed in range(10):
        for line in walk(grammars, tokenizer, Gbnf(ARITHMETIC), seed).splitlines():
            left, _, right = line.partition("=")
            assert re.fullmatch(r"[-+*/()a-z0-9_ \t]+", left) and left.count("(") == left.count(")") and right


def matches(grammars: Grammars, tokenizer: Tokenizer, rule: Rule, text: str) -> bool:
    """Whether a text is a sentence of a rule."""
    constraint = grammars.constraint(rule)
    for token in [*tokenizer.encode(text), tokenizer.eos_id]:
        logits = np.zeros(VOCAB, np.float32)
        constraint.restrict(logits)
        if logits[token] != 0:
            return False
        try:
            constraint.accept(token)
        except ParamInvalid as error:  # what must follow has no end, as in: x ::= "a" x
            assert "ff_tokens" in str(error)
            return False
    return True


@pytest.mark.parametrize(
    ("body", "pattern"),
    [
        ('[a-c]* "c"', "[a-c]*c"),
        ('("a" | "ab") "bc"', "(a|ab)bc"),
        ('w "c" \n w ::= [a-c]+ | "b"?', "([a-c]+|b?)c"),
        ('[^a"]{2,} ("b" | )', '[^a"]{2,}b?'),
        (r'. "\u0062"{2} [\x61-\x62]{0,1}', "(?s:.)bb[ab]?"),
        ("([a] | [b] [a])+ [ab]", "(a|ba)+[ab]"),
    ],
)
def test_a_grammar_of_llama_cpp_means_what_it_says(
    grammars: Grammars, tokenizer: Tokenizer, body: str, pattern: str
) -> None:
    rule = Gbnf(f"root ::= {body}")
    texts = [
        "".join(text)
        for n in range(1, 5)
        for text in np.ndindex(*[3] * n)
        for text in [["abc"[i] for i in text]]
    ]
    for text in [*texts, "bb", "\nbb", "ébba", "xyb"]:
        assert matches(grammars, tokenizer, rule, text) == bool(re.fullmatch(pattern, text)), text


PIECES = st.recursive(
    st.sampled_from(['"a"', '"b"', '"ab"', '"ba"', "[ab]", '[^a"]', "root", "x", "y", '""']),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(" ".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda options: f"({' | '.join(options)})"),
        st.tuples(inner, st.sampled_from("*+?")).map(lambda pair: f"({pair[0]}){pair[1]}"),
        st.tuples(inner, st.sampled_from(["{2}", "{0,2}", "{1,}"])).map(lambda pair: f"({pair[0]}){pair[1]}"),
    ),
    max_leaves=6,
)
SHORT = 3


def sentences(rules: dict[str, Any]) -> set[str]:
    """All sentences over three letters up to a length, by trying again and again until there are no new ones."""
    known: dict[str, set[str]] = {name: set() for name in rules}

    def joined(one: set[str], other: set[str]) -> set[str]:
        return {a + b for a in one for b in other if len(a + b) <= SHORT}

    def of(node: Any) -> set[str]:
        if isinstance(node, gbnf.Characters):
            return {c for c in 'ab"' if any(a <= ord(c) <= b for a, b in node.ranges)}
        if isinstance(node, gbnf.Reference):
            return known[node.name]
        if isinstance(node, gbnf.Alternatives):
            return set().union(*map(of, node.options))
        if isinstance(node, gbnf.Sequence):
            found = {""}
            for item in node.items:
                found = joined(found, of(item))
            return found
        inner, found, now = of(node.item), set(), {""}
        for turn in range(SHORT + 3 if node.most is None else node.most + 1):
            found |= now if turn >= node.least else set()
            now = joined(now, inner)
        return found

    while True:
        new = {name: of(node) for name, node in rules.items()}
        if new == known:
            return known["root"]
        known = new


@pytest.mark.slow
@settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(PIECES, PIECES, PIECES)
def test_a_grammar_of_llama_cpp_has_the_sentences_that_it_has(
    grammars: Grammars, tokenizer: Tokenizer, root: str, x: str, y: str
) -> None:
    """Also where terminals could be mistaken for one another, and where rules contain themselves."""
    text = f"root ::= {root}\nx ::= {x}\ny ::= {y}\n"
    expected = sentences(gbnf.read_gbnf(text))
    try:
        grammars.constraint(Gbnf(text))
    except ParamInvalid as error:
        assert "no text fulfils it" in str(error) and not expected
        return
    texts = [
        "".join(letters) for length in range(SHORT + 1) for letters in itertools.product('ab"', repeat=length)
    ]
    assert {said for said in texts if matches(grammars, tokenizer, Gbnf(text), said)} == expected


def test_texts_in_grammars_that_contain_themselves_are_terminals() -> None:
    """Or a mask would cost tens of milliseconds, because every character of every token is looked at by the parser."""
    lark = lark_of_gbnf(r"""root ::= "[" (root | text) "]"
        text ::= "\"" [^"]* "\"" | "null" """)
    assert r"[\x{22}-\x{22}](?:[\x{0}-\x{21}\x{23}-\x{10FFFF}]){0,}[\x{22}-\x{22}]" in lark


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("root ::= a", "line 1, column 10: there is no rule a"),
        ("a ::= [a]", "there is no rule root"),
        ('root ::= "a', "line 1, column 12: the line ends within quotes"),
        ("root ::= [z-a]", "the range ends before it begins"),
        ("root ::= []", "the class is empty"),
        ('root ::= "a"\nroot ::= "b"', "line 2, column 1: the rule root is there twice"),
        ('root ::= ("a"', r"\) is missing"),
        (r'root ::= "\q"', "an escape that is none"),
        (r'root ::= "\ud800"', "a character that is none"),
        ('root = "a"', "::= is missing"),
        ('root ::= "a"{3,2}', "the second number is below the first"),
        ('root ::= "a" ) "b"', "this is no part of a rule"),
        ("root ::= " + "(" * 100_000, "nested too deeply"),
        ("", "one character or more"),
    ],
)
def test_what_is_wrong_with_a_grammar_is_said(grammars: Grammars, text: str, says: str) -> None:
    with pytest.raises(ParamInvalid, match=f"Failed to parse grammar: .*{says}"):
        grammars.constraint(Gbnf(text))


# -- the end -------------------------------------------------------------------------------------------------


def allowed(constraint: Any) -> set[int]:
    logits = np.zeros(VOCAB, np.float32)
    constraint.restrict(logits)
    return set(np.flatnonzero(logits == 0).tolist())


def test_when_nothing_can_follow_only_the_end_can(tokenizer: Tokenizer) -> None:
    ends = (tokenizer.eos_id, 0)
    constraint = Grammars(tokenizer, VOCAB, ends, check=False).constraint(Choice(("ab",)))
    assert not allowed(constraint) & set(ends)
    for token in tokenizer.encode("ab"):
        constraint.accept(token)
    assert allowed(constraint) == set(ends)
    constraint.accept(0)
    assert allowed(constraint) == set(ends)  # a session that goes on hears nothing else
    constraint.accept(tokenizer.eos_id)


def test_what_the_rule_allows_counts_more_than_what_the_model_rules_out(grammars: Grammars) -> None:
    logits = np.full(VOCAB, -np.inf, np.float32)
    grammars.constraint(Choice(("a", "b"))).restrict(logits)
    assert np.count_nonzero(logits == 0) == 2


def test_special_tokens_are_no_text(grammars: Grammars, tokenizer: Tokenizer) -> None:
    anything = allowed(grammars.constraint(Regex("(?s:.+)")))
    assert not anything & {0, 1, 2} and max(anything) < len(tokenizer)
    assert json.loads(walk(grammars, tokenizer, JsonSchema({"const": "<|im_end|>"}))) == "<|im_end|>"


def test_blanks_come_to_an_end(grammars: Grammars, tokenizer: Tokenizer) -> None:
    constraint = grammars.constraint(JsonSchema(PERSON))
    constraint.accept(tokenizer.encode("{")[0])
    blanks = [i for i, token in enumerate(tokenizer.tokens) if token and not token.strip("ĠĊĉč")]
    for _ in range(40):
        logits = np.zeros(VOCAB, np.float32)
        logits[blanks] = 9
        constraint.restrict(logits)
        if int(logits.argmax()) not in blanks:
            return
        constraint.accept(int(logits.argmax()))
    raise AssertionError("blanks for ever")


def test_characters_of_several_tokens(grammars: Grammars, tokenizer: Tokenizer) -> None:
    text = "né 日本 😀"
    assert len(tokenizer.encode(text)) > len(text)
    assert matches(grammars, tokenizer, Regex(r"n\w \p{Han}+ [😀-😂]"), text)
    assert not matches(grammars, tokenizer, Regex(r"n\w \p{Han}+ [😁-😂]"), text)


def test_tokens_of_byte_fallback(tmp_path: Path) -> None:
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581", "\u2581a", "a"]
    path = tmp_path / "t.gguf"
    path.write_bytes(
        write_gguf(
            {
                "tokenizer.ggml.model": "llama",
                "tokenizer.ggml.tokens": tokens,
                "tokenizer.ggml.token_type": np.array([2, 3, 3, *[6] * 256, 1, 1, 1], np.int32),
                "tokenizer.ggml.eos_token_id": 2,
                "tokenizer.huggingface.json": _byte_fallback(tokens),
            }
        )
    )
    fallback = Tokenizer(path)
    constraint = Grammars(fallback, len(tokens), (2,), check=False).constraint(Regex("[ x]aé"))
    logits = np.zeros(len(tokens), np.float32)
    constraint.restrict(logits)
    assert {tokens[i] for i in np.flatnonzero(logits == 0)} == {"\u2581", "\u2581a", "<0x20>", "<0x78>"}
    for token in (260, 3 + 0xC3, 3 + 0xA9, 2):
        logits = np.zeros(len(tokens), np.float32)
        constraint.restrict(logits)
        assert logits[token] == 0, tokens[token]
        constraint.accept(token)


def _byte_fallback(tokens: list[str]) -> str:
    model = {"type": "BPE", "byte_fallback": True, "unk_token": "<unk>", "merges": [],
             "vocab": {token: number for number, token in enumerate(tokens)}}  # fmt: skip
    replace = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}
    decoder = {"type": "Sequence", "decoders": [replace, {"type": "ByteFallback"}, {"type": "Fuse"}]}
    normalizer = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    return json.dumps(
        {"version": "1.0", "model": model, "decoder": decoder, "normalizer": normalizer, "added_tokens": []}
    )


def test_a_model_without_an_end_cannot_be_bound(tokenizer: Tokenizer) -> None:
    with pytest.raises(ParamInvalid, match="no token that ends an answer"):
        Grammars(tokenizer, VOCAB, (-1,)).constraint(JsonObject())


def test_a_vocabulary_that_lacks_a_character_is_told(tokenizer: Tokenizer) -> None:
    few = Grammars(tokenizer, 10, (2,), check=False)
    with pytest.raises(ParamInvalid, match=r"no text fulfils it|no token of the vocabulary"):
        few.constraint(Regex("xyz")).restrict(np.zeros(10, np.float32))


# -- schemas -------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "name", "with blank", "ü", 'q"', "oneOf"])
EXACT = st.integers(-(2**53), 2**53)
VALUES = st.one_of(st.text(max_size=4), EXACT, st.floats(-1e6, 1e6), st.none())
LEAVES = st.one_of(
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    st.just({"type": ["string", "null"], "maxLength": 4}),
    st.builds(lambda low, more: {"type": "integer", "minimum": low, "maximum": low + more},
              st.integers(-1000, 1000), st.integers(0, 5000)),
    st.builds(lambda low, more: {"type": "number", "minimum": low, "exclusiveMaximum": low + more},
              st.integers(-10, 10), st.integers(1, 50)),
    st.builds(lambda low, more: {"type": "string", "minLength": low, "maxLength": low + more},
              st.integers(0, 3), st.integers(0, 5)),
    st.builds(lambda values: {"enum": values}, st.lists(VALUES, min_size=1, max_size=4)),
    st.builds(lambda value: {"const": value}, st.one_of(st.text(max_size=4), st.booleans())),
    st.sampled_from([{"type": "string", "pattern": pattern} for pattern in ("^[a-f]{2,4}$", "^x.{0,4}y$", "^\\d{1,3}-\\d{1,2}$")]),
    st.sampled_from([{"type": "string", "format": form} for form in ("uuid", "ipv4")]),
    st.just({"$ref": "#/$defs/leaf"}),
)  # fmt: skip


def _object(properties: dict[str, Any], required: int, closed: bool) -> dict[str, Any]:
    needed = list(properties)[:required]
    return {
        "type": "object",
        "properties": properties,
        "required": needed,
        "additionalProperties": not closed,
    }


def _union(branches: list[Any]) -> dict[str, Any]:
    """A discriminated union, as pydantic writes it."""
    tagged = [
        {
            "type": "object",
            "properties": {"kind": {"const": f"k{number}"}, "value": branch},
            "required": ["kind", "value"],
        }
        for number, branch in enumerate(branches)
    ]
    return {"oneOf": tagged, "discriminator": {"propertyName": "kind"}}


SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(_object, st.dictionaries(NAMES, inner, max_size=4), st.integers(0, 4), st.booleans()),
        st.builds(lambda items, low, more: {"type": "array", "items": items, "minItems": low, "maxItems": low + more},
                  inner, st.integers(0, 2), st.integers(0, 3)),
        st.builds(lambda items: {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)},
                  st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda branches: {"anyOf": branches}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(_union, st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=8,
)  # fmt: skip


@pytest.mark.slow
@settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much],
)
@given(SCHEMAS, st.integers(0, 1 << 30))
def test_any_schema_is_fulfilled_by_any_walk(
    grammars: Grammars, tokenizer: Tokenizer, schema: dict[str, Any], seed: int
) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    whole = {**schema, "$defs": {"leaf": {"type": "integer", "minimum": 3, "maximum": 30}}}
    said = walk(grammars, tokenizer, JsonSchema(whole), seed)
    checker = jsonschema.Draft202012Validator(whole, format_checker=jsonschema.FormatChecker())
    checker.validate(json.loads(said))


def test_one_of_overlapping_schemas_is_refused(grammars: Grammars) -> None:
    with pytest.raises(ParamInvalid, match="oneOf"):
        grammars.constraint(JsonSchema({"oneOf": [{"type": "integer"}, {"type": "number"}]}))


def test_numbers_that_the_library_would_round_are_refused(grammars: Grammars) -> None:
    for schema in (
        {"const": 2**53 + 1},
        {"properties": {"a": {"enum": [0, -(2**60)]}}},
        {"items": {"minimum": 2**53 + 1}},
    ):
        with pytest.raises(ParamInvalid, match=r"Failed to parse grammar: .*whole number"):
            grammars.constraint(JsonSchema(schema))


def test_an_unknown_keyword_is_not_passed_over(grammars: Grammars) -> None:
    for schema in ({"type": "array", "uniqueItems": True}, {"not": {"type": "null"}}):
        with pytest.raises(ParamInvalid, match=r"Failed to parse grammar: .*(uniqueItems|not)"):
            grammars.constraint(JsonSchema({**schema, "x-guidance": {"lenient": True}}))


# -- hostile rules -------------------------------------------------------------------------------------------


def nested(depth: int, before: str, inner: str, after: str) -> str:
    return before * depth + inner + after * depth


HOSTILE: dict[str, Rule] = {
    "a chain of rules": Lark("start: t0\n" + "".join(f"t{i}: t{i + 1}\n" for i in range(8000)) + 't8000: "a"'),
    "a chain of GBNF rules": Gbnf("root ::= t0\n" + "".join(f"t{i} ::= t{i + 1}\n" for i in range(8000)) + 't8000 ::= "a"'),
    "a chain of references": JsonSchema(
        {"$ref": "#/$defs/d0", "$defs": {**{f"d{i}": {"type": "object", "properties": {"a": {"$ref": f"#/$defs/d{i + 1}"}}}
                                            for i in range(2000)}, "d2000": {"type": "null"}}}),
    "a number": JsonSchema({"type": "integer", "multipleOf": 9000011}),
    "parentheses": Lark("start: " + nested(50_000, "(", '"a"', ")")),
    "groups": Regex(nested(50_000, "(", "a", ")")),
    "doubling": Lark("start: T0\n" + "".join(f"T{i}: T{i + 1} T{i + 1}\n" for i in range(60)) + 'T60: "a"'),
    "references to itself": JsonSchema({"$ref": "#"}),
    "references in a ring": JsonSchema({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
    "an address": JsonSchema({"$ref": "http://127.0.0.1:9/schema.json"}),
    "a file": JsonSchema({"$ref": "file:///etc/passwd"}),
    "choices without end": JsonSchema(
        {"allOf": [{"anyOf": [{"required": [f"a{i}"]}, {"required": [f"b{i}"]}]} for i in range(24)]}),
    "text without end": Regex("a" * (1 << 19)),
    "half a character": Lark('start: "\ud800"'),
    "no number": JsonSchema({"type": "number", "minimum": float("nan")}),
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n == "a number" else n for n in HOSTILE]
)
def test_hostile_rules_are_errors_within_bounds(strict: Grammars, name: str) -> None:
    """Each would take the program down or minutes; here it is an error, and the next rule works."""
    said: list[Any] = []

    def run() -> None:
        try:
            said.append(strict.constraint(HOSTILE[name]))
        except Exception as error:
            said.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    assert said, "no answer within a minute"
    assert isinstance(said[0], ParamInvalid) and str(said[0]).startswith("Failed to parse grammar: ")
    assert len(str(said[0])) < 500
    strict.constraint(Choice(("fine",)))


def test_a_schema_deeper_than_python_goes(strict: Grammars) -> None:
    schema: dict[str, Any] = {}
    for _ in range(100_000):
        schema = {"items": schema}
    with pytest.raises(ParamInvalid, match="Failed to parse grammar"):
        strict.constraint(JsonSchema(schema))
    while schema:  # not by recursion
        schema = schema.pop("items")


@pytest.mark.parametrize(
    "pattern", ["(a+)+b", "(a*)*(a|a)*b", "((a{1,1000}){1,1000}){1,1000}", "(a|b)*a(a|b){40}", "a{1,100000}"]
)
def test_hostile_expressions_stay_within_their_steps(
    strict: Grammars, tokenizer: Tokenizer, pattern: str
) -> None:
    """Automata know no backtracking; what grows too large ends with an error, never in silence."""
    constraint = strict.constraint(Regex(pattern))
    (a,) = tokenizer.encode("a")
    try:
        for _ in range(100):
            logits = np.zeros(VOCAB, np.float32)
            constraint.restrict(logits)
            assert logits[a] == 0
            constraint.accept(a)
    except ParamInvalid as error:
        assert "came to an end after" in str(error)


def test_known_rules_do_not_wait_for_a_costly_one(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    grammars = Grammars(tokenizer, VOCAB, (tokenizer.eos_id,))
    begun, go_on, checked = threading.Event(), threading.Event(), []

    def check(grammar: str) -> None:
        checked.append(grammar)
        if len(checked) > 1:
            begun.set()
            go_on.wait(30)

    monkeypatch.setattr(grammars, "_check", check)
    grammars.constraint(Choice(("known",)))
    costly = threading.Thread(target=grammars.constraint, args=(Choice(("new",)),))
    costly.start()
    assert begun.wait(30)
    grammars.constraint(Choice(("known",)))  # would wait for ever
    assert costly.is_alive()
    go_on.set()
    costly.join()
    assert len(checked) == 2


def test_compiled_rules_are_kept_and_not_too_many(tokenizer: Tokenizer) -> None:
    grammars, made = Grammars(tokenizer, VOCAB, (tokenizer.eos_id,), check=False), []
    before = grammars._made
    grammars._made = lambda grammar: made.append(grammar) or before(grammar)  # type: ignore[method-assign]
    for number in range(40):
        grammars.constraint(Choice((f"c{number}",)))
    grammars.constraint(Choice(("c39",)))
    assert len(made) == 40
    grammars.constraint(Choice(("c0",)))
    assert len(made) == 41 and len(grammars._compiled) == 32


def test_answers_of_one_rule_do_not_know_each_other(grammars: Grammars, tokenizer: Tokenizer) -> None:
    one, other = (grammars.constraint(Choice(("ab", "cd"))) for _ in range(2))
    one.accept(tokenizer.encode("a")[0])
    assert len(allowed(one)) < len(allowed(other))


def test_the_server_follows_rules() -> None:
    pytest.importorskip("starlette")
    from rknnlite_server.served_model import ServedModel
    from rknnlite_server.settings import ModelSettings, ServerSettings
    from rknnlite_server.tool_choice import Tools

    model = ServedModel(ModelSettings(model=f"{EXAMPLE}.rknn", backend="cpu"), ServerSettings())
    try:
        assert model.constraint(None, Tools()) is None
        make = model.constraint(Choice(("ab",)), Tools())
        assert make is not None and make() is not make()
        with pytest.raises(ParamInvalid, match="Failed to parse grammar"):
            model.constraint(HOSTILE["a chain of rules"], Tools())
    finally:
        model.close()


# -- conversations -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chat() -> Iterator[Chat]:
    drawing = SamplingParams(top_k=0, temperature=1.5, seed=4)
    with Chat(EXAMPLE, LlmParams(sampling=drawing), backend="cpu") as opened:
        yield opened


QUESTIONS = (
    "What is 12 + 30?",
    "Which month comes after May?",
    "Hello",
    "日本",
    "What is the weather in Sydney?",
)


@pytest.mark.parametrize("question", slow_unless(lambda question: question in QUESTIONS[1:4:2], QUESTIONS))
def test_answers_of_the_example_fulfil_their_rules(chat: Chat, question: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    talk = [{"role": "user", "content": question}]
    for _ in range(4):
        jsonschema.validate(json.loads(chat.ask(talk, 400, JsonSchema(PERSON))), PERSON)
        assert re.fullmatch(r"\d{1,3}(, \d+){2}", chat.ask(talk, 60, Regex(r"\d{1,3}(, \d{1,4}){2}")))
        assert "".join(chat.stream(talk, 60, Choice(("yes", "no")))) in {"yes", "no"}
    assert chat.last is not None and chat.last.state.name == "FINISH"


def test_a_rule_holds_for_one_answer(chat: Chat) -> None:
    before = chat.session.callbacks
    assert chat.ask("Hello", 20, Choice(("no",))) == "no"
    assert chat.session.callbacks is before
    stream = chat.stream("Hello", 20, Regex("[a-z]+"))
    next(stream)
    stream.close()
    assert chat.session.callbacks is before
    with pytest.raises(ParamInvalid, match="Failed to parse grammar"):
        chat.ask("Hello", rule=Regex("("))
    assert chat.session.callbacks is before


def test_a_stream_for_async_is_bound_too(chat: Chat) -> None:
    import asyncio

    async def said() -> str:
        return "".join([piece async for piece in chat.astream("Hello", 20, Choice(("yes", "no")))])

    assert asyncio.run(said()) in {"yes", "no"}


def test_a_penalty_counts_the_conversation() -> None:
    with Chat(EXAMPLE, LlmParams(sampling=SamplingParams(repeat_penalty=1.3)), backend="cpu") as chat:
        with pytest.raises(ParamInvalid, match="list of messages"):
            chat.ask("Hello", 5, Regex("[a-z]+"))
        talk = [{"role": "user", "content": "Hello"}]
        free = chat.ask(talk, 12)
        assert chat.ask(talk, 12, Regex("(?s:.*)")) == free  # the same sampling, on the host


@pytest.mark.slow
def test_the_library_is_named_when_it_is_missing(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(BackendUnavailable, match=r"\(extra constraints;.*Debian 12 has no llguidance"):
        Grammars(tokenizer, VOCAB, (2,)).constraint(JsonObject())
