"""Many clients and models with room for a few: nothing wrong, crossed, starved or kept; and names that share what they name."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from rknnlite_llm import Package
from rknnlite_llm.model_folder import models_in
from rknnlite_server.language_models import open_models
from rknnlite_server.served_model import ServedModel

from tests.support.file_server import serving

from .conftest import QUESTION, TINY, running, until
from .test_language_models import ANSWER, ask, loaded, names, put, settings

_CLIENTS, _ROUNDS = 40, 3
_CYCLES, _WARM = 40, 10
_SLOW_CYCLES = 200


def slowed(
    monkeypatch: pytest.MonkeyPatch, seconds: float = 0.0, gate: threading.Event | None = None
) -> list[str]:
    """Models that take a while to be opened, or until the gate is open; the names of those that were."""
    opened: list[str] = []

    def make(given: Any, server: Any) -> ServedModel:
        opened.append(given.name)
        time.sleep(seconds)
        if gate is not None:
            gate.wait(30)
        return ServedModel(given, server)

    monkeypatch.setattr(open_models, "ServedModel", make)
    return opened


def sums(name: str) -> tuple[str, str]:
    """A question that only the client with this name asks, and its answer."""
    first, second = (ord(letter) % 10 for letter in name[-2:])
    return f"What is {first} + {second}?", f"{first} + {second} = {first + second}"


@pytest.mark.slow
def test_forty_clients_over_six_models_with_room_for_two(tmp_path: Path) -> None:
    folder = put(tmp_path / "m", *"abcdef")
    with running(settings(folder, llm_models=2, queue=200, timeout=120)) as server:
        most: list[int] = []

        def client(number: int) -> list[tuple[str, str]]:
            found = []
            with httpx.Client(base_url=server.url, timeout=120) as http:
                for turn in range(_ROUNDS):
                    name = "abcdef"[(number + turn * number) % 6]
                    question, wanted = sums(f"{number:02d}")
                    body = {
                        "model": name,
                        "messages": [{"role": "user", "content": question}],
                        "stream": False,
                    }
                    told = http.post("/api/chat", json=body).json()
                    assert told["model"] == name, told
                    found.append((told["message"]["content"], wanted))
                    most.append(len([p for p in server.state.library.open._open if p.model is not None]))
            return found

        with ThreadPoolExecutor(_CLIENTS) as pool:
            for pairs in pool.map(client, range(_CLIENTS)):
                assert all(said == wanted for said, wanted in pairs), pairs
        assert max(most) <= 2
        library = server.state.library.open
        assert not library.leaving and all(not place.users for place in library._open)


@pytest.mark.slow
def test_a_model_that_is_asked_all_the_time_keeps_no_other_one_out(tmp_path: Path) -> None:
    with running(settings(put(tmp_path / "m", "a", "b"), llm_models=1, parallel=4)) as server:
        stop = threading.Event()
        said: Counter[str] = Counter()

        def busy() -> None:
            with httpx.Client(base_url=server.url, timeout=60) as http:
                while not stop.is_set():
                    body = {"model": "a", "messages": QUESTION, "stream": False}
                    said[http.post("/api/chat", json=body).json()["message"]["content"]] += 1

        threads = [threading.Thread(target=busy) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            until(lambda: said[ANSWER] > 3)
            for _ in range(3):
                assert ask(server, "b").json()["message"]["content"] == ANSWER
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert set(said) == {ANSWER}


def test_who_waits_for_room_waits_for_the_timeout_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, gate = put(tmp_path / "m", "a", "b"), threading.Event()
    with running(settings(folder, llm_models=1, timeout=1.5)) as server:
        held = server.state.library
        assert ask(server, "a").status_code == 200
        (place,) = held.open._open
        place.users += 1  # somebody who is never done
        start = time.monotonic()
        answer = ask(server, "b")
        assert answer.status_code == 503 and time.monotonic() - start < 4
        assert "--llm-models" in answer.json()["error"] and "busy" in answer.json()["error"]
        assert int(answer.headers["Retry-After"]) > 0
        place.users -= 1
        slowed(monkeypatch, gate=gate)
        answer = ask(server, "b")
        assert answer.status_code == 503 and "is being loaded" in answer.json()["error"]
        gate.set()
        until(lambda: ask(server, "b").status_code == 200)


def test_all_who_wait_for_a_model_that_fails_are_told_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, gate = put(tmp_path / "m", "a", "b"), threading.Event()
    weight = folder / "b.weight"
    weight.write_bytes(weight.read_bytes()[:-100])
    with running(settings(folder, llm_models=2)) as server:
        assert ask(server, "a").status_code == 200
        opened = slowed(monkeypatch, gate=gate)
        with ThreadPoolExecutor(8) as pool:
            asked = [pool.submit(ask, server, "b") for _ in range(8)]
            until(lambda: len(opened) == 1)
            gate.set()
            answers = [one.result() for one in asked]
        assert all(answer.status_code == 500 and "b.weight" in answer.json()["error"] for answer in answers)
        for _ in range(3):  # nothing has changed, so nothing is tried and nobody leaves for it
            assert ask(server, "b").status_code == 500
        assert opened == ["b"] and loaded(server) == ["a:latest"]
        assert server.post("/models/load", model="b").status_code == 500 and opened == ["b", "b"]
        until(lambda: not server.state.library.open.leaving)


def test_a_client_that_goes_away_while_its_model_loads_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, gate = put(tmp_path / "m", "a", "b", "c"), threading.Event()
    with running(settings(folder, llm_models=1)) as server:
        opened = slowed(monkeypatch, gate=gate)
        with httpx.Client(base_url=server.url, timeout=0.5) as http:
            for name in ("a", "b"):
                with pytest.raises(httpx.ReadTimeout):
                    http.post("/api/chat", json={"model": name, "messages": QUESTION})
        entries = server.state.library._entries
        until(lambda: entries["a"].place.users == entries["b"].place.users == 0)
        gate.set()
        assert ask(server, "c").status_code == 200
        assert opened == ["a", "c"], "nobody wanted b any more"
        assert loaded(server) == ["c:latest"]


# -- names of the same files ------------------------------------------------------------------------------


def test_two_names_share_one_open_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = put(tmp_path / "m", "a", "other")
    with running(settings(folder, llm_models=2)) as server:
        opened = slowed(monkeypatch)
        assert server.post("/api/copy", source="a", destination="b").status_code == 200
        made = server.post(
            "/api/create", model="short", stream=False, parameters={"num_predict": 2}, **{"from": "a"}
        )
        assert made.json() == {"status": "success"}
        said = {name: ask(server, name).json() for name in ("a", "b", "short", "other")}
        assert [told["model"] for told in said.values()] == list(said)
        assert said["a"]["message"] == said["b"]["message"] == {"role": "assistant", "content": ANSWER}
        assert said["short"]["eval_count"] == 2 and said["short"]["done_reason"] == "length"
        assert opened == ["a", "other"] and loaded(server) == ["a:latest", "other:latest"]
        cards = {card["id"]: card["status"]["value"] for card in server.http.get("/v1/models").json()["data"]}
        assert set(cards.values()) == {"loaded"} and set(cards) == {"a", "b", "short", "other"}
        digests = {card["name"]: card["digest"] for card in server.http.get("/api/tags").json()["models"]}
        assert digests["a:latest"] == digests["b:latest"] != digests["other:latest"]
        assert server.http.request("DELETE", "/api/delete", json={"model": "a"}).status_code == 200
        assert ask(server, "a").status_code == 404
        assert ask(server, "b").json()["message"]["content"] == ANSWER and opened == ["a", "other"]
        assert loaded(server) == ["b:latest", "other:latest"]
        assert ask(server, "short", keep_alive=0).status_code == 200
        until(lambda: loaded(server) == ["other:latest"])
        assert ask(server, "b").json()["message"]["content"] == ANSWER and opened == ["a", "other", "b"]
        for name in ("b", "short"):
            assert server.http.request("DELETE", "/api/delete", json={"model": name}).status_code == 200
        assert names(server) == ["other:latest"] == loaded(server)
        assert set(server.state.models) == {"other"}


def test_another_context_is_another_open_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(settings(put(tmp_path / "m", "a"))) as server:
        opened = slowed(monkeypatch)
        server.post("/api/create", model="small", stream=False, parameters={"num_ctx": 64}, **{"from": "a"})
        for name in ("a", "small"):
            assert ask(server, name).status_code == 200
        assert opened == ["a", "small"]
        lengths = {one["name"]: one["context_length"] for one in server.http.get("/api/ps").json()["models"]}
        assert lengths["small:latest"] == 64 != lengths["a:latest"]


def test_a_file_that_is_replaced_under_one_name_leaves_the_other_as_it_was(tmp_path: Path) -> None:
    folder = put(tmp_path / "m", "a")
    with running(settings(folder)) as server:
        server.post("/api/copy", source="a", destination="b")
        assert ask(server, "a").status_code == ask(server, "b").status_code == 200
        (folder / "b.rknn").unlink()
        (folder / "b.rknn").write_bytes(b"RKLITLLM" + bytes(100))
        assert ask(server, "b").status_code == 500
        assert ask(server, "a").json()["message"]["content"] == ANSWER and loaded(server) == ["a:latest"]


# -- all that is in a folder ------------------------------------------------------------------------------


def test_broken_models_are_listed_with_their_reasons_and_can_be_deleted(tmp_path: Path) -> None:
    folder = put(tmp_path / "m", "a")
    (folder / "page.gguf").write_bytes(b"<!DOCTYPE html>")
    (folder / "cut.rkllm").write_bytes(b"x" * 10)
    (folder / "network.rknn").write_bytes(b"RKNN" + bytes(100))
    with running(settings(folder)) as server:
        cards = {card["id"]: card["status"] for card in server.http.get("/v1/models").json()["data"]}
        assert cards["a"] == {"value": "unloaded"} and set(cards) == {"a", "cut", "page"}
        for name, part in (("page", "no GGUF file"), ("cut", "cut.rkllm")):
            assert cards[name]["value"] == "failed" and part in cards[name]["error"]
            for answer in (ask(server, name), server.post("/models/load", model=name)):
                assert answer.status_code == 500 and part in answer.text
            assert server.post("/api/show", model=name).status_code == 200
            assert server.post("/api/create", model="x", **{"from": name}, stream=False).status_code == 422
            assert server.http.request("DELETE", "/api/delete", json={"model": name}).status_code == 200
        assert names(server) == ["a:latest"] and ask(server, "a").status_code == 200
        assert loaded(server) == ["a:latest"]


def test_what_show_says_is_true_before_and_behind_loading_and_loads_nothing(tmp_path: Path) -> None:
    folder = put(tmp_path / "m", "a")
    shutil.copytree(TINY.parents[1] / "trained", folder / "hf")
    with running(settings(folder, explicit=True)) as server:
        for name in ("a", "hf"):
            before = server.post("/api/show", model=name).json()
            assert loaded(server) == [] and before["capabilities"] == ["completion", "tools"]
            assert (
                before["modelfile"].startswith(f"# Modelfile of {name}")
                and f"\nFROM {name}\n" in before["modelfile"]
            )
            server.post("/models/load", model=name)
            behind = server.post("/api/show", model=name).json()
            info = {k: v for k, v in behind["model_info"].items() if k != "general.parameter_count"}
            if name == "a":
                assert info == before["model_info"] and before["template"] == behind["template"]
            assert before["details"]["family"] == behind["details"]["family"]
            server.post("/models/unload", model=name)


@pytest.mark.parametrize("cycles", [_CYCLES, pytest.param(_SLOW_CYCLES, marks=pytest.mark.slow)])
def test_coming_and_going_leaves_nothing_behind(tmp_path: Path, cycles: int) -> None:
    psutil = pytest.importorskip("psutil")
    process = psutil.Process()

    def figures() -> tuple[int, int, int]:
        return process.memory_info().rss, process.num_fds(), threading.active_count()

    folder = put(tmp_path / "m", "a", "b")
    with running(settings(folder, llm_models=1)) as server:
        seen = []
        for number in range(cycles):
            name = "ab"[number % 2]
            assert ask(server, name, keep_alive=0 if number % 4 == 3 else None).status_code == 200
            seen.append(figures())
        until(lambda: len(server.state.models) <= 1)
    memory, files, threads = zip(*seen[_WARM:])
    third = max(1, len(memory) // 3)
    grown = sum(memory[-third:]) / third - sum(memory[:third]) / third
    print(
        json.dumps(
            {"cycles": cycles, "grown": grown, "files": [min(files), max(files)], "threads": max(threads)}
        )
    )
    assert (
        grown < 4 << 20 and max(files[-third:]) - max(files[:third]) <= 6 and max(threads) - min(threads) <= 6
    )
    if os.environ.get("RKNNLITE_FIGURES"):
        (tmp_path / "figures.json").write_text(json.dumps(seen), "utf-8")
    assert set(models_in(folder)) == {"a", "b"}


def test_how_far_loading_is_shows_in_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, gate = put(tmp_path / "m", "a"), threading.Event()

    def slowly(stored: Any, progress: Any) -> Path:
        progress(3, 10, "a matrix")
        gate.wait(30)
        return stored.path

    monkeypatch.setattr(open_models, "as_package", slowly)
    with running(settings(folder)) as server, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, server, "a")
        until(
            lambda: server.state.library._entries and server.state.library._entries["a"].status == "loading"
        )
        until(lambda: "done" in server.http.get("/v1/models/a").json()["status"])
        assert server.http.get("/v1/models/a").json()["status"] == {
            "value": "loading",
            "done": 3,
            "total": 10,
        }
        gate.set()
        assert answer.result().status_code == 200
        assert server.http.get("/v1/models/a").json()["status"] == {"value": "loaded"}


def test_pulls_that_stall_take_nothing_from_others_and_are_four_at_most(tmp_path: Path) -> None:
    folder, done = put(tmp_path / "m", "a"), threading.Event()

    def slow(handler: Any) -> None:
        handler.send_response(200)
        handler.end_headers()
        with contextlib.suppress(OSError):
            while not done.wait(0.05):
                handler.wfile.write(b"GGUF" * 2000)

    with running(settings(folder)) as server, serving(tmp_path) as files, ThreadPoolExecutor(4) as pool:
        for number in range(5):
            files.own[f"f{number}.gguf"] = slow

        def leaving(number: int) -> None:
            with (
                httpx.Client(base_url=server.url, timeout=30) as http,
                http.stream("POST", "/api/pull", json={"model": f"{files.url}/f{number}.gguf"}) as lines,
            ):
                told = lines.iter_lines()
                while "total" not in next(told):
                    pass
                done_pulling.wait(30)

        done_pulling = threading.Event()
        pulls = [pool.submit(leaving, number) for number in range(4)]
        until(lambda: server.state.library.changing == 4)
        until(lambda: len(list((folder / ".pull").rglob("*.part"))) == 4)
        answer = server.post("/api/pull", model=f"{files.url}/f4.gguf", stream=False)
        assert answer.status_code == 429 and "4 models" in answer.json()["error"]
        for _ in range(3):
            assert ask(server, "a").json()["message"]["content"] == ANSWER
        done_pulling.set()
        for pull in pulls:
            pull.result()
        until(lambda: server.state.library.changing == 0)  # clients that leave end them
        done.set()
        assert names(server) == ["a:latest"]


def test_clients_have_nothing_fetched_from_this_machine_unless_it_is_allowed(tmp_path: Path) -> None:
    source = put(tmp_path / "source", "far")
    (tmp_path / "m").mkdir()
    with running(settings(tmp_path / "m", allow_pull=())) as server, serving(source) as files:
        for host in ("127.0.0.1", "localhost", "[::1]", "0.0.0.0", "2130706433"):
            address = f"http://{host}:{files.server_port}/far.rknn"
            answer = server.post("/api/pull", model=address, stream=False)
            assert answer.status_code in (400, 503), answer.text
            assert "--allow-pull" in answer.json()["error"] or "nobody answers" in answer.json()["error"]
        assert files.asked == [] and names(server) == []


@pytest.mark.slow
def test_models_are_copied_deleted_loaded_and_unloaded_under_load(tmp_path: Path) -> None:
    """Whatever is done to models, an answer is right, or an error that says that the model is not there."""
    folder, stop = put(tmp_path / "m", "a", "b", "c"), threading.Event()
    with running(settings(folder, llm_models=2, queue=200)) as server:
        wrong: list[str] = []
        answers: Counter[int] = Counter()

        def client(number: int) -> None:
            question, wanted = sums(f"{number:02d}")
            body = {"messages": [{"role": "user", "content": question}], "stream": False}
            with httpx.Client(base_url=server.url, timeout=60) as http:
                turn = number
                while not stop.is_set():
                    turn += 1
                    told = http.post("/api/chat", json={"model": "abcxy"[turn % 5], **body})
                    answers[told.status_code] += 1
                    if told.status_code == 200 and told.json()["message"]["content"] != wanted:
                        wrong.append(told.text)
                    if told.status_code not in (200, 404):
                        wrong.append(told.text)

        def administrator(number: int) -> None:
            name = "xy"[number]
            with httpx.Client(base_url=server.url, timeout=60) as http:
                for turn in range(12):
                    source = "abc"[turn % 3]
                    made = {"model": name, "from": source, "stream": False, "parameters": {"top_k": 1 + turn}}
                    calls = (
                        http.post("/api/copy", json={"source": source, "destination": name}),
                        http.post("/models/load", json={"model": name}),
                        http.post("/api/create", json=made),
                        http.post("/models/unload", json={"model": source}),
                        http.request("DELETE", "/api/delete", json={"model": name}),
                    )
                    wrong.extend(
                        f"{call.request.url}: {call.text}" for call in calls if call.status_code != 200
                    )

        clients = [threading.Thread(target=client, args=(number,)) for number in range(8)]
        administrators = [threading.Thread(target=administrator, args=(number,)) for number in range(2)]
        for thread in (*clients, *administrators):
            thread.start()
        for thread in administrators:
            thread.join()
        stop.set()
        for thread in clients:
            thread.join()
        assert not wrong, wrong[:3]
        assert answers[200] > 20 and names(server) == ["a:latest", "b:latest", "c:latest"]
        library = server.state.library.open
        until(lambda: not library.leaving and not any(place.users for place in library._open))
        assert len(library._open) <= 2 and {
            path.name for path in folder.iterdir() if path.name[0] != "."
        } == {path.name for name in "abc" for path in Package.of(folder / name).files()}
