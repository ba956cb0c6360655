"""Which parts of a GBNF grammar may become one terminal of the grammar library without changing the language.

The library takes the longest terminal that fits. That is right exactly when no terminal is the beginning of another one, or of a
longer text of itself: ``prefix_free`` decides it for expressions, with a finite automaton.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Optional

from .gbnf import Alternatives, Characters, Node, Reference, Repeated, Sequence, joined

__all__ = ["Expressions", "TooLarge"]

_MOST_STATES, _MOST_COUNT = 400, 200
_MOST_WORK = 2_000_000
_MOST_TEXT = 50_000
Ranges = tuple[tuple[int, int], ...]


class TooLarge(Exception):
    """Not worth the time."""


class Expressions:
    """The rules of a grammar seen as regular expressions, as far as they do not contain themselves."""

    def __init__(self, rules: Mapping[str, Node]) -> None:
        self._rules = rules
        self._texts: dict[str, Optional[str]] = {}
        self._known: dict[frozenset[str], bool] = {}
        self._first: dict[str, Ranges] = {}
        self._work = 0

    def text(self, node: Node) -> Optional[str]:
        """The regular expression; None for what contains itself or would be very long."""
        try:
            found = self._text(node)
        except TooLarge:
            return None
        return found if len(found) <= _MOST_TEXT else None

    def _text(self, node: Node) -> str:
        if isinstance(node, Characters):
            return "[" + "".join(f"\\x{{{a:X}}}-\\x{{{b:X}}}" for a, b in node.ranges) + "]"
        if isinstance(node, Sequence):
            return _limited("".join(map(self._text, node.items)))
        if isinstance(node, Alternatives):
            return _limited(f"(?:{'|'.join(map(self._text, node.options))})")
        if isinstance(node, Repeated):
            most = "" if node.most is None else node.most
            return _limited(f"(?:{self._text(node.item)}){{{node.least},{most}}}")
        if node.name not in self._texts:
            self._texts[node.name] = None  # so it is while we are in it
            self._texts[node.name] = self._text(self._rules[node.name])
        found = self._texts[node.name]
        if found is None:
            raise TooLarge
        return found

    def prefix_free(self, nodes: Mapping[str, Node]) -> bool:
        """Whether no text of these expressions is the beginning of another; False also for what is not worth the time.

        ``nodes`` by their text. What accepts the empty text is not.
        """
        if len(nodes) > 1 and self._begin_apart(nodes):
            return all(self.prefix_free({text: node}) for text, node in nodes.items())
        key = frozenset(nodes)
        if key not in self._known:
            try:
                self._known[key] = self._decide(nodes.values())
            except TooLarge:
                self._known[key] = False
        return self._known[key]

    def _begin_apart(self, nodes: Mapping[str, Node]) -> bool:
        """Whether no two begin with the same character."""
        ranges: list[tuple[int, int]] = []
        for text, node in nodes.items():
            if text not in self._first:
                try:
                    self._first[text] = _first(self._rules, node)
                except TooLarge:
                    return False
            ranges += self._first[text]
        ranges.sort()
        return all(before[1] < after[0] for before, after in zip(ranges, ranges[1:]))

    def _decide(self, nodes: Iterable[Node]) -> bool:
        machine = _Machine(self._rules)
        begin, end = machine.state(), machine.state()
        for node in nodes:
            machine.add(node, begin, end)
        bounds = sorted(
            {first for ranges, _ in machine.steps() for first, _ in ranges}
            | {last + 1 for ranges, _ in machine.steps() for _, last in ranges}
        )
        left = [machine.closed({begin})]
        seen = set(left)
        if end in left[0]:
            return False
        while left:
            states = left.pop()
            leaving = [step for state in states for step in machine.characters[state]]
            if end in states and leaving:
                return False
            self._work += len(states) + len(bounds) * len(leaving)
            if self._work > _MOST_WORK or len(seen) > _MOST_STATES:
                raise TooLarge
            for code in bounds:
                reached = {to for ranges, to in leaving if any(a <= code <= b for a, b in ranges)}
                if reached:
                    new = machine.closed(reached)
                    if new not in seen:
                        seen.add(new)
                        left.append(new)
        return True


class _Machine:
    """A finite automaton: each state's steps with a character and without."""

    def __init__(self, rules: Mapping[str, Node]) -> None:
        self._rules = rules
        self.characters: list[list[tuple[Ranges, int]]] = []
        self._free: list[list[int]] = []

    def state(self) -> int:
        if len(self._free) >= _MOST_STATES:
            raise TooLarge
        self.characters.append([])
        self._free.append([])
        return len(self._free) - 1

    def add(self, node: Node, begin: int, end: int) -> None:
        """A way from one state to another; TooLarge ends what contains itself."""
        if isinstance(node, Characters):
            self.characters[begin].append((node.ranges, end))
        elif isinstance(node, Reference):
            self.add(self._rules[node.name], begin, end)
        elif isinstance(node, Alternatives):
            for option in node.options:
                self.add(option, begin, end)
        elif isinstance(node, Sequence):
            for item in node.items:
                begin = self._after(item, begin)
            self._free[begin].append(end)
        else:
            self._repeat(node, begin, end)

    def _repeat(self, node: Repeated, begin: int, end: int) -> None:
        if node.least > _MOST_COUNT or (node.most or 0) > _MOST_COUNT:
            raise TooLarge
        for _ in range(node.least):
            begin = self._after(node.item, begin)
        if node.most is None:
            again = self.state()
            self._free[begin].append(again)
            self._free[self._after(node.item, again)].append(again)
            begin = again
        for _ in range(node.least, node.most or 0):
            self._free[begin].append(end)
            begin = self._after(node.item, begin)
        self._free[begin].append(end)

    def _after(self, node: Node, begin: int) -> int:
        """A state of its own where the way begins, so that nothing else leads back there, and one where it ends."""
        entry, end = self.state(), self.state()
        self._free[begin].append(entry)
        self.add(node, entry, end)
        return end

    def steps(self) -> Iterable[tuple[Ranges, int]]:
        return (step for steps in self.characters for step in steps)

    def closed(self, states: set[int]) -> frozenset[int]:
        """With all that is reached without a character."""
        left, seen = list(states), set(states)
        while left:
            for state in self._free[left.pop()]:
                if state not in seen:
                    seen.add(state)
                    left.append(state)
        return frozenset(seen)


def _first(rules: Mapping[str, Node], node: Node) -> Ranges:
    """The characters that it begins with."""
    machine = _Machine(rules)
    begin, end = machine.state(), machine.state()
    machine.add(node, begin, end)
    steps = (step for state in machine.closed({begin}) for step in machine.characters[state])
    return joined(pair for ranges, _ in steps for pair in ranges)


def _limited(text: str) -> str:
    if len(text) > _MOST_TEXT:
        raise TooLarge
    return text
