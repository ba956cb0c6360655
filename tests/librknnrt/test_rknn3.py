"""librknn3_api.so: programs for hosts of RK182x, with the numbers and the tokens of rknnlite in this process."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from rknnlite_backend.abi import rknn3
from rknnlite_librknnrt import recipe
from rknnlite_librknnrt.rknn3.chat_server import ChatServer
from rknnlite_llm import open_llm
from rknnlite_llm.package import EmbedTable, Package

import rknnlite
from rknnlite import abi
from rknnlite.errors import ParamInvalid
from rknnlite.spi.llm import (
    CallState,
    EmbedInput,
    ImageBlock,
    InferParams,
    KvClear,
    KvPolicy,
    LlmCallbacks,
    LlmParams,
    LlmSession,
    MultimodalInput,
    PromptInput,
    SamplingParams,
    TokenInput,
    VocabInfo,
)
from tests.librknnrt.clients import HEADERS, WATCHED, environment, library, made, run
from tests.librknnrt.goldens import pixels, write
from tests.support.corpus import EXAMPLES, ROOT, genuine
from tests.support.needs import needs

pytestmark = pytest.mark.slow

PROGRAMS = Path(__file__).parent / "programs3"
TINY = EXAMPLES / "llm_chat" / "models" / "tiny"
TOOLS = '[{"type": "function", "function": {"name": "now", "description": "the time"}}]'
SOC = {"backend": "cpu", "soc": "rk1820"}


def library3(*flags: str) -> Path:
    """librknn3_api.so of this tree."""
    return library(*flags, name=recipe.RKNN3_LIBRARY)


def program(name: str, *flags: str) -> Path:
    """A program of ``programs3``, linked with it."""
    source, built = PROGRAMS / name, library3()
    command = [
        "gcc", "-std=gnu99", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{HEADERS}", *WATCHED, *flags,
        "-o", "{out}", str(source), f"-L{built.parent}", "-lrknn3_api",
    ]  # fmt: skip
    inputs = [
        source,
        built,
        *PROGRAMS.glob("*.h"),
        *(PROGRAMS.parent / "programs").glob("*.h"),
        *HEADERS.glob("*.h"),
    ]
    return made(source.stem, command, inputs)


def started(*words: Any, **variables: str) -> subprocess.CompletedProcess[str]:
    """A program to its end, on the library."""
    return run(words, env=environment(library3(), **variables))


def talking(folder: Path, words: list[Any]) -> subprocess.Popen[str]:
    """A program that says on stdout how far it is, and waits for a line."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    variables = environment(library3(), MARK=str(folder))
    return subprocess.Popen(list(map(str, words)), env=variables, text=True, **pipes)


def below(folder: Path, program: subprocess.Popen[str]) -> list[psutil.Process]:
    """The processes that a program has started: they are no children of it, but have its variables."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("MARK") == str(folder) and process.pid != program.pid:
                found.append(process)
    return found


def network(folder: Path, name: str, prefix: str = "", shape: int | None = None) -> Path:
    """A model; its inputs and outputs as they are stored are written into the folder."""
    model = genuine(name)
    with rknnlite.open(model, **SOC) as context:
        if shape is not None:
            context.set_shapes(context.shapes[shape])
        given = [
            write(folder, f"{prefix}in{attr.index}", pixels(attr.index, *attr.dims).view(np.int8))
            for attr in context.inputs
        ]
        for i, output in enumerate(context.infer(given, pass_through=True, raw=True)):
            write(folder, f"{prefix}out{i}", output.data)
    return model


# -- networks -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["conv_relu.rk3588.i8", "two_images.rk3588.i8", "three_outputs.rk3588.i8"])
def test_networks(tmp_path: Path, name: str) -> None:
    model = network(tmp_path, name)
    done = started(program("network.c"), model, tmp_path)
    assert "OpType" in done.stdout and "Weight Memory" in done.stdout, "profiles are printed"
    assert [line for line in done.stderr.splitlines() if line.startswith("E ")] == [
        "E librknn3_api (rknnlite): rknn3_run: the config says user_mem_internal: call rknn3_set_internal_mem before a run "
        "(error -5)"
    ]
    assert list(tmp_path.glob("*.npy")) or list(tmp_path.rglob("*.npy")), "features were dumped"


def test_dynamic_shapes(tmp_path: Path) -> None:
    for shape in range(3):
        model = network(tmp_path, "dynamic_three.rk3588.i8", f"{shape}.", shape)
    started(program("shapes.c"), model, tmp_path)


def test_a_post_process_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("riscv64-unknown-elf-gcc") is None:
        pytest.skip("no RISC-V compiler is installed")
    monkeypatch.setenv("RKNNLITE_CACHE", str(tmp_path))
    model = network(tmp_path, "conv_relu.rk3588.i8")
    plugin = tmp_path / "libpostprocess_argmax.so"
    source = ROOT / "tests" / "custom_ops" / "c" / "argmax_riscv.c"
    flags = ["--specs=picolibc.specs", "-march=rv64gc", "-mabi=lp64d", "-mcmodel=medany", "-fpic", "-w", "-c"]
    command = ["riscv64-unknown-elf-gcc", *flags, f"-I{abi.include_dir()}", "-o", str(plugin), str(source)]
    subprocess.run(command, check=True)
    given = np.frombuffer((tmp_path / "in0.i8").read_bytes(), np.int8).reshape(1, 24, 24, 3)
    with rknnlite.open(model, **SOC) as context:
        context.register_postprocess(plugin)
        results = context.infer(given, pass_through=True, raw=True)
        for attr, result in zip(context.outputs, results):
            (tmp_path / attr.name).write_bytes(result.data.tobytes())
    started(program("postprocess.c"), model, plugin, tmp_path)


def test_threads_and_a_fork(tmp_path: Path) -> None:
    started(program("many.c"), network(tmp_path, "conv_relu.rk3588.i8"), tmp_path)


def test_faults_and_a_killed_server(tmp_path: Path) -> None:
    model = network(tmp_path, "conv_relu.rk3588.i8")
    words = [program("faults3.c"), model, TINY, tmp_path]
    with talking(tmp_path, words) as process:
        assert process.stdout is not None and process.stdout.readline() == "kill\n", process.communicate(
            timeout=60
        )
        (server,) = below(tmp_path, process)
        server.kill()
        _, told = process.communicate("k", timeout=60)
    assert process.returncode == 0, told
    lines = told.splitlines()
    assert lines and all(
        re.match(r"E librknn3_api \(rknnlite\): rknn3_\w+: .+ \(error -\d+\)$", line) for line in lines
    )
    assert any("must have 512 (1.0.0) or 584 (1.0.4)" in line for line in lines)


# -- language models ----------------------------------------------------------------------------------------------


class Talk:
    """What ``session.c`` does, in this process: a line per run."""

    def __init__(self, session: LlmSession, embed: EmbedTable) -> None:
        self.session, self.lines = session, ""
        self._ids: list[int] = []
        self._state = CallState.NORMAL
        self.stop_after = 0
        self.calls = LlmCallbacks(
            result=self._result, tokenizer=lambda text: list(text.encode()), embed=embed
        )
        session.set_callbacks(self.calls)

    def _result(self, result: Any, state: CallState) -> int:
        self._ids += result.token_ids
        self._state = state
        if self.stop_after and len(self._ids) >= self.stop_after:
            self.session.stop()
        return 0

    def run(self, name: str, given: Any, most: int, keep: bool = False) -> None:
        self._ids = []
        self.session.run(given, InferParams(keep_history=keep, max_new_tokens=most))
        self.lines += f"{name} {int(self._state)}: {' '.join(map(str, self._ids))}\n"


@pytest.fixture
def talk() -> Iterator[Talk]:
    package = Package.of(str(TINY))
    params = LlmParams(max_context_len=256, vocab=VocabInfo(ignore_eos_token=True))
    with open_llm(package.model, package.weight, **SOC) as model:
        table = EmbedTable(
            package.embed, model.config.vocab_size, model.config.embedding_dim, package.embed_sample()
        )
        with model.session(params) as session:
            yield Talk(session, table)


def expected(talk: Talk, folder: Path) -> str:
    """The lines of ``session.c``."""
    session, embed = talk.session, talk.calls.embed
    assert embed is not None
    rows = np.asarray(embed(np.frombuffer(b"compare", np.uint8).astype(np.int32)), np.float16)
    talk.run("prompt", PromptInput("hello there"), 8)
    talk.run("history", PromptInput("and more"), 6, keep=True)
    talk.run("tokens", TokenInput(list(b"compare")), 5)
    talk.run("embeddings", EmbedInput(rows), 5)
    talk.run("image", MultimodalInput("<image>what?", image=ImageBlock(rows, 7, 1, "[", "]", "~")), 5)

    session.set_callbacks(
        replace(talk.calls, sampling=lambda logits, name: int(np.argmax(logits.astype(np.float16))))
    )
    talk.run("sampled", PromptInput("sampled"), 6)
    seen: list[tuple[int, np.ndarray]] = []
    shown: Callable[..., int] = lambda outputs, state: seen.append((int(state), outputs[0].data)) or 0  # noqa: E731
    session.set_callbacks(replace(talk.calls, output=shown, outputs=(1,)))
    talk.run("outputs", PromptInput("sampled"), 6)
    state, data = seen[-1]
    last = np.asarray(data).reshape(-1)[-128:].astype(np.float16).view(np.uint16)
    talk.lines += f"seen {len(seen)} {state}: {' '.join(map(str, last))}\n"
    session.set_callbacks(talk.calls)
    talk.stop_after = 3
    talk.run("stopped", PromptInput("stop"), 40)
    talk.stop_after = 0
    talk.run("async", PromptInput("later"), 6)

    session.set_chat_template("Be brief.\n", "Q: ", "\nA: ")
    talk.run("template", PromptInput("one"), 5)
    now = session.state()
    counts = (now.n_total_tokens, now.n_max_tokens, now.n_decode_tokens, now.n_prefill_tokens)
    talk.lines += f"state {' '.join(map(str, counts))} {int(now.kvcache_policy)}\n"
    session.save_kvcache(str(folder / "ours"))
    session.clear_kvcache()
    session.load_kvcache(str(folder / "ours"))
    talk.run("loaded", PromptInput("two"), 5, keep=True)
    session.set_kvcache_policy(KvPolicy.NORMAL, 4)
    session.set_function_tools(TOOLS)
    session.clear_kvcache(KvClear.ALL)
    session.set_llm_param(
        LlmParams(256, SamplingParams(repeat_penalty=1.5), vocab=VocabInfo(ignore_eos_token=True))
    )
    talk.run("penalty", PromptInput("penalty"), 8)
    return talk.lines


def test_sessions(talk: Talk, tmp_path: Path) -> None:
    done = started(program("session.c"), TINY, tmp_path)
    assert done.stdout.splitlines() == expected(talk, tmp_path).splitlines()
    assert "stopped 3:" in done.stdout


def test_sessions_at_once_and_their_other_ends(tmp_path: Path) -> None:
    with talking(tmp_path, [program("life.c"), TINY]) as process:
        assert process.stdout is not None and process.stdout.readline() == "kill\n", process.communicate(
            timeout=60
        )
        (server,) = below(tmp_path, process)
        server.kill()
        _, told = process.communicate("k", timeout=60)
    assert process.returncode == 0, told
    assert psutil.wait_procs(below(tmp_path, process), timeout=20)[1] == []


# -- the chat server -----------------------------------------------------------------------------------------------


def parameters(folder: Path) -> tuple[int, Path]:
    """A port, and a file of parameters."""
    for name in ("uvicorn", "starlette"):
        pytest.importorskip(name)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    file = folder / "params.json"
    model = {"alias": "tiny", "model": f"{TINY}.rknn"}
    file.write_text(json.dumps({"host": "127.0.0.1", "port": port, "models": {"tiny": model}}))
    return port, file


def serving(folder: Path, words: list[Any]) -> subprocess.Popen[str]:
    """The program, when its server is ready."""
    process = talking(folder, words)
    assert process.stdout is not None
    if process.stdout.readline() != "ready\n":
        process.kill()
        pytest.fail(process.communicate()[1])
    return process


def test_a_file_of_parameters_that_is_none(tmp_path: Path) -> None:
    """Which a program names: nothing of it is read, and nothing is nested without end."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "deep").write_text("[" * 100_000)
    for path in (Path("/dev/zero"), tmp_path / "pipe", tmp_path / "none", tmp_path / "deep"):
        with pytest.raises(ParamInvalid, match=r"is no file of parameters"):
            ChatServer(path)


@pytest.mark.slow
@pytest.mark.parametrize("as_text", [False, True])
def test_the_chat_server(tmp_path: Path, as_text: bool) -> None:
    port, file = parameters(tmp_path)
    with serving(tmp_path, [program("chat.c"), file.read_text() if as_text else file]) as process:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=10) as answer:
            assert json.load(answer)["data"][0]["id"] == "tiny"
        _, told = process.communicate("stop\n", timeout=60)
    assert process.returncode == 0, told


@pytest.mark.slow
def test_the_chat_server_ends_with_its_program(tmp_path: Path) -> None:
    _, file = parameters(tmp_path)
    with serving(tmp_path, [program("chat.c"), file]) as process:
        servers = below(tmp_path, process)
        assert len(servers) == 2, "one that computes, and the chat server below it"
        process.send_signal(signal.SIGKILL)
        _, alive = psutil.wait_procs(servers, timeout=20)
    assert not alive


# -- the later revision, and our own backend as a client -------------------------------------------------------------


def test_the_library_says_which_revision_it_plays(tmp_path: Path) -> None:
    """Programs that were compiled with a header from 1.0.4 on say so in the environment."""
    source = tmp_path / "version.c"
    source.write_text(
        '#include "rknn3_api.h"\n#include <stdio.h>\nint main(void) { rknn3_context c; rknn3_sdk_version v;\n'
        "if (rknn3_init(&c, NULL) || rknn3_query(c, RKNN3_QUERY_SDK_VERSION, &v, sizeof v)) return 1;\n"
        "puts(v.api_version); return rknn3_destroy(c); }\n"
    )
    folder = library3().parent
    command = ["gcc", f"-I{HEADERS}", "-o", "{out}", str(source), f"-L{folder}", "-lrknn3_api"]
    built = made("version", command, [source, library3()])
    assert started(built).stdout.startswith("1.0.0 (rknnlite ")
    assert started(built, RKNNLITE_RKNN3_VERSION="1.0.5").stdout.startswith("1.0.4 (rknnlite ")


@pytest.mark.parametrize("version", ["1.0.0", "1.0.5"])
def test_the_backend_for_coprocessors_runs_on_it(tmp_path: Path, version: str) -> None:
    """rknn3rt refuses the library by its marker; built without, it plays a coprocessor for all that it calls."""
    source = tmp_path / "client.py"
    source.write_text(CLIENT)
    model = network(tmp_path, "three_outputs.rk3588.i8")
    nameless = library3("-Drknnlite_librknn3_marker=unmarked")
    done = run(
        [sys.executable, source, model, TINY],
        env={
            **environment(nameless), "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "plugins")]),
            "RKNNLITE_RKNN3_LIBRARY": str(nameless), "RKNNLITE_RKNN3_VERSION": version,
        },
    )  # fmt: skip
    assert done.stdout.splitlines()[-4:] == ["network", "shapes", "session", "state"], done.stderr


CLIENT = """
import sys
import numpy as np
import rknnlite
from rknnlite_llm import open_llm
from rknnlite_llm.package import EmbedTable, Package
from rknnlite.spi.llm import InferParams, LlmCallbacks, LlmParams, PromptInput, TokenInput, VocabInfo
from rknnlite_rknn3rt.backend import Rknn3Backend
from tests.support.corpus import genuine

Rknn3Backend._check = lambda self, model: None  # the coprocessor that is played takes other NPUs' files
image = np.random.default_rng(0).integers(-128, 128, (1, 12, 10, 3)).astype(np.int8)
found = []
for backend in ("cpu", "rknn3rt"):
    with rknnlite.open(sys.argv[1], backend=backend, soc="rk1820") as context:
        found.append(context.infer(image, pass_through=True))
        if backend == "rknn3rt":
            context.profile_ops(0)
            if context._need().api.has("rknn3_dup_context"):
                context.wait(context.start())
                assert all(map(np.array_equal, context.get_outputs(), found[0]))
                with context.dup() as twin:
                    assert all(map(np.array_equal, twin.infer(image, pass_through=True), found[0]))
assert len(found[0]) == 3 and all(map(np.array_equal, *found))
print("network", flush=True)
for backend in ("cpu", "rknn3rt"):
    with rknnlite.open(genuine("dynamic_three.rk3588.i8"), backend=backend, soc="rk1820") as context:
        found.append([])
        for (shape,) in context.shapes:
            given = np.random.default_rng(1).integers(-128, 128, shape).astype(np.int8)
            context.set_shapes([shape])
            found[-1] += context.infer(given, pass_through=True)
assert len(found[2]) == 3 and all(map(np.array_equal, found[2], found[3]))
print("shapes", flush=True)
package, told, states = Package.of(sys.argv[2]), [], []
for backend in ("cpu", "rknn3rt"):
    with open_llm(package.model, package.weight, backend=backend, soc="rk1820") as model:
        config = model.config
        table = EmbedTable(package.embed, config.vocab_size, config.embedding_dim, package.embed_sample())
        ids, shown = [], []
        calls = LlmCallbacks(
            lambda result, state: ids.extend(result.token_ids), lambda text: list(text.encode()), table,
            output=lambda outputs, state: shown.append(np.array(outputs[0].data).astype(np.float16)), outputs=(1,),
        )
        with model.session(LlmParams(128, vocab=VocabInfo(ignore_eos_token=True)), calls) as session:
            session.run(PromptInput("hello"), InferParams(max_new_tokens=5))
            session.run(TokenInput([1, 2, 3]), InferParams(keep_history=True, max_new_tokens=5))
            states.append(session.state())
            session.run_async(PromptInput("again"), InferParams(max_new_tokens=3)).result()
        told.append((config, ids, [rows.reshape(-1)[-128:].tolist() for rows in shown]))
assert told[0] == told[1] and len(told[0][1]) == 13, told
print("session", flush=True)
assert states[0] == states[1], states
print("state", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_sanitizers_find_nothing(tmp_path: Path, sanitizer: str) -> None:
    flags = (f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
    model = network(tmp_path, "conv_relu.rk3588.i8")
    variables = environment(
        library3(*flags), ASAN_OPTIONS="abort_on_error=0:exitcode=9", TSAN_OPTIONS="exitcode=9"
    )
    for name, words in (
        ("network.c", (model, tmp_path)),
        ("many.c", (model, tmp_path)),
        ("session.c", (TINY, tmp_path)),
    ):
        if (name, sanitizer) == ("many.c", "thread"):
            continue  # a thread in a forked child is not followed
        done = run([program(name, *flags), *words], env=variables)
        assert "Sanitizer" not in done.stderr and "runtime error" not in done.stderr


@pytest.mark.slow
def test_valgrind_finds_nothing(tmp_path: Path) -> None:
    needs("valgrind")
    model = network(tmp_path, "conv_relu.rk3588.i8")
    valgrind = [
        "valgrind",
        "--quiet",
        "--error-exitcode=9",
        "--leak-check=full",
        "--errors-for-leak-kinds=definite",
    ]
    started(*valgrind, program("network.c"), model, tmp_path)
    started(*valgrind, program("session.c"), TINY, tmp_path)


def test_every_program_is_run() -> None:
    """No file of ``programs3`` is forgotten here."""
    text = Path(__file__).read_text()
    assert [path.name for path in PROGRAMS.glob("*.c") if f'"{path.name}"' not in text] == []


@pytest.mark.parametrize("revision", [rknn3.FIRST, rknn3.LATER], ids=["1.0.0", "1.0.4"])
def test_every_function_of_the_tables_is_there(revision: rknn3.Revision) -> None:
    done = subprocess.run(
        ["nm", "-D", "--defined-only", library3()], capture_output=True, text=True, check=True
    )
    exported = {line.split()[-1] for line in done.stdout.splitlines()}
    assert set(revision.functions) <= exported
    assert exported - set(rknn3.FIRST.functions) - set(rknn3.LATER.functions) == {
        "rknnlite_librknn3_marker", "start_server", "stop_server",
    }  # fmt: skip
