"""GBNF grammars translated to those of the grammar library (Lark), exactly.

Terminals of the library are greedy: one for ``[a-z]*`` would leave nothing for the "z" behind it. So every character is
a terminal of its own, which is exact and slow where much may come; a grammar that does not contain itself is one regular
expression, which is exact and fast; of others those parts become terminals that cannot be mistaken (``gbnf_terminals``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Optional

from rknnlite.errors import ParamInvalid

from .gbnf import Alternatives, Characters, Node, Reference, Repeated, Sequence, read_gbnf
from .gbnf_terminals import Expressions

__all__ = ["lark_of_gbnf"]

_LONGEST = 8
"""Items of a sequence that are tried as one terminal."""
_MOST_WORDS, _ROUNDS = 60, 30


def lark_of_gbnf(text: str) -> str:
    """The same grammar for Lark. Raises ParamInvalid with line and column."""
    try:
        rules = read_gbnf(text)
        expressions = Expressions(rules)
        whole = expressions.text(rules["root"])
        return f"start: /{whole}/" if whole else _with_words(rules, expressions)
    except RecursionError:
        raise ParamInvalid("the grammar is nested too deeply") from None


def _with_words(rules: Mapping[str, Node], expressions: Expressions) -> str:
    """Words that can be mistaken are taken apart until there are none; in the end all of them."""
    banned: set[str] = set()
    for _ in range(_ROUNDS):
        writer = _Writer(rules, expressions, banned)
        text = writer.grammar()
        mistaken = writer.mistaken()
        if not mistaken:
            return text
        banned |= mistaken
    return _Writer(rules, None, banned).grammar()


class _Writer:
    """Writes the rules once. ``_words``: terminals by their expression."""

    def __init__(
        self, rules: Mapping[str, Node], expressions: Optional[Expressions], banned: set[str]
    ) -> None:
        self._rules, self._expressions, self._banned = rules, expressions, banned
        self._names = {name: f"r{number}" for number, name in enumerate(rules)}
        self._words: dict[str, Node] = {}
        self._long: set[str] = set()

    def grammar(self) -> str:
        lines = [f"{self._names[name]}: {self._write(node)}" for name, node in self._rules.items()]
        return "\n".join([f"start: {self._names['root']}", *lines])

    def mistaken(self) -> set[str]:
        """Long terminals that are the beginning of another one, or the other way round; of two the longer one."""
        if self._expressions is None or len(self._long) > _MOST_WORDS:
            return set(self._long)
        found: set[str] = set()
        for one in self._long:
            for other in self._words.keys() - {one}:
                pair = {one: self._words[one], other: self._words[other]}
                if not self._expressions.prefix_free(pair) and (
                    other not in self._long or len(one) >= len(other)
                ):
                    found.add(one)
        return found

    def _write(self, node: Node) -> str:
        word = self._word(node)
        if word is not None:
            return word
        if isinstance(node, Reference):
            return self._names[node.name]
        if isinstance(node, Alternatives):
            return f"({' | '.join(map(self._write, node.options))})"
        if isinstance(node, Repeated):
            most = "" if node.most is None else node.most
            return f"({self._write(node.item)}){{{node.least},{most}}}"
        assert isinstance(node, Sequence)
        return f"({' '.join(self._parts(node.items))})" if node.items else '""'

    def _parts(self, items: tuple[Node, ...]) -> list[str]:
        """A sequence, of which as much as possible is one terminal."""
        if all(isinstance(item, Characters) for item in items):  # a literal: all of it or nothing
            return [self._write(item) for item in items]
        parts, at = [], 0
        while at < len(items):
            sizes = range(min(_LONGEST, len(items) - at), 1, -1)
            words = ((size, self._word(Sequence(items[at : at + size]))) for size in sizes)
            size, word = next(((size, word) for size, word in words if word is not None), (1, None))
            parts.append(word or self._write(items[at]))
            at += size
        return parts

    def _word(self, node: Node) -> Optional[str]:
        """The node as a terminal; None where that could change the language."""
        if isinstance(node, Characters):
            text: Optional[str] = Expressions({}).text(node)
        elif self._expressions is None:
            return None
        else:
            text = self._expressions.text(node)
            if text is None or text in self._banned or not self._expressions.prefix_free({text: node}):
                return None
            self._long.add(text)
        assert text is not None
        self._words[text] = node
        return f"/{text}/"
