"""Files and batches: the unmodified package ``openai`` against a server that keeps them, over two lives of it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

if os.name != "posix":
    pytest.skip("batches need locks on files", allow_module_level=True)

from rknnlite_server.app_state import State
from rknnlite_server.jobs.batch import lines_of
from rknnlite_server.settings import ServerSettings

from rknnlite.errors import ParamInvalid
from tests.support.npm import run_node

from .conftest import MODEL, QUESTION, Served, running, until

CHAT = "/v1/chat/completions"


def line(name: str, **body: Any) -> str:
    return json.dumps(
        {
            "custom_id": name,
            "method": "POST",
            "url": CHAT,
            "body": {"model": "tiny", "messages": QUESTION, **body},
        }
    )


def settings(folder: Path, **more: Any) -> ServerSettings:
    return ServerSettings(models=(MODEL,), batch_dir=str(folder / "batches"), **more)


@pytest.fixture(scope="module")
def keeping(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    keys = ("alices-key name=alice", "bobs-key name=bob")
    with running(settings(tmp_path_factory.mktemp("jobs"), api_keys=keys)) as served:
        yield served


def client_of(served: Served, key: str = "none") -> Any:
    return pytest.importorskip("openai").OpenAI(base_url=f"{served.url}/v1", api_key=key, max_retries=0)


def made(client: Any, *lines: str, **more: Any) -> Any:
    file = client.files.create(file=("in.jsonl", "\n".join(lines).encode()), purpose="batch")
    return client.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h", **more)


def ended(client: Any, batch: Any) -> Any:
    found: list[Any] = []

    def over() -> bool:
        found[:] = [client.batches.retrieve(batch.id)]
        return found[0].status in ("completed", "failed", "cancelled", "expired")

    until(over)
    return found[0]


def rows(client: Any, file_id: str) -> dict[str, Any]:
    text = client.files.content(file_id).text
    return {row["custom_id"]: row["response"] for row in map(json.loads, text.splitlines())}


def test_openai_makes_a_batch_and_reads_its_answers(keeping: Served) -> None:
    client = client_of(keeping, "alices-key")
    batch = made(
        client, line("a"), line("b", max_tokens=2), line("wrong", temperature=1000), metadata={"of": "mine"}
    )
    assert batch.status == "validating" and batch.metadata == {"of": "mine"}
    batch = ended(client, batch)
    assert (batch.status, batch.request_counts.total, batch.request_counts.completed) == ("completed", 3, 2)
    assert batch.request_counts.failed == 1 and batch.completed_at >= batch.in_progress_at >= batch.created_at
    answers = rows(client, batch.output_file_id)
    assert set(answers) == {"a", "b"} and answers["a"]["status_code"] == 200
    assert answers["a"]["body"]["choices"][0]["message"]["content"] == "2 + 3 = 5"
    assert answers["b"]["body"]["choices"][0]["finish_reason"] == "length"
    wrong = rows(client, batch.error_file_id)["wrong"]
    assert wrong["status_code"] == 400 and "temperature is 1000" in wrong["body"]["error"]["message"]
    assert [found.id for found in client.batches.list()] == [batch.id]
    assert batch.output_file_id in [file.id for file in client.files.list(purpose="batch_output")]


def test_messages_wait_for_their_turn(tmp_path: Path) -> None:
    """A full queue is 529 there, and no answer of a batch."""
    with running(settings(tmp_path, parallel=1, queue=0)) as served:
        client, turnstile = client_of(served), served.state.models["tiny"].turnstile
        body = {"model": "tiny", "messages": QUESTION, "max_tokens": 50}
        asked = {"custom_id": "a", "method": "POST", "url": "/v1/messages", "body": body}
        file = client.files.create(file=("in.jsonl", json.dumps(asked).encode()), purpose="batch")
        turnstile._inside = 1
        batch = client.batches.create(input_file_id=file.id, endpoint="/v1/messages", completion_window="24h")
        until(lambda: client.batches.retrieve(batch.id).status == "in_progress")
        time.sleep(1)
        assert client.batches.retrieve(batch.id).status == "in_progress"
        turnstile._inside = 0
        answer = rows(client, ended(client, batch).output_file_id)["a"]
        assert answer["body"]["content"] == [{"type": "text", "text": "2 + 3 = 5"}]


def test_files_are_read_listed_and_deleted_by_their_owner_alone(keeping: Served) -> None:
    package = pytest.importorskip("openai")
    alice, bob = client_of(keeping, "alices-key"), client_of(keeping, "bobs-key")
    file = alice.files.create(file=("my file.jsonl", b"x\r\ny"), purpose="batch")
    assert (file.filename, file.bytes, file.purpose) == ("my file.jsonl", 4, "batch")
    assert alice.files.content(file.id).content == b"x\r\ny" and alice.files.retrieve(file.id) == file
    assert list(bob.files.list()) == list(bob.batches.list()) == []
    for call in (bob.files.retrieve, bob.files.content, bob.files.delete, bob.batches.retrieve):
        with pytest.raises(package.NotFoundError):
            call(file.id)
    with pytest.raises(package.BadRequestError, match="No such file"):
        bob.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h")
    assert alice.files.delete(file.id).deleted
    with pytest.raises(package.NotFoundError):
        alice.files.retrieve(file.id)


def test_a_file_that_is_none_fails_with_the_lines_that_are_wrong(keeping: Served) -> None:
    client = client_of(keeping, "alices-key")
    batch = ended(client, made(client, line("a"), "{", line("a"), line("s", stream=True)))
    assert batch.status == "failed" and batch.output_file_id is None
    assert [(error.line, error.code) for error in batch.errors.data] == [
        (n, "invalid_request") for n in (2, 3, 4)
    ]
    assert "is there before" in batch.errors.data[1].message


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\n \n", "no requests"),
        (b"[]", "must be an object"),
        (b'{"custom_id": ""}', "custom_id must be text"),
        (b'{"custom_id": "a", "method": "GET"}', "method must be POST"),
        (b'{"custom_id": "a", "method": "POST", "url": "/v1/embeddings"}', f"url must be {CHAT}"),
        (
            f'{{"custom_id": "a", "method": "POST", "url": "{CHAT}", "body": 1}}'.encode(),
            "body must be an object",
        ),
        (b"\n" * 3 + b"[" * 1000, "line 4"),
    ],
)
def test_lines(content: bytes, why: str) -> None:
    lines, errors = lines_of(content, CHAT)
    assert lines == [] and why in f"line {errors[0]['line']}: {errors[0]['message']}"


def test_what_was_not_finished_goes_on_with_the_next_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rknnlite_server import generation

    real = generation._Reader.result

    def later(self: object, result: object, state: object) -> None:
        time.sleep(0.02)
        real(self, result, state)  # type: ignore[arg-type]

    monkeypatch.setattr(generation._Reader, "result", later)
    names = [f"line-{n}" for n in range(12)]
    chosen = replace(settings(tmp_path), drain=0.1)
    with running(chosen) as served:
        client = client_of(served)
        batch = made(client, *map(line, names))
        until(lambda: client.batches.retrieve(batch.id).request_counts.completed >= 2)
        with pytest.raises(ParamInvalid, match="another server uses it"):
            State(chosen)
    monkeypatch.undo()
    with running(chosen) as served:
        client = client_of(served)
        batch = ended(client, batch)
        assert batch.status == "completed" and batch.request_counts.completed == len(names)
        text = client.files.content(batch.output_file_id).text
        assert sorted(json.loads(row)["custom_id"] for row in text.splitlines()) == sorted(names)
        assert not list(Path(chosen.batch_dir).glob("*.part"))


def test_a_batch_is_cancelled_and_keeps_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rknnlite_server import generation

    real = generation._Reader.result

    def later(self: object, result: object, state: object) -> None:
        time.sleep(0.02)
        real(self, result, state)  # type: ignore[arg-type]

    monkeypatch.setattr(generation._Reader, "result", later)
    with running(settings(tmp_path)) as served:
        client = client_of(served)
        batch = made(client, *(line(f"line-{n}") for n in range(100)))
        until(lambda: client.batches.retrieve(batch.id).request_counts.completed >= 1)
        assert client.batches.cancel(batch.id).status == "cancelling"
        batch = ended(client, batch)
        assert batch.status == "cancelled" and batch.cancelled_at
        assert 0 < len(rows(client, batch.output_file_id)) < 100
        answer = served.post(f"/v1/batches/{batch.id}/cancel")
        assert answer.status_code == 409


def test_a_key_that_is_taken_away_ends_its_batches(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("alices-key tokens=1\nbobs-key\n")
    with running(settings(tmp_path, api_key_file=str(keys))) as served:
        alice, bob = client_of(served, "alices-key"), client_of(served, "bobs-key")
        file = alice.files.create(file=("in.jsonl", "\n".join(map(line, "abcdef")).encode()), purpose="batch")
        batch = alice.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h")
        assert (
            ended(bob, made(bob, line("a"))).status == "completed"
        )  # who has no tokens left holds nobody up
        (store,) = [served.state.jobs]
        assert store is not None
        keys.write_text("bobs-key\n")
        (kept,) = [one for one in store.open() if one.id == batch.id]
        until(lambda: kept.status == "failed")
        assert kept.errors[0]["code"] == "key_removed"


def test_there_is_room_for_so_much(tmp_path: Path) -> None:
    package = pytest.importorskip("openai")
    with running(settings(tmp_path, batch_bytes=10)) as served:
        client = client_of(served)
        client.files.create(file=("a", b"123456"), purpose="batch")
        with pytest.raises(package.InternalServerError, match="--batch-bytes"):
            client.files.create(file=("b", b"123456"), purpose="batch")
        for answer in (
            served.http.post("/v1/files", files={"file": b"1"}),  # as any web page may send it
            served.http.post("/v1/files", files={"file": b"1"}, headers={"Authorization": "Basic eDp5"}),
        ):
            assert answer.status_code == 415


def test_without_a_folder_there_are_none(server: Served) -> None:
    for answer in (server.http.get("/v1/files"), server.http.get("/v1/batches")):
        assert answer.status_code == 501 and "--batch-dir" in answer.json()["error"]["message"]


# -- limits and ends -----------------------------------------------------------------------------------------


def slow(monkeypatch: pytest.MonkeyPatch, seconds: float = 0.02) -> None:
    """Tokens take their time."""
    from rknnlite_server import generation

    real = generation._Reader.result

    def later(self: object, result: object, state: object) -> None:
        time.sleep(seconds)
        real(self, result, state)  # type: ignore[arg-type]

    monkeypatch.setattr(generation._Reader, "result", later)


def test_after_a_day_a_batch_is_expired_and_keeps_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rknnlite_server.jobs import batch as module

    slow(monkeypatch)
    with running(settings(tmp_path)) as served:
        client = client_of(served)
        found = made(client, *(line(f"line-{n}") for n in range(100)))
        assert found.expires_at == found.created_at + 86400
        until(lambda: client.batches.retrieve(found.id).request_counts.completed >= 1)
        monkeypatch.setattr(module, "WINDOW", -1)  # a day has passed
        found = ended(client, found)
        assert found.status == "expired" and found.expired_at and found.completed_at is None
        counts = found.request_counts
        assert counts.total == 100 and 0 < counts.completed < 100
        assert len(rows(client, found.output_file_id)) == counts.completed
        assert served.post(f"/v1/batches/{found.id}/cancel").status_code == 409


def test_embeddings_and_their_file_are_read_by_openai(tmp_path: Path) -> None:
    embedding = replace(MODEL, alias="embed", embedding=True)
    chosen = replace(settings(tmp_path), models=(MODEL, embedding))
    with running(chosen) as served:
        client = client_of(served)
        lines = [
            json.dumps(
                {
                    "custom_id": name,
                    "method": "POST",
                    "url": "/v1/embeddings",
                    "body": {"model": "embed", "input": name},
                }
            )
            for name in ("one", "two")
        ]
        file = client.files.create(file=("in.jsonl", "\n".join(lines).encode()), purpose="batch")
        batch = client.batches.create(
            input_file_id=file.id, endpoint="/v1/embeddings", completion_window="24h"
        )
        batch = ended(client, batch)
        found = rows(client, batch.output_file_id)
        for name in ("one", "two"):
            wanted = client.embeddings.create(model="embed", input=name, encoding_format="float")
            assert found[name]["body"]["data"][0]["embedding"] == wanted.data[0].embedding


def test_pages_go_on_where_the_last_one_ended(keeping: Served) -> None:
    client = client_of(keeping, "bobs-key")
    ids = [client.files.create(file=(f"{n}", b"x"), purpose="batch").id for n in range(5)]
    listed = [file.id for file in client.files.list()]
    assert sorted(listed) == sorted(ids) and [file.id for file in client.files.list(limit=2)] == listed
    page = client.files.list(limit=2)
    assert [file.id for file in page.data] == listed[:2] and page.has_more
    assert [file.id for file in client.files.list(limit=5, after=listed[1]).data] == listed[2:]
    assert [file.id for file in client.files.list(order="asc").data] == listed[::-1]
    headers = {"Authorization": "Bearer bobs-key"}

    def asked(query: str) -> Any:
        return keeping.http.get(f"/v1/files?{query}", headers=headers)

    before = asked(f"before={listed[3]}&limit=2").json()
    assert [file["id"] for file in before["data"]] == listed[1:3] and before["has_more"]
    assert not asked(f"before={listed[1]}").json()["has_more"]
    for query in ("limit=0", "limit=-1", "limit=99999999999", "limit=x", "order=up"):
        assert asked(query).status_code == 400
    for name in ids:
        client.files.delete(name)


def test_a_file_has_50000_requests_and_no_more() -> None:
    row = b'{"custom_id": "%d", "method": "POST", "url": "/v1/chat/completions", "body": {}}\n'
    content = b"".join(row % n for n in range(50_000))
    lines, errors = lines_of(content, CHAT)
    assert (len(lines), errors) == (50_000, [])
    lines, errors = lines_of(content + row % 50_000, CHAT)
    assert lines == [] and errors[0]["code"] == "too_many_requests"


def test_a_line_that_is_too_long_is_refused_before_it_is_kept(keeping: Served) -> None:
    import http.client

    host, port = keeping.url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=30)
    head = {
        "Authorization": "Bearer alices-key",
        "Content-Type": "multipart/form-data; boundary=b",
        "Content-Length": str(100 << 20),
    }
    connection.putrequest("POST", "/v1/files")
    for name, value in head.items():
        connection.putheader(name, value)
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def test_a_full_disk_loses_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rknnlite_server.jobs import runner

    from rknnlite.files.writing import DiskFull, GrowingFile

    real, full = GrowingFile.append, [False]

    def append(self: GrowingFile, data: bytes) -> None:
        if full[0] and len(data) > 20:
            real(self, data[:20])
            full[0] = False
            raise DiskFull(28, "No space left on device", "answers")
        real(self, data)

    monkeypatch.setattr(GrowingFile, "append", append)
    monkeypatch.setattr(runner, "_AGAIN_SECONDS", 0.05)
    with running(settings(tmp_path)) as served:
        client = client_of(served)
        full[0] = True
        names = [f"line-{n}" for n in range(6)]
        batch = ended(client, made(client, *map(line, names)))
        assert not full[0] and batch.status == "completed"
        text = client.files.content(batch.output_file_id).text
        assert sorted(json.loads(row)["custom_id"] for row in text.splitlines()) == names


def test_what_ended_long_ago_is_removed(tmp_path: Path) -> None:
    from rknnlite_server.jobs.batch import Batch
    from rknnlite_server.jobs.job_store import JobStore

    store = JobStore(str(tmp_path / "jobs"), 1 << 20, days=1)

    def kept(name: str, status: str, ended: int) -> Batch:
        made = store.files.keep(f"file-{name}", "", "in", "batch", (b"x",))
        old = replace(made, created_at=ended)
        store.files._files[made.id] = old
        batch = Batch(f"batch_{name}", "", CHAT, made.id, ended, status=status, times={status: ended})
        store.save(batch)
        return batch

    now = int(time.time())
    kept("old", "completed", now - 90_000)
    kept("new", "completed", now - 80_000)
    kept("open", "in_progress", now - 90_000)
    store.tidy()
    assert [batch.id for batch in store.all()] == ["batch_new", "batch_open"]
    assert [file.id for file in store.files.all()] == ["file-new", "file-open"]
    names = {path.name for path in (tmp_path / "jobs").iterdir()}
    assert not any("old" in name for name in names)
    store.close()


def test_there_are_so_many_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rknnlite_server.jobs import job_store
    from rknnlite_server.jobs.batch import Batch

    monkeypatch.setattr(job_store, "_MOST_BATCHES", 2)
    store = job_store.JobStore(str(tmp_path / "jobs"), 1 << 20)
    for n, status in enumerate(("in_progress", "failed", "completed", "failed")):
        store.save(Batch(f"batch_{n}", "", CHAT, "file-x", n, status=status, times={status: n}))
    store.tidy()
    assert [batch.id for batch in store.all()] == ["batch_0", "batch_3"]
    store.close()


def test_figures_tell_of_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow(monkeypatch)
    with running(settings(tmp_path, metrics=True)) as served:
        client = client_of(served)
        batch = made(client, *(line(f"line-{n}") for n in range(30)))
        until(lambda: client.batches.retrieve(batch.id).request_counts.completed >= 1)
        text = served.http.get("/metrics").text
        assert 'rknnlite_batches{status="in_progress"} 1.0' in text
        assert 'rknnlite_batch_lines{state="left"}' in text and "rknnlite_file_bytes" in text
        client.batches.cancel(batch.id)
        ended(client, batch)
        assert 'rknnlite_batches{status="cancelled"} 1.0' in served.http.get("/metrics").text


SERVE = """
import sys, time
from rknnlite_server import generation
from rknnlite_server.control import serve
from rknnlite_server.settings import ModelSettings, ServerSettings
real = generation._Reader.result
def later(self, result, state):
    time.sleep(0.01)
    real(self, result, state)
generation._Reader.result = later
model = ModelSettings(model=sys.argv[1], alias="tiny", temp=0.0)
serve(ServerSettings(models=(model,), port=0, batch_dir=sys.argv[2]), listening=lambda url, grpc: print(url, flush=True))
"""


@pytest.mark.slow
def test_a_server_that_is_killed_loses_and_doubles_no_line(tmp_path: Path) -> None:
    import signal
    import subprocess
    import sys

    names = [f"line-{n:02}" for n in range(40)]
    folder = str(tmp_path / "batches")
    package = pytest.importorskip("openai")

    def serve() -> tuple[Any, Any]:
        command = [sys.executable, "-c", SERVE, MODEL.model, folder]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        return process, package.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=9)

    process, client = serve()
    batch = made(client, *map(line, names))
    kills, done, seen = 0, 0, {}
    while True:
        try:
            count = client.batches.retrieve(batch.id).request_counts.completed
            part = Path(folder) / f"{batch.id}.part"
            if kills < 3 and count >= done + 5:
                process.send_signal(signal.SIGKILL)
                process.wait()
                for row in part.read_text().splitlines():
                    found = json.loads(row) if row.endswith("}") else {}
                    seen.setdefault(found.get("custom_id"), found.get("id"))
                kills, done = kills + 1, count
                process, client = serve()
            elif client.batches.retrieve(batch.id).status == "completed":
                break
        except package.APIConnectionError:
            continue
    text = client.files.content(client.batches.retrieve(batch.id).output_file_id).text
    answers = [json.loads(row) for row in text.splitlines()]
    assert sorted(answer["custom_id"] for answer in answers) == names
    by_name = {answer["custom_id"]: answer["id"] for answer in answers}
    assert kills == 3 and all(by_name[name] == identity for name, identity in seen.items() if name)
    assert {path.suffix for path in Path(folder).iterdir()} <= {".json", ".content", ""}
    process.send_signal(signal.SIGTERM)
    process.wait(60)


def test_a_line_is_given_up_for_who_waits_and_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rknnlite_server.jobs import runner

    asked: list[bytes] = []
    real = runner.ask

    async def counted(app: Any, path: str, body: bytes, account: Any) -> Any:
        asked.append(body)
        return await real(app, path, body, account)

    monkeypatch.setattr(runner, "ask", counted)
    slow(monkeypatch, 0.2)
    with running(settings(tmp_path, parallel=1)) as served:
        client = client_of(served)
        batch = made(client, line("long"))
        turnstile = served.state.models["tiny"].turnstile
        for chat in range(6):
            until(lambda: turnstile.running == 1)  # the line
            assert served.chat(max_tokens=1).status_code == 200
            cut = len(asked) >= min(chat + 1, 1 + runner._MOST_CUTS)
            assert cut
            if client.batches.retrieve(batch.id).status == "completed":
                break
        batch = ended(client, batch)
        assert len(asked) == 1 + runner._MOST_CUTS
        content = rows(client, batch.output_file_id)["long"]["body"]["choices"][0]["message"]["content"]
        assert content == "2 + 3 = 5"


def test_npms_openai_goes_the_whole_way(tmp_path: Path) -> None:
    program = Path(__file__).with_name("npm_batches.mjs")
    with running(settings(tmp_path)) as served:
        found = run_node(program, f"{served.url}/v1", packages=("openai",))
    assert found == {
        "status": "completed",
        "counts": {"total": 2, "completed": 1, "failed": 1},
        "metadata": {"of": "npm"},
        "said": "2 + 3 = 5",
        "refused": 400,
        "batches": True,
        "files": True,
        "cancelled": 409,
        "deleted": True,
        "gone": 404,
    }
