"""The C client keeps its shape: no file calls in circles, none is long, and both ends know the same numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from rknnlite_librknnrt import protocol, recipe

MOST_LINES = 400
LIBRARIES = recipe.IN_ONE_FOLDER
_COMMENT_OR_TEXT = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_ATTRIBUTE = re.compile(r"__attribute__\(\((?:[^()]|\([^()]*\))*\)\)\s*")
_DIRECTIVE = re.compile(r"^#.*(?:\\\n.*)*", re.MULTILINE)
_FUNCTION = re.compile(r"^(?P<head>\w[\w \t*()]*?)(?P<name>\w+)\((?P<parameters>[^;{}]*)\)\n\{", re.MULTILINE)
_CONSTANT = re.compile(r"^(?:PUBLIC )?const struct \w+ (?P<name>\w+) = ", re.MULTILINE)
_PROTOTYPE = re.compile(r"^\w[\w \t*]*?(?P<name>\w+)\([^;{}]*\)\s*;", re.MULTILINE)
_RENAME = re.compile(r"^#define (rknn_\w+) (later_\w+)$", re.MULTILINE)
_UNDEFINED = re.compile(r"^#undef (rknn_\w+)$", re.MULTILINE)
_EXTERN = re.compile(r"^extern .*?(?P<name>\w+);", re.MULTILINE)

Graph = dict[str, set[str]]


def bare(text: str) -> str:
    """The source without comments, texts, attributes and directives, whose words are no calls."""
    return _ATTRIBUTE.sub("", _DIRECTIVE.sub("", _COMMENT_OR_TEXT.sub(" ", text)))


def defined(text: str) -> tuple[set[str], set[str]]:
    """Functions and constants that a source has: those that other files may use, and its own."""
    shared, own = {found["name"] for found in _CONSTANT.finditer(text)}, set()
    for found in _FUNCTION.finditer(text):
        (own if "static" in found["head"].split() else shared).add(found["name"])
    return shared, own


def uses(sources: Mapping[str, str]) -> Graph:
    """File -> the files whose functions or constants it names; members of structures (``.name``) are none."""
    texts = {name: bare(text) for name, text in sources.items()}
    home, own = {}, {}
    for name, text in texts.items():
        shared, own[name] = defined(text)
        twice = shared & home.keys()
        assert not twice, f"{name} defines {twice} once more"
        home |= dict.fromkeys(shared, name)
    graph: Graph = {}
    for name, text in texts.items():
        words = set(re.findall(r"(?<![\w.])(?<!->)\w+", text)) - own[name]
        graph[name] = {home[word] for word in words & home.keys()} - {name}
    return graph


def circles(graph: Graph) -> Iterator[list[str]]:
    """A path for each file that can be reached from itself."""
    for start in graph:
        paths, seen = [[start]], set()
        while paths:
            path = paths.pop()
            for after in sorted(graph[path[-1]]):
                if after == start:
                    yield [*path, start]
                    paths.clear()
                    break
                if after not in seen:
                    seen.add(after)
                    paths.append([*path, after])


def sources_of(library: str) -> dict[str, str]:
    """Room and name of each source of a library -> its text."""
    files = [file for file in recipe.files(library) if file.suffix == ".c"]
    return {f"{file.parent.name}/{file.name}": _as_renamed(file, library) for file in files}


def _as_renamed(file: Path, library: str) -> str:
    """A source with the names that ``renamed.h``, read before it, gives to what it defines and calls."""
    text = file.read_text("utf-8")
    if library != recipe.RKNN1_LIBRARY:
        return text
    renames = dict(_RENAME.findall((recipe.CLIENT / "rknn1" / "renamed.h").read_text("utf-8")))
    kept = set(_UNDEFINED.findall(text))
    return re.sub(
        r"\brknn_\w+", lambda word: word[0] if word[0] in kept else renames.get(word[0], word[0]), text
    )


def headers_of(library: str) -> Iterator[str]:
    """The headers of a library for itself."""
    for file in recipe.files(library):
        if file.suffix == ".h" and recipe.CLIENT in file.parents:
            yield file.read_text("utf-8")


@pytest.mark.parametrize("library", LIBRARIES)
def test_no_file_calls_in_circles(library: str) -> None:
    found = [" -> ".join(path) for path in circles(uses(sources_of(library)))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_both_libraries_share_uses_nothing_of_either(library: str) -> None:
    """But name and codes of the library that it is compiled into; what else it calls of one it calls by hooks."""
    for name, others in uses(sources_of(library)).items():
        if name.startswith("common/"):
            beyond = {other for other in others if not other.startswith("common/")}
            assert not {Path(other).name for other in beyond} - {"library.c"}, f"{name} uses {beyond}"


@pytest.mark.parametrize("library", LIBRARIES)
def test_all_that_the_headers_declare_was_seen(library: str) -> None:
    """Else the tests above would look at less than there is."""
    texts = [bare(text) for text in sources_of(library).values()]
    there = set[str]().union(*(defined(text)[0] for text in texts))
    declared = {
        found["name"]
        for text in headers_of(library)
        for pattern in (_PROTOTYPE, _EXTERN)
        for found in pattern.finditer(bare(text))
    }
    assert len(declared) > 30 and not declared - there, sorted(declared - there)


def test_no_file_is_long() -> None:
    files = list(recipe.CLIENT.rglob("*.[ch]"))
    assert len(files) > 30
    long = {file.name: lines for file in files if (lines := file.read_text("utf-8").count("\n")) > MOST_LINES}
    assert not long


def test_a_circle_is_found() -> None:
    """By a call, by a constant, over three files; not by what only looks like one."""
    one = 'int one(void)\n{\n    return two() + three.one; /* four() */\n}\n\nstatic int three(void)\n{\n    puts("four()");\n}\n'
    two = "#define CALL four()\nint two(\n    int a)\n{\n    return (int)kind.size;\n}\n"
    three = "const struct kind kind = {.begin = one};\n\nint three(void)\n{\n    return 0;\n}\n"
    four = "int four(void)\n{\n    return three() + one();\n}\n"
    graph = uses({"one": one, "two": two, "three": three, "four": four})
    assert graph == {"one": {"two"}, "two": {"three"}, "three": {"one"}, "four": {"one", "three"}}
    assert next(circles(graph)) == ["one", "two", "three", "one"]
    assert not list(circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}))


def _numbers(name: str) -> dict[str, int]:
    """An enum of ``protocol.h``: members without their prefix, and their numbers."""
    body = re.search(rf"enum {name} {{(.*?)}};", _protocol(), re.DOTALL)
    assert body is not None
    found, last = {}, 0
    for member in filter(None, map(str.strip, bare(body[1]).split(","))):
        word, _, number = member.partition(" = ")
        last = int(number) if number else last + 1
        prefix, _, plain = word.partition("_")
        found[plain + ("_3" if prefix.endswith("3") else "")] = last
    return found


def _defined(prefix: str) -> dict[str, int]:
    """Numbers of ``protocol.h`` that are defined with a prefix."""
    found = re.findall(rf"^#define {prefix}(\w+) (\d+)\b", _protocol(), re.MULTILINE)
    return {name: int(number) for name, number in found}


def _protocol() -> str:
    return (recipe.CLIENT / "common" / "protocol.h").read_text("utf-8")


def test_both_ends_know_the_same_numbers() -> None:
    assert _numbers("call") == {name: int(number) for name, number in protocol.Call.__members__.items()}
    assert _numbers("callback") == {name: int(one) for name, one in protocol.Callback.__members__.items()}
    assert _defined("RUN_") == {name: int(flag) for name, flag in protocol.RunFlag.__members__.items()}
    assert _defined("INIT_") == {name: int(fact) for name, fact in protocol.InitFact.__members__.items()}
    assert _defined("PROTOCOL_") == {"VERSION": protocol.PROTOCOL_VERSION}
    assert _defined("MOST_") == {"FDS": protocol.MOST_FDS, "ARGS": protocol.MOST_ARGS}
