"""The clients of ``mixed_load``: each asks one thing at a time, and knows what is right."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np
from rknnlite_speech.sound import Sound, wav_bytes

from benchmarks.mixed_server import KEYS, LANGUAGE_MODELS, NETWORKS, MixedServer
from tests.support.serve_with_speech import SAID

__all__ = ["CLIENTS", "Client", "Ended", "Known"]

_TIMEOUT = httpx.Timeout(170, connect=20)
_BINARY = "Inference-Header-Content-Length"
_QUESTIONS = [f"What is {a} + {b}?" for a in (2, 14, 27, 33) for b in (3, 8, 21, 46)]


@dataclass(frozen=True)
class Ended:
    """How a request ended: ``right``, ``refused`` (with a word when to come again), ``interrupted`` by the end of the server, ``left``
    by the client. ``wrong`` says what must not be; ``pause`` in seconds before the next one."""

    kind: str = "right"
    wrong: str = ""
    pause: float = 0.0


@dataclass(frozen=True)
class Known:
    """What is right: answers by question, outputs by network and input."""

    answers: dict[str, str]
    inputs: dict[str, list[np.ndarray]]
    outputs: dict[str, list[list[float]]]

    @classmethod
    def of(cls, server: MixedServer) -> Known:
        """Asked of a quiet server, every way of asking; all ways must agree."""
        answers: dict[str, str] = {}
        for question in _QUESTIONS:
            said = {kind.__name__: "".join(kind(0, server, None).said("red", question)) for kind in _TALKERS}
            assert len(set(said.values())) == 1, said
            answers[question] = said[Chat.__name__]
        inputs, outputs = {}, {}
        for name in NETWORKS:
            asker = JsonNetwork(0, server, None)
            shape, kind = asker.form(name)
            draw = np.random.default_rng(7)
            whole = np.issubdtype(kind, np.integer)
            made = [draw.integers(-20, 100, shape) if whole else draw.normal(0, 1, shape) for _ in range(5)]
            inputs[name] = [one.astype(kind) for one in made]
            outputs[name] = [asker.infer(name, one) for one in inputs[name]]
        return cls(answers, inputs, outputs)


class Refused(Exception):
    """429 or 503 with ``Retry-After``: ``seconds``."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class Wrong(Exception):
    """What must not be."""


class Client:
    """One client; ``known`` is None while what is right is found out."""

    def __init__(self, number: int, server: MixedServer, known: Known | None) -> None:
        self.name = f"{type(self).__name__} {number}"
        self.server, self.known, self.draw = server, known, random.Random(number)
        self.http = httpx.Client(
            base_url=server.url, timeout=_TIMEOUT, headers={"Authorization": f"Bearer {KEYS[number % 2]}"}
        )

    def one(self) -> Ended:
        """One request."""
        with self.server.life() as life:
            try:
                return self.ask()
            except Refused as refused:
                return Ended("refused", pause=min(refused.seconds, 2.0))
            except Wrong as error:
                return Ended("wrong", str(error)) if self._same(life) else Ended("interrupted", pause=0.5)
            except Exception as error:  # whatever a client meets is counted
                found = f"{type(error).__name__}: {error}"[:400]
                return Ended("wrong", found, 1) if self._same(life) else Ended("interrupted", pause=0.5)

    def _same(self, life: int) -> bool:
        return self.server.calm.is_set() and self.server.lives == life

    def ask(self) -> Ended:
        """One request; raises Refused, Wrong, and what the client raises."""
        raise NotImplementedError

    def settle(self) -> list[str]:
        """When all clients have ended: what is wrong now."""
        return []

    def post(self, path: str, **given: Any) -> httpx.Response:
        return checked(self.http.post(path, **given))


def checked(response: httpx.Response) -> httpx.Response:
    """An answer that is one; raises Refused or Wrong."""
    if response.status_code in (429, 503, 529):
        if "retry-after" not in response.headers:
            raise Wrong(f"{response.status_code} without Retry-After: {response.read()[:300]!r}")
        raise Refused(float(response.headers["retry-after"]))
    if response.status_code != 200:
        raise Wrong(f"{response.request.url.path}: {response.status_code} {response.read()[:300]!r}")
    return response


class Talker(Client):
    """A stream of one of the APIs of language models."""

    path = ""

    def ask(self) -> Ended:
        assert self.known is not None
        question = self.draw.choice(_QUESTIONS)
        wanted, said = self.known.answers[question], ""
        for piece in self.said(self.draw.choice(LANGUAGE_MODELS), question):
            said += piece
            if not wanted.startswith(said):
                raise AssertionError(f"{question} got {said!r}, not {wanted!r}")
        if said != wanted:
            raise Wrong(f"{question} ended with {said!r}, not {wanted!r}")
        return Ended()

    def said(self, model: str, question: str) -> Iterator[str]:
        """The answer in pieces."""
        with self.http.stream("POST", self.path, json=self.body(model, question)) as response:
            checked(response)
            for line in response.iter_lines():
                text = line[5:].strip() if line.startswith("data:") else line if line.startswith("{") else ""
                if text.startswith("{"):
                    yield from self.pieces(json.loads(text))

    def body(self, model: str, question: str) -> dict[str, Any]:
        return {
            "model": model,
            "messages": [{"role": "user", "content": question}],
            "stream": True,
            "max_tokens": 40,
            "temperature": 0,
        }

    def pieces(self, event: dict[str, Any]) -> Iterator[str]:
        """Texts of one event; raises Wrong for an error."""
        raise NotImplementedError


class Chat(Talker):
    path = "/v1/chat/completions"

    def pieces(self, event: dict[str, Any]) -> Iterator[str]:
        if "error" in event:
            raise Wrong(str(event["error"]))
        yield from (choice["delta"].get("content") or "" for choice in event["choices"])


class Responses(Talker):
    path = "/v1/responses"

    def body(self, model: str, question: str) -> dict[str, Any]:
        return {"model": model, "input": question, "stream": True, "max_output_tokens": 40, "temperature": 0}

    def pieces(self, event: dict[str, Any]) -> Iterator[str]:
        if event["type"] in ("error", "response.failed"):
            raise Wrong(str(event))
        if event["type"] == "response.output_text.delta":
            yield event["delta"]


class Messages(Talker):
    path = "/v1/messages"

    def pieces(self, event: dict[str, Any]) -> Iterator[str]:
        if event["type"] == "error":
            raise Wrong(str(event))
        if event["type"] == "content_block_delta":
            yield event["delta"].get("text", "")


class OllamaChat(Talker):
    path = "/api/chat"

    def body(self, model: str, question: str) -> dict[str, Any]:
        options = {"num_predict": 40, "temperature": 0}
        return {"model": model, "messages": [{"role": "user", "content": question}], "options": options}

    def pieces(self, event: dict[str, Any]) -> Iterator[str]:
        if "error" in event:
            raise Wrong(str(event))
        yield event["message"]["content"]


_TALKERS: tuple[type[Talker], ...] = (Chat, Responses, Messages, OllamaChat)


class Asker(Client):
    """One of the ways to ask a network."""

    def ask(self) -> Ended:
        assert self.known is not None
        name = self.draw.choice(NETWORKS[:2])
        number = self.draw.randrange(len(self.known.inputs[name]))
        found = self.infer(name, self.known.inputs[name][number])
        if found != self.known.outputs[name][number]:
            raise AssertionError(f"{name} {number}: other numbers")
        return Ended()

    def form(self, name: str) -> tuple[list[int], np.dtype[Any]]:
        """Shape and type of a network's input."""
        said = checked(self.http.get(f"/v2/models/{name}")).json()["inputs"][0]
        self.input = said["name"]
        return said["shape"], np.dtype(
            {"FP32": "f4", "FP16": "f2"}.get(said["datatype"], said["datatype"].lower())
        )

    def infer(self, name: str, data: np.ndarray) -> list[float]:
        """The numbers of the first output."""
        raise NotImplementedError


def _kind(data: np.ndarray) -> str:
    return {"f": "FP", "i": "INT", "u": "UINT"}[data.dtype.kind] + str(8 * data.dtype.itemsize)


class JsonNetwork(Asker):
    def infer(self, name: str, data: np.ndarray) -> list[float]:
        given = {
            "name": _input(self, name),
            "shape": list(data.shape),
            "datatype": _kind(data),
            "data": data.ravel().tolist(),
        }
        found = self.post(f"/v2/models/{name}/infer", json={"inputs": [given]}).json()
        return [float(np.float32(number)) for number in found["outputs"][0]["data"]]


class BinaryNetwork(Asker):
    def infer(self, name: str, data: np.ndarray) -> list[float]:
        size = {"binary_data_size": data.nbytes}
        given = {
            "name": _input(self, name),
            "shape": list(data.shape),
            "datatype": _kind(data),
            "parameters": size,
        }
        head = json.dumps({"inputs": [given], "parameters": {"binary_data_output": True}}).encode()
        response = self.post(
            f"/v2/models/{name}/infer", content=head + data.tobytes(), headers={_BINARY: str(len(head))}
        )
        length = int(response.headers[_BINARY])
        said = json.loads(response.content[:length])["outputs"][0]
        kind = np.dtype({"FP32": "f4", "FP16": "f2"}.get(said["datatype"], said["datatype"].lower()))
        size = said["parameters"]["binary_data_size"]
        return (
            np.frombuffer(response.content[length : length + size], kind)
            .astype(np.float32)
            .astype(float)
            .tolist()
        )


class RpcNetwork(Asker):
    def infer(self, name: str, data: np.ndarray) -> list[float]:
        import grpc
        from rknnlite_protocol.grpc_codec import parse_response, request_message
        from rknnlite_protocol.grpc_messages import INFERENCE, methods
        from rknnlite_protocol.requests import InferRequest, Tensor

        method = methods(INFERENCE)["ModelInfer"]
        with grpc.insecure_channel(f"127.0.0.1:{self.server.grpc_port}") as channel:
            call = channel.unary_unary(
                method.path, method.request.SerializeToString, method.response.FromString
            )
            try:
                key = ("authorization", self.http.headers["Authorization"])
                found = call(
                    request_message(InferRequest(name, [Tensor(_input(self, name), data)])),
                    timeout=120,
                    metadata=[key],
                )
            except grpc.RpcError as error:
                if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
                    raise Refused(0.5) from None
                raise Wrong(f"{error.code()} {error.details()}") from None
        return parse_response(found).outputs[0].data.ravel().astype(np.float32).astype(float).tolist()


def _input(client: Asker, name: str) -> str:
    names = vars(client).setdefault("_names", {})
    if name not in names:
        client.form(name)
        names[name] = client.input
    return str(names[name])


class Hearer(Client):
    """Has a sound transcribed."""

    def ask(self) -> Ended:
        samples = np.random.default_rng(self.draw.randrange(9)).normal(0, 0.1, 32_000).astype(np.float32)
        files = {"file": ("talk.wav", wav_bytes(Sound(samples, 16_000)))}
        text = self.post("/v1/audio/transcriptions", files=files, data={"model": "whisper"}).json()["text"]
        if text.strip() != SAID.strip():
            raise AssertionError(f"heard {text!r}")
        return Ended(pause=1)


class Batcher(Client):
    """Files of questions, whose answers come when there is room; every line once, and right."""

    _waiting: dict[str, list[str]]

    def ask(self) -> Ended:
        assert self.known is not None
        waiting = vars(self).setdefault("_waiting", {})
        if len(waiting) < 2:
            asked = self.draw.sample(_QUESTIONS, 6)
            lines = [
                {
                    "custom_id": str(i),
                    "method": "POST",
                    "url": "/v1/chat/completions",
                    "body": {**Chat.body(self, "red", one), "stream": False},
                }  # type: ignore[arg-type]
                for i, one in enumerate(asked)
            ]
            data = "\n".join(map(json.dumps, lines)).encode()
            file = self.post(
                "/v1/files", files={"file": ("lines.jsonl", data)}, data={"purpose": "batch"}
            ).json()["id"]
            made = {"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
            waiting[self.post("/v1/batches", json=made).json()["id"]] = asked
        for name in list(waiting):
            self._look(name)
        return Ended(pause=3)

    def _look(self, name: str) -> None:
        batch = checked(self.http.get(f"/v1/batches/{name}")).json()
        if batch["status"] not in ("completed", "failed", "expired", "cancelled"):
            return
        asked = self._waiting[name]
        if batch["status"] != "completed" or batch["request_counts"] != {
            "total": 6,
            "completed": 6,
            "failed": 0,
        }:
            raise AssertionError(f"batch {batch['status']} with {batch['request_counts']}")
        text = checked(self.http.get(f"/v1/files/{batch['output_file_id']}/content")).text
        lines = [json.loads(line) for line in text.splitlines()]
        found = {
            line["custom_id"]: line["response"]["body"]["choices"][0]["message"]["content"] for line in lines
        }
        assert self.known is not None
        wanted = {str(i): self.known.answers[one] for i, one in enumerate(asked)}
        if len(lines) != len(asked) or found != wanted:
            raise AssertionError(f"batch {name}: {found}, wanted {wanted}")
        del self._waiting[name]

    def settle(self) -> list[str]:
        end = time.monotonic() + 120
        wrong: list[str] = []
        while vars(self).get("_waiting") and time.monotonic() < end and not wrong:
            for name in list(self._waiting):
                try:
                    self._look(name)
                except Exception as error:  # told at the end
                    wrong.append(f"{self.name}: {error}")
            time.sleep(1)
        return wrong + [f"{self.name}: batch {name} is lost" for name in vars(self).get("_waiting", {})]


class Administrator(Client):
    """Loads, unloads, copies and deletes models, and writes the file of keys anew."""

    def ask(self) -> Ended:
        self.draw.choice([self._language, self._network, self._copy, self._keys, self._figures])()
        return Ended(pause=2)

    def _language(self) -> None:
        name = self.draw.choice(LANGUAGE_MODELS)
        self.post(f"/models/{self.draw.choice(['load', 'unload'])}", json={"model": name})

    def _network(self) -> None:
        what = self.draw.choice(["load", "unload"])
        response = self.http.post(f"/v2/repository/models/{NETWORKS[2]}/{what}", json={})
        if response.status_code not in (200, 503):
            raise Wrong(f"{what}: {response.status_code} {response.text[:200]}")

    def _copy(self) -> None:
        name = f"copy-{self.draw.randrange(10**9)}"
        self.post("/api/copy", json={"source": "red", "destination": name})
        question = self.draw.choice(_QUESTIONS)
        try:
            answer = self.post(
                "/v1/chat/completions", json={**Chat.body(self, name, question), "stream": False}
            )  # type: ignore[arg-type]
        finally:
            with contextlib.suppress(httpx.HTTPError):
                checked(self.http.request("DELETE", "/api/delete", json={"model": name}))
        assert self.known is not None
        text = answer.json()["choices"][0]["message"]["content"]
        if text != self.known.answers[question]:
            raise AssertionError(f"the copy says {text!r}")

    def _keys(self) -> None:
        self.server.write_keys()

    def _figures(self) -> None:
        checked(self.http.get("/metrics"))
        checked(self.http.get("/v1/models"))


class Rude(Client):
    """Hangs up in the middle, sends half of a request, stops reading."""

    def ask(self) -> Ended:
        self.draw.choice([self._hangs_up, self._half, self._stops_reading])()
        return Ended("left", pause=0.5)

    def _hangs_up(self) -> None:
        kind = self.draw.choice(_TALKERS)(0, self.server, None)
        for _ in kind.said(self.draw.choice(LANGUAGE_MODELS), self.draw.choice(_QUESTIONS)):
            if self.draw.random() < 0.5:
                break
        kind.http.close()

    def _socket(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.server.port), 20)

    def _half(self) -> None:
        with self._socket() as raw:
            raw.sendall(
                b'POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n\r\n{"mess'
            )
            time.sleep(self.draw.uniform(0, 3))

    def _stops_reading(self) -> None:
        body = json.dumps(Chat.body(self, "green", self.draw.choice(_QUESTIONS))).encode()  # type: ignore[arg-type]
        head = f"POST {Chat.path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEYS[0]}\r\n"
        with self._socket() as raw:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            raw.sendall(
                f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
            )
            time.sleep(self.draw.uniform(1, 5))


CLIENTS: dict[Callable[..., Client], int] = {
    Chat: 16, Responses: 16, Messages: 16, OllamaChat: 16, JsonNetwork: 11, BinaryNetwork: 11, RpcNetwork: 10, Hearer: 4,
    Batcher: 2, Administrator: 2, Rude: 6,
}  # fmt: skip
"""How many there are of each kind."""
