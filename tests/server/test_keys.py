"""Keys from a file that is changed while the server runs, their limits, and the audit of administrative calls."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rknnlite_server.audit import Audit, is_administrative
from rknnlite_server.errors import ApiError
from rknnlite_server.keys import Key, Keyring, keys_of, read_keys
from rknnlite_server.rate_limits import Account, Limits
from rknnlite_server.settings import ServerSettings

from rknnlite.errors import ParamInvalid

from .conftest import MODEL, QUESTION, Served, running, until


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


# -- the file ----------------------------------------------------------------------------------------------


def test_a_line_is_a_key_its_name_and_its_limits() -> None:
    lines = [
        "# ours",
        "",
        "  first  ",
        "second name=alice requests=60 tokens=20000 concurrent=4",
        "third tokens=5",
    ]
    assert keys_of(lines, "keys") == (
        Key(b"first", "key-1"),
        Key(b"second", "alice", Limits(60, 20000, 4)),
        Key(b"third", "key-3", Limits(tokens=5)),
    )


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("topsecret request=60", "behind the key there may be name=, requests="),
        ("topsecret phrase", "behind the key there may be"),
        ("topsecret requests=0", r"requests must be a whole number in 1\.\."),
        ("topsecret tokens=many", "tokens must be"),
        ("topsecret concurrent=99999999999", "concurrent must be"),
        ("topsecret name=", "behind the key"),
        ("other", "this key is there before"),
    ],
)
def test_a_wrong_line_is_named_and_its_key_is_not(line: str, why: str) -> None:
    with pytest.raises(ParamInvalid, match=f"keys, line 2: {why}") as caught:
        keys_of(["other", line], "keys")
    assert "topsecret" not in str(caught.value)


def test_a_file_is_read_again_when_it_was_changed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, clock = tmp_path / "keys", Clock()
    path.write_text("first tokens=60\n")
    ring = Keyring(("fixed",), str(path), clock)
    account = ring.account("Bearer first")
    assert account is not None and ring.account("Bearer fixed") is not None
    account.spend_tokens(100)

    path.write_text("first name=alice tokens=60\nsecond\n")
    assert ring.account("Bearer second") is None  # it is looked at once a second
    clock.now += 1
    assert ring.account("Bearer second") is not None
    assert ring.account("Bearer first") is account and account.name == "alice"
    assert account.headers()["x-ratelimit-remaining-tokens"] == "0"  # a change of the file is no new minute

    path.write_text("second requests=no\n")
    clock.now += 1
    assert ring.account("Bearer first") is account and "the keys stay as they were" in caplog.text
    path.unlink()
    clock.now += 1
    assert ring.account("Bearer first") is account
    path.write_text("# none any more\n")
    clock.now += 1
    assert ring.account("Bearer first") is None and ring.account("Bearer second") is None
    assert ring.account("Bearer fixed") is not None and not ring.open


def test_at_the_start_a_file_has_a_key(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("# none\n")
    with pytest.raises(ParamInvalid, match="holds no key"):
        read_keys(str(path))
    with pytest.raises(ParamInvalid, match="--api-key-file"):
        Keyring((), str(tmp_path / "none"))


# -- limits ------------------------------------------------------------------------------------------------


def refusal(account: Account) -> ApiError:
    with pytest.raises(ApiError) as caught, account.request():
        pass
    return caught.value


def test_requests_a_minute() -> None:
    clock = Clock()
    account = Account("alice", Limits(requests=6), clock)
    for left in range(5, -1, -1):
        with account.request():
            assert account.headers()["x-ratelimit-remaining-requests"] == str(left)
    error = refusal(account)
    assert (error.status, error.code, error.headers["Retry-After"]) == (429, "rate_limit_exceeded", "10")
    assert error.headers["x-ratelimit-limit-requests"] == "6"
    assert error.headers["x-ratelimit-reset-requests"] == "60.000s"
    clock.now += 10
    with account.request():
        pass
    assert refusal(account).status == 429
    clock.now += 1000  # it never holds more than a minute's
    for _ in range(6):
        with account.request():
            pass
    assert refusal(account).status == 429


def test_tokens_a_minute_may_be_overdrawn_and_are_waited_for() -> None:
    clock = Clock()
    account = Account("alice", Limits(tokens=60), clock)
    with account.request():
        account.spend_tokens(90)
    error = refusal(account)
    assert "60 tokens a minute" in error.message and error.headers["Retry-After"] == "31"
    clock.now += 31
    with account.request():
        pass


def test_requests_at_a_time() -> None:
    account = Account("alice", Limits(concurrent=2))
    with account.request(), account.request():
        assert "2 requests at a time" in refusal(account).message
    with account.request():
        assert account.headers() == {}
    assert account.running == 0


@pytest.fixture(scope="module")
def limited() -> Iterator[Served]:
    keys = ("free", "few name=few requests=3", "short tokens=40", "one concurrent=1")
    with running(ServerSettings(models=(MODEL,), api_keys=keys)) as served:
        yield served


def chat(served: Served, key: str, **body: Any) -> Any:
    return served.http.post("/v1/chat/completions", json={"messages": QUESTION, **body}, headers=bearer(key))


def test_headers_tell_what_is_left_and_429_when_to_come_back(limited: Served) -> None:
    answers = [limited.http.get("/v1/models", headers=bearer("few")) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert [answer.headers["x-ratelimit-remaining-requests"] for answer in answers] == ["2", "1", "0", "0"]
    assert answers[3].json()["error"]["code"] == "rate_limit_exceeded"
    assert 0 < int(answers[3].headers["retry-after"]) <= 20
    theirs = limited.http.post("/v1/messages", json={}, headers={"x-api-key": "few"})
    assert theirs.status_code == 429 and theirs.json()["error"]["type"] == "rate_limit_error"
    assert "retry-after" in theirs.headers and "request-id" in theirs.headers
    assert (
        limited.http.get("/api/tags", headers=bearer("few")).json()["error"].startswith("the key few has 3")
    )
    assert limited.http.get("/health", headers=bearer("few")).status_code == 200
    free = limited.http.get("/v1/models", headers=bearer("free"))
    assert free.status_code == 200 and "x-ratelimit-limit-requests" not in free.headers


def test_prompts_and_answers_count(limited: Served) -> None:
    answer = chat(limited, "short")
    used = answer.json()["usage"]["total_tokens"]
    assert int(answer.headers["x-ratelimit-remaining-tokens"]) in (40 - used, 40 - used + 1, 0)
    statuses = [chat(limited, "short", max_tokens=20).status_code for _ in range(6)]
    assert 429 in statuses and limited.http.get("/v1/models", headers=bearer("free")).status_code == 200


def test_a_stream_is_a_request_until_its_end(limited: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    from rknnlite_server import generation

    real = generation._Reader.result

    def later(self: object, result: object, state: object) -> None:
        time.sleep(0.05)
        real(self, result, state)  # type: ignore[arg-type]

    monkeypatch.setattr(generation._Reader, "result", later)
    body = {"messages": QUESTION, "stream": True}
    with limited.http.stream("POST", "/v1/chat/completions", json=body, headers=bearer("one")) as stream:
        lines = stream.iter_lines()
        next(lines)
        refused: list[Any] = []
        asking = threading.Thread(target=lambda: refused.append(chat(limited, "one")))
        asking.start()
        asking.join(30)
        assert refused[0].status_code == 429 and "1 requests at a time" in refused[0].text
        for _ in lines:
            pass
    until(lambda: chat(limited, "one").status_code == 200)


def test_openai_waits_as_long_as_it_is_told() -> None:
    package = pytest.importorskip("openai")
    with running(ServerSettings(models=(MODEL,), api_keys=("few requests=120",))) as served:
        (account,) = served.state.keyring._accounts.values()
        client = package.OpenAI(base_url=f"{served.url}/v1", api_key="few", max_retries=0)
        for _ in range(120):
            account.count_request()
        with pytest.raises(package.RateLimitError) as caught:
            client.models.list()
        assert (
            caught.value.code == "rate_limit_exceeded" and caught.value.response.headers["retry-after"] == "1"
        )
        answer = client.with_options(max_retries=1).chat.completions.create(model="tiny", messages=QUESTION)
        assert answer.choices[0].message.content == "2 + 3 = 5"


QUESTIONS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": QUESTION},
    "/v1/completions": {"prompt": "2 + 3 ="},
    "/v1/responses": {"input": "What is 2 + 3?"},
    "/v1/messages": {"messages": QUESTION, "max_tokens": 16},
    "/api/chat": {"messages": QUESTION, "stream": False},
    "/api/generate": {"prompt": "What is 2 + 3?", "stream": False},
}


def tokens_of(answer: dict[str, Any]) -> int:
    usage = answer.get("usage", answer)
    words = ("input_tokens", "cache_read_input_tokens", "output_tokens", "prompt_eval_count", "eval_count")
    if "total_tokens" in usage:
        return int(usage["total_tokens"])
    return sum(int(usage.get(word, 0)) for word in words)


@pytest.mark.parametrize("path", QUESTIONS)
def test_tokens_of_all_apis_count(limited: Served, path: str) -> None:
    account = limited.state.keyring.account("Bearer free")
    assert account is not None
    spent: list[int] = []
    account.spend_tokens = spent.append  # type: ignore[method-assign]
    try:
        answer = limited.http.post(path, json={"model": "tiny", **QUESTIONS[path]}, headers=bearer("free"))
    finally:
        account.__dict__.pop("spend_tokens")
    assert answer.status_code == 200, answer.text
    assert sum(spent) == tokens_of(answer.json()) > 0


def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens take their time."""
    from rknnlite_server import generation

    real = generation._Reader.result

    def later(self: object, result: object, state: object) -> None:
        time.sleep(0.05)
        real(self, result, state)  # type: ignore[arg-type]

    monkeypatch.setattr(generation._Reader, "result", later)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/messages", "/api/chat"])
def test_a_client_that_goes_away_gives_its_place_back(
    limited: Served, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    slow(monkeypatch)
    body = {"model": "tiny", **QUESTIONS[path], "stream": True}
    account = limited.state.keyring.account("Bearer one")
    assert account is not None
    until(lambda: account.running == 0)
    with limited.http.stream("POST", path, json=body, headers=bearer("one")) as stream:
        next(stream.iter_lines())
        assert account.running == 1
        assert limited.http.get("/v1/models", headers=bearer("one")).status_code == 429
    until(lambda: account.running == 0)
    assert limited.http.get("/v1/models", headers=bearer("one")).status_code == 200


def test_a_key_that_is_taken_away_ends_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow(monkeypatch)
    monkeypatch.setattr("rknnlite_server.keys._LOOK_SECONDS", 0.0)
    path = tmp_path / "keys"
    path.write_text("leaves\nstays\n")
    with running(ServerSettings(models=(MODEL,), api_key_file=str(path))) as served:
        body = {"messages": QUESTION, "stream": True}
        with served.http.stream(
            "POST", "/v1/chat/completions", json=body, headers=bearer("leaves")
        ) as stream:
            lines = stream.iter_lines()
            next(lines)
            (tmp_path / "new").write_text("stays requests=60\n")
            (tmp_path / "new").replace(path)
            stays = served.http.get("/v1/models", headers=bearer("stays"))
            assert stays.headers["x-ratelimit-limit-requests"] == "60"
            assert served.http.get("/v1/models", headers=bearer("leaves")).status_code == 401
            assert list(lines)[-2:] == ["data: [DONE]", ""]
        path.write_bytes(b"")  # the first half of a copy: nobody's key is in it
        assert served.http.get("/v1/models", headers=bearer("stays")).status_code == 401
        path.write_text("stays\n")
        assert served.http.get("/v1/models", headers=bearer("stays")).status_code == 200


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
def test_a_file_that_everybody_may_read_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, clock = tmp_path / "keys", Clock()
    path.write_text("first\n")
    path.chmod(0o640)
    ring = Keyring((), str(path), clock)
    assert "may read it" not in caplog.text
    path.chmod(0o644)
    clock.now += 1
    ring.account("Bearer first")
    assert "run chmod o= on it" in caplog.text and "first" not in caplog.text


# -- the audit ---------------------------------------------------------------------------------------------


def test_what_is_administrative() -> None:
    for call in (
        "POST /v2/repository/models/net/load",
        "POST /v2/repository/models/net/unload",
        "POST /api/pull",
        "DELETE /api/delete",
        "/inference.GRPCInferenceService/RepositoryModelLoad",
    ):
        assert is_administrative(call), call
    for call in ("POST /v2/repository/index", "GET /api/tags", "POST /v1/chat/completions", "GET /metrics"):
        assert not is_administrative(call), call


def test_each_administrative_call_is_a_line(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    settings = ServerSettings(
        models=(MODEL,),
        api_keys=("topsecret name=alice",),
        audit_file=str(path),
        repository=str(tmp_path),
        grpc_port=-1,
    )
    with running(settings) as served:
        for key, status in (("topsecret", 404), ("wrongone", 401)):
            answer = served.http.post("/v2/repository/models/none/load", headers=bearer(key), json={})
            assert answer.status_code in (status, 400)
        served.http.get("/v1/models", headers=bearer("topsecret"))
        served.http.post("/api/pull", json={"model": "tiny\nx"}, headers=bearer("topsecret"))
        text = path.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [(line["key"], line["call"]) for line in lines] == [
        ("alice", "POST /v2/repository/models/none/load"),
        ("", "POST /v2/repository/models/none/load"),
        ("alice", "POST /api/pull"),
    ]
    assert lines[1]["status"] == 401 and lines[0]["client"] == "127.0.0.1" and lines[0]["seconds"] >= 0
    assert "topsecret" not in text and "wrongone" not in text and lines[0]["time"].endswith("Z")
    if os.name == "posix":
        assert path.stat().st_mode & 0o77 == 0


def test_a_file_that_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ParamInvalid, match="--audit-file"):
        Audit(str(tmp_path / "none" / "audit.log"))


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_file_may_be_moved_away(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    audit = Audit(str(path))
    audit.write("alice", "::1", "POST /api/pull", 200, 0.1)
    path.rename(tmp_path / "audit.log.1")
    audit.write("bob", "::1", "POST /api/pull", 403, 0.1)
    assert [line["key"] for line in lines_of(tmp_path / "audit.log.1")] == ["alice"]
    assert [line["key"] for line in lines_of(path)] == ["bob"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_told_once_and_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    audit = Audit("/dev/full")
    caplog.set_level("WARNING", "rknnlite.server.audit")
    for key in ("alice", "bob"):
        audit.write(key, "::1", "POST /api/pull", 200, 0.1)
    problem, *lines = (record.getMessage() for record in caplog.records)
    assert problem.startswith("--audit-file /dev/full: No space left")
    assert ['"key": "alice"' in lines[0], '"key": "bob"' in lines[1], len(lines)] == [True, True, 2]


def test_half_a_line_is_no_part_of_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rknnlite.files.writing import DiskFull, GrowingFile

    path = tmp_path / "audit.log"
    audit, real = Audit(str(path)), GrowingFile.append

    def half(self: GrowingFile, data: bytes) -> None:
        real(self, data[:20])
        raise DiskFull(28, "No space left on device", str(path))

    monkeypatch.setattr(GrowingFile, "append", half)
    audit.write("alice", "::1", "POST /api/pull", 200, 0.1)
    monkeypatch.undo()
    audit.write("bob", "::1", "POST /api/pull", 200, 0.1)
    torn, whole = path.read_text().splitlines()
    assert len(torn) == 20 and json.loads(whole)["key"] == "bob"
