"""Fills the templates: what differs between the kinds of plugins, and which names are refused."""

from __future__ import annotations

import importlib.util
import keyword
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from rknnlite import plugins
from rknnlite.abi import include_dir
from rknnlite.errors import ParamInvalid
from rknnlite.files.writing import write_text
from rknnlite.spi.command import CORE_COMMANDS

__all__ = ["KINDS", "write_package"]

_TEMPLATES = Path(__file__).with_name("templates")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")
_COMPILE = "build:\n\t$(PYTHON) @module@/build.py\n\n"


@dataclass(frozen=True)
class _Kind:
    """What the common templates say of one kind; texts of setup.cfg, Makefile and README."""

    what: str
    use: str
    edit: str
    tools: str = ""
    rooms: tuple[str, ...] = ("common", "operator")
    header: str = ""
    dependency: str = "rknnlite"
    debian: str = "python3-rknnlite"
    targets: str = "golden"
    build_rule: str = ""
    golden_rule: str = "golden:\n\t$(TOOLKIT_PYTHON) convert.py\n\n"
    golden_line: str = "    make golden TOOLKIT_PYTHON=...   # the Python that has rknn-toolkit2: models and what it answers\n"
    conversion: str = (
        "The class of `@module@/op.py` is what rknn-toolkit2 converts with; `convert.py` shows it. `tests/test_golden.py` runs\n"
        "the models that it made and compares with the vendor's simulator.\n\n"
    )


_OPERATOR = "Once it is installed, every program that opens a model with `@type@` through rknnlite finds the operator."
KINDS = {
    "python": _Kind("The operator @type@", _OPERATOR, "op.py"),
    "c": _Kind(
        "The operator @type@ in C",
        _OPERATOR,
        "@name@.c",
        ", and a C compiler",
        header="rknn_op.h",
        debian="python3-rknnlite, python3-rknnlite-cplugin",
        targets="build golden",
        build_rule=_COMPILE,
    ),
    "opencl": _Kind(
        "The operator @type@ in OpenCL",
        _OPERATOR,
        "@name@.cl",
        "; with OpenCL (pocl-opencl-icd) also the kernel runs",
        dependency="rknnlite[opencl]",
        debian="python3-rknnlite, python3-rknnlite-opencl",
    ),
    "riscv": _Kind(
        "The post-process plugin @name@ for RK1820/RK1828",
        'Once it is installed, `rknnlite run MODEL --postprocess "$(rknnlite @name@)"` puts it behind a model.',
        "@name@.c",
        ", gcc-riscv64-unknown-elf, picolibc-riscv64-unknown-elf, gcc-riscv64-linux-gnu and qemu-user",
        rooms=("common",),
        header="rknn3_op.h",
        debian="python3-rknnlite, python3-rknnlite-riscv",
        targets="build",
        build_rule=_COMPILE,
        golden_rule="",
        golden_line="",
        conversion="The converter does not know such plugins: a model is converted without it.\n\n",
    ),
}


def write_package(name: str, kind: str, output: Path) -> tuple[Path, list[str]]:
    """Write ``output/rknnlite_NAME``; returns that folder and the files in it.

    Raises ParamInvalid for a name that is none or taken, and where the folder is there already.
    """
    reason = _refused(name, kind)
    if reason:
        raise ParamInvalid(
            f"{name!r} cannot name a plugin: {reason}; take small letters, digits and _, as in sharpen"
        )
    module = f"rknnlite_{name}"
    folder = output / module
    if folder.exists() or folder.is_symlink():
        raise ParamInvalid(f"{folder} is there already; remove it, or choose another NAME or --output")
    camel = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
    words = {"name": name, "module": module, "camel": camel, "type": f"cst{camel}", "kind": kind}
    files = {
        _target(template, words): _filled(template, vars(KINDS[kind]), words)
        for room in (*KINDS[kind].rooms, kind)
        for template in sorted((_TEMPLATES / room).rglob("*.in"))
    }
    if header := KINDS[kind].header:
        files[f"{module}/{header}"] = (include_dir() / header).read_text("utf-8")
    for file, text in files.items():
        place = folder / file
        place.parent.mkdir(parents=True, exist_ok=True)
        write_text(place, text)
    return folder, sorted(files)


def _refused(name: str, kind: str) -> Optional[str]:
    """Why a name is refused."""
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        return "it becomes part of the names of a Python package, a C file and a kernel"
    if importlib.util.find_spec(f"rknnlite_{name}") is not None:
        return f"rknnlite_{name} is installed already"
    if name in plugins.problems() or plugins.manager().has_plugin(name):
        return "an installed plugin has it"
    if kind == "riscv" and name in (*CORE_COMMANDS, *plugins.commands()):
        return f"the package brings a command of its name, and rknnlite {name} is one already"
    if name in {"kernel", "global", "float", "double", "int", "char", "short", "long", "void", "main"}:
        return "it is a word of C"
    return None


def _target(template: Path, words: dict[str, str]) -> str:
    """Where a template goes: ``c/module/operator.c.in`` to ``rknnlite_NAME/NAME.c``."""
    path = template.relative_to(_TEMPLATES).with_suffix("").as_posix().partition("/")[2]
    folder, _, file = path.rpartition("/")
    renamed = {"operator.c": "@name@.c", "kernel.cl": "@name@.cl", "test_module.py": "test_@name@.py"}
    renamed["gitignore"] = ".gitignore"
    place = f"{folder.replace('module', '@module@')}/{renamed.get(file, file)}".lstrip("/")
    return _replaced(place, words)


def _filled(template: Path, facts: dict[str, Any], words: dict[str, str]) -> str:
    return _replaced(_replaced(template.read_text("utf-8"), facts), words)


def _replaced(text: str, words: dict[str, Any]) -> str:
    for word, value in words.items():
        text = text.replace(f"@{word}@", str(value))
    return text
