"""Libraries that bind answers to a schema, beside each other: those that are installed, in one run.

    python benchmarks/constraints.py [--tokens 151936] [--steps 200] [--hostile]

xgrammar wants torch and transformers. The vocabulary is made here: single bytes, then words of all lengths, half of them with a
blank before; seeds are fixed. Each library compiles three rules, and a random walk goes through them: the same for all as far as
their masks agree. ``ms/token`` is the mask and taking the token, without the model. What is said at the end of a walk is read
as JSON and checked by the package jsonschema, where that is installed. ``--hostile`` tries rules of strangers, each in a process of
its own with 40 s and 8 GB.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import re
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

import numpy as np

SECONDS, ROOM = 40, 8 << 30
RULES: dict[str, Any] = {
    "flat": {
        "type": "object",
        "properties": {
            "name": {"type": "string"}, "age": {"type": "integer"}, "city": {"enum": ["Berlin", "Bern", "Wien"]},
        },
        "required": ["name", "age", "city"], "additionalProperties": False,
    },
    "nested": {
        "type": "object",
        "properties": {
            "id": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{4}$"},
            "items": {"type": "array", "minItems": 1, "maxItems": 3, "items": {
                "type": "object",
                "properties": {"text": {"type": "string", "maxLength": 20}, "n": {"type": "integer", "minimum": 0, "maximum": 99}},
                "required": ["text", "n"], "additionalProperties": False,
            }},
        },
        "required": ["id", "items"], "additionalProperties": False,
    },
    "tree": {
        "$ref": "#/$defs/node",
        "$defs": {"node": {
            "type": "object",
            "properties": {"v": {"type": "boolean"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
            "required": ["v", "kids"], "additionalProperties": False,
        }},
    },
}  # fmt: skip


def _nested(depth: int, before: str, inner: str, after: str) -> str:
    return before * depth + inner + after * depth


HOSTILE: dict[str, str] = {
    "arrays 50,000 deep": _nested(50_000, '{"type":"array","items":', "{}", "}"),
    "2,000 references in a row": json.dumps({"$ref": "#/$defs/d0", "$defs": {
        **{f"d{i}": {"type": "object", "properties": {"a": {"$ref": f"#/$defs/d{i + 1}"}}} for i in range(2000)}, "d2000": {"type": "null"}}}),
    "a reference to itself": '{"$ref":"#"}',
    "a reference to the network": '{"$ref":"http://127.0.0.1:9/x.json"}',
    "minLength 100,000": '{"type":"string","minLength":100000}',
    "maxItems 1e9": '{"type":"array","items":{"type":"object","properties":{"a":{"type":"string"}}},"minItems":1,"maxItems":1000000000}',
    "(a{1,1000}){1,1000}": '{"type":"string","pattern":"^(a{1,1000}){1,1000}$"}',
    "(a|b)*a(a|b){20}": '{"type":"string","pattern":"^(a|b)*a(a|b){20}$"}',
    "multipleOf 9,000,011": '{"type":"integer","multipleOf":9000011}',
    "oneOf that overlap": '{"oneOf":[{"type":"integer"},{"type":"number"}]}',
    "uniqueItems": '{"type":"array","items":{"type":"integer"},"uniqueItems":true}',
}  # fmt: skip


def vocabulary(size: int) -> tuple[list[bytes], int]:
    """Tokens and the id of the end."""
    rng = np.random.default_rng(0)
    tokens = [bytes([byte]) for byte in range(256)]
    seen = set(tokens)
    letters = np.array(list("eeeeetttaaoooiinnsshhrrdlucmfwypvbgkjqxz"))
    marks = [
        '"',
        '":',
        '", "',
        '": "',
        "{",
        '{"',
        "}",
        "},",
        "[",
        "]",
        "],",
        ", ",
        "  ",
        "\n",
        "true",
        "false",
        "null",
        "00",
        "é",
        "日本",
        "😀",
    ]
    for mark in marks:
        seen.add(mark.encode())
    tokens += [mark.encode() for mark in marks if mark.encode() not in tokens]
    while len(tokens) < size - 1:
        for length in rng.integers(2, 10, 10_000):
            word = "".join(rng.choice(letters, length))
            word = word.capitalize() if rng.random() < 0.2 else word
            token = (" " + word if rng.random() < 0.5 else word).encode()
            if token not in seen and len(tokens) < size - 1:
                seen.add(token)
                tokens.append(token)
    return [*tokens, b"<end>"], size - 1


class LlGuidance:
    """With the settings of ``rknnlite_llm.grammars``."""

    package = "llguidance"

    def __init__(self, tokens: list[bytes], end: int) -> None:
        from rknnlite_llm import with_llguidance

        self._lib = with_llguidance
        self._view = with_llguidance.tokenizer(tokens, (), end, list)
        self._size = len(tokens)

    def compile(self, schema: str) -> Any:
        from rknnlite_llm.constraints import JsonSchema

        return self._lib.matcher(self._view, self._lib.grammar_of(JsonSchema(json.loads(schema))))

    def begin(self, compiled: Any) -> Any:
        return compiled.deep_copy()

    def mask(self, state: Any) -> np.ndarray:
        bits = np.unpackbits(
            np.frombuffer(state.compute_bitmask(), np.uint8), count=self._size, bitorder="little"
        )
        if state.is_error():
            raise ValueError(state.get_error()[:80])
        return bits

    def take(self, state: Any, token: int) -> None:
        state.consume_token(token)


class XGrammar:
    """As its documents show it."""

    package = "xgrammar"

    def __init__(self, tokens: list[bytes], end: int) -> None:
        import xgrammar

        self._lib, self._size = xgrammar, len(tokens)
        info = xgrammar.TokenizerInfo(
            list(tokens), xgrammar.VocabType.RAW, vocab_size=len(tokens), stop_token_ids=[end]
        )
        self._compiler = xgrammar.GrammarCompiler(info, cache_enabled=False)
        self._bits = xgrammar.allocate_token_bitmask(1, len(tokens))

    def compile(self, schema: str) -> Any:
        return self._compiler.compile_json_schema(schema, max_whitespace_cnt=2)

    def begin(self, compiled: Any) -> Any:
        return self._lib.GrammarMatcher(compiled)

    def mask(self, state: Any) -> np.ndarray:
        state.fill_next_token_bitmask(self._bits)
        return np.unpackbits(self._bits.numpy()[0].view(np.uint8), count=self._size, bitorder="little")

    def take(self, state: Any, token: int) -> None:
        state.accept_token(token)


class OutlinesCore:
    """A schema becomes a regular expression, that an index of all tokens."""

    package = "outlines-core"

    def __init__(self, tokens: list[bytes], end: int) -> None:
        import outlines_core

        self._lib, self._size = outlines_core, len(tokens)
        ids: dict[bytes, list[int]] = {
            token: [number] for number, token in enumerate(tokens) if number != end
        }
        self._vocabulary = outlines_core.Vocabulary(end, ids)

    def compile(self, schema: str) -> Any:
        from outlines_core.json_schema import build_regex_from_schema

        return self._lib.Index(build_regex_from_schema(schema), self._vocabulary)

    def begin(self, compiled: Any) -> Any:
        return self._lib.Guide(compiled)

    def mask(self, state: Any) -> np.ndarray:
        bits = np.zeros(self._size, np.uint8)
        bits[state.get_tokens()] = 1
        return bits

    def take(self, state: Any, token: int) -> None:
        state.advance(token, return_tokens=False)


class LmFormatEnforcer:
    """Python; tokens are texts, so half characters have no name here."""

    package = "lm-format-enforcer"

    def __init__(self, tokens: list[bytes], end: int) -> None:
        import lmformatenforcer

        self._lib, self._size = lmformatenforcer, len(tokens)
        texts = [token.decode("utf-8", "replace") for token in tokens]
        regular = [
            (i, text, text.startswith(" "))
            for i, text in enumerate(texts)
            if i != end and "\ufffd" not in text
        ]
        self._data = lmformatenforcer.TokenEnforcerTokenizerData(
            regular, lambda ids: "".join(texts[i] for i in ids), end, False, len(tokens)
        )

    def compile(self, schema: str) -> Any:
        parsed = json.loads(schema)
        self._lib.JsonSchemaParser(parsed)
        return parsed

    def begin(self, compiled: Any) -> Any:
        return self._lib.TokenEnforcer(self._data, self._lib.JsonSchemaParser(compiled)), []

    def mask(self, state: Any) -> np.ndarray:
        enforcer, ids = state
        bits = np.zeros(self._size, np.uint8)
        bits[enforcer.get_allowed_tokens(ids).allowed_tokens] = 1
        return bits

    def take(self, state: Any, token: int) -> None:
        state[1].append(token)


ENGINES = (LlGuidance, XGrammar, OutlinesCore, LmFormatEnforcer)


def walk(
    engine: Any, compiled: Any, tokens: list[bytes], end: int, steps: int, seed: int
) -> tuple[list[float], str | None]:
    """Seconds per token, and what was said; None without an end."""
    rng, state, said, times = np.random.default_rng(seed), engine.begin(compiled), [], []
    ends = [end, *(tokens.index(mark) for mark in (b'"', b"}", b"]", b"0", b"},", b"],"))]
    for step in range(steps):
        begun = time.perf_counter()
        bits = engine.mask(state)
        masked = time.perf_counter()
        wish = rng.normal(0, 3, len(tokens)).astype(np.float32)
        wish[ends] += 0.5 * step
        allowed = np.flatnonzero(bits)
        if not len(allowed):
            raise ValueError(f"no token is allowed after {b''.join(said)[-40:]!r}")
        token = int(allowed[wish[allowed].argmax()])
        if token == end:
            return times, b"".join(said).decode("utf-8", "replace")
        taken = time.perf_counter()
        engine.take(state, token)
        times.append(masked - begun + time.perf_counter() - taken)
        said.append(tokens[token])
    return times, None


def valid(said: str | None, schema: Any) -> bool | None:
    """Whether an answer is what it must be; None without an end."""
    if said is None:
        return None
    try:
        value = json.loads(said)
    except ValueError:
        return False
    if importlib.util.find_spec("jsonschema") is None:
        return True
    import jsonschema

    return bool(jsonschema.Draft202012Validator(schema).is_valid(value))


def compare(engine_class: Any, tokens: list[bytes], end: int, steps: int, walks: int) -> None:
    begun = time.perf_counter()
    engine = engine_class(tokens, end)
    print(
        f"{engine_class.package} {importlib.metadata.version(engine_class.package)}: vocabulary {time.perf_counter() - begun:.2f} s"
    )
    for name, schema in RULES.items():
        begun = time.perf_counter()
        try:
            compiled = engine.compile(json.dumps(schema))
            engine.mask(engine.begin(compiled))
        except Exception as error:
            print(f"  {name}: {type(error).__name__}: {' '.join(str(error).split())[:100]}")
            continue
        compiling = time.perf_counter() - begun
        times, verdicts = [], []
        for seed in range(walks):
            try:
                found, said = walk(engine, compiled, tokens, end, steps, seed)
            except Exception as error:
                print(f"  {name}: walk {seed}: {' '.join(str(error).split())[:100]}")
                verdicts.append(False)
                continue
            times += found
            verdicts.append(valid(said, schema))
        if times:
            ms = np.array(times) * 1e3
            print(
                f"  {name}: compiled in {compiling * 1e3:.1f} ms; ms/token median {statistics.median(ms):.3f}, "
                f"99 % {np.percentile(ms, 99):.3f}, worst {ms.max():.3f}; valid {sum(v is True for v in verdicts)}, "
                f"invalid {sum(v is False for v in verdicts)}, without end {sum(v is None for v in verdicts)}"
            )


def hostile(engine_class: Any, name: str) -> None:
    """One rule of a stranger, in this process."""
    tokens, end = vocabulary(2000)
    engine = engine_class(tokens, end)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.perf_counter()
    worst = 0.0
    try:
        state = engine.begin(engine.compile(HOSTILE[name]))
        for _ in range(30):
            step = time.perf_counter()
            allowed = np.flatnonzero(engine.mask(state))
            worst = max(worst, time.perf_counter() - step)
            if not len(allowed):
                raise ValueError("no token is allowed")
            if allowed[0] == end:
                break
            engine.take(state, int(allowed[0]))
        verdict = f"taken, worst step {worst * 1e3:.1f} ms"
    except BaseException as error:
        verdict = re.sub(r"\s+", " ", f"refused: {type(error).__name__}: {error}")[:110]
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"{time.perf_counter() - begun:.2f} s, {grown:.0f} MB, {verdict}")


def hostile_apart(engine_class: Any, name: str) -> str:
    command = ["sh", "-c", f'ulimit -v {ROOM // 1024} && exec "$@"', "sh"]
    command += [sys.executable, __file__, "--one", engine_class.package, name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"not done after {SECONDS} s"
    return done.stdout.strip() or f"the process died: {-done.returncode}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=151936)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--walks", type=int, default=10)
    parser.add_argument("--hostile", action="store_true")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    there = [
        engine
        for engine in ENGINES
        if importlib.util.find_spec(engine.package.replace("-", "_").replace("lm_format_", "lmformat"))
    ]
    if args.one:
        hostile(next(engine for engine in there if engine.package == args.one[0]), args.one[1])
    elif args.hostile:
        for name in HOSTILE:
            print(name)
            for engine in there:
                print(f"  {engine.package}: {hostile_apart(engine, name)}", flush=True)
    else:
        tokens, end = vocabulary(args.tokens)
        for engine in there:
            compare(engine, tokens, end, args.steps, args.walks)


if __name__ == "__main__":
    main()
