"""``/v1/vision``: pictures in, what networks of the server find in them out; in all forms, and what is refused with which words."""

from __future__ import annotations

import base64
import concurrent.futures
import io
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

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
DYNAMIC = ROOT / "tests" / "data" / "dynamic_two.rk3588.fp16.rknn"
TWO = ROOT / "tests" / "data" / "broadcast.rk3588.fp16.rknn"  # two inputs
UNKNOWN = ROOT / "tests" / "data" / "int16_fused.rk3588.i16.rknn"  # a picture, ten outputs that are no head's
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
    with running(settings(DETECT, RESNET, TWO, UNKNOWN, metrics=True)) as served:
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
    told = seeing.http.post(
        "/v1/vision/classify?model=resnet18_for_RK3588&most=3", content=DIGIT.read_bytes()
    )
    assert told.status_code == 200, told.text
    found = told.json()["found"]
    with open_vision(RESNET, backend="cpu") as model:
        seen = model.see(np.asarray(Image.open(DIGIT).convert("RGB")), Limits(most=3))
        assert isinstance(seen, Classes)
        assert [one["class"] for one in found] == seen.classes.tolist()


def test_the_vector_of_a_picture_and_how_near_two_are(seeing: Served) -> None:
    digit, scene = DIGIT.read_bytes(), SCENE.read_bytes()
    address = "/v1/vision/embed?model=resnet18_for_RK3588&hint=embedding"
    one = seeing.http.post(address, content=digit).json()
    assert one["task"] == "embed" and "distance" not in one
    two = seeing.http.post(address, files={"image": digit, "other": scene}).json()
    texts = {name: base64.b64encode(data).decode() for name, data in (("image", digit), ("other", scene))}
    assert seeing.http.post(address, json=texts).json()["distance"] == two["distance"]
    with open_vision(RESNET, backend="cpu", hint="embedding") as model:
        first, second = (model.see(np.asarray(Image.open(path).convert("RGB"))) for path in (DIGIT, SCENE))
    assert isinstance(first, Embedding) and isinstance(second, Embedding)
    np.testing.assert_array_equal([found["vector"] for found in two["found"]], [first.vector, second.vector])
    assert one["found"] == two["found"][:1]
    assert two["distance"] == {"cosine": first.cosine(second), "l2": first.l2(second)}
    assert seeing.http.post(address, files={"image": digit, "other": digit}).json()["distance"]["l2"] == 0
    for query, files, said in (
        ("detect?model=detect_for_RK3588", {"image": scene, "other": scene}, "detect takes one picture"),
        ("embed?model=resnet18_for_RK3588", {"image": digit}, "POST /v1/vision/classify is for it"),
        (address.rpartition("/")[2], {"image": digit, "other": b"no picture"}, "no picture that"),
    ):
        status, text = error_of(seeing.http.post(f"/v1/vision/{query}", files=files))
        assert status == 400 and said in text


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
    raw = ["-H", "Content-Type: image/jpeg", "--data-binary", f"@{SCENE}"]
    for words in (raw, ["-T", str(SCENE), "-X", "POST"], ["-F", f"image=@{SCENE}"]):
        done = subprocess.run(["curl", "-sS", "--fail", *words, address], capture_output=True, check=True)
        assert json.loads(done.stdout)["found"], words


# -- as all requests to networks ---------------------------------------------------------------------------


def test_they_are_counted(seeing: Served) -> None:
    def count() -> tuple[float, float]:
        rows = [line.rsplit(" ", 1) for line in seeing.http.get("/metrics").text.splitlines()]
        wanted = 'rknnlite_network_requests_total{model="detect_for_RK3588"}'
        routes = [
            value
            for name, value in rows
            if name.startswith("rknnlite_requests_total") and "/v1/vision/detect" in name and "200" in name
        ]
        return sum(map(float, routes)), sum(float(value) for name, value in rows if name == wanted)

    before = count()
    assert seeing.http.post(FOUND, content=SCENE.read_bytes()).status_code == 200
    assert count() == (before[0] + 1, before[1] + 1)


def test_a_key_is_needed_and_its_limits_hold() -> None:
    with running(settings(DETECT, api_keys=("secret", "poor requests=1"))) as server:

        def ask(key: str) -> Any:
            return server.http.post(
                "/v1/vision/detect", content=picture_of(8, 8), headers={"Authorization": f"Bearer {key}"}
            )

        assert ask("wrong").status_code == 401 and server.http.get("/v1/vision/models").status_code == 401
        assert [ask("secret").status_code, ask("poor").status_code, ask("poor").status_code] == [
            200,
            200,
            429,
        ]


def test_a_full_queue_is_told() -> None:
    with running(settings(DETECT, queue=0)) as server:
        (network,) = server.state.repository.loaded
        network.turnstile._inside = network.turnstile.size
        status, text = error_of(server.http.post("/v1/vision/detect", content=picture_of(8, 8)))
        assert status == 503 and "try again later" in text
        assert server.state.repository.room.used == 0


# -- what heads tell, as JSON and drawn ---------------------------------------------------------------------


class Telling(Head):
    """A head of a network that tells what a test says, whatever the outputs are."""

    family, classes, size = "telling", 2, (224, 224)
    task: Task = Task.DETECT
    result: Any = None
    shapes: ClassVar[list[tuple[int, ...]]] = []

    def _picture(self, outputs: Any, limits: Limits) -> Any:
        Telling.shapes.append(outputs[0].shape)
        return self.result


def told(task: Task, result: Any) -> None:
    Telling.task, Telling.result = task, result


def tells(patch: pytest.MonkeyPatch) -> None:
    """From now on every network has that head."""
    patch.setattr(sights, "recognise", lambda inputs, outputs, hint="", name="": Telling(inputs, outputs))


@pytest.fixture(scope="module")
def resnet() -> Iterator[Served]:
    with running(settings(RESNET)) as served:
        yield served


@pytest.fixture
def telling(resnet: Served, monkeypatch: pytest.MonkeyPatch) -> Served:
    tells(monkeypatch)
    return resnet


def mask_of(*rows: int) -> Any:
    """Of a picture of 224 x 224: these rows of it."""
    mask = np.zeros((224, 224), bool)
    mask[list(rows)] = True
    return mask


def test_masks_keypoints_and_turned_boxes(telling: Served) -> None:
    masks = np.stack([mask_of(*range(10, 20)), mask_of(3)])
    things = Detections(
        np.array([[0, 10, 224, 20], [0, 3, 224, 4]]), np.array([0.9, 0.5]), np.array([1, 0]), np.array([[[5, 6, 1.0]]] * 2),
        np.array([[112, 15, 224, 10, 0.5]] * 2), masks,
    )  # fmt: skip
    told(Task.INSTANCE, things)
    data = picture_of(448, 448)

    def found(query: str = "") -> list[dict[str, Any]]:
        answer = telling.http.post(f"/v1/vision/segment?labels=cat,dog{query}", content=data)
        assert answer.status_code == 200, answer.text
        rows: list[dict[str, Any]] = answer.json()["found"]
        return rows

    first, second = found()
    assert (first["label"], first["box"], second["label"]) == ("dog", [0, 20, 448, 40], "cat")
    assert first["keypoints"] == [[10, 12, 1]] and first["rotated"] == [224, 30, 448, 20, 0.5]
    assert first["mask"]["shape"] == [448, 448] and first["mask"]["counts"][:3] == [20, 20, 428]
    assert "mask" not in found("&masks=none")[0]
    for one, rows in zip(found("&masks=png"), ((20, 40), (6, 8))):
        mask = np.asarray(Image.open(io.BytesIO(base64.b64decode(one["mask"]["png"]))))
        assert mask.shape == (448, 448) and mask.dtype == bool
        assert np.flatnonzero(mask.all(axis=1)).tolist() == list(range(*rows)) and mask.sum() == 448 * (
            rows[1] - rows[0]
        )
    drawn = telling.http.post("/v1/vision/segment?draw=1", content=data)
    pixels = np.asarray(Image.open(io.BytesIO(drawn.content)).convert("RGB"))
    assert pixels.shape == (448, 448, 3) and (pixels[30, 300] != 90).any() and (pixels[200, 400] == 90).all()


def test_answers_are_as_described(telling: Served) -> None:
    """Each schema of the description against what comes."""
    validators = pytest.importorskip("openapi_schema_validator")
    described = telling.http.get("/openapi.json").json()

    def check(path: str, method: str, answer: Any) -> None:
        responses = described["paths"][path][method]["responses"]
        response = responses[str(answer.status_code)]
        response = described["components"]["responses"]["Problem"] if "$ref" in response else response
        schema = response["content"]["application/json"]["schema"]
        validators.OAS30Validator({**schema, "components": described["components"]}).validate(answer.json())

    things = Detections(
        np.array([[0, 10, 224, 20]]), np.array([0.9]), np.array([1]), np.array([[[5, 6, 1.0]]]), np.array([[9, 9, 4, 4, 0.5]]),
        mask_of(3)[None],
    )  # fmt: skip
    results = {
        "detect": (Task.INSTANCE, things), "segment": (Task.SEMANTIC, Segments(np.zeros((9, 9), int))),
        "classify": (Task.CLASSIFY, Classes(np.array([1]), np.array([0.5]))), "read": (Task.READ, Words("a", 0.5)),
        "pose": (Task.POSE, things), "embed": (Task.EMBED, Embedding(np.ones(3))),
    }  # fmt: skip
    for route, (task, result) in results.items():
        told(task, result)
        for masks in ("rle", "png", "none", "all"):
            path = f"/v1/vision/{route}"
            check(path, "post", telling.http.post(f"{path}?masks={masks}", content=picture_of(30, 20)))
    two = {"image": picture_of(9, 9), "other": picture_of(8, 8)}
    told(Task.EMBED, Embedding(np.ones(3)))
    check("/v1/vision/embed", "post", telling.http.post("/v1/vision/embed", files=two))
    check("/v1/vision/models", "get", telling.http.get("/v1/vision/models"))


def test_counts_are_those_of_coco(telling: Served) -> None:
    coco = pytest.importorskip("pycocotools.mask")
    mask = np.random.default_rng(0).random((224, 224)) > 0.6
    told(
        Task.INSTANCE, Detections(np.array([[0, 0, 9, 9]]), np.array([0.9]), np.array([1]), masks=mask[None])
    )
    answer = telling.http.post("/v1/vision/segment", content=picture_of(224, 224)).json()["found"][0]["mask"]
    runs = coco.frPyObjects({"size": answer["shape"], "counts": answer["counts"]}, *answer["shape"])
    assert (coco.decode(runs) == mask).all()


def test_classes_of_pixels_words_and_poses(telling: Served) -> None:
    data = picture_of(224, 224)

    def found(route: str, task: Task, result: Any) -> Any:
        told(task, result)
        answer = telling.http.post(f"/v1/vision/{route}", content=data)
        assert answer.status_code == 200, answer.text
        return answer.json()["found"]

    classes = np.zeros((224, 224), np.uint8)
    classes[:56] = 1
    regions = found("segment", Task.SEMANTIC, Segments(classes))
    assert [(one["class"], one["share"]) for one in regions] == [(0, 0.75), (1, 0.25)]
    assert regions[1]["mask"]["counts"][:3] == [0, 56, 168]
    assert found("read", Task.READ, Words("A1 ünd", 0.5)) == [{"text": "A1 ünd", "score": 0.5}]
    points = Detections(np.array([[0, 0, 9, 9]]), np.array([1]), np.array([0]), np.array([[[1, 2, 0.5]]]))
    assert found("pose", Task.POSE, points) == found("detect", Task.POSE, points)


def test_a_route_for_another_task_says_which_is_right(telling: Served) -> None:
    for task, route, wanted in (
        (Task.CLASSIFY, "detect", "POST /v1/vision/classify is for it"), (Task.POSE, "read", "POST /v1/vision/pose is for it"),
        (Task.EMBED, "classify", "POST /v1/vision/embed is for it"),
    ):  # fmt: skip
        told(task, Embedding(np.zeros(3)))
        status, text = error_of(telling.http.post(f"/v1/vision/{route}", content=picture_of(8, 8)))
        assert status == 400 and wanted in text and "telling" in text


def test_labels_that_do_not_match_are_refused(telling: Served) -> None:
    told(Task.DETECT, Detections(np.array([[0, 0, 9, 9]]), np.array([1]), np.array([1])))
    data = picture_of(8, 8)
    for labels, status in (
        ("a,b", 200),
        ("a\nb", 200),
        ("a,b,c", 400),
        ("", 400),
        ("/etc/passwd", 400),
        ("coco", 400),
    ):
        answer = telling.http.post("/v1/vision/detect", files={"image": data}, data={"labels": labels})
        assert answer.status_code == status, (labels, answer.text)
        assert "root" not in answer.text
    named = telling.http.post("/v1/vision/detect", files={"image": data, "labels": ("names.txt", b"a\nb\n")})
    assert named.json()["found"][0]["label"] == "b"
    for given in (["a", "b"], ["a"], [1, 2], {"a": 1}, [], ["a", "b" * 201], "a\n" * 600_000, "[" * 5000):
        text = base64.b64encode(data).decode()
        answer = telling.http.post("/v1/vision/detect", json={"image": text, "labels": given})
        assert answer.status_code == (200 if given == ["a", "b"] else 400), answer.text


def test_requests_share_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    tells(monkeypatch)
    told(Task.DETECT, Detections(np.zeros((0, 4)), np.zeros(0), np.zeros(0)))
    with running(settings(BATCH, window_ms=5000)) as server:
        (network,) = server.state.repository.loaded
        assert network.rows == 4
        Telling.shapes.clear()
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            answers = list(
                threads.map(
                    lambda n: server.http.post("/v1/vision/detect", content=picture_of(20 + n, 24)), range(4)
                )
            )
        assert [answer.status_code for answer in answers] == [200] * 4
        assert [answer.json()["width"] for answer in answers] == [20, 21, 22, 23]
        assert network.statistics.execution_count == 1 and network.statistics.inference_count == 4
        assert {shape[0] for shape in Telling.shapes} == {network.pool.outputs[0].dims[0] // 4}


def test_a_network_of_several_sizes_keeps_one(monkeypatch: pytest.MonkeyPatch) -> None:
    tells(monkeypatch)
    told(Task.DETECT, Detections(np.array([[0, 0, 4, 4]]), np.array([1]), np.array([1])))
    with running(settings(DYNAMIC)) as server:
        (network,) = server.state.repository.loaded
        first, *_, other = network.pool.shapes
        boxes = []
        for shape in (other[0], first[0], other[0]):
            tensor = {
                "name": network.pool.inputs[0].name,
                "shape": shape,
                "datatype": "UINT8",
                "data": [0] * int(np.prod(shape)),
            }
            answer = server.http.post(f"/v2/models/{DYNAMIC.stem}/infer", json={"inputs": [tensor]})
            assert answer.status_code == 200, answer.text
            answer = server.http.post("/v1/vision/detect", content=picture_of(48, 64))
            boxes.append(answer.json()["found"][0]["box"])
        assert boxes[0] == boxes[1] == boxes[2]


# -- what is refused, and how -------------------------------------------------------------------------------


def test_what_is_no_picture_is_told(seeing: Served) -> None:
    whole = SCENE.read_bytes()
    for data, text in (
        (b"", "there is no picture"), (b"no picture", "the picture is no picture that"), (whole[:2000], "no picture that"),
        (b"\x89PNG\r\n\x1a\n" + bytes(50), "no picture that"),
    ):  # fmt: skip
        status, message = error_of(seeing.http.post(FOUND, content=data))
        assert status == 400 and text in message, message
        status, message = error_of(seeing.http.post(FOUND, json={"image": base64.b64encode(data).decode()}))
        assert status == 400 and text in message, message
    for image, text in (
        ("http://example.org/a.png", "nothing is fetched"),
        ("%%%", "base64"),
        (7, "must be text"),
    ):
        status, message = error_of(seeing.http.post(FOUND, json={"image": image}))
        assert status == 400 and text in message
    status, message = error_of(seeing.http.post(FOUND, files={"picture": whole}))
    assert status == 400 and "files are named image" in message
    assert seeing.state.repository.room.used == 0


def test_pictures_of_all_kinds_are_seen(seeing: Served) -> None:
    deep = np.full((40, 50), 40000, np.uint16)
    clear = np.full((40, 50, 4), 128, np.uint8)
    for data in (
        picture_of(1, 1),
        picture_of(1, 700),
        png(deep),
        png(clear),
        png(np.zeros((9, 9), np.uint8)),
    ):
        assert seeing.http.post(FOUND, content=data).status_code == 200
    turned = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter to the right
    Image.new("RGB", (30, 60)).save(turned, "JPEG", exif=exif)
    answer = seeing.http.post(FOUND, content=turned.getvalue()).json()
    assert (answer["width"], answer["height"]) == (60, 30)


def test_a_picture_of_100_megapixels_is_refused_before_it_is_unpacked(seeing: Served) -> None:
    file = io.BytesIO()
    Image.new("1", (10_000, 10_000)).save(file, "PNG")
    status, text = error_of(seeing.http.post(FOUND, content=file.getvalue()))
    assert status == 400 and "10000 x 10000 is too large" in text
    assert seeing.state.repository.room.used == 0


def test_a_picture_for_which_there_is_no_memory(seeing: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(sights, "decode_whole", none)
        answer = seeing.http.post(FOUND, content=picture_of(8, 8))
    assert error_of(answer) == (
        503,
        "the server has no memory for this at present; send less, or again later",
    )
    assert answer.headers["Retry-After"] == "1" and seeing.state.repository.room.used == 0
    assert "connection" not in answer.headers
    assert seeing.http.post(FOUND, content=picture_of(8, 8)).status_code == 200


def test_an_error_that_nobody_foresaw_ends_the_connection_and_says_so(
    seeing: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*_: Any) -> None:
        raise ZeroDivisionError("no such thing")

    with monkeypatch.context() as patched:
        patched.setattr(sights, "decode_whole", wrong)
        answer = seeing.http.post(FOUND, content=picture_of(8, 8))
    assert error_of(answer)[0] == 500 and answer.headers["connection"] == "close"
    assert seeing.http.post(FOUND, content=picture_of(8, 8)).status_code == 200


def test_a_picture_that_the_asked_form_does_not_hold(seeing: Served) -> None:
    wide = {"content": picture_of(70_000, 1), "headers": {"Accept": "image/jpeg"}}
    status, text = error_of(seeing.http.post(FOUND, **wide))
    assert status == 400 and "70000 x 1 cannot be written as .jpg" in text


def test_a_body_that_is_too_large_is_refused() -> None:
    with running(settings(DETECT, max_body=1000)) as server:
        status, text = error_of(server.http.post("/v1/vision/detect", content=bytes(1001)))
        assert status == 413 and "1000 bytes" in text
        text_of_many = "A" * 2000
        assert error_of(server.http.post("/v1/vision/detect", json={"image": text_of_many}))[0] == 413
        assert error_of(server.http.post("/v1/vision/detect", files={"image": bytes(1000)}))[0] == 413
        assert server.state.repository.room.used == 0


def test_networks_that_are_not_there_or_not_for_pictures(seeing: Served) -> None:
    data = picture_of(8, 8)
    status, text = error_of(seeing.http.post("/v1/vision/detect?model=none", content=data))
    assert status == 404 and "'none' does not exist" in text
    status, text = error_of(seeing.http.post("/v1/vision/detect", content=data))
    assert status == 400 and "model is missing" in text and "detect_for_RK3588" in text
    status, text = error_of(seeing.http.post(f"/v1/vision/detect?model={TWO.stem}", content=data))
    assert status == 422 and "in0" in text and "in1" in text
    status, text = error_of(seeing.http.post(f"/v1/vision/detect?model={UNKNOWN.stem}", content=data))
    assert status == 422 and "seen: " in text
    with pytest.raises(UnknownHead) as refused:
        open_vision(UNKNOWN, backend="cpu")
    assert str(refused.value) in text
    status, text = error_of(seeing.http.post(f"{FOUND}&hint=yolov99", content=data))
    assert status == 422 and "yolov99" in text
    (network, *_) = seeing.state.repository.loaded
    assert all(worker.replaced == 0 for worker in network.pool.stats().workers)


def test_a_server_without_networks_says_so() -> None:
    with running(ServerSettings(models=(MODEL,))) as server:
        status, text = error_of(server.http.post("/v1/vision/detect", content=picture_of(8, 8)))
        assert status == 400 and "loaded: none" in text
        assert server.http.get("/v1/vision/models").json()["data"] == []


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("score=2", "score is 2"), ("score=nan", "score is"), ("score=much", "score is"), ("most=0", "most is 0"),
        ("most=1.5", "most is 1.5"),
        ("most=10001", "in 1..10000"), ("overlap=-1", "overlap is -1"), ("masks=svg", "one of rle, png, none"),
        ("fit=tight", "one of letterbox, stretch, crop"), ("draw=maybe", "true or false"), ("scores=1", "'scores' is unknown"),
        ("score=0.5&score=0.6", "there 2 times"),
    ],
)  # fmt: skip
def test_fields_that_are_wrong_are_named(seeing: Served, query: str, text: str) -> None:
    status, message = error_of(seeing.http.post(f"{FOUND}&{query}", content=SCENE.read_bytes()))
    assert status == 400 and text in message


def test_outputs_that_are_no_numbers_are_told(seeing: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    (network,) = [one for one in seeing.state.repository.loaded if one.name == "detect_for_RK3588"]
    real = network.infer

    async def broken(request: Any) -> Any:
        response = await real(request)
        for tensor in response.outputs:
            tensor.data = np.full(tensor.data.shape, np.nan, np.float32)
        return response

    monkeypatch.setattr(network, "infer", broken)
    status, text = error_of(seeing.http.post(FOUND, content=SCENE.read_bytes()))
    assert status == 422 and "detect_for_RK3588: output sides8 holds NaN" in text


def test_infinite_places_are_told(telling: Served) -> None:
    points = Detections(
        np.array([[0, 0, 9, 9]]), np.array([1]), np.array([0]), np.array([[[np.inf, 2, 0.5]]])
    )
    told(Task.POSE, points)
    status, text = error_of(telling.http.post("/v1/vision/pose", content=picture_of(8, 8)))
    assert status == 422 and "infinite or no number" in text


def test_more_masks_than_fit_are_refused(telling: Served) -> None:
    many = Detections(np.zeros((300, 4)), np.ones(300), np.zeros(300), masks=np.zeros((300, 8, 8), bool))
    told(Task.INSTANCE, many)
    wide = picture_of(2000, 1000)
    status, text = error_of(telling.http.post("/v1/vision/segment", content=wide))
    assert status == 400 and "300 masks of 2000 x 1000" in text and "masks=none" in text
    assert len(telling.http.post("/v1/vision/segment?masks=none", content=wide).json()["found"]) == 300


def test_nothing_stays_behind(seeing: Served) -> None:
    until(lambda: not any(one.turnstile.running or one._kept for one in seeing.state.repository.loaded))
    assert seeing.state.repository.room.used == 0


def test_a_mask_as_a_file() -> None:
    for size in ((1, 1), (7, 9), (3, 16)):
        mask = np.random.default_rng(1).random(size) > 0.5
        assert (np.asarray(Image.open(io.BytesIO(mask_file(mask)))) == mask).all()
