"""``/v1/vision``: pictures in, what networks of the server find in them out; in all forms, and what is refused with which words."""

from __future__ import annotations

import base64
import concurrent.futures
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image")

from rknnlite_server.settings import ServerSettings  # noqa: E402
from rknnlite_server.vision import sights  # noqa: E402
from rknnlite_server.vision.answers import mask_file  # noqa: E402
from rknnlite_vision.heads.head import Head, Limits, Task, UnknownHead  # noqa: E402
from rknnlite_vision.model import open_vision  # noqa: E402
from rknnlite_vision.results import Classes, Detections, Embedding, Segments, Words  # noqa: E402

from tests.support.needs import needs  # noqa: E402

from .conftest import MODEL, Served, running, until  # noqa: E402

ROOT = Path(__file__).parents[2]
DETECT = ROOT / "examples" / "detect" / "detect_for_RK3588.rknn"
SCENE = ROOT / "examples" / "detect" / "scene.jpg"
RESNET = ROOT / "examples" / "resnet18" / "resnet18_for_RK3588.rknn"
DIGIT = ROOT / "examples" / "resnet18" / "digit_224.png"
BATCH = ROOT / "tests" / "data" / "batch_four.rk3588.i8.rknn"
UNKNOWN = ROOT / "tests" / "data" / "broadcast.rk3588.fp16.rknn"  # two inputs, twelve outputs
FOUND = "/v1/vision/detect?model=detect_for_RK3588"


def settings(*files: Path, **options: Any) -> ServerSettings:
    return ServerSettings(
        networks=tuple(map(str, files)),
        grpc_port=-1,
        workers=1,
        backend="cpu",
        **options,
    )


@pytest.fixture(scope="module")
def seeing() -> Iterator[Served]:
    with running(settings(DETECT, RESNET, UNKNOWN, metrics=True)) as served:
        yield served


def error_of(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["message"]


def png(pixels: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def picture_of(width: int, height: int) -> bytes:
    return png(np.full((height, width, 3), 90, np.uint8))


# -- what a network of the repository finds -----------------------------------------------------------------


def test_it_finds_what_the_library_finds(seeing: Served) -> None:
    told = seeing.http.post(FOUND, content=SCENE.read_bytes()).json()
    pixels = np.asarray(Image.open(SCENE).convert("RGB"))
    with open_vision(DETECT, backend="cpu") as model:
        found = model.see(pixels)
        assert isinstance(found, Detections) and len(found)
        assert [thing["label"] for thing in told["found"]] == [model.name_of(int(n)) for n in found.classes]
        assert (told["task"], told["head"]) == ("detect", model.head.family)
    assert (told["height"], told["width"]) == pixels.shape[:2]
    np.testing.assert_allclose([thing["box"] for thing in told["found"]], found.boxes, atol=0.006)
    np.testing.assert_allclose([thing["score"] for thing in told["found"]], found.scores, atol=6e-5)


def test_a_class_of_a_picture(seeing: Served) -> None:
    told = seeing.http.post("/v1/vision/classify?model=resnet18_for_RK3588&most=3", content=DIGIT.read_bytes())
    assert told.status_code == 200, told.text
    found = told.json()["found"]
    with open_vision(RESNET, backend="cpu") as model:
        seen = model.see(np.asarray(Image.open(DIGIT).convert("RGB")), Limits(most=3))
        assert isinstance(seen, Classes)
        assert [one["class"] for one in found] == seen.classes.tolist()


def test_all_forms_of_a_request_get_the_same(seeing: Served) -> None:
    data, http = SCENE.read_bytes(), seeing.http
    text = base64.b64encode(data).decode()
    plain = http.post(f"{FOUND}&score=0.5&most=2", content=data, headers={"Content-Type": "image/jpeg"})
    fields = {"model": "detect_for_RK3588", "score": 0.5, "most": 2}
    answers = [
        plain,
        http.post(f"{FOUND}&score=0.5&most=2", content=data),  # httpx says no type
        http.post("/v1/vision/detect", files={"image": ("a.jpg", data)}, data=fields),
        http.post(FOUND, json={"image": text, "score": 0.5, "most": 2}),
        http.post("/v1/vision/detect", json={"image": f"data:image/jpeg;base64,{text}", **fields}),
    ]
    told = [{**answer.json(), "run_us": 0} for answer in answers]
    assert told[0]["found"] and all(one == told[0] for one in told)


def test_thresholds_are_those_of_the_request(seeing: Served) -> None:
    def count(query: str) -> int:
        return len(seeing.http.post(f"{FOUND}&{query}", content=SCENE.read_bytes()).json()["found"])

    assert count("score=1") == 0 < count("most=1") == 1 < count("score=0.25")
    assert count("score=0.25&overlap=1") > count("score=0.25&overlap=0.45")


def test_the_picture_comes_back_with_what_was_found(seeing: Served) -> None:
    data = SCENE.read_bytes()
    for query, accept, kind in (
        ("", "image/png", "PNG"), ("", "text/html, image/jpeg;q=0.8, */*", "JPEG"), ("&draw=1", "*/*", "PNG"),
        ("&draw=true", "application/json, image/jpeg", "JPEG"),
    ):  # fmt: skip
        answer = seeing.http.post(FOUND + query, content=data, headers={"Accept": accept})
        drawn = Image.open(io.BytesIO(answer.content))
        assert (answer.headers["content-type"], drawn.format) == (f"image/{kind.lower()}", kind)
        before = np.asarray(Image.open(SCENE).convert("RGB")).astype(int)
        assert drawn.size == before.shape[1::-1]
        assert (abs(np.asarray(drawn.convert("RGB")) - before) > 60).any()
    for accept in ("*/*", "application/json, image/png", "text/html"):
        answer = seeing.http.post(FOUND, content=data, headers={"Accept": accept})
        assert answer.headers["content-type"] == "application/json"


def test_the_networks_and_what_they_are_for(seeing: Served) -> None:
    told = {one["model"]: one for one in seeing.http.get("/v1/vision/models").json()["data"]}
    assert told["detect_for_RK3588"]["routes"] == ["detect"]
    assert told["resnet18_for_RK3588"]["routes"] == ["classify"]
    assert (told["detect_for_RK3588"]["width"], told["detect_for_RK3588"]["height"]) == (320, 320)
    assert told["broadcast.rk3588.fp16"]["routes"] == [] and told["broadcast.rk3588.fp16"]["reason"]


def test_curl_gets_it(seeing: Served) -> None:
    needs("curl")
    address = f"{seeing.url}{FOUND}"
    for words in (["--data-binary", f"@{SCENE}"], ["-T", str(SCENE), "-X", "POST"], ["-F", f"image=@{SCENE}"]):
        done = subprocess.run(["curl", "-sS", "--fail", *words, address], capture_output=True, check=True)
        assert json.loads(done.stdout)["found"], words


# -- as all requests to networks ---------------------------------------------------------------------------


def test_they_are_counted(seeing: Served) -> None:
    def count() -> tuple[float, float]:
        lines = dict(line.rsplit(" ", 1) for line in seeing.http.get("/metrics").text.splitlines() if line[0] != "#")
        route = [float(n) for name, n in lines.items() if "requests_total" in name and "/v1/vision/detect" in name and "200" in name]
        (network,) = [float(n) for name, n in lines.items() if name == 'rknnlite_network_requests_total{model="detect_for_RK3588"}']
        return sum(route), network

    before = count()
    assert seeing.http.post(FOUND, content=SCENE.read_bytes()).status_code == 200
    assert count() == (before[0] + 1, before[1] + 1)


def test_a_key_is_needed_and_its_limits_hold() -> None:
    with running(settings(DETECT, api_keys=("secret", "poor requests=1"))) as server:
        def ask(key: str) -> Any:
            return server.http.post("/v1/vision/detect", content=picture_of(8, 8), headers={"Authorization": f"Bearer {key}"})

        assert ask("wrong").status_code == 401 and server.http.get("/v1/vision/models").status_code == 401
        assert [ask("secret").status_code, ask("poor").status_code, ask("poor").status_code] == [200, 200, 429]


def test_a_full_queue_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(settings(DETECT, queue=0)) as server:
        (network,) = server.state.repository.loaded
        network.turnstile._size = network.turnstile._most = 0
        status, text = error_of(server.http.post("/v1/vision/detect", content=picture_of(8, 8)))
        assert status == 503 and "try again later" in text
        assert server.state.repository.room.used == 0
