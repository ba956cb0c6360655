"""Rules by ``llguidance`` (extra ``constraints``), the grammar library: rules in its language, tokens in its form, its limits."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

from rknnlite.errors import ParamInvalid
from rknnlite.extras import missing

from .constraints import Choice, Gbnf, JsonObject, JsonSchema, Regex, Rule
from .gbnf_lark import lark_of_gbnf
from .schemas import schema_text

__all__ = ["grammar_of", "library", "limits", "matcher", "reason", "tokenizer"]

_LONGEST = 1 << 18
"""Characters of a rule."""
_STRICT = {"lenient": False, "coerce_one_of": False}  # keywords that the library does not know are errors
_BLANKS = {
    "whitespace_flexible": True,
    "whitespace_pattern": r" |\n{1,2}[ \t]{0,20}",
    "item_separator": ",",
    "key_separator": ":",
    **_STRICT,
}
"""How JSON is written, with a few blanks between its parts and never blanks for ever; a schema cannot say otherwise."""
_FEWER_BLANKS = {"whitespace_flexible": False, "item_separator": ", ?", "key_separator": ": ?", **_STRICT}
"""The same for versions (1.3, for Python 3.9) where what the pattern matches may come again and again."""
_SPECIAL = re.compile(r"([^A-Za-z0-9 _])")


def library() -> Any:
    """The module; raises BackendUnavailable without the extra."""
    try:
        import llguidance
    except ImportError as error:
        raise missing("constraints", "answers bound to a schema or a grammar", error) from None
    return llguidance


def limits() -> Any:
    """What a grammar may use up: steps of its automata, states (1 to 2 kB each), symbols."""
    return library().LLParserLimits(max_lexer_states=50_000, verbose_errors=False)


@functools.lru_cache(maxsize=1)
def _layout() -> dict[str, Any]:
    """How this version of the library writes JSON with a bounded number of blanks."""
    bytewise = tokenizer([bytes([byte]) for byte in range(256)] + [b""], (), 256, list)
    two = b'{"":  0}'
    found = matcher(
        bytewise, library().LLMatcher.grammar_from_json_schema('{"type":"object"}', overrides=_BLANKS)
    )
    return _FEWER_BLANKS if found.try_consume_tokens(list(two)) == len(two) else _BLANKS


def grammar_of(rule: Rule) -> str:
    """The rule in the library's language; raises ParamInvalid."""
    matchers = library().LLMatcher
    try:
        if isinstance(rule, JsonObject):
            grammar = matchers.grammar_from_json_schema('{"type":"object"}', overrides=_layout())
        elif isinstance(rule, JsonSchema):
            text = _checked(schema_text(rule.schema))
            grammar = matchers.grammar_from_json_schema(text, overrides=_layout())
        elif isinstance(rule, Regex):
            pattern = library().regex_to_lark(_checked(rule.pattern), "d")  # digits are 0 to 9
            grammar = matchers.grammar_from_lark(f"start: /{pattern}/")
        elif isinstance(rule, Choice):
            grammar = matchers.grammar_from_regex(_checked(_any_of(rule.texts)))
        else:
            text = lark_of_gbnf(_checked(rule.text)) if isinstance(rule, Gbnf) else _checked(rule.text)
            grammar = matchers.grammar_from_lark(text)
    except ValueError as error:  # the library's word for text that it cannot read at all
        raise ParamInvalid(reason(str(error))) from None
    return str(grammar)


def _checked(text: Any) -> str:
    if not isinstance(text, str) or not text:
        raise ParamInvalid("a rule is text of one character or more")
    if len(text) > _LONGEST:
        raise ParamInvalid(f"{len(text)} characters; {_LONGEST} are allowed")
    return text


def _any_of(texts: Sequence[str]) -> str:
    if not texts or not all(isinstance(text, str) and text for text in texts):
        raise ParamInvalid("choices are texts of one character or more")
    return "|".join(_SPECIAL.sub(lambda match: f"\\x{{{ord(match[1]):X}}}", text) for text in texts)


def tokenizer(
    tokens: Sequence[bytes], special: Sequence[int], eos: int, encode: Callable[[bytes], list[int]]
) -> Any:
    """The library's view of a vocabulary; empty tokens are never chosen. It takes a second per 150,000 tokens."""
    found = library()
    return found.LLTokenizer(found.TokenizerWrapper(_Vocabulary(tokens, special, eos, encode)))


class _Vocabulary:
    """What ``TokenizerWrapper`` wants to be given."""

    def __init__(
        self,
        tokens: Sequence[bytes],
        special: Sequence[int],
        eos: int,
        encode: Callable[[bytes], list[int]],
    ) -> None:
        self.tokens, self.special_token_ids = list(tokens), sorted({*special, eos})
        self.eos_token_id, self.bos_token_id = eos, None
        self._encode = encode

    def __call__(self, text: bytes) -> list[int]:
        return self._encode(text)


def matcher(view: Any, grammar: str) -> Any:
    """A compiled grammar at its beginning; raises ParamInvalid when it has no sentence or is too large."""
    made = library().LLMatcher(view, grammar, log_level=0, limits=limits())
    if not made.is_error():
        made.compute_bitmask()
    if made.is_error():
        said = made.get_error()
        raise ParamInvalid("no text fulfils it" if said.startswith("NoExtension") else reason(said))
    return made


def reason(text: str) -> str:
    """The library's message as one short line."""
    line = " ".join(text.partition("<backtrace>")[0].partition("<state>")[0].split())
    return line if len(line) <= 300 else f"{line[:300]}..."
