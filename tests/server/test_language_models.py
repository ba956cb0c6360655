"""Language models that come and go: a folder of them, and what clients do with it, by HTTP and by the ``ollama`` package."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rknnlite_llm import Package
from rknnlite_server.settings import ModelSettings, ServerSettings

from tests.support.file_server import serving

from .conftest import MODEL, QUESTION, TINY, Served, running, until

ANSWER = "2 + 3 = 5"
COLD = ModelSettings("", temp=0.0)


def put(folder: Path, *names: str) -> Path:
    """The example model under these names."""
    folder.mkdir(exist_ok=True)
    for name in names:
        for source, target in zip(Package.of(TINY).files(), Package.of(folder / name).files()):
            shutil.copy(source, target)
    return folder


def settings(folder: Path, **more: Any) -> ServerSettings:
    base = {
        "llm_repository": str(folder),
        "llm_defaults": COLD,
        "parallel": 2,
        "allow_pull": ("127.0.0.1", "::1"),
    }
    return ServerSettings(**{**base, **more})


def ask(server: Served, name: str, **body: Any) -> Any:
    return server.post("/api/chat", model=name, messages=QUESTION, stream=False, **body)


def loaded(server: Served) -> list[str]:
    return [model["name"] for model in server.http.get("/api/ps").json()["models"]]


def names(server: Served) -> list[str]:
    return [model["name"] for model in server.http.get("/api/tags").json()["models"]]


def test_models_are_loaded_when_they_are_asked_and_leave_after_a_while(tmp_path: Path) -> None:
    with running(settings(put(tmp_path / "m", "a", "b:q4"))) as server:
        assert names(server) == ["a:latest", "b:q4"] and loaded(server) == []
        assert ask(server, "a").json()["message"]["content"] == ANSWER
        assert ask(server, "b:q4", keep_alive="200ms").json()["message"]["content"] == ANSWER
        until(lambda: loaded(server) == ["a:latest"])
        assert ask(server, "a", keep_alive=0).json()["message"]["content"] == ANSWER
        until(lambda: loaded(server) == [])
        cards = {card["id"]: card["status"] for card in server.http.get("/v1/models").json()["data"]}
        assert cards == {"a": {"value": "unloaded"}, "b:q4": {"value": "unloaded"}}


def test_the_least_recently_used_makes_room(tmp_path: Path) -> None:
    with running(settings(put(tmp_path / "m", "a", "b", "c"), llm_models=2)) as server:
        for name in ("a", "b", "a", "c"):
            assert server.chat(model=name).json()["choices"][0]["message"]["content"] == ANSWER
        assert loaded(server) == ["a:latest", "c:latest"]


def test_a_model_that_cannot_fit_says_so_and_bytes_bound_the_rest(tmp_path: Path) -> None:
    folder = put(tmp_path / "m", "a", "b")
    with running(settings(folder, llm_bytes=1000)) as server:
        answer = ask(server, "a")
        assert answer.status_code == 503 and "--llm-bytes" in answer.json()["error"]
    with running(settings(folder, llm_bytes=4 << 20)) as server:  # one has 1.9 MB and two KV caches
        for name in ("a", "b", "a"):
            assert ask(server, name).status_code == 200
            assert loaded(server) == [f"{name}:latest"]


def test_busy_models_are_waited_for(tmp_path: Path) -> None:
    with running(settings(put(tmp_path / "m", "a", "b"), llm_models=1)) as server:
        found: list[Any] = []
        threads = [
            threading.Thread(target=lambda name=name: found.append(ask(server, name)))
            for name in ("a", "b") * 6
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [answer.json()["message"]["content"] for answer in found] == [ANSWER] * 12
        assert len(loaded(server)) == 1


def test_with_explicit_models_wait_until_they_are_loaded(tmp_path: Path) -> None:
    with running(settings(put(tmp_path / "m", "a"), explicit=True)) as server:
        refused = ask(server, "a")
        assert refused.status_code == 404
        assert server.chat(model="a").json()["error"]["code"] == "model_not_loaded"
        assert server.post("/models/load", model="a").json() == {"success": True}
        assert ask(server, "a").json()["message"]["content"] == ANSWER
        assert server.post("/models/unload", model="a").json() == {"success": True}
        assert ask(server, "a").status_code == 404
        assert server.post("/api/generate", model="a").json()["done_reason"] == "load"
        assert ask(server, "a").status_code == 200
        gone = server.post("/api/generate", model="a", keep_alive=0).json()
        assert gone["done_reason"] == "unload" and loaded(server) == []


def test_loading_tells_how_far_it_is(tmp_path: Path) -> None:
    with running(settings(put(tmp_path / "m", "a"))) as server:
        text = server.post("/models/load", model="a", stream=True).text
        told = [json.loads(line) for line in text.splitlines()]
        assert told[0]["status"] == "loading" and told[-1] == {"status": "success"}
        assert loaded(server) == ["a:latest"]


def test_models_of_the_command_line_stay(tmp_path: Path) -> None:
    with running(settings(put(tmp_path / "m", "a"), models=(MODEL,))) as server:
        assert names(server) == ["tiny:latest", "a:latest"]
        assert server.post("/api/generate", model="tiny", keep_alive=0).json()["done_reason"] == "load"
        assert server.post("/models/unload", model="tiny").status_code == 400
        assert server.http.request("DELETE", "/api/delete", json={"model": "tiny"}).status_code == 400
        assert server.post("/api/copy", source="a", destination="tiny").status_code == 400
        assert loaded(server) == ["tiny:latest"]


def test_a_damaged_model_is_told_and_the_others_answer(tmp_path: Path) -> None:
    folder = put(tmp_path / "m", "a", "b")
    weight = folder / "b.weight"
    weight.write_bytes(weight.read_bytes()[:-100])
    with running(settings(folder)) as server:
        answer = ask(server, "b")
        assert answer.status_code == 500 and "b.weight" in answer.json()["error"]
        card = server.http.get("/v1/models/b").json()
        assert card["status"]["value"] == "failed" and "b.weight" in card["status"]["error"]
        assert ask(server, "a").status_code == 200
        put(folder, "b")  # mended, it is another file
        assert ask(server, "b").status_code == 200


# -- copies, deletion ------------------------------------------------------------------------------------


def test_a_model_deleted_while_it_answers_answers_to_the_end(tmp_path: Path) -> None:
    folder = put(tmp_path / "m", "a")
    with running(settings(folder)) as server:
        body = {"model": "a", "messages": QUESTION, "options": {"num_predict": 200, "stop": []}}
        with server.http.stream("POST", "/api/chat", json=body) as answer:
            pieces = answer.iter_lines()
            first = json.loads(next(pieces))
            assert server.http.request("DELETE", "/api/delete", json={"model": "a"}).status_code == 200
            assert names(server) == [] and ask(server, "a").status_code == 404
            rest = [json.loads(line) for line in pieces]
        said = "".join(part["message"]["content"] for part in (first, *rest))
        assert said == ANSWER and rest[-1]["done"]
        assert not [path for path in folder.iterdir() if not path.name.startswith(".")]
        until(lambda: not server.state.library.open.leaving)


def test_copies_outlive_what_they_were_made_of_and_have_parameters(tmp_path: Path) -> None:
    folder = put(tmp_path / "m", "a")
    with running(settings(folder)) as server:
        assert server.post("/api/copy", source="a", destination="b:small").status_code == 200
        made = server.post(
            "/api/create",
            model="c",
            stream=False,
            **{"from": "b:small"},
            parameters={"num_ctx": 64, "top_k": 3},
        )
        assert made.json() == {"status": "success"}
        for name in ("a", "b:small"):
            assert server.http.request("DELETE", "/api/delete", json={"model": name}).status_code == 200
        assert names(server) == ["c:latest"]
        assert ask(server, "c").json()["message"]["content"] == ANSWER
        (running_now,) = server.http.get("/api/ps").json()["models"]
        assert running_now["context_length"] == 64
        assert "top_k                          3" in server.post("/api/show", model="c").json()["parameters"]


@pytest.mark.parametrize(
    ("route", "body", "status", "message"),
    [
        ("copy", {"source": "a", "destination": "../b"}, 400, "no name of a model"),
        ("copy", {"source": "a", "destination": "/tmp/b"}, 400, "no name of a model"),
        ("copy", {"source": "a", "destination": "..:x"}, 400, "no name of a model"),
        ("copy", {"source": "../m/a", "destination": "b"}, 404, "not found"),
        ("copy", {"source": "none", "destination": "b"}, 404, "not found"),
        ("create", {"model": "x\0y", "from": "a"}, 400, "no name of a model"),
        ("create", {"model": "b"}, 400, "neither"),
        ("create", {"model": "b", "from": "a", "system": 1}, 400, "system"),
        ("create", {"model": "b", "from": "a", "quantize": "q4_K_M"}, 400, "export-llm"),
        ("create", {"model": "b", "from": "a", "template": "{{ .Prompt }}"}, 400, "Ollama's language"),
        ("create", {"model": "b", "from": "a", "template": "{% if %}"}, 400, "template"),
        ("create", {"model": "b", "from": "a", "template": "{{ a }}" * (1 << 18)}, 400, "are allowed"),
        ("create", {"model": "b", "from": "a", "messages": [{"role": "tool", "content": ""}]}, 400, "messages"),
        ("create", {"model": "b", "from": "a", "parameters": {"stop": [""]}}, 400, "stop"),
        ("create", {"model": "b", "from": "a", "adapters": {"a.gguf": "sha256:" + "0" * 64}}, 400, "PEFT"),
        ("create", {"model": "b", "from": "a", "parameters": {"top_k": "many"}}, 400, "top_k"),
        ("create", {"model": "b", "from": "a", "parameters": {"mirostat": 1}}, 400, "mirostat"),
        ("create", {"model": "b", "files": {"../b.rknn": "sha256:" + "0" * 64}}, 400, "no name of a file"),
        ("create", {"model": "b", "files": {"b.rknn": "sha256:../../x"}}, 400, "no digest"),
        ("create", {"model": "b", "files": {"b.rknn": "sha256:" + "0" * 64}}, 400, "was not sent"),
        ("pull", {"model": "nothing"}, 404, "not found"),
        ("pull", {"model": "/etc/passwd"}, 404, "not found"),
        ("pull", {"model": "file:///etc/passwd"}, 404, "not found"),
        ("pull", {"model": "http://127.0.0.1:1/a.gguf#sha256=1"}, 400, "no checksum"),
        ("pull", {"model": "http://127.0.0.1:1/a.gguf", "as": "../x"}, 400, "no name of a model"),
        ("pull", {"model": "http://127.0.0.1:1/a.gguf"}, 503, "nobody answers"),
        ("pull", {"model": "http://[::1/a.gguf"}, 400, "no address"),
    ],
)  # fmt: skip
def test_requests_that_make_no_sense(
    managed: Served, route: str, body: dict[str, Any], status: int, message: str
) -> None:
    answer = managed.post(f"/api/{route}", **{"stream": False, **body})
    assert answer.status_code == status, answer.text
    assert message in answer.json()["error"]
    assert names(managed) == ["a:latest"]


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with running(settings(put(tmp_path_factory.mktemp("folder") / "m", "a"))) as served:
        yield served


def test_strangers_change_nothing(managed: Served) -> None:
    for route in ("pull", "create", "copy"):
        body = {"model": "http://x.example/a.gguf", "from": "a", "source": "a", "destination": "b"}
        answer = managed.http.post(f"/api/{route}", json=body, headers={"X-Forwarded-For": "10.0.0.7"})
        assert answer.status_code == 403 and "--allow-manage" in answer.json()["error"], answer.text
    answer = managed.http.request(
        "DELETE", "/api/delete", json={"model": "a"}, headers={"Forwarded": "for=10.0.0.7"}
    )
    assert answer.status_code == 403 and names(managed) == ["a:latest"]


def test_keys_are_asked_for_first(tmp_path: Path) -> None:
    with running(settings(put(tmp_path / "m", "a"), api_keys=("secret",), allow_manage=True)) as server:
        far = {"X-Forwarded-For": "10.0.0.7"}
        body = {"source": "a", "destination": "b"}
        assert server.http.post("/api/copy", json=body, headers=far).status_code == 401
        far["Authorization"] = "Bearer secret"
        assert server.http.post("/api/copy", json=body, headers=far).status_code == 200


# -- pulling ----------------------------------------------------------------------------------------------


def test_the_package_pulls_creates_copies_and_deletes(tmp_path: Path) -> None:
    ollama = pytest.importorskip("ollama")
    source = put(tmp_path / "source", "far")
    (tmp_path / "m").mkdir()
    with running(settings(tmp_path / "m")) as server, serving(source) as files:
        client = ollama.Client(host=server.url)
        told = list(client.pull(f"{files.url}/far.rknn", stream=True))
        assert told[0].status == "pulling manifest" and told[-1].status == "success"
        whole = [part for part in told if part.status == "pulling far.weight"][-1]
        assert whole.completed == whole.total == TINY.with_suffix(".weight").stat().st_size
        assert client.chat("far", QUESTION).message.content == ANSWER
        assert client.pull("far").status == "success"
        assert client.copy("far", "near").status == "success"
        assert client.create("calm", from_="near", parameters={"temperature": 0}).status == "success"
        assert sorted(model.model for model in client.list().models) == [
            "calm:latest",
            "far:latest",
            "near:latest",
        ]
        assert client.generate("calm", QUESTION[0]["content"]).response == ANSWER
        for name in ("far", "near"):
            assert client.delete(name).status == "success"
        with pytest.raises(ollama.ResponseError, match="not found"):
            client.delete("far")
        blobs = {path.name: client.create_blob(path) for path in Package.of(TINY).files()}
        assert client.create("sent", files=blobs).status == "success"
        assert client.chat("sent", QUESTION).message.content == ANSWER
        assert sorted(model.model for model in client.list().models) == ["calm:latest", "sent:latest"]


def test_a_blob_with_other_bytes_is_not_kept(managed: Served) -> None:
    digest = "sha256:" + hashlib.sha256(b"right").hexdigest()
    answer = managed.http.post(
        f"/api/blobs/{digest}", content=b"wrong", headers={"Content-Type": "application/octet-stream"}
    )
    assert answer.status_code == 400 and "SHA-256" in answer.json()["error"]
    assert managed.http.head(f"/api/blobs/{digest}").status_code == 404
    assert managed.http.head("/api/blobs/sha256:..%2f..%2fx").status_code in (400, 404)


def test_a_pull_that_is_cut_goes_on_and_a_client_that_leaves_ends_it(tmp_path: Path) -> None:
    source = put(tmp_path / "source", "far")
    (tmp_path / "m").mkdir()
    with running(settings(tmp_path / "m")) as server, serving(source) as files:
        files.cuts["far.weight"] = 2
        answer = server.post("/api/pull", model=f"{files.url}/far.rknn", stream=False)
        assert answer.json() == {"status": "success"}, answer.text
        ranges = [given for name, given in files.asked if name == "far.weight"]
        assert ranges[0] is None and all(given for given in ranges[1:]) and len(ranges) == 3
        assert (tmp_path / "m" / "far.weight").read_bytes() == TINY.with_suffix(".weight").read_bytes()
        lying = server.post(
            "/api/pull",
            model=f"{files.url}/far.rknn",
            stream=False,
            **{"as": "b"},
            sha256={"far.weight": "0" * 64},
        )
        assert lying.status_code == 422 and "SHA-256" in lying.json()["error"]
        assert names(server) == ["far:latest"]
