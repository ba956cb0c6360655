"""Names of modules as their source has them: where a name is defined, members of a class, parameters of a function."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Union

ROOT = Path(__file__).resolve().parents[2]
Function = (ast.FunctionDef, ast.AsyncFunctionDef)
Where = tuple[str, str]
"""A module of ours and a name in it; an empty name is the module itself."""


class Module:
    """One module; nothing of it is executed."""

    def __init__(self, name: str, file: Path) -> None:
        self.name = name
        self.package = name if file.stem == "__init__" else name.rpartition(".")[0]
        self.names: dict[str, Union[ast.stmt, Where]] = {}
        self.all: ast.Assign | ast.AnnAssign | None = None
        self.added: list[ast.expr] = []
        self._read(ast.parse(file.read_text("utf-8")).body)

    @staticmethod
    @functools.cache
    def of(name: str) -> Module:
        """By its dotted name; raises LookupError."""
        top = ROOT if name.split(".")[0] == "rknnlite" else ROOT / "plugins"
        place = top.joinpath(*name.split("."))
        for file in (place / "__init__.py", place.with_suffix(".py")):
            if file.is_file():
                return Module(name, file)
        raise LookupError(f"{name} is no module of the tree")

    def _read(self, body: list[ast.stmt]) -> None:
        for node in body:
            if isinstance(node, (ast.ClassDef, *Function)):
                self.names[node.name] = node
            elif isinstance(node, ast.ImportFrom):
                self._read_import(node)
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    if isinstance(target, ast.Name):
                        self.names[target.id] = node
            elif isinstance(node, ast.AugAssign) and getattr(node.target, "id", "") == "__all__":
                self.added.append(node.value)
            elif isinstance(
                node, (ast.If, ast.Try)
            ):  # TYPE_CHECKING: names that are found when they are used
                self._read([*node.body, *node.orelse])

    def _read_import(self, node: ast.ImportFrom) -> None:
        above = self.package.split(".")[: len(self.package.split(".")) - node.level + 1] if node.level else []
        source = ".".join([*above, *filter(None, [node.module])])
        if not source.startswith("rknn"):
            return
        for alias in node.names:
            if alias.name == "*":
                self.names.update({name: (source, name) for name in Module.of(source).public()})
            else:
                self.names[alias.asname or alias.name] = (source, alias.name)

    def public(self) -> list[str]:
        """``__all__``; empty where there is none."""
        if "__all__" not in self.names:
            return []
        values = [self.names["__all__"].value, *self.added]  # type: ignore[union-attr]
        return sorted(name for value in values for name in self._texts(value))

    def _texts(self, value: ast.expr) -> list[str]:
        if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name) and value.attr == "__all__":
            source, name = self.names[value.value.id]  # type: ignore[misc]
            return Module.of(f"{source}.{name}").public()
        return list(ast.literal_eval(value))


def defined(module: Module, name: str) -> tuple[Module, ast.stmt | None]:
    """Where a name of a module is defined; None where it is a module itself. Raises LookupError."""
    found = module.names.get(name)
    if isinstance(found, ast.stmt):
        return module, found
    source, inside = found if found else (module.name, name)
    if (source, inside) != (module.name, name) and inside in Module.of(source).names:
        return defined(Module.of(source), inside)
    return Module.of(f"{source}.{inside}"), None


def value_of(module: Module, name: str) -> Any:
    """A constant."""
    return ast.literal_eval(defined(module, name)[1].value)  # type: ignore[union-attr]


def described(label: str, module: Module, name: str) -> Iterator[str]:
    """Lines of a name: itself with its parameters, and for a class its members."""
    home, node = defined(module, name)
    if isinstance(node, Function):
        yield label + parameters(node)
    elif isinstance(node, ast.ClassDef):
        yield label
        yield from (f"{label}.{member}" for member in set(members(home, node)))
    else:
        yield label


def members(module: Module, node: ast.ClassDef) -> Iterator[str]:
    """Public members, fields and the constructor; those of our own base classes too."""
    seen = set()
    for base in ancestors(module, node):
        for part in base.body:
            for member, words in _members(part):
                if member not in seen:
                    seen.add(member)
                    yield member + words


def _members(part: ast.stmt) -> Iterator[tuple[str, str]]:
    if isinstance(part, Function):
        if part.name == "__init__" or not part.name.startswith("_"):
            told = {getattr(word, "attr", getattr(word, "id", "")) for word in part.decorator_list}
            plain = told & {"property", "cached_property", "setter"}
            yield part.name, "" if plain else parameters(part)
    elif isinstance(part, ast.ClassDef):
        yield from [(part.name, "")] if not part.name.startswith("_") else []
    elif isinstance(part, (ast.Assign, ast.AnnAssign)):
        for target in part.targets if isinstance(part, ast.Assign) else [part.target]:
            for name in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(name, ast.Name) and (not name.id.startswith("_") or name.id == "_fields_"):
                    yield name.id, ""


def ancestors(module: Module, node: ast.ClassDef) -> Iterator[ast.ClassDef]:
    """The class and those of ours that it is derived from, nearest first."""
    yield node
    for base in node.bases:
        try:
            home, found = defined(module, ast.unparse(base).partition("[")[0])
        except LookupError:  # Python's own
            continue
        if isinstance(found, ast.ClassDef):
            yield from ancestors(home, found)


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """``(path, *, soc=, **options)``; without ``self`` and ``cls``."""
    args = node.args
    plain = [*args.posonlyargs, *args.args]
    told = [arg.arg for arg in plain[: len(plain) - len(args.defaults)]]
    told += [f"{arg.arg}=" for arg in plain[len(plain) - len(args.defaults) :]]
    if args.posonlyargs:
        told.insert(len(args.posonlyargs), "/")
    told += [f"*{args.vararg.arg}"] if args.vararg else ["*"] if args.kwonlyargs else []
    told += [arg.arg + ("=" if default else "") for arg, default in zip(args.kwonlyargs, args.kw_defaults)]
    told += [f"**{args.kwarg.arg}"] if args.kwarg else []
    return f"({', '.join(told[1:] if told[:1] in (['self'], ['cls']) else told)})"
