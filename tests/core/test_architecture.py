"""The house keeps its shape: imports point down, modules stay small, ``__all__`` is sorted."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.corpus import ROOT

CORE = ROOT / "rknnlite"
PLUGINS = ROOT / "plugins"

# Floors from the ground up; a module may import its own floor and those below.
FLOORS = [
    {"errors", "config", "log", "extras", "_version"},
    {"tensor", "layout", "quant", "socs"},  # words and facts
    {"files"},  # written whole, mapped with care
    {"abi", "native"},  # code of other languages
    {"formats"},  # which container, generation, SoC, inputs and outputs
    {"spi", "spi_llm"},  # the contracts
    {"hookspecs", "plugins"},  # who is there
    {"libraries"},  # what lies beside the core
    {"choosing"},  # who computes
    {"runtime", "pool", "matmul", "capi"},
    {"__init__"},  # what ``import rknnlite`` gives
    {"_faces"},  # what the faces share
    {"commandline"},  # what commands share, those of plugins too
    {"api", "rknn3", "cli"},
    {"__main__"},
]
FACES = FLOORS[-2]
DECLARATIONS = "abi"  # C structures that plugins and faces share; of the core only ``capi`` imports them
SPEAKS_C = {*FACES, DECLARATIONS, "capi", "native"}  # rooms that may import ctypes
LIBRARIES = (
    {"backend", "graph", "pages", "programs"},
    {"capi", "protocol"},
    {"llm", "speech", "vision"},
    {"authoring", "insight"},
)
"""Libraries, ``plugins/rknnlite_NAME``: each may import the core, and those of the floors below its own."""
FEW_LINES = 20_000
CORE_NEEDS = {"numpy", "pluggy", "ruamel", "psutil"}
EXTRAS = {
    "rknnlite.files.pictures": {"PIL", "cv2"},
    "rknnlite.layout": {"cv2"},  # faster interleaving; numpy's own otherwise
}
"""Imported where they are used, with a message that names the extra."""
PLUGINS_NEED = {
    "numpy", "cv2", "PIL", "psutil", "pyopencl", "onnx", "onnxruntime", "openvino", "pytest", "ray", "pyarrow", "starlette",
    "uvicorn", "prometheus_client", "grpc", "google", "gguf", "jinja2", "llguidance", "matplotlib", "opentelemetry", "rich",
    "shtab", "soundfile", "tokenizers",
}  # fmt: skip
FLAT = {
    "__init__", "__main__", "_version", "errors", "log", "config", "extras", "tensor", "layout", "quant",
    "socs", "hookspecs", "plugins", "libraries", "choosing", "runtime", "spi_llm",
}  # fmt: skip
"""All modules of the core that lie in no room; what is new goes into one."""
STANDARD = getattr(sys, "stdlib_module_names", None)  # Python 3.10


def modules(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


PLUGIN_MODULES = [path for folder in sorted(PLUGINS.glob("rknnlite_*")) for path in modules(folder)]


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module", autouse=True)
def forget_the_trees() -> Iterator[None]:
    """All modules together are big; each is parsed once for all rules and forgotten after them."""
    yield
    _parsed.cache_clear()


def of_each(paths: Iterable[Path]) -> Callable[[Callable[[Path], None]], Callable[[], None]]:
    """A rule for one module becomes a test of many, which names all that break it."""

    def test_of(rule: Callable[[Path], None]) -> Callable[[], None]:
        def test() -> None:
            wrong = [f"{short(path)}: {said}" for path in paths for said in broken(rule, path)]
            assert not wrong, "\n".join(wrong)

        return test

    return test_of


def broken(rule: Callable[[Path], None], path: Path) -> Iterator[str]:
    try:
        rule(path)
    except AssertionError as e:
        yield str(e)


def short(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def dotted(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path, root: Path, types: bool = False) -> Iterator[str]:
    """Full names of the modules that a file imports, also inside functions; those for types only if asked for."""
    package = (
        dotted(path, root).split(".") if path.name == "__init__.py" else dotted(path, root).split(".")[:-1]
    )
    tree = _parsed(path)
    skipped = {id(n) for block in ast.walk(tree) if type_checking(block) for n in ast.walk(block)}
    for node in ast.walk(tree):
        if id(node) in skipped and not types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            name = ".".join([*base, *([node.module] if node.module else [])])
            inside = [f"{name}.{alias.name}" for alias in node.names]
            yield from [whole if is_module(whole, root) else name for whole in inside]


def type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def is_module(name: str, root: Path) -> bool:
    place = root.joinpath(*name.split("."))
    return place.with_suffix(".py").exists() or (place / "__init__.py").exists()


def room(name: str) -> str:
    """The room of a core module: ``rknnlite_graph.reading.bson`` -> ``formats``, ``rknnlite`` -> ``__init__``."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def floor(name: str) -> int:
    found = [number for number, rooms in enumerate(FLOORS) if name in rooms]
    assert found, f"the room {name} has no floor: add it to FLOORS"
    return found[0]


@of_each(modules(CORE))
def test_core_imports_point_down(path: Path) -> None:
    here = room(dotted(path, ROOT))
    for name in imported(path, ROOT):
        top = name.split(".")[0]
        if top != "rknnlite":
            assert not top.startswith("rknnlite_"), f"the core imports the plugin {top}"
            if STANDARD is not None:
                assert top in STANDARD or top in CORE_NEEDS | EXTRAS.get(dotted(path, ROOT), set()), (
                    f"{top} is no dependency of the core"
                )
            continue
        there = room(name)
        assert there != DECLARATIONS or here in FACES | {there, "capi"}, f"{here} imports C declarations"
        if there == here or name == "rknnlite._version":
            continue
        assert floor(there) <= floor(here), f"{here} imports {there}, which lies above it"
        assert not (here in FACES and there in FACES), f"the face {here} imports the face {there}"


@of_each(modules(CORE))
def test_core_loads_no_library(path: Path) -> None:
    if room(dotted(path, ROOT)) not in SPEAKS_C:
        assert "ctypes" not in {name.split(".")[0] for name in imported(path, ROOT)}


def library_floor(name: str) -> int:
    """The floor of a library, by its name without ``rknnlite_``; those above all for every other plugin."""
    found = [number for number, names in enumerate(LIBRARIES) if name.removeprefix("rknnlite_") in names]
    return found[0] if found else len(LIBRARIES)


@of_each(PLUGIN_MODULES)
def test_plugins_know_the_core_and_libraries_below(path: Path) -> None:
    own = dotted(path, PLUGINS).split(".")[0]
    for name in imported(path, PLUGINS):
        top = name.split(".")[0]
        if top == "rknnlite":
            assert room(name) not in FACES, f"a plugin imports the face {name}"
        elif top.startswith("rknnlite_"):
            assert top == own or library_floor(top) < library_floor(own), (
                f"{own} imports {top}, which is {'no library' if library_floor(top) == len(LIBRARIES) else 'not below it'}"
            )
        elif STANDARD is not None:
            assert top in STANDARD or top in PLUGINS_NEED, f"{top} is no dependency of a plugin"


def test_every_library_is_there() -> None:
    assert {f"rknnlite_{name}" for names in LIBRARIES for name in names} <= {
        p.name for p in PLUGINS.iterdir()
    }


def test_the_core_is_small() -> None:
    lines = sum(path.read_text(encoding="utf-8").count("\n") for path in modules(CORE))
    assert lines <= FEW_LINES, (
        f"the core has {lines} lines, more than {FEW_LINES}: which room belongs into a library?"
    )


def test_an_upward_import_is_noticed(tmp_path: Path) -> None:
    bad = tmp_path / "rknnlite" / "formats" / "new.py"
    bad.parent.mkdir(parents=True)
    (tmp_path / "rknnlite" / "runtime.py").touch()
    bad.write_text("from .. import runtime\n\ndef f():\n    import rknnlite_cpu.node_view\n")
    assert list(imported(bad, tmp_path)) == ["rknnlite.runtime", "rknnlite_cpu.node_view"]
    assert floor("runtime") > floor("formats")


def test_no_module_is_added_outside_of_the_rooms() -> None:
    assert {path.stem for path in CORE.glob("*.py")} == FLAT


def circles(graph: dict[str, set[str]]) -> set[tuple[str, ...]]:
    """Groups of modules that reach each other over their imports."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        ahead = [start]
        while ahead:
            further = graph.get(ahead.pop(), set()) - seen
            seen |= further
            ahead += further
        return seen

    every = {name: reached(name) for name in graph}
    return {
        tuple(sorted(other for other in graph if other in every[name] and name in every[other]))
        for name in graph
        if name in every[name]
    }


@pytest.mark.parametrize("root", [ROOT, PLUGINS], ids=["core", "plugins"])
def test_no_two_modules_need_each_other(root: Path) -> None:
    """Not even for their types; a package and its modules count apart."""
    folders = [CORE] if root is ROOT else sorted(p for p in PLUGINS.iterdir() if p.is_dir())
    graph = {
        dotted(path, root): set(imported(path, root, types=True)) for f in folders for path in modules(f)
    }
    assert not circles(graph)


def test_a_broken_rule_names_the_module() -> None:
    def rule(path: Path) -> None:
        assert path.name != "errors.py", "not this one"

    with pytest.raises(AssertionError, match=r"^rknnlite/errors.py: not this one"):
        of_each(modules(CORE))(rule)()


def test_a_circle_is_noticed() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == {("a", "b", "c")}


def private_members(tree: ast.AST) -> Iterator[str]:
    """``x._name`` where x is not the object itself, or what it derives from; ctypes ends its own names with a line, too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.endswith("_"):
            own = ast.unparse(node.value) in ("self", "cls", "super()")
            if not own:
                yield ast.unparse(node)


@of_each([p for face in sorted({*FACES, "_faces"}) for p in modules(CORE / face)])
def test_faces_use_public_members_only(path: Path) -> None:
    assert not list(private_members(_parsed(path)))


EVERY = [*modules(CORE), *PLUGIN_MODULES]


@of_each(EVERY)
def test_modules_are_small(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines <= 400, f"{lines} lines: split it"


def sort_key(name: str) -> tuple[int, str]:
    """Constants, then classes, then the rest, as ruff sorts them."""
    if name.isupper() and len(name) > 1:
        return 0, name
    return (1, name) if name[:1].isupper() else (2, name)


@of_each(EVERY)
def test_all_is_sorted_and_true(path: Path) -> None:
    tree = _parsed(path)
    listed = [ast.literal_eval(node.value) for node in tree.body if names_all(node)]
    if not listed:
        assert path.name in ("__init__.py", "__main__.py", "_version.py", "spi_llm.py"), (
            "a module says what it offers"
        )
        return
    assert listed[0] == sorted(listed[0], key=sort_key)
    defined = set(top_level_names(tree))
    assert set(listed[0]) <= defined


def names_all(node: ast.stmt) -> bool:
    target = node.target if isinstance(node, ast.AnnAssign) else None
    if isinstance(node, ast.Assign):
        target = node.targets[0]
    return isinstance(target, ast.Name) and target.id == "__all__"


def top_level_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)
        elif isinstance(node, ast.Assign):
            yield from (n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


@of_each([p for p in EVERY if "abi" not in short(p)])
def test_every_public_thing_has_a_docstring(path: Path) -> None:
    tree = _parsed(path)
    assert ast.get_docstring(tree), "the module has no docstring"
    listed = [ast.literal_eval(node.value) for node in tree.body if names_all(node)]
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and listed and node.name in listed[0]:
            assert ast.get_docstring(node), f"{node.name} has no docstring"


WRITES = {"rknnlite/files/writing.py", "rknnlite/_faces/log.py"}
"""The one place where files are written, and the logs, to which lines are appended."""
_WRITERS = {
    "mkstemp",
    "NamedTemporaryFile",
    "savez",
    "savez_compressed",
    "tofile",
    "write_bytes",
    "write_text",
}


def calls(tree: ast.AST) -> Iterator[tuple[ast.Call, str, str, list[object]]]:
    """Every call: what is called, in full and by its last name, and the constants among its arguments."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            given = (*node.args, *(keyword.value for keyword in node.keywords))
            yield (
                node,
                called,
                called.rpartition(".")[2],
                [a.value for a in given if isinstance(a, ast.Constant)],
            )


def written_files(tree: ast.Module) -> Iterator[str]:
    """Calls that write a file by themselves; ``with writing(...) as file`` gives one that anything may write to."""
    given = {
        item.optional_vars.id
        for node in ast.walk(tree)
        if isinstance(node, ast.With)
        for item in node.items
        if isinstance(item.optional_vars, ast.Name) and "writing(" in ast.unparse(item.context_expr)
    }
    for node, called, name, modes in calls(tree):
        opens = name == "open" and "devnull" not in ast.unparse(node)
        if name in _WRITERS and name != called:
            yield called
        elif called in ("np.save", "json.dump") or name == "savefig":
            if not given & {ast.unparse(argument) for argument in node.args}:
                yield called
        elif opens and ("O_CREAT" in ast.unparse(node) or any(map(_for_writing, modes))):
            yield called


def _for_writing(mode: object) -> bool:
    return isinstance(mode, str) and len(mode) < 4 and bool(set("wax+") & set(mode))


@of_each(EVERY)
def test_files_are_written_in_one_place(path: Path) -> None:
    if short(path) not in WRITES:
        found = list(written_files(_parsed(path)))
        assert not found, f"{found}: go through rknnlite.files.writing"


def test_a_file_that_is_written_elsewhere_is_noticed() -> None:
    code = """
path.open("w"); open(path, mode="ab"); np.save(path, x); path.write_text(""); figure.savefig(path); array.tofile(path)
path.open("rb"); open(path); np.load(path)
with writing(path) as file:
    np.save(file, x)
"""
    assert list(written_files(ast.parse(code))) == [
        "path.open", "open", "np.save", "path.write_text", "figure.savefig", "array.tofile",
    ]  # fmt: skip


READS = {
    "rknnlite/files/reading.py": "the one place",
    "rknnlite/files/input_arrays.py": "raw bytes of an input, as many as it takes: of a device, too",
    "rknnlite/native/board.py": "what the kernel tells, whose files have no size",
    "rknnlite/native/processors.py": "/proc/cpuinfo",
    "plugins/rknnlite_cpu/kernels/threads.py": "/proc/self/maps",
    "rknnlite/socs.py": "the device tree",
    "rknnlite/extras.py": "entry_points.txt of installed packages, at every start",
    "rknnlite/config.py": "as many bytes as a configuration may have",
    "plugins/rknnlite_programs/buildcache.py": "the cache, of this user alone; C files of ours",
    "plugins/rknnlite_llm/verified_files.py": "the cache, of this user alone",
    "plugins/rknnlite_llm/quality/texts.py": "texts of ours",
    "plugins/rknnlite_authoring/package.py": "templates of ours",
    "rknnlite/cli/health/software.py": "whether a file may be read, no byte of it",
    "plugins/rknnlite_protocol/grpc_messages.py": "messages of ours",
    "plugins/rknnlite_server/page.py": "a page of ours",
    "plugins/rknnlite_server/networks/folder_stream.py": "pieces of a folder of ours",
    "plugins/rknnlite_server/networks/uploads.py": "what clients left, opened without following links",
    "plugins/rknnlite_cpu/engines/with_onnxruntime.py": "what the engine wrote into a folder of ours",
    "plugins/rknnlite_onnx/port.py": "what the vendor's toolkit wrote into a folder of ours",
    "plugins/rknnlite_programs/toolkit_script.py": "a file of ours, in the toolkit's process, which has no rknnlite",
    "plugins/rknnlite_riscv/host.py": "the stub, of ours",
    "plugins/rknnlite_cpu/engines/native/recipe.py": "C files of ours",
    "plugins/rknnlite_librknnrt/build.py": "C files of ours, and what was built of them",
    "plugins/rknnlite_librknnrt/headers.py": "a template of ours",
    "plugins/rknnlite_librknnrt/recipe.py": "C files of ours, and what was built of them",
    "plugins/rknnlite_rkllm/model_process.py": "a pipe of our own process",
}
"""Where files are opened otherwise than by ``rknnlite.files.reading``, and why."""


_READERS = ("read_bytes", "read_text")
_ARRAY_READERS = ("np.load", "np.fromfile", "np.memmap", "np.genfromtxt", "np.loadtxt")


def read_files(tree: ast.Module) -> Iterator[str]:
    """Calls that read a file by themselves."""
    for _, called, name, words in calls(tree):
        if (name in _READERS and name != called) or called in _ARRAY_READERS:
            yield called
        reads = name == "open" and any(word in ("r", "rb", "rt") for word in words if isinstance(word, str))
        if (called == "open" or reads) and not any(map(_for_writing, words)):
            yield called


@of_each(EVERY)
def test_files_are_read_in_one_place(path: Path) -> None:
    found = list(read_files(_parsed(path)))
    if short(path) in READS:
        assert found or short(path) == "rknnlite/files/reading.py", "it reads no file: take it off the list"
    else:
        assert not found, f"{found}: go through rknnlite.files.reading"


def test_a_file_that_is_read_elsewhere_is_noticed() -> None:
    code = "path.read_bytes(); open(path); path.open('rb'); np.load(path); read_bytes(path); rknnlite.open(path); open(p, 'wb')"
    assert list(read_files(ast.parse(code))) == ["path.read_bytes", "open", "path.open", "np.load"]
