"""What a body may be: compressed, larger than allowed, damaged in every way; and what comes back."""

from __future__ import annotations

import copy
import gzip
import json
import random
import zlib
from typing import Any

import numpy as np
import pytest

from .conftest import RESNET, SOFT, WHOLE, Networks, inputs_of, local

HEADER = "Inference-Header-Content-Length"
PATH = f"/v2/models/{SOFT}/infer"


def binary(name: str, **more: Any) -> tuple[bytes, dict[str, str]]:
    """A request for a network with its inputs as bytes, and its headers."""
    words = {"float32": "FP32", "int64": "INT64"}
    arrays = inputs_of(name)
    head = {
        "inputs": [
            {
                "name": key,
                "shape": list(array.shape),
                "datatype": words[array.dtype.name],
                "parameters": {"binary_data_size": array.nbytes},
            }
            for key, array in arrays.items()
        ],
        "parameters": {"binary_data_output": True},
        **more,
    }
    text = json.dumps(head).encode()
    return text + b"".join(array.tobytes() for array in arrays.values()), {HEADER: str(len(text))}


def outputs(response: Any) -> dict[str, Any]:
    """The tensors of an answer whose outputs are all bytes."""
    length = int(response.headers[HEADER])
    rest, found = response.content[length:], {}
    for entry in json.loads(response.content[:length])["outputs"]:
        size = entry["parameters"]["binary_data_size"]
        found[entry["name"]] = np.frombuffer(rest[:size], np.float32).reshape(entry["shape"])
        rest = rest[size:]
    assert not rest
    return found


def refused(response: Any, status: int, text: str) -> None:
    assert response.status_code == status and text in response.json()["error"], response.text


def raw_deflate(data: bytes) -> bytes:
    encoder = zlib.compressobj(wbits=-15)
    return encoder.compress(data) + encoder.flush()


def members(data: bytes) -> bytes:
    return gzip.compress(data[:100]) + gzip.compress(data[100:])


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip.compress),
        ("gzip", members),
        ("deflate", zlib.compress),
        ("deflate", raw_deflate),
        ("GZIP", gzip.compress),
        ("identity", bytes),
    ],
)
@pytest.mark.parametrize("wanted", ["gzip", "deflate", "gzip, deflate, br", ""])
def test_compressed_bodies(networks: Networks, encoding: str, pack: Any, wanted: str) -> None:
    body, headers = binary(SOFT)
    headers.update({"Content-Encoding": encoding, "Accept-Encoding": wanted})
    response = networks.http.post(PATH, content=pack(body), headers=headers)
    assert response.status_code == 200, response.text
    assert response.headers.get("content-encoding", "") == (wanted if wanted in ("gzip", "deflate") else "")
    for name, array in local(SOFT, inputs_of(SOFT)).items():
        np.testing.assert_array_equal(outputs(response)[name], array)


@pytest.mark.parametrize(
    ("encoding", "body", "status", "text"),
    [
        ("br", b"{}", 415, "known are gzip, deflate"),
        ("gzip, gzip", b"{}", 415, "known are"),
        ("gzip", b"{}", 400, "no gzip"),
        ("gzip", b"", 400, "no complete gzip"),
        ("deflate", b"\xff" * 20, 400, "no deflate"),
        ("gzip", gzip.compress(b"{}")[:-3], 400, "no complete gzip"),
        ("gzip", gzip.compress(b"{}") + b"x" * 20, 400, "no gzip"),
        ("deflate", zlib.compress(b"{}") + b"x", 400, "1 bytes follow"),
        ("gzip", gzip.compress(b"{}")[:-8] + b"\0" * 8, 400, "no gzip"),
    ],
)
def test_damaged_compression(networks: Networks, encoding: str, body: bytes, status: int, text: str) -> None:
    refused(networks.http.post(PATH, content=body, headers={"Content-Encoding": encoding}), status, text)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_bomb_is_cut_at_the_limit(networks: Networks, encoding: str) -> None:
    """Forty megabytes in forty kilobytes: the limit of a body holds for what comes out of it."""
    limit = networks.state.settings.max_body
    packed = {"gzip": gzip.compress, "deflate": zlib.compress}[encoding](b" " * (limit + 8_000_000))
    assert len(packed) < limit / 100
    headers = {"Content-Encoding": encoding}
    refused(networks.http.post(PATH, content=packed, headers=headers), 413, "once decompressed")


def test_a_bomb_in_a_bomb_of_many_members(networks: Networks) -> None:
    packed = gzip.compress(b" " * 1_000_000) * 40
    refused(
        networks.http.post(PATH, content=packed, headers={"Content-Encoding": "gzip"}), 413, "larger than"
    )


def test_a_body_beyond_the_limit(networks: Networks) -> None:
    body = b" " * (networks.state.settings.max_body + 1)
    refused(networks.http.post(PATH, content=body), 413, "larger than")
    refused(networks.http.post(PATH, content=iter([body[:100], body])), 413, "larger than")


def test_numbers_that_json_has_no_word_for(networks: Networks, monkeypatch: pytest.MonkeyPatch) -> None:
    """They come as bytes, and as JSON not at all."""
    import asyncio

    network = networks.state.repository.network(SOFT)
    infer = network.infer

    async def odd(request: Any) -> Any:
        response = await infer(request)
        response.outputs[0].data = np.full_like(response.outputs[0].data, np.nan)
        return response

    assert asyncio.iscoroutinefunction(odd)
    monkeypatch.setattr(network, "infer", odd)
    body, headers = binary(SOFT)
    found = outputs(networks.http.post(PATH, content=body, headers=headers))
    assert np.isnan(found["out0"]).all() and np.isfinite(found["out1"]).all()
    body, headers = binary(SOFT, parameters={})
    refused(networks.http.post(PATH, content=body, headers=headers), 400, "ask for it as bytes")


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999", "1e39"])
def test_inputs_that_are_no_numbers(networks: Networks, value: str) -> None:
    shape = [1, 5, 7, 12]
    text = '{"inputs": [{"name": "in0", "datatype": "FP32", "shape": %s, "data": [%s]}]}'
    body = text % (shape, ",".join([value, *["0"] * 419]))
    response = networks.http.post(PATH, content=body)
    assert response.status_code == 400 and response.headers["rknnlite-error"] == "InputInvalid"
    assert "no number" in response.json()["error"] or "infinite" in response.json()["error"]


@pytest.mark.parametrize(
    ("datatype", "array"),
    [("FP32", np.float32(np.nan)), ("FP64", np.float64(1e300)), ("FP16", np.float16(np.inf))],
)
def test_bytes_that_are_no_numbers(networks: Networks, datatype: str, array: Any) -> None:
    data = np.zeros((1, 5, 7, 12), array.dtype)
    data[0, 0, 0, 3] = array
    refused(post_raw(networks, SOFT, "in0", datatype, data), 400, "infinite")


def test_whole_numbers_that_no_runtime_holds(networks: Networks) -> None:
    refused(
        post_raw(networks, WHOLE, "in0", "UINT64", np.full((1, 9), (1 << 64) - 1, np.uint64)), 400, "up to"
    )


def post_raw(networks: Networks, model: str, name: str, datatype: str, data: Any) -> Any:
    entry = {
        "name": name,
        "datatype": datatype,
        "shape": data.shape,
        "parameters": {"binary_data_size": data.nbytes},
    }
    text = json.dumps({"inputs": [entry]}).encode()
    return networks.http.post(
        f"/v2/models/{model}/infer", content=text + data.tobytes(), headers={HEADER: str(len(text))}
    )


WRONG: list[Any] = [
    None, True, -1, 0, 1 << 70, 1.5, "", "x", "\ud800", [], [1], {}, {"a": {}}, [[[[]]]], "BYTES", "FP64", [-1, 2], 1e308,
]  # fmt: skip


def damaged(random: random.Random, body: bytes, length: int) -> tuple[bytes, str]:
    """A request with one to three things wrong: a value of its JSON, bytes, its end, or where its JSON ends."""
    head, behind = json.loads(body[:length]), bytearray(body[length:])
    for _ in range(random.randint(1, 3)):
        kind = random.randrange(4)
        if kind == 0:
            behind = behind[: random.randrange(len(behind) + 1)]
        elif kind == 1:
            behind += bytes(random.randrange(20))
        else:
            place: Any = head
            while True:
                key = random.choice(list(place) if isinstance(place, dict) else range(len(place)))
                if random.random() < 0.3 or not isinstance(place[key], (dict, list)) or not place[key]:
                    break
                place = place[key]
            if random.random() < 0.2 and isinstance(place, dict):
                del place[key]
            else:
                place[key] = copy.deepcopy(random.choice(WRONG))
            if not head:
                break
    text = json.dumps(head).encode()
    if random.random() < 0.3:
        position = random.randrange(len(text))
        text = text[:position] + bytes([random.randrange(256)]) + text[position + random.randrange(3) :]
    said = random.choice([len(text)] * 8 + [len(text) - 1, len(text) + 1, 0, -1, 10**9])
    return text + behind, str(said)


@pytest.mark.parametrize("count", [150, pytest.param(4000, marks=pytest.mark.slow)])
def test_damaged_requests_are_answered_and_never_with_500(networks: Networks, count: int) -> None:
    """By 200 where the damage did not matter, else by 400 with a sentence; after all of them the server is as it was."""
    drawn = random.Random(count)
    good = [(name, *binary(name)) for name in (SOFT, WHOLE)]
    seen: dict[int, int] = {}
    for number in range(count):
        name, body, headers = good[number % 2]
        content, length = damaged(drawn, body, int(headers[HEADER]))
        response = networks.http.post(
            f"/v2/models/{name}/infer", content=content, headers={HEADER: length} if length else {}
        )
        seen[response.status_code] = seen.get(response.status_code, 0) + 1
        assert response.status_code in (200, 400), (response.text, content[:500], length)
        if response.status_code == 400:
            assert isinstance(response.json()["error"], str) and len(response.json()["error"]) < 2000
            assert response.headers["rknnlite-error"] in ("InputInvalid", "RankMismatch", "ShapesRefused")
    assert seen[400] > count / 2
    body, headers = binary(RESNET)
    found = outputs(networks.http.post(f"/v2/models/{RESNET}/infer", content=body, headers=headers))
    for output, array in local(RESNET, inputs_of(RESNET)).items():
        np.testing.assert_array_equal(found[output], array)
