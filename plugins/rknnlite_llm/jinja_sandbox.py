"""Jinja for templates that nobody has checked: no access to the program, and a ``Budget`` for all they do.

jinja2's sandbox keeps a template from the program's objects, not from its time and memory. Here the generated code
asks the budget at every loop turn, call, filter and piece of text, and whatever can make a large value of small ones
(products, joined text, padding, containers in containers) is judged before it is computed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import Any

from jinja2 import nodes, pass_environment
from jinja2.compiler import CodeGenerator
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from rknnlite.errors import ParamInvalid

from .template_budget import Budget, TemplateLimits

__all__ = ["BoundedEnvironment"]

_WIDEST = 1 << 20
"""Largest number that a filter or method takes for a width, a count or a precision."""
_DIGITS = 512
_DEEPEST_INDENT = 64
_NO_FILTERS = ("pprint", "striptags", "urlize", "wordwrap", "xmlattr")
"""Filters for web pages, whose work grows faster than the text."""
_NO_GLOBALS = ("cycler", "joiner", "lipsum")
_TEXT_METHODS = frozenset(
    """capitalize casefold center count endswith expandtabs find format format_map index isalnum isalpha isascii
    isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper join ljust lower lstrip
    partition removeprefix removesuffix replace rfind rindex rjust rpartition rsplit rstrip split splitlines
    startswith strip swapcase title upper zfill""".split()  # noqa: SIM905
)


class _Generator(CodeGenerator):
    """Python code that tells the budget of text, and has containers and joined text judged."""

    def visit_Output(self, node: nodes.Output, frame: Any) -> None:
        size = sum(len(child.data) for child in node.nodes if isinstance(child, nodes.TemplateData))
        self.writeline(f"environment.budget.write({size})", node)
        super().visit_Output(node, frame)

    def visit_Concat(self, node: nodes.Concat, frame: Any) -> None:
        self.write("environment.joined((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")

    def _judged(self, visit: Callable[[Any, Any], None], node: nodes.Expr, frame: Any) -> None:
        self.write("environment.budget.value(")
        visit(node, frame)
        self.write(")")

    def visit_List(self, node: nodes.List, frame: Any) -> None:
        self._judged(super().visit_List, node, frame)

    def visit_Dict(self, node: nodes.Dict, frame: Any) -> None:
        self._judged(super().visit_Dict, node, frame)

    def visit_Tuple(self, node: nodes.Tuple, frame: Any) -> None:
        if node.ctx == "load":
            self._judged(super().visit_Tuple, node, frame)
        else:
            super().visit_Tuple(node, frame)


class _Namespace(Namespace):
    """Written as a word: namespaces that hold each other have no end."""

    def __repr__(self) -> str:
        return "<Namespace>"


@pass_environment
def _piece(environment: BoundedEnvironment, value: Any) -> Any:
    """What stands between braces, on its way into the text."""
    text = value if isinstance(value, str) else str(environment.budget.value(value))
    environment.budget.write(len(text))
    return text


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """Compiles templates whose renderings keep to ``budget``; set a new one before each."""

    code_generator_class = _Generator
    intercepted_binops = frozenset(["+", "-", "*", "/", "//", "**", "%"])

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols], optimized=False, finalize=_piece
        )
        self.budget = Budget(TemplateLimits(), lambda: False)
        for name in _NO_GLOBALS:
            del self.globals[name]
        for name in _NO_FILTERS:
            del self.filters[name]
        self.globals["namespace"] = _Namespace
        self.filters["sum"], self.filters["tojson"] = self._sum, self._json
        for name, function in self.filters.items():
            self.filters[name] = self._guarded(name, function)

    def _generate(self, source: nodes.Template, *args: Any, **more: Any) -> str:
        """Compile; the body of every loop begins with a call, which counts, and so does its condition."""
        for loop in list(source.find_all(nodes.For)):
            tick = nodes.Call(nodes.EnvironmentAttribute("tick"), [], [], None, None, lineno=loop.lineno)
            loop.body = [nodes.ExprStmt(tick, lineno=loop.lineno), *loop.body]
            if loop.test is not None:
                loop.test = nodes.And(tick, loop.test, lineno=loop.lineno)
        source.set_environment(self)
        return super()._generate(source, *args, **more)

    def tick(self) -> bool:
        """A turn of a loop; being called is what counts."""
        return True

    def joined(self, parts: tuple[Any, ...]) -> str:
        """``a ~ b``."""
        self.budget.step()
        self.budget.value(parts)
        return str(self.budget.value("".join(map(str, parts))))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, (str, bytes, int, float)) and not (isinstance(obj, str) and attr in _TEXT_METHODS):
            return False
        return bool(super().is_safe_attribute(obj, attr, value))

    def call(self, context: Any, function: Any, *args: Any, **named: Any) -> Any:
        """A call in the template: macros, methods, functions."""
        self.budget.step()
        self.budget.value((args, named))
        method = getattr(function, "__wrapped__", function)
        owner, name = getattr(method, "__self__", None), getattr(method, "__name__", "")
        if isinstance(owner, str):
            args = self._prepared(name, args)
            self._judge(name, owner, *args, **named)
        return self._kept(super().call(context, function, *args, **named))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Arithmetic, judged by what it would give."""
        self.budget.step()
        if operator == "%" and isinstance(left, str):
            self.budget.room(_formatted(self.budget, left, right))
        elif operator in "+*" and not (isinstance(left, float) or isinstance(right, float)):
            self.budget.room(self._grown(operator, left, right))
        elif operator == "**" and isinstance(left, int) and isinstance(right, int):
            self.budget.room(left.bit_length() * abs(right) * 64)
        return self.budget.value(super().call_binop(context, operator, left, right))

    def _grown(self, operator: str, left: Any, right: Any) -> int:
        if operator == "+":
            return self.budget.weight(left) + self.budget.weight(right)
        if isinstance(left, int) and isinstance(right, int):
            return 64 * (left.bit_length() + right.bit_length())  # products of long numbers are slow
        times, value = (left, right) if isinstance(left, int) else (right, left)
        return self.budget.weight(value) * max(times, 0) if isinstance(times, int) else 0

    def _sum(self, values: Any, attribute: Any = None, start: Any = 0) -> Any:
        """The filter; every addition is judged."""
        if attribute is not None:
            values = (self.getitem(value, attribute) for value in values)
        for value in values:
            start = self.call_binop(None, "+", start, value)
        return start

    def _json(self, value: Any, indent: Any = None, **_: Any) -> str:
        """The filter, which leaves letters as they are."""
        self.budget.value(value)
        if (len(indent) if isinstance(indent, str) else int(indent or 0)) > _DEEPEST_INDENT:
            raise ParamInvalid(f"tojson with an indent of more than {_DEEPEST_INDENT}")
        pieces = json.JSONEncoder(ensure_ascii=False, indent=indent).iterencode(value)
        size, text = 0, []
        for piece in pieces:
            size += len(piece)
            self.budget.room(size)
            self.budget.step()
            text.append(piece)
        return "".join(text)

    def _guarded(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """A filter whose work and result are judged. The first argument may be the environment or context."""
        first = 1 if getattr(function, "jinja_pass_arg", None) is not None else 0

        @wraps(function)
        def guarded(*args: Any, **named: Any) -> Any:
            self.budget.step()
            given, (value, *more) = args[:first], args[first:]
            self.budget.value((more, named))
            if name == "join":
                value = list(self.budget.counted(value))
            self._judge(name, value, *more, **named)
            return self._kept(function(*given, value, *more, **named))

        return guarded

    def _prepared(self, name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Arguments of a method of text, what is to be joined as a list."""
        return (list(self.budget.counted(args[0])), *args[1:]) if name == "join" and args else args

    def _kept(self, value: Any) -> Any:
        """The result of a call: a size that is allowed, or an iterator that counts."""
        return self.budget.counted(value) if isinstance(value, Iterator) else self.budget.value(value)

    def _judge(self, name: str, value: Any, *args: Any, **named: Any) -> None:
        """Refuse filters and methods of text whose result would be too large; raises ParamInvalid."""
        given = [*args, *named.values()]
        if name in _SIZED:
            wide = [n for n in given if isinstance(n, int) and abs(n) > _WIDEST]
            if wide:
                raise ParamInvalid(f"{name} of more than {_WIDEST}")
        if name == "int" and isinstance(value, str) and len(value) > _DIGITS:
            raise ParamInvalid(f"a number of {len(value)} digits")
        estimate = _ESTIMATES.get(name)
        if estimate is not None:
            self.budget.room(estimate(self.budget, value, given))


_SIZED = frozenset(
    [
        "batch",
        "center",
        "expandtabs",
        "indent",
        "int",
        "ljust",
        "rjust",
        "round",
        "slice",
        "tojson",
        "truncate",
        "zfill",
    ]
)


def _replaced(budget: Budget, value: Any, given: list[Any]) -> int:
    text, (old, new) = str(value), [str(part) for part in given[:2]]
    return len(text) + text.count(old) * len(new)


def _joined(budget: Budget, value: Any, given: list[Any]) -> int:
    """Of the filter (list | join(text)) and of the method (text.join(list)), which is told by the types."""
    between, parts = (value, given[0]) if isinstance(value, str) else (given[0] if given else "", value)
    return budget.weight(parts) + len(str(between)) * len(parts)


def _indented(budget: Budget, value: Any, given: list[Any]) -> int:
    width = max((n if isinstance(n, int) else len(n) for n in given if isinstance(n, (int, str))), default=4)
    text = str(value)
    return len(text) + (len(text.splitlines()) + 1) * width


def _tabbed(budget: Budget, value: Any, given: list[Any]) -> int:
    width = max((n for n in given if isinstance(n, int)), default=8)
    return len(value) + int(value.count("\t")) * width


def _padded(budget: Budget, value: Any, given: list[Any]) -> int:
    return len(str(value)) + max((n for n in given if isinstance(n, int)), default=0)


def _cut(budget: Budget, value: Any, given: list[Any]) -> int:
    """Pieces of text cost more than their characters."""
    between = given[0] if given and isinstance(given[0], str) and given[0] else None
    gaps = value.count(between) if between else sum(map(value.count, " \n\t\r"))
    return len(value) + 2 * 16 * int(gaps)


def _listed(budget: Budget, value: Any, given: list[Any]) -> int:
    return 2 * 16 * len(value) if isinstance(value, str) else 0


def _format_filter(budget: Budget, value: Any, given: list[Any]) -> int:
    return _formatted(budget, str(value), given)


def _formatted(budget: Budget, text: str, values: Any) -> int:
    """What ``%`` and ``format`` can make of a text: every place may show all values."""
    if re.search(r"%[^a-zA-Z%]*\*|\{[^{}]*:[^{}]*\{", text):
        raise ParamInvalid("a width that is computed inside a format")
    widths = sum(int(digits) if len(digits) < 8 else _WIDEST**2 for digits in re.findall(r"\d+", text))
    return len(text) + widths + (text.count("%") + text.count("{")) * budget.weight(values)


_ESTIMATES: Mapping[str, Callable[[Budget, Any, list[Any]], int]] = {
    "center": _padded,
    "expandtabs": _tabbed,
    "format": _format_filter,
    "format_map": _format_filter,
    "indent": _indented,
    "join": _joined,
    "list": _listed,
    "ljust": _padded,
    "replace": _replaced,
    "rjust": _padded,
    "rsplit": _cut,
    "split": _cut,
    "splitlines": _cut,
    "zfill": _padded,
}
