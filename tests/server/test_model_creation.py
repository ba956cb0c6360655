"""Models that clients make: texts, messages, templates, adapters; by ``ollama`` of PyPI and npm; and the kinds of a folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_llm import Package, export_llm
from rknnlite_llm.container.safetensors import SafeTensors
from rknnlite_llm.gguf import read_gguf
from rknnlite_server.command import COMMAND
from rknnlite_server.settings import ServerSettings, settings_of

from rknnlite.errors import ParamInvalid
from rknnlite.formats import ModelFile
from tests.llm.test_lora import targets, write_adapter
from tests.support.embedding_models import TOKENIZERS, write_encoder
from tests.support.file_server import serving
from tests.support.npm import run_node

from .conftest import QUESTION, TINY, Served, running, until
from .test_language_models import ANSWER, ask, loaded, names, put, settings

TRAINED = TINY.parents[1] / "trained"
PROGRAM = Path(__file__).with_name("npm_ollama.mjs")
ECHO = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"


def create(server: Served, name: str, **fields: Any) -> Any:
    source = {} if "files" in fields else {"from": "a"}
    return server.post("/api/create", model=name, stream=False, **source, **fields)


def prompt_tokens(server: Served, name: str) -> int:
    return int(ask(server, name).json()["prompt_eval_count"])


def test_what_a_model_was_given_counts_where_a_request_says_nothing(tmp_path: Path) -> None:
    folder = put(tmp_path / "m", "a")
    example = [{"role": "user", "content": "What is 1 + 1?"}, {"role": "assistant", "content": "1 + 1 = 2"}]
    with running(settings(folder)) as server:
        plain = prompt_tokens(server, "a")
        for name, fields in {
            "brief": {"system": "Be brief."},
            "shown": {"messages": example},
            "stopped": {"parameters": {"stop": ["="]}},
            "echo": {"template": ECHO, "license": ["MIT", "or not"]},
        }.items():
            assert create(server, name, **fields).json() == {"status": "success"}
        assert prompt_tokens(server, "brief") > plain and prompt_tokens(server, "shown") > plain
        with_own = server.post(
            "/api/chat",
            model="brief",
            stream=False,
            messages=[{"role": "system", "content": "Be brief."}, *QUESTION],
        ).json()
        assert with_own["prompt_eval_count"] == prompt_tokens(server, "brief")
        counted = server.chat(model="brief").json()["usage"]["prompt_tokens"]
        assert counted == prompt_tokens(server, "brief"), "all APIs have the same model"
        assert ask(server, "stopped").json()["message"]["content"] == "2 + 3 "
        free = {"num_predict": 20, "stop": ["nothing"]}
        assert ask(server, "stopped", options=free).json()["message"]["content"] == ANSWER
        shown = {
            name: server.post("/api/show", model=name).json()
            for name in ("brief", "shown", "stopped", "echo")
        }
        assert (
            shown["brief"]["system"] == "Be brief."
            and 'SYSTEM """Be brief."""' in shown["brief"]["modelfile"]
        )
        assert shown["shown"]["messages"] == example and "MESSAGE assistant" in shown["shown"]["modelfile"]
        assert 'PARAMETER stop "="' in shown["stopped"]["modelfile"]
        assert shown["echo"]["template"] == ECHO and shown["echo"]["license"] == "MIT\nor not"
        assert shown["echo"]["capabilities"] == ["completion"], "its template knows no tools"
        # made of one that was made, it has all of that, and what is said anew
        more = server.post(
            "/api/create", model="more", stream=False, system="Be kind.", **{"from": "stopped"}
        )
        assert more.json() == {"status": "success"}
        text = server.post("/api/show", model="more").json()["modelfile"]
        assert "Be kind." in text and 'PARAMETER stop "="' in text


def test_adapters_that_are_sent(tmp_path: Path) -> None:
    folder = put(tmp_path / "m", "a")
    write_adapter(tmp_path / "lora", targets(TRAINED), 1)
    with running(settings(folder)) as server:
        digests = {}
        for path in (tmp_path / "lora").iterdir():
            digests[path.name] = sent(server, path.read_bytes())
        assert create(server, "tuned", adapters=digests).json() == {"status": "success"}
        assert ask(server, "a").json()["message"]["content"] == ANSWER
        tuned = ask(server, "tuned", options={"num_predict": 8})
        assert tuned.status_code == 200 and tuned.json()["message"]["content"] != ANSWER
        assert server.post("/api/copy", source="tuned", destination="again").status_code == 200
        again = ask(server, "again", options={"num_predict": 8}).json()["message"]
        assert again == tuned.json()["message"]
        for name in ("tuned", "again"):
            assert server.http.request("DELETE", "/api/delete", json={"model": name}).status_code == 200
        assert sorted(path.name for path in folder.iterdir() if path.name[0] != ".") == sorted(
            path.name for path in Package.of(folder / "a").files()
        )


def sent(server: Served, data: bytes) -> str:
    import hashlib

    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    head = {"Content-Type": "application/octet-stream"}
    assert server.http.post(f"/api/blobs/{digest}", content=data, headers=head).status_code == 201
    return digest


def test_files_that_are_no_model_are_422_and_leave_nothing(tmp_path: Path) -> None:
    folder = put(tmp_path / "m", "a")
    with running(settings(folder)) as server:
        digest = sent(server, b"<!DOCTYPE html>")
        for name in ("x.gguf", "x.bin"):
            answer = create(server, "x", files={name: digest})
            assert answer.status_code == 422, answer.text
        assert names(server) == ["a:latest"]


# -- the kinds of models ----------------------------------------------------------------------------------


def write_gguf_model(path: Path) -> Path:
    """The trained model as a GGUF file, as llama.cpp's converter names its parts."""
    gguf = pytest.importorskip("gguf", reason="needs the package gguf (extra gguf)")
    pairs = read_gguf(Package.of(TINY).tokenizer.read_bytes(), "tokenizer")
    writer = gguf.GGUFWriter(path, "qwen2")
    for key, value in pairs.items():
        if key in ("general.architecture", "tokenizer.huggingface.json"):
            continue
        if isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, (list, np.ndarray)):
            writer.add_array(key, list(value) if isinstance(value, list) else [int(one) for one in value])
        else:
            add = {str: writer.add_string, int: writer.add_uint32, float: writer.add_float32}[type(value)]
            add(key, value)
    known = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN2, 4)
    file = SafeTensors(ModelFile(TRAINED / "model.safetensors").data)
    for name in file.names:
        stem, what = name.rsplit(".", 1)
        writer.add_tensor(f"{known.get_name(stem)}.{what}", file.float32(name).copy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_all_kinds_of_a_folder_answer_leave_and_come_back(tmp_path: Path) -> None:
    folder = put(tmp_path / "m", "package")
    shutil.copytree(TRAINED, folder / "hf")
    write_gguf_model(folder / "file.gguf")
    encoder = write_encoder(tmp_path / "encoder", "bert")
    TOKENIZERS["bert"](encoder / "tokenizer.json")
    export_llm(encoder, folder / "bert", "f32")
    shutil.copytree(encoder, folder / "bert-hf")
    with running(settings(folder, llm_models=1)) as server:
        kinds = {
            one["name"]: one["details"]["format"] for one in server.http.get("/api/tags").json()["models"]
        }
        assert kinds == {
            "package:latest": "rknn",
            "hf:latest": "safetensors",
            "file:latest": "gguf",
            "bert:latest": "rknn",
            "bert-hf:latest": "safetensors",
        }
        for _ in range(2):
            for name in ("package", "hf", "file"):
                assert ask(server, name).json()["message"]["content"] == ANSWER, name
                assert loaded(server) == [f"{name}:latest"]
            rows = []
            for name in ("bert", "bert-hf"):
                assert server.post("/api/show", model=name).json()["capabilities"] == ["embedding"], name
                made = server.post("/api/embed", model=name, input=["the cat", "a dog"])
                rows.append(np.array(made.json()["embeddings"]))
                assert loaded(server) == [f"{name}:latest"]
                assert ask(server, name).status_code == 501
            assert rows[0].shape == rows[1].shape and np.abs(rows[0] - rows[1]).max() < 0.05  # float32 and w8
        with_bound = server.http.get("/api/ps").json()["models"][0]
        assert with_bound["size"] > 0 and with_bound["expires_at"] > "2026"


# -- clients ----------------------------------------------------------------------------------------------


def test_the_package_makes_models_and_tells_what_they_are(tmp_path: Path) -> None:
    ollama = pytest.importorskip("ollama")
    source = put(tmp_path / "source", "far")
    (tmp_path / "m").mkdir()
    with running(settings(tmp_path / "m")) as server, serving(source) as files:
        client = ollama.Client(host=server.url)
        statuses = [part.status for part in client.pull(f"{files.url}/far.rknn", stream=True)]
        assert statuses[0] == "pulling manifest" and statuses[-1] == "success"
        made = client.create(
            "bot",
            from_="far",
            system="Be brief.",
            parameters={"temperature": 0.0, "stop": ["\n"], "num_ctx": 256},
            messages=[
                {"role": "user", "content": "What is 1 + 1?"},
                {"role": "assistant", "content": "1 + 1 = 2"},
            ],
            license="MIT",
            template=ECHO,
        )
        assert made.status == "success"
        shown = client.show("bot")
        assert shown.capabilities == ["completion"] and shown.template == ECHO and shown.license == "MIT"
        assert shown.modelinfo["qwen2.context_length"] == 256 and "num_ctx" in shown.parameters
        assert client.show("far").capabilities == ["completion", "tools"]
        assert "".join(part.message.content for part in client.chat("bot", QUESTION, stream=True))
        (running_now,) = client.ps().models
        assert (running_now.model, running_now.context_length) == (
            "bot:latest",
            256,
        ) and running_now.size > 1e6
        with pytest.raises(ollama.ResponseError, match="generates text"):
            client.embed("far", "text")
        client.generate("far", keep_alive=-1)
        assert {one.model: one.expires_at.year for one in client.ps().models}["far:latest"] == 9999
        for name in ("far", "bot"):
            client.generate(name, keep_alive=0)
        assert client.ps().models == []
        with pytest.raises(ollama.ResponseError) as refused:
            client.create("q", from_="far", quantize="q4_K_M")
        assert refused.value.status_code == 400
        with pytest.raises(ollama.ResponseError, match="web page"):
            (source / "page.gguf").write_text("<!DOCTYPE html>", "utf-8")
            list(client.pull(f"{files.url}/page.gguf", stream=True))


def test_npm_ollama(tmp_path: Path) -> None:
    source = put(tmp_path / "source", "far")
    (tmp_path / "m").mkdir()
    with running(settings(tmp_path / "m")) as server, serving(source) as files:
        told = run_node(PROGRAM, server.url, files.url, packages=("ollama",))
        assert told == {
            "pulled": ["pulling manifest", "success"],
            "created": ["success"],
            "shown": ["completion", "tools"],
            "system": "Be brief.",
            "said": ANSWER,
            "streamed": ANSWER,
            "running": ["far:latest"],
            "embedded": 501,
            "left": ["bot:latest"],
            "gone": 404,
        }


# -- who is heard of --------------------------------------------------------------------------------------


def test_each_change_leaves_one_line_in_the_audit(tmp_path: Path) -> None:
    folder, path = put(tmp_path / "m", "a"), tmp_path / "audit.log"
    source = put(tmp_path / "source", "far")
    with (
        running(settings(folder, audit_file=str(path), api_keys=("k1 name=alice",))) as server,
        serving(source) as files,
    ):
        server.http.headers["Authorization"] = "Bearer k1"

        def lines() -> list[tuple[str, str, int]]:
            text = path.read_text("utf-8")
            path.write_text("", "utf-8")
            return [
                (line["key"], line["call"], line["status"]) for line in map(json.loads, text.splitlines())
            ]

        lines()
        wrong = {"model": f"{files.url}/far.rknn", "sha256": {"far.rknn": "0" * 64}}
        for method, route, body, status in [
            ("POST", "/models/load", {"model": "a"}, 200),
            ("POST", "/models/load", {"model": "none"}, 404),
            ("POST", "/models/unload", {"model": "a"}, 200),
            ("POST", "/api/generate", {"model": "a"}, 200),
            ("POST", "/api/chat", {"model": "a", "keep_alive": 0}, 200),
            ("POST", "/api/generate", {"model": "none"}, 404),
            ("POST", "/api/copy", {"source": "a", "destination": "b"}, 200),
            ("POST", "/api/copy", {"source": "none", "destination": "b"}, 404),
            ("POST", "/api/create", {"model": "c", "from": "a"}, 200),
            ("POST", "/api/create", {"model": "c"}, 400),
            ("POST", "/api/pull", {"model": f"{files.url}/far.rknn"}, 200),
            ("POST", "/api/pull", {**wrong, "as": "x", "stream": False}, 422),
            ("POST", "/api/pull", {**wrong, "as": "y"}, 422),  # told in the middle of a stream
            ("POST", "/api/push", {"model": "a"}, 501),
            ("DELETE", "/api/delete", {"model": "c"}, 200),
            ("DELETE", "/api/delete", {"model": "c"}, 404),
            ("POST", f"/api/blobs/sha256:{'0' * 64}", {}, 400),
        ]:
            server.http.request(method, route, json=body)
            until(lambda: path.stat().st_size)  # a stream ends before its line is written
            assert lines() == [("alice", f"{method} {route}", status)]
        ask(server, "a")
        server.http.get("/v1/models")
        server.post("/api/show", model="a")
        assert lines() == []


def test_a_file_of_parameters_and_a_command_line_say_the_same(tmp_path: Path) -> None:
    import argparse

    from rknnlite_server.arguments import settings_of_arguments

    parser = argparse.ArgumentParser()
    COMMAND.arguments(parser)
    words = [
        "--llm-repository",
        str(tmp_path),
        "--llm-models",
        "2",
        "--llm-bytes",
        "1000",
        "--keep-alive",
        "5m",
    ]
    words += ["--explicit", "--allow-manage", "--allow-pull", "nas.local"]
    ours = settings_of_arguments(parser.parse_args(words), [])
    data = {
        "llm-repository": str(tmp_path),
        "llm-models": 2,
        "llm-bytes": 1000,
        "keep-alive": "5m",
        "explicit": True,
        "allow-manage": True,
        "allow-pull": ["nas.local"],
    }
    assert (
        settings_of(data, ServerSettings(llm_defaults=ours.llm_defaults, grpc_port=ours.grpc_port), "file")
        == ours
    )
    assert ours.keep_alive == 300 and ours.allow_pull == ("nas.local",)
    for entry, why in [
        ({"keep-alive": "soon"}, "keep-alive soon"),
        ({"llm-models": 0}, "llm_models is 0"),
        ({"allow-pull": "x"}, "list of hosts"),
        ({"llm-repository": str(tmp_path / "none")}, "no folder"),
        ({"made": {}}, "unknown entry"),
        ({"models": {"x": {"model": "x.rknn", "made": {}}}}, "unknown entry"),
    ]:
        with pytest.raises(ParamInvalid, match=why):
            settings_of({**data, **entry}, ServerSettings(), "file")
