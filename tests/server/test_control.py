"""Servers as processes and inside of programs: how they begin, what they say, how they end."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from rknnlite_llm.draft_and_adapters import DraftAndAdapters
from rknnlite_server.arguments import settings_of_arguments
from rknnlite_server.command import COMMAND
from rknnlite_server.control import ServerStatus, start_server, stop_server
from rknnlite_server.served_model import ServedModel
from rknnlite_server.settings import ModelSettings, ServerSettings, settings_of

from rknnlite.errors import BackendUnavailable, ContextInvalid, ParamInvalid, RknnError
from tests.support.brothers import slow_unless

from .conftest import MODEL, QUESTION, TINY, until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
STREAM = {"messages": QUESTION, "stream": True}


@dataclass
class Child:
    """A server that is a process of its own."""

    process: subprocess.Popen[str]
    url: str
    said: list[str]

    def ready(self) -> Child:
        until(lambda: any("ready: " in line for line in self.said) or self.process.poll() is not None)
        return self

    def chat(self, **body: Any) -> httpx.Response:
        return httpx.post(f"{self.url}/v1/chat/completions", json={"messages": QUESTION, **body}, timeout=60)

    def end(self) -> int:
        """By SIGTERM; the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextlib.contextmanager
def child(*arguments: object, command: str = "serve", **options: Any) -> Iterator[Child]:
    """``rknnlite serve`` or ``rkllm3-server`` on a free port, once it listens or has ended."""
    words = ["-m", "rknnlite", "serve"]
    if command == "rkllm3-server":
        words = ["-c", "from rknnlite_server.command import main; main()"]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}", "RKNNLITE_BACKEND": "cpu"}
    process = subprocess.Popen(
        [sys.executable, *words, *map(str, arguments)], stderr=subprocess.PIPE, text=True, env=environment,
        stdout=subprocess.DEVNULL, **options,
    )  # fmt: skip
    said: list[str] = []
    assert process.stderr is not None
    reader = threading.Thread(target=_read, args=(process.stderr, said), daemon=True)
    reader.start()

    def address() -> Any:
        return re.search(r"(https?://\S+) \(models", "".join(said))

    try:
        until(lambda: address() or process.poll() is not None)
        if process.poll() is not None:
            reader.join(60)
        found = address()
        yield Child(process, found.group(1) if found else "", said)
    finally:
        process.kill()
        process.wait()
        reader.join(60)


def _read(lines: Any, said: list[str]) -> None:
    for line in lines:
        said += [line]


def ended(*arguments: object, command: str = "serve") -> tuple[int, str]:
    """Exit status and words of a server that cannot run."""
    with child(*arguments, command=command) as server:
        status = server.process.wait(60)
    return status, "".join(server.said)


# -- beginning -----------------------------------------------------------------------------------------------


def test_an_address_that_is_taken_is_told_before_anything_is_loaded() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        status, said = ended("--llm", TINY, "--port", port)
    assert status == 4 and f"127.0.0.1:{port} cannot be listened on" in said and "loaded" not in said


def test_other_addresses_than_loopback_need_keys(tmp_path: Path) -> None:
    status, said = ended("--llm", TINY, "--host", "0.0.0.0", "--port", 0)
    assert status != 0 and "--api-key-file" in said
    keys = tmp_path / "keys"
    keys.write_text("# of the kitchen\n\n secret \n")
    with child("--llm", TINY, "--host", "0.0.0.0", "--port", 0, "--api-key-file", keys) as server:
        port = server.url.rpartition(":")[2]
        found = httpx.get(f"http://127.0.0.1:{port}/v1/models")
        assert found.status_code == 401
    assert "secret" not in "".join(server.said)


@pytest.mark.parametrize(
    "spoilt", slow_unless(lambda spoilt: spoilt == "other", ["missing", "empty", "other"])
)
def test_unusable_certificates(tmp_path: Path, spoilt: str) -> None:
    cert, key = certificate(tmp_path)
    if spoilt == "missing":
        key = tmp_path / "nothing"
    elif spoilt == "empty":
        cert.write_text("")
    else:
        (tmp_path / "more").mkdir()
        _, key = certificate(tmp_path / "more")
    status, said = ended("--llm", TINY, "--port", 0, "--tls-cert", cert, "--tls-key", key)
    assert status == 2 and "certificate" in said and "Traceback" not in said


def test_a_pipe_is_no_certificate(tmp_path: Path) -> None:
    """Opening it would wait for somebody who writes."""
    os.mkfifo(tmp_path / "pipe")
    for files in ((tmp_path / "pipe", Path(__file__)), (Path(__file__), tmp_path / "pipe")):
        settings = ServerSettings(models=(MODEL,), tls_cert=str(files[0]), tls_key=str(files[1]), port=0)
        with pytest.raises(ParamInvalid, match=r"cannot be used: .*it is a pipe"):
            start_server(settings)


def certificate(folder: Path) -> tuple[Path, Path]:
    """Of localhost, by itself."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
        capture_output=True, check=False,
    )  # fmt: skip
    if made.returncode:
        pytest.skip("no openssl")
    return cert, key


def test_https(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    with child("--llm", TINY, "--port", 0, "--tls-cert", cert, "--tls-key", key) as server:
        server.ready()
        trusted = ssl.create_default_context(cafile=str(cert))
        assert httpx.get(f"{server.url}/health", verify=trusted).json() == {"status": "ok"}
        assert server.url.startswith("https://") and server.end() == 0


def test_a_model_that_cannot_be_loaded_is_told_and_is_the_exit_status(tmp_path: Path) -> None:
    bad = tmp_path / "bad.rknn"
    bad.write_bytes(b"nothing")
    with child("--llm", bad, "--port", 0) as server:
        until(lambda: "could not be loaded" in "".join(server.said))
        health = httpx.get(f"{server.url}/health")
        assert health.status_code == 503 and "bad.rknn" in health.json()["error"]["message"]
        assert server.end() == 1


@pytest.mark.parametrize("damage", ["text", "cut", "folder"])
def test_the_network_that_cannot_be_loaded_is_named(damage: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.rknn"
    genuine = (ROOT / "examples" / "resnet18" / "resnet18_for_RK3588.rknn").read_bytes()
    if damage == "folder":
        bad.mkdir()
    else:
        bad.write_bytes(b"nothing" if damage == "text" else genuine[: len(genuine) // 2])
    with child(bad, "--port", 0, "--grpc-port", -1) as server:
        until(lambda: "could not be loaded" in "".join(server.said) or server.process.poll() is not None)
        assert str(bad) in "".join(server.said)


# -- ending --------------------------------------------------------------------------------------------------


def test_a_signal_under_load_finishes_what_runs() -> None:
    with child("--llm", TINY, "--port", 0, "--parallel", 2, "--temp", 0) as server:
        server.ready()
        with ThreadPoolExecutor(6) as clients:
            found = [clients.submit(server.chat) for _ in range(6)]
            until(lambda: any(one.done() for one in found))
            assert server.end() == 0
            with pytest.raises(httpx.TransportError):
                server.chat()
        for one in found:
            with contextlib.suppress(httpx.ConnectError):  # it came too late
                assert one.result().json()["choices"][0]["message"]["content"] == "2 + 3 = 5"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_loading(number: int) -> None:
    with child("--llm", TINY, "--port", 0) as server:
        server.process.send_signal(number)
        assert server.process.wait(60) == 0
        assert "Traceback" not in "".join(server.said)


def test_what_does_not_end_in_time_is_cut_and_told() -> None:
    """A run that would never end, by a time that is over at once."""
    settings = ServerSettings(models=(MODEL,), port=0, drain=0.2)
    with inside(settings) as told:
        until(lambda: told.url)
        until(lambda: told.heard)
        body = {**STREAM, "temperature": 100, "top_k": 0, "top_p": 1, "n": 16}
        with httpx.stream("POST", f"{told.url}/v1/chat/completions", json=body, timeout=60) as response:
            lines = response.iter_lines()
            next(lines)
            stop_server()
            text = "\n".join(lines)
        until(lambda: not told.thread.is_alive())
    assert "the server is stopping" in text or text.rstrip().endswith("[DONE]")
    assert told.heard[-1][0] is ServerStatus.EXITED


# -- inside of a program -------------------------------------------------------------------------------------


@dataclass
class Told:
    """What a server in a thread said."""

    heard: list[tuple[ServerStatus, str]]
    thread: Any = None
    url: str = ""


@contextlib.contextmanager
def inside(config: Any) -> Iterator[Told]:
    """``start_server`` in a thread; ``stop_server`` at the end."""
    told = Told([])
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    if isinstance(config, ServerSettings):
        config = ServerSettings(**{**vars(config), "port": port})
    else:
        config = {**config, "port": port}
    told.url = f"http://127.0.0.1:{port}"
    told.thread = threading.Thread(
        target=start_server, args=(config, lambda status, text: told.heard.append((status, text)))
    )
    told.thread.start()
    try:
        yield told
    finally:
        until(lambda: stop_server() or not told.thread.is_alive())


def test_start_and_stop_twice_from_threads() -> None:
    config = {"models": {"tiny": {"model": str(TINY), "temp": 0}}}
    for _ in range(2):
        with inside(config) as told:
            until(lambda told=told: told.heard)
            assert httpx.get(f"{told.url}/health").json() == {"status": "ok"}
            with pytest.raises(ContextInvalid, match="stop_server first"):
                start_server(config)
        assert [status for status, _ in told.heard] == [ServerStatus.MODEL_INITED, ServerStatus.EXITED]


def test_stopped_before_it_began() -> None:
    for delay in (0, 0.01, 0.1):
        with inside({"models": {"tiny": {"model": str(TINY)}}}) as told:
            time.sleep(delay)
        assert [status for status, _ in told.heard].count(ServerStatus.EXITED) == 1
    stop_server()


def test_an_address_that_is_taken_is_a_status_too() -> None:
    heard: list[Any] = []
    with socket.create_server(("127.0.0.1", 0)) as other:
        config = json.dumps({"port": other.getsockname()[1], "models": {"tiny": {"model": str(TINY)}}})
        with pytest.raises(BackendUnavailable, match="cannot be listened on"):
            start_server(config, lambda *said: heard.append(said[0]))
    assert heard == [ServerStatus.ERROR]


@pytest.mark.parametrize(
    "config",
    ["{", {}, {"models": {}}, {"models": {"a": {}}}, {"models": {"a": {"model": "x", "temp": "hot"}}}],
)
def test_unusable_configurations(config: Any) -> None:
    with pytest.raises(ParamInvalid):
        start_server(config)


# -- arguments -----------------------------------------------------------------------------------------------


def test_the_guide_s_own_command_line_and_file_descriptors(tmp_path: Path) -> None:
    parts = {
        part: os.open(TINY.with_suffix(f".{part}"), os.O_RDONLY)
        for part in ("rknn", "weight", "embed.bin", "tokenizer.gguf")
    }
    words = [
        "-m", parts["rknn"], "--weight", parts["weight"], "--embed", parts["embed.bin"],
        "--vocab", parts["tokenizer.gguf"], "-a", "mine", "-c", 256, "--n_predict", 3, "--temp", 0, "--top-k", 1,
        "--top-p", 1.0, "--repeat-penalty", 1.0, "--presence-penalty", 0, "--frequency-penalty", 0,
        "--port", 0, "-to", 60, "--log-level", 2,
    ]  # fmt: skip
    with child(*words, command="rkllm3-server", pass_fds=tuple(parts.values())) as server:
        server.ready()
        (card,) = httpx.get(f"{server.url}/v1/models").json()["data"]
        assert (card["id"], card["meta"]["n_ctx"]) == ("mine", 256)
        assert server.chat().json()["usage"]["completion_tokens"] == 3
        assert server.end() == 0
    assert "INFO" in "".join(server.said), "level 2 tells more than errors"
    for number in parts.values():
        os.close(number)


def test_a_file_of_parameters(tmp_path: Path) -> None:
    file = tmp_path / "params.json"
    entry = {"model": str(TINY), "ctx-size": 128, "max-tokens": 2, "temp": 0, "top-k": 0, "qwenvl": False}
    file.write_text(
        json.dumps(
            {
                "host": "127.0.0.1",
                "port": 0,
                "timeout": 60,
                "models": {"one": entry, "two": {**entry, "alias": "zwei"}},
            }
        )
    )
    with child("--params-file", file, "-c", 64, "--temp", 3, command="rkllm3-server") as server:
        server.ready()
        cards = httpx.get(f"{server.url}/v1/models").json()["data"]
        assert [(card["id"], card["meta"]["n_ctx"]) for card in cards] == [("one", 128), ("zwei", 128)]
        assert server.chat(model="zwei").json()["usage"]["completion_tokens"] == 2


def test_what_goes_along_with_a_model_in_a_file_of_parameters() -> None:
    entry = {"model": "x.rknn", "draft": "small", "speculate": 6, "lora": "adapters", "lora-scale": 1}
    both = settings_of(
        {"models": {"one": entry, "two": {"model": "y.rknn"}}}, ServerSettings(), "file"
    ).models
    assert [model.draft_and_adapters for model in both] == [
        DraftAndAdapters("small", 6, "adapters", 1),
        DraftAndAdapters(),
    ]
    assert replace(both[1], speculate=0).draft_and_adapters.speculate == 0
    parser = argparse.ArgumentParser()
    COMMAND.arguments(parser)
    words = [
        "--llm",
        "x",
        "--draft",
        "small",
        "--speculate",
        "6",
        "--lora",
        "adapters",
        "--lora-scale",
        "0.5",
    ]
    args = parser.parse_args(words)
    (told,) = settings_of_arguments(args, args.llm).models
    assert told.draft_and_adapters == DraftAndAdapters("small", 6, "adapters", 0.5)
    with pytest.raises(ParamInvalid, match=r"models\.one: speculate is 'all', must be int"):
        settings_of({"models": {"one": {**entry, "speculate": "all"}}}, ServerSettings(), "file")


@pytest.mark.parametrize(
    "more, match",
    [
        ({"speculate": 16}, "speculate is 16, must be 0 to 15"),
        ({"draft": "nothing"}, "draft nothing: nothing.rknn is not there"),
        ({"lora": "nothing"}, "nothing: no adapter_config.json there"),
    ],
)
def test_what_does_not_go_along_is_told_when_the_server_starts(more: dict[str, Any], match: str) -> None:
    with pytest.raises(RknnError, match=match):
        ServedModel(replace(MODEL, **more), ServerSettings())


def test_a_template_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "own.jinja"
    file.write_text("{% for message in messages %}{{ message.content }}{% endfor %}")
    with child("--llm", TINY, "--port", 0, "--chat-template-file", file) as server:
        server.ready()
        used = server.chat(max_tokens=1).json()["usage"]["prompt_tokens"]
        text = httpx.post(f"{server.url}/tokenize", json={"content": QUESTION[0]["content"]}).json()["tokens"]
        assert used == len(text)


def test_a_model_is_told_by_its_file_or_its_prefix(tmp_path: Path) -> None:
    assert ModelSettings(model="a.rknn").name == "a.rknn"
    status, said = ended("--port", 0, command="rkllm3-server")
    assert status != 0 and "--params-file" in said
    for words in (
        ["--log-level", 9],
        ["--parallel", 0],
        ["--queue", -1],
        ["--port", 70000],
        ["--timeout", "nan"],
    ):
        status, said = ended("--llm", TINY, "--port", 0, *words)
        assert status == 2 and "must be" in said and "Traceback" not in said, words
