"""The page at ``/``: what networks see in pictures and cameras, drawn and in a table."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("PIL.Image")

from rknnlite_vision.heads.head import Task
from rknnlite_vision.results import Detections, Words

from .conftest import MODEL, Served, running, until
from .test_page import drop, press, set_field
from .test_page_views import SMALL, show
from .test_vision import DETECT, FOUND, SCENE, TWO, picture_of, settings, told
from .test_vision import resnet as resnet
from .test_vision import telling as telling

if os.name == "posix":
    from tests.support.browser import Page

ROWS = "[...document.querySelectorAll('#vision-found tbody tr')].map(row => [...row.children].map(one => one.textContent))"
ERROR = "document.getElementById('vision-error').textContent"
COUNT = "document.getElementById('vision-count')?.textContent"
COLOUR = (
    "[...document.querySelector('#vision-result canvas').getContext('2d').getImageData(%d, %d, 1, 1).data]"
)


@pytest.fixture(scope="module")
def seeing() -> Iterator[Served]:
    with running(settings(DETECT, TWO, models=(MODEL,))) as served:
        yield served


def test_a_picture_is_looked_at(page: Page, seeing: Served) -> None:
    show(page, seeing, "vision")
    assert page.run("[...document.querySelectorAll('#vision-model option')].map(one => one.value)") == [
        DETECT.stem
    ]
    assert "320 × 320 pixels" in page.run("document.getElementById('vision-head').textContent")
    drop(page, "vision-drop", SCENE.read_bytes(), "scene.jpg", "image/jpeg")
    rows = page.until(f"{ROWS}.length && {ROWS}")
    found = seeing.http.post(FOUND, content=SCENE.read_bytes()).json()["found"]
    assert [row[:2] for row in rows] == [[one["label"], f"{one['score']:.3f}"] for one in found]
    assert rows[0][2].split(", ") == [str(int(place + 0.5)) for place in found[0]["box"]]
    assert page.run(COUNT) == f"{len(found)} found"
    assert "640 × 480 pixels" in page.run("document.getElementById('vision-told').textContent")
    set_field(page, "vision-score", "1")
    page.run("document.getElementById('vision-score').dispatchEvent(new Event('change'))")
    page.until(f"{COUNT} === '0 found'")
    set_field(page, "vision-score", "")
    assert page.told == [] and all(address.startswith((f"{seeing.url}/", "blob:")) for address in page.asked)


def test_what_is_found_is_drawn(page: Page, telling: Served) -> None:
    mask = np.zeros((1, 224, 224), bool)
    mask[0, 100:110] = True
    points = np.array([[[200, 200, 1.0], [10, 210, 0.1]]])
    told(
        Task.INSTANCE,
        Detections(np.array([[50, 60, 150, 160]]), np.array([0.9]), np.array([1]), points, masks=mask),
    )
    show(page, telling, "vision")
    drop(page, "vision-drop", picture_of(224, 224))
    page.until(f"{COUNT} === '1 found'")
    plain = [90, 90, 90, 255]
    for x, y in ((50, 120), (100, 160), (20, 105), (200, 200)):  # an edge, another, the mask, a point
        assert page.run(COLOUR % (x, y)) != plain, (x, y)
    for x, y in ((20, 120), (100, 130), (10, 210)):
        assert page.run(COLOUR % (x, y)) == plain, (x, y)
    assert page.told == []


def test_text_is_text(page: Page, telling: Served) -> None:
    told(Task.READ, Words("<b>A1</b>", 0.5))
    show(page, telling, "vision")
    drop(page, "vision-drop", picture_of(60, 20))
    assert page.until(f"{ROWS}.length && {ROWS}") == [["<b>A1</b>", "0.500"]]
    assert page.run("document.querySelectorAll('#vision-result b').length") == 0 and page.told == []


def test_what_is_wrong_is_shown(page: Page, seeing: Served) -> None:
    show(page, seeing, "vision")
    drop(page, "vision-drop", b"no picture", "a <b>.png")
    assert "a <b>.png is no picture" in page.until(ERROR)
    page.run(
        "{ const real = window.fetch; window.fetch = (path, more) => String(path).includes('vision/detect') "
        f"? Promise.resolve(new Response({json.dumps(json.dumps({'error': {'message': 'it <i>burns</i>'}}))}, {{status: 500}}))"
        " : real(path, more) }"
    )
    drop(page, "vision-drop", picture_of(9, 9))
    page.until(f"{ERROR} === 'it <i>burns</i>'")
    assert page.run("document.getElementById('vision-result').hidden && !document.querySelector('main i')")


def test_a_camera_is_looked_at_until_it_is_stopped(page: Page, seeing: Served) -> None:
    show(page, seeing, "vision")
    if page.run("!navigator.mediaDevices"):
        pytest.skip("this browser has no cameras for pages")
    (network, _) = seeing.state.repository.loaded
    before = network.statistics.success.count
    press(page, "Camera")
    page.until(
        "document.querySelector('#vision-result h2')?.textContent === 'Camera' && document.querySelector('#vision-found')"
    )
    until(lambda: network.statistics.success.count > before + 1)
    press(page, "Stop the camera")
    page.until("document.getElementById('vision-camera').textContent === 'Camera'")
    assert page.run(ERROR) == "" and page.told == []


def test_without_networks_for_pictures_it_is_not_there(page: Page) -> None:
    with running(settings(TWO)) as server:
        show(page, server, "network")
        assert page.run("document.querySelector('#views [data-view=vision]').hidden")


@pytest.mark.slow
def test_it_fits_a_telephone(page: Page, seeing: Served) -> None:
    show(page, seeing, "vision", width=390, height=700)
    drop(page, "vision-drop", SCENE.read_bytes(), "scene.jpg", "image/jpeg")
    page.until(f"{ROWS}.length")
    assert page.run("document.documentElement.scrollWidth") <= 390 and page.run(SMALL) == []
