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
    import time

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
    import time

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
