"""The documentation keeps its word: blocks run, links lead somewhere, messages, make targets and settings exist."""

from __future__ import annotations

import ast
import contextlib
import functools
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

import pytest

from rknnlite import config, errors
from tests.cli.conftest import BOARD
from tests.llm.vision_goldens import write_whole
from tests.support import installed
from tests.support.needs import needs, skip_for_want
from tests.support.resident import Resident

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted(
    path
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md"))
    if path.is_file()
)
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
INDENTED = re.compile(r"(?<=\n\n)(?: {4}[^\n]*\n|\n(?= {4}))+")
TARGET = re.compile(r"^([a-z][\w-]*):", re.MULTILINE)


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


SLOW = (
    "docs/c-programs.md",
    "docs/cli.md",
    "docs/insight.md",
    "docs/llm.md",
    "docs/plugin-authors.md",
    "docs/server.md",
)
"""What they show takes more time than all other documents together."""


def blocks(language: str) -> list[object]:
    """The text of the document and each block in a language; slow where programs are compiled, compared or served."""
    found = []
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        for match in FENCE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            if match.group(1) == language:
                marks = [pytest.mark.slow] if language in ("python", "sh") and name(path) in SLOW else []
                found.append(pytest.param(text, match.group(2), id=f"{name(path)}:{line}", marks=marks))
    return found


@pytest.fixture(scope="module")
def after() -> Iterator[Callable[..., Resident]]:
    """An interpreter that has what the install lines of a document bring, and nothing else."""
    with contextlib.ExitStack() as stack:

        @functools.cache
        def started(hidden: str, *options: str) -> Resident:
            return stack.enter_context(Resident(*options, hidden=hidden))

        yield lambda text, *options: started(installed.hidden_after(installed.asked_for(text)), *options)


@pytest.fixture(scope="module")
def board() -> Iterator[str]:
    """The board from afar that blocks call ``board:8001``."""
    pytest.importorskip("grpc")
    pytest.importorskip("starlette")
    from tests.server.conftest import ServerSettings, running

    model = str(ROOT / "examples" / "resnet18" / "resnet18_for_RK3588.rknn")
    with running(ServerSettings(networks=(model,), grpc_port=0, workers=1, backend="cpu")) as served:
        yield f"127.0.0.1:{served.state.rpc.port}"


@pytest.mark.slow
@pytest.mark.parametrize(("page", "code"), blocks("python"))
def test_block_runs(
    page: str, code: str, tmp_path: Path, after: Callable[..., Resident], request: pytest.FixtureRequest
) -> None:
    """Each block is a program of its own, to which a warning is an error; paths in it are those of the repository."""
    strict = after(page, "-W", "error")
    for folder in ("examples", "tests"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    environment = {**os.environ, **strict.environment, "RKNNLITE_BACKEND": "cpu"}
    if "board:8001" in code:
        code = code.replace("board:8001", request.getfixturevalue("board"))
        del environment["RKNNLITE_BACKEND"]
    done = strict.run("-c", code, cwd=tmp_path, env=environment)
    if done.returncode:
        skip_for_want(done.stderr)
    assert done.returncode == 0, done.stderr
    assert not re.search(r"^E ", done.stderr, re.MULTILINE), done.stderr


def test_a_page_has_what_its_own_install_lines_bring() -> None:
    pytest.importorskip("jinja2")
    pytest.importorskip("PIL")
    asked = installed.asked_for(
        "pip install '.[pictures]'   # in a checkout\npip install -e ./tools/companion"
    )
    assert asked == {"rknnlite", "rknnlite[pictures]"}
    hidden = installed.hidden_after(asked).split(",")
    assert "jinja2" in hidden and not {"PIL", "numpy", "pip", "rknnlite"} & {*hidden}


# -- shell blocks --------------------------------------------------------------------------------------------

SHIM = '''\
#!{python} -IS
"""Stands for one command: our own for real, files of the kernel from a folder, what changes the machine not at all."""
import os, re, sys
{caller}
name, words = os.path.basename(sys.argv[0]), sys.argv[1:]
def below(word):
    if not re.match("/(sys|proc|dev)/", word):
        return word
    if not os.path.exists({root!r} + word):
        sys.exit(f"{{name}}: {{word}}: no such file on the board")
    return {root!r} + word
if name == "rkllm3-server" or (name, *words[:1]) == ("rknnlite", "serve"):
    resident("-c", {serve!r}, *(words if name == "rkllm3-server" else words[1:]))
if name == "curl":
    for port, url in zip(("8080", "8081", "8000"), os.environ["SERVERS"].split()):
        words = [w.replace("http://127.0.0.1:" + port, url) for w in words]
    os.execv("/usr/bin/curl", [name, "-sSf", *words])
if name in ("rknnlite", "python3"):
    board = ["--root", {root!r}] if words[:1] in (["top"], ["doctor"]) else []
    words = [*(["-m", "rknnlite"] if name == "rknnlite" else []), *words, *board]
    if words[0].endswith(".py") or words[:2] == ["-m", "rknnlite"]:
        resident(*words)
    os.execv(sys.executable, [sys.executable, *words])
if name == "sudo":
    os.execvp(words[0], words)
if name == "pip":
    unknown = set(re.findall(r"\\[(\\w+)\\]", " ".join(words))) - set({extras!r})
    sys.exit(f"no such extra: {{unknown}}" if unknown else 0)
if name in ("cat", "tee", "grep", "stat"):
    os.execv(f"/usr/bin/{{name}}", [name, *map(below, words)])
if name == "make":
    unknown = set(w for w in words if "=" not in w) - set({targets!r})
    sys.exit(f"no such target: {{unknown}}" if unknown else 0)
if name == "docker":
    mounted = [w for flag, w in zip(words, words[1:]) if flag == "--device"]
    [below(word) for word in mounted]
'''
SERVE = """\
import argparse, os, sys
from rknnlite_server import arguments, command
parser = argparse.ArgumentParser()
command.COMMAND.arguments(parser)
given = parser.parse_args()
settings = arguments.settings_of_arguments(given, given.llm)
sys.exit("; ".join(m.model for m in settings.models if not os.path.exists(m.model)) or 0)
"""
HARMLESS = ("apt", "docker", "hf", "systemctl", "udevadm", "usermod")
STAND_INS = (
    "curl",
    "rkllm3-server",
    "rknnlite",
    "python3",
    "sudo",
    "pip",
    "make",
    "cat",
    "tee",
    "grep",
    "stat",
    *HARMLESS,
)
MORE_OF_THE_BOARD = {
    "proc/interrupts": " 47:  1  0  GICv3 142 Level  fdab0000.npu\n",
    "proc/irq/47/smp_affinity_list": "0-7\n",
}


@pytest.fixture(scope="module")
def server_urls() -> Iterator[str]:
    """The servers that ``curl`` asks: one that chats (8080), one for embeddings (8081), one of networks (8000)."""
    from tests.server.conftest import MODEL, ServerSettings, running

    texts = replace(MODEL, alias="texts", embedding=True)
    chats = ServerSettings(models=(MODEL,), metrics=True)
    resnet, detect = ROOT / "examples" / "resnet18", ROOT / "examples" / "detect"
    files = (str(resnet / "resnet18_for_RK3588.rknn"), str(detect / "detect_for_RK3588.rknn"))
    networks = ServerSettings(
        networks=files, repository=str(resnet), explicit=True, grpc_port=-1, workers=1, backend="cpu"
    )
    embeddings = ServerSettings(models=(texts,))
    with running(chats) as served, running(embeddings) as embedding, running(networks) as network:
        yield f"{served.url} {embedding.url} {network.url}"


@pytest.mark.slow
@pytest.mark.parametrize(("page", "code"), blocks("sh"))
def test_shell_block_runs(
    page: str, code: str, tmp_path: Path, request: pytest.FixtureRequest, after: Callable[..., Resident]
) -> None:
    """Line by line in bash, on a board that is made of files; commands that would change this machine stand still."""
    from rknnlite.extras import EXTRAS

    if re.search(r"\bcurl\b", code):
        needs("curl")
    python = after(page)

    root, tools, work = (tmp_path / part for part in ("root", "bin", "work"))
    for file, text in {**BOARD, **MORE_OF_THE_BOARD}.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(text)
    (root / "sys/class/drm/renderD129/device").mkdir(parents=True)
    (root / "RKNPU").mkdir()
    (root / "sys/class/drm/renderD129/device/driver").symlink_to(root / "RKNPU")
    tools.mkdir()
    work.mkdir()
    (work / "examples").symlink_to(ROOT / "examples")
    if "Qwen2.5-VL" in code:
        write_whole("tiny-qwen2.5-vl", work / "Qwen2.5-VL-3B-Instruct")
        (work / "Qwen2.5-VL-3B-Instruct" / "picture.png").rename(work / "cat.png")
    extras, targets = [*EXTRAS, "all"], make_targets()
    for command in STAND_INS:
        script = SHIM.format(
            python=sys.executable,
            root=str(root),
            extras=extras,
            targets=targets,
            caller=python.caller,
            serve=SERVE,
        )
        (tools / command).write_text(script)
        (tools / command).chmod(0o755)
    environment = {
        **os.environ, "PATH": f"{tools}:/usr/bin:/bin", "RKNNLITE_BACKEND": "cpu", "HOME": str(tmp_path), "USER": "me",
        **python.environment, "SERVERS": request.getfixturevalue("server_urls") if "curl " in code else "",
    }  # fmt: skip
    done = subprocess.run(
        ["bash", "-eu", "-o", "pipefail", "-c", code], cwd=work, env=environment, capture_output=True, text=True,
        timeout=120, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode:
        skip_for_want(done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_every_option_of_the_server_is_described() -> None:
    import argparse

    from rknnlite_server import command

    parser = argparse.ArgumentParser(add_help=False)
    command.COMMAND.arguments(parser)
    options = {option for action in parser._actions for option in action.option_strings}
    told = set(re.findall(r"`(--?[\w-]+)`", (ROOT / "docs/server.md").read_text(encoding="utf-8")))
    assert options - told == set(), "options that docs/server.md does not name"
    rows = set(
        re.findall(r"^\| (`-.*?) \|", (ROOT / "docs/server.md").read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert set(re.findall(r"`(--?[\w-]+)`", " ".join(rows))) == options, "options that there are not"


@pytest.mark.parametrize(("page", "text"), blocks("yaml"))
def test_yaml_block_is_a_configuration(page: str, text: str, tmp_path: Path) -> None:
    if "\nsteps:" in text:  # a recipe of continuous integration; tests/test_adopting.py runs complete ones
        assert all(line.startswith(("  ", "steps:", "runs-on:")) for line in text.splitlines())
        return
    file = tmp_path / "config.yaml"
    file.write_text(text)
    assert config._parse(file, {}, {}) == []


def test_there_is_no_block_that_nobody_runs() -> None:
    for path in DOCUMENTS:
        for language, _ in FENCE.findall(path.read_text(encoding="utf-8")):
            if 'title="' in language and path.name in ("adopting.md", "docker.md"):
                continue  # tests/test_adopting.py and tests/packaging/test_containers.py run those that are files
            assert language in ("python", "sh", "yaml"), f"{name(path)} has a block in {language!r}"


# Fragments; tests/custom_ops and tests/rknn3 run the whole.
@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_no_program_hides_in_an_indented_block(path: Path) -> None:
    """Indented blocks show output, formulas and trees of files; whatever is Python belongs into a fence and runs."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    for block in INDENTED.findall(text):
        with contextlib.suppress(SyntaxError):
            ast.parse(textwrap.dedent(block))
            pytest.fail(f"nobody runs this block:\n{block}")


def test_readme_shows_both_interfaces() -> None:
    readme = FENCE.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    shown = "".join(code for language, code in readme if language == "python")
    assert "from rknnlite.api import RKNNLite" in shown
    assert "rknnlite.open(" in shown


# -- links, targets, pages -----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_links_lead_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    anchors = {anchor_of(line) for line in text.splitlines() if line.startswith("#")}
    for link in LINK.findall(text):
        target, _, anchor = link.partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        if target:
            assert (path.parent / target).exists(), f"{name(path)} links to {link}, which does not exist"
        else:
            assert anchor in anchors, f"{name(path)} links to a heading {anchor!r}, which does not exist"


def test_every_picture_is_made_by_a_command() -> None:
    """CONTRIBUTING.md has a row for whatever documents show, or says that it is a drawing."""
    told = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("`make pictures`")[2]
    made = re.findall(r"`([\w/.*-]+\.(?:png|svg))`", told.partition("\n## ")[0])
    patterns = [pattern if "/" in pattern else f"docs/images/{pattern}" for pattern in made]
    assert len(patterns) > 5
    for path in DOCUMENTS:
        shown = re.findall(
            r"(?:\]\(|src=\")([^)\s\"]+\.(?:png|svg|jpg))[)\"]", path.read_text(encoding="utf-8")
        )
        for picture in shown:
            there = os.path.relpath(path.parent / picture, ROOT)
            assert any(fnmatch(there, pattern) for pattern in patterns), f"{name(path)} shows {there}"


def anchor_of(heading: str) -> str:
    """The fragment that a heading gets."""
    words = re.sub(r"[^\w\- ]", "", heading.lstrip("#").strip().lower())
    return words.replace(" ", "-")


def make_targets() -> list[str]:
    """Targets of the Makefile."""
    return sorted(set(TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8"))))


def test_named_make_targets_exist() -> None:
    targets = make_targets()
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        named = re.findall(r"(?:^ {4}|`)make ([a-z][a-z0-9-]*)", text, re.MULTILINE)
        unknown = [target for target in named if target not in targets]
        assert not unknown, f"{name(path)} names make targets {unknown}; the Makefile has {targets}"


def test_every_page_is_in_the_navigation() -> None:
    listed = re.findall(r"([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    pages = (ROOT / "docs").rglob("*.md")
    assert sorted(listed) == sorted(path.relative_to(ROOT / "docs").as_posix() for path in pages)


def test_the_architecture_names_every_room() -> None:
    """Each module and folder of the core, and each plugin, stands in a table of rooms."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rooms = "".join(re.findall(r"^\| (`.*?) \|", page, re.MULTILINE))
    for path in sorted((ROOT / "rknnlite").iterdir()):
        room = path.name + "/" * path.is_dir()
        if not room.startswith("_") and room != "py.typed":
            assert f"`{room}`" in rooms, room
    for path in (ROOT / "plugins").glob("rknnlite_*"):
        assert f"`{path.name}`" in rooms, path.name


MAPPED = (
    "plugins/rknnlite_cpu", "plugins/rknnlite_cpu/llm", "plugins/rknnlite_graph", "plugins/rknnlite_graph/reading",
    "plugins/rknnlite_insight", "plugins/rknnlite_llm", "plugins/rknnlite_npu", "plugins/rknnlite_onnx",
    "plugins/rknnlite_protocol", "plugins/rknnlite_server", "plugins/rknnlite_server/networks", "rknnlite/formats",
    "rknnlite/native", "rknnlite/spi",
)  # fmt: skip
"""Rooms of many modules, whose docstrings say what each is for."""


@pytest.mark.parametrize("room", MAPPED)
def test_a_large_room_says_what_its_modules_are_for(room: str) -> None:
    """Each module and package of the room stands in its docstring, and nothing that is gone."""
    there = {
        path.stem
        for path in (ROOT / room).iterdir()
        if (path.suffix == ".py" or (path / "__init__.py").exists()) and not path.name.startswith("_")
    }
    text = ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text(encoding="utf-8"))) or ""
    shown = set(re.findall(r"``(\w+)``", text))
    assert not there - shown, f"{room}/__init__.py does not name {sorted(there - shown)}"
    listed = set(re.findall(r"``([a-z]+_[a-z0-9_]+)``", text.partition("\n* ")[2]))
    code = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / room).rglob("*.py") if path.name != "__init__.py"
    )
    gone = {word for word in listed - there if word not in code}
    assert not gone, f"{room}/__init__.py names {sorted(gone)}, which is not there"


def test_the_reference_has_every_public_name() -> None:
    import rknnlite

    page = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "reference").glob("*.md"))
    there = {"__version__", "RknnError"}  # the second belongs to the module errors
    assert {name for name in rknnlite.__all__ if f"::: rknnlite.{name}\n" not in page} == there


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocstrings", reason="needs the extra docs")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site/search/search_index.js").exists()  # what a search without a server reads
    index = (tmp_path / "site/index.html").read_text(encoding="utf-8")
    assert all(
        f'"{file}"' in index
        for file in ("assets/iframe-worker.js", "images/logo-white.svg", "images/logo.svg")
    )
    brought = re.findall(r'<img[^>]*src="(examples/[^"]+)"', index)  # pictures from outside of docs/
    assert brought and all((tmp_path / "site" / picture).is_file() for picture in brought)
    assert "rknnlite.Context.infer" in (tmp_path / "site/reference/opening.html").read_text(encoding="utf-8")
    for page in sorted((tmp_path / "site").rglob("*.html")):
        assert not re.search(
            r"<(script|link|img)[^>]+(src|href)=.https?:", page.read_text(encoding="utf-8")
        ), f"{page.name} fetches from other machines"


# -- messages, codes, settings, commands ---------------------------------------------------------------------

TROUBLE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (`.*?`) \| ", TROUBLE.partition("\n## Codes\n")[0], re.MULTILINE)
MESSAGES = [
    *re.findall(r"^### `(.+)`$", TROUBLE, re.MULTILINE),
    *(message for row in ROWS for message in re.findall(r"`([^`]+)`", row)),
]


def texts() -> Iterator[str]:
    """All text that the code can print, constant parts of f-strings joined by a mark."""
    for folder in ("rknnlite", "plugins"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value
                elif isinstance(node, ast.JoinedStr):
                    parts = (str(v.value) if isinstance(v, ast.Constant) else "\x00" for v in node.values)
                    yield "".join(parts)


def test_every_documented_message_is_one_that_the_code_has() -> None:
    everything = "\n".join(texts())
    assert len(MESSAGES) > 100
    for message in MESSAGES:
        assert message in everything, f"no code says {message!r}"


def test_every_headline_of_the_vendors_is_documented() -> None:
    found = {text for text in texts() if re.match(r"Catch exception when \w|Invalid RKNN \w", text)}
    assert len(found) > 20
    for text in found:
        assert f"`{text.strip(' .:')}" in TROUBLE, f"docs/troubleshooting.md does not have {text!r}"


def test_every_error_class_and_code_is_documented() -> None:
    for code, word in errors.ERROR_NAMES.items():
        if code < 0 and not word.startswith("RKNN_WARNING"):
            assert f"| {code} | {word} |" in TROUBLE
    for exported in errors.__all__:
        if exported[0].isupper() and not exported.isupper():
            assert f"`{exported}`" in TROUBLE


def test_every_setting_is_documented() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    for key in config.KEYS.values():
        assert f"| `{key.name}` | `{key.variable}` |" in page


def test_every_extra_and_debian_package_is_documented() -> None:
    from rknnlite.extras import EXTRAS

    extras = (ROOT / "docs" / "getting-started.md").read_text(encoding="utf-8")
    packages = (ROOT / "docs" / "packages.md").read_text(encoding="utf-8")
    control = (ROOT / "debian" / "control").read_text(encoding="utf-8")
    assert [extra for extra in EXTRAS if not re.search(rf"\| (extra )?`{extra}` \|", extras)] == []
    built = re.findall(r"^Package: (.*)$", control, re.MULTILINE)
    assert [package for package in built if f"`{package}`" not in packages] == []


def test_every_command_and_exit_code_is_documented() -> None:
    from rknnlite.cli.program import BUILT_IN
    from rknnlite.extras import OWN_PLUGINS
    from rknnlite.spi.command import Exit

    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    commands = [*BUILT_IN, *(command for plugin in OWN_PLUGINS.values() for command in plugin.commands)]
    assert [command for command in commands if f"| `{command}" not in page] == []
    assert all(f"| {int(code)} |" in page for code in Exit)
