"""The page at ``/`` beside the chat: models, a network, figures, speech; how it looks on a telephone."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("grpc")
Image = pytest.importorskip("PIL.Image")

from rknnlite_server.settings import ServerSettings  # noqa: E402

from tests.support.file_server import serving  # noqa: E402

from .conftest import MODEL, Served, running, until  # noqa: E402
from .networks.conftest import BATCH, DYNAMIC, MANY, RESNET, ROOT, WHOLE, path_of  # noqa: E402
from .test_language_models import loaded, put, settings  # noqa: E402
from .test_page import drop, press, set_field  # noqa: E402
from .test_speech import SAID, sound_file, speech  # noqa: E402, F401

if os.name == "posix":
    from tests.support.browser import Page

DIGIT = ROOT / "examples" / "resnet18" / "digit_224.png"
TOP = "[...document.querySelectorAll('#network-top tbody th')].map(one => one.textContent)"
TOLD = "document.getElementById('network-told')?.textContent"


def show(page: Page, server: Served, view: str, **size: int) -> None:
    page.open("about:blank")
    page.open(f"{server.url}/#{view}", **size)
    page.until(f"document.getElementById('view-{view}') && !document.getElementById('view-{view}').hidden")
    page.told.clear()
    page.asked.clear()


def card(name: str, list_name: str = "language-models") -> str:
    return f"document.querySelector('#{list_name} [data-name={json.dumps(name)}]')"


def chip(name: str, list_name: str = "language-models") -> str:
    return f"{card(name, list_name)}?.querySelector('.chip').textContent"


def choose(page: Page, name: str, value: str) -> None:
    page.until(f"[...document.getElementById({name!r}).options].some(one => one.value === {value!r})")
    page.run(
        f"(field => {{ field.value = {value!r}; field.dispatchEvent(new Event('change')) }})(document.getElementById({name!r}))"
    )


# -- models ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_model_that_is_not_loaded_is_loaded_when_it_is_asked(page: Page, tmp_path: Path) -> None:
    with running(settings(put(tmp_path / "m", "a"), models=(MODEL,))) as server:
        show(page, server, "chat")
        names = "[...document.querySelectorAll('#model option')].map(one => one.textContent).join()"
        page.until(f"{names} === 'tiny,a (unloaded)'")
        choose(page, "model", "a")
        page.run("document.getElementById('question').focus()")
        page.type("What is 2 + 3?\n")
        page.until("document.querySelector('.assistant .text')?.textContent === '2 + 3 = 5'")
        page.until(f"{names} === 'tiny,a'")
        assert page.run("document.getElementById('model').value") == "a" and page.told == []


def test_language_models_are_loaded_and_unloaded(page: Page, tmp_path: Path) -> None:
    folder = put(tmp_path / "m", "a", "b")
    weight = folder / "b.weight"
    weight.write_bytes(weight.read_bytes()[:-100])
    with running(settings(folder, explicit=True, models=(MODEL,))) as server:
        show(page, server, "models")
        page.until(f"{chip('a')} === 'not loaded'")
        assert (
            page.run(chip("tiny")) == "loaded" and page.run(f"{card('tiny')}.querySelector('button')") is None
        )
        press(page, "Load", card("a"))
        page.until(f"{chip('a')} === 'loaded'")
        assert loaded(server) == ["tiny:latest", "a:latest"]
        assert "tools" in page.run(f"{card('a')}.textContent")
        press(page, "Unload", card("a"))
        page.until(f"{chip('a')} === 'not loaded'")
        until(lambda: loaded(server) == ["tiny:latest"])
        assert page.told == []
        press(page, "Load", card("b"))
        page.until(f"{chip('b')} === 'failed'")
        assert "b.weight" in page.until(f"{card('b')}.querySelector('.error')?.textContent")


def test_how_far_a_model_is_loaded(page: Page, tmp_path: Path) -> None:
    with running(settings(put(tmp_path / "m", "a"))) as server:
        show(page, server, "models")
        (entry,) = server.state.library._entries.values()
        real = type(entry).status
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(entry), "status", property(lambda self: "loading"))
            entry.place.done, entry.place.total = 3, 12
            page.until(f"{chip('a')} === 'loading'")
            bar = f"{card('a')}.querySelector('progress')"
            assert page.until(f"{bar}?.max === 12 && {bar}.value") == 3
            assert "3 of 12" in page.run(f"{card('a')}.textContent")
        assert type(entry).status is real
        page.until(f"{chip('a')} === 'not loaded'")


def test_a_key_with_limits_is_not_used_up(page: Page, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("secret requests=60\n")
    chosen = ServerSettings(models=(MODEL,), api_key_file=str(keys), metrics=True)
    with running(chosen) as server:
        page.open(f"{server.url}/#models")
        page.until("!document.getElementById('lock').hidden")
        page.run("sessionStorage.setItem('key', 'secret')")
        show(page, server, "models")
        page.until(f"{chip('tiny')} === 'loaded'")
        page.asked.clear()
        page.run("new Promise(done => setTimeout(done, 5000))")
        assert len(page.asked) <= 2
        page.run("sessionStorage.clear()")


def test_networks_are_loaded_and_unloaded(page: Page, tmp_path: Path) -> None:
    shutil.copy(path_of(BATCH), tmp_path / "good.rknn")
    (tmp_path / "bad.rknn").write_bytes(b"RKNN" + bytes(100))
    (tmp_path / "worse <b>.rknn").write_bytes(b"")
    with running(ServerSettings(repository=str(tmp_path), explicit=True, grpc_port=-1)) as server:
        show(page, server, "models")
        page.until(f"{chip('good', 'networks')} === 'not loaded'")
        press(page, "Load", card("good", "networks"))
        page.until(f"{chip('good', 'networks')} === 'loaded'")
        assert [network.name for network in server.state.repository.loaded] == ["good"] and page.told == []
        press(page, "Load", card("bad", "networks"))
        assert "bad.rknn" in page.until(f"{card('bad', 'networks')}.querySelector('.error')?.textContent")
        press(page, "Try", card("good", "networks"))
        page.until("!document.getElementById('view-network').hidden")
        assert page.run("document.getElementById('network').value") == "good"
        page.run("location.hash = 'models'")
        press(page, "Unload", card("good", "networks"))
        page.until(f"{chip('good', 'networks')} === 'not loaded'")
        assert server.state.repository.loaded == []


def test_a_model_is_pulled(page: Page, tmp_path: Path) -> None:
    source = put(tmp_path / "source", "far")
    (tmp_path / "m").mkdir()
    with running(settings(tmp_path / "m")) as server, serving(source) as files:
        show(page, server, "models")
        set_field(page, "pull-url", f"{files.url}/far.rknn")
        set_field(page, "pull-name", "near")
        press(page, "Pull")
        page.until(f"{chip('near')} === 'not loaded'")
        assert "far.weight: 1.2 MB of 1.2 MB" in page.run(
            "document.getElementById('pull-progress').textContent"
        ) or "success" in page.run("document.getElementById('pull-progress').textContent")
        assert page.told == []
        set_field(page, "pull-url", f"{files.url}/none.rknn")
        press(page, "Pull")
        page.until("document.querySelector('#pull-progress .error')")


# -- a network ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nets() -> Iterator[Served]:
    files = tuple(str(path_of(name)) for name in (RESNET, BATCH, DYNAMIC, MANY, WHOLE))
    chosen = ServerSettings(
        networks=files, models=(MODEL,), grpc_port=-1, workers=1, backend="cpu", metrics=True
    )
    with running(chosen) as served:
        yield served


def infer(server: Served, name: str, pixels: Any) -> list[Any]:
    tensor = {
        "name": "input",
        "datatype": "UINT8",
        "shape": list(pixels.shape),
        "data": pixels.ravel().tolist(),
    }
    answer = server.http.post(f"/v2/models/{name}/infer", json={"inputs": [tensor]})
    assert answer.status_code == 200, answer.text
    found: list[Any] = answer.json()["outputs"][0]["data"]
    return found


def test_a_picture_on_a_network_gives_what_the_api_gives(page: Page, nets: Served) -> None:
    show(page, nets, "network")
    choose(page, "network", RESNET)
    drop(page, "network-drop", DIGIT.read_bytes(), "digit.png")
    found = page.until(f"{TOP}.length && {TOP}")
    pixels = np.asarray(Image.open(DIGIT).convert("RGB"))[None]
    values = infer(nets, RESNET, pixels)
    assert found == [str(index) for index in np.argsort(-np.array(values), kind="stable")[:5]]
    shown = page.run(
        "[...document.querySelectorAll('#network-top tbody tr')].map(one => one.lastChild.textContent)"
    )
    assert [float(text) for text in shown] == pytest.approx(sorted(values, reverse=True)[:5], rel=1e-4)
    row = page.run(
        "[...document.querySelector('#network-outputs tbody tr').children].map(one => one.textContent)"
    )
    assert row[:3] == ["output", "FP32", "1 × 10"] and row[6] == "0"
    assert [float(text) for text in row[3:6]] == pytest.approx(
        [min(values), max(values), np.mean(values)], rel=1e-3
    )
    told = page.run(TOLD)
    assert told.startswith("224 × 224 pixels as they are; RGB; sent as UINT8, 0 to 255; mean and scale")
    choose(page, "network-order", "bgr")
    page.until(f"{TOLD}.includes('BGR')")
    swapped = infer(nets, RESNET, pixels[..., ::-1])
    top = page.run("document.querySelector('#network-top tbody tr').lastChild.textContent")
    assert float(top) == pytest.approx(max(swapped), rel=1e-4)
    assert page.told == [] and all(address.startswith(f"{nets.url}/") for address in page.asked)


def test_pictures_of_other_shapes_are_fitted(page: Page, nets: Served, tmp_path: Path) -> None:
    show(page, nets, "network")
    choose(page, "network", RESNET)
    file = tmp_path / "wide.png"
    Image.new("RGB", (448, 112), (200, 10, 60)).save(file)
    drop(page, "network-drop", file.read_bytes())
    assert "448 × 112 pixels, stretched to 224 × 224" in page.until(TOLD)
    choose(page, "network-fit", "letterbox")
    page.until(f"{TOLD}.includes('framed in grey')")
    corner = "[...document.querySelector('#network-result canvas').getContext('2d').getImageData(0, %d, 1, 1).data]"
    assert page.run(corner % 0) == [114, 114, 114, 255] and page.run(corner % 112) == [200, 10, 60, 255]
    choose(page, "network-fit", "crop")
    page.until(f"{TOLD}.includes('cropped')")
    assert page.run(corner % 0) == [200, 10, 60, 255]


def test_networks_with_several_rows_or_open_sizes(page: Page, nets: Served) -> None:
    show(page, nets, "network")
    for name, told in ((BATCH, "24 × 20"), (DYNAMIC, "24 × 32")):
        choose(page, "network", name)
        if name == DYNAMIC:
            page.until("!document.querySelector('.varies').hidden")
            config = nets.http.get(f"/v2/models/{name}").json()
            assert config["inputs"][0]["shape"] == [1, -1, -1, 3]
            set_field(page, "network-height", "32")
            set_field(page, "network-width", "24")
        drop(page, "network-drop", DIGIT.read_bytes())
        page.until(f"{TOLD}?.includes({told!r})")
    set_field(page, "network-width", "25")
    drop(page, "network-drop", DIGIT.read_bytes())
    assert "not among the model's" in page.until("document.getElementById('network-error').textContent")
    choose(page, "network", WHOLE)
    page.until("document.getElementById('network-error').textContent.includes('No input')")
    choose(page, "network", RESNET)
    drop(page, "network-drop", b"no picture", "a <b>.txt", "text/plain")
    assert "a <b>.txt is no picture" in page.until("document.getElementById('network-error').textContent")


# -- figures, speech --------------------------------------------------------------------------------------


def test_figures_are_lines(page: Page, nets: Served) -> None:
    show(page, nets, "figures")
    titles = "[...document.querySelectorAll('#figures h3')].map(one => one.textContent)"
    nets.chat()
    found = page.until(f"document.querySelectorAll('.sparkline .line').length && {titles}")
    assert {"Requests", "Tokens made", "Runs of networks", "In the queue"} <= set(found)
    page.until("document.querySelector('.sparkline .line').getAttribute('d').includes('L')")
    shown = page.run("document.getElementById('figures').textContent")
    assert "NaN" not in shown and "Infinity" not in shown and page.told == []


def test_without_figures_it_says_how_to_have_them(page: Page, tmp_path: Path) -> None:
    with running(ServerSettings(models=(MODEL,))) as server:
        show(page, server, "figures")
        assert "--metrics" in page.run("document.getElementById('figures-note').textContent")
        assert page.run("document.querySelector('#views [data-view=network]').hidden") and page.told == []


def test_sound_becomes_text_and_text_becomes_sound(page: Page, speech: Served) -> None:  # noqa: F811
    show(page, speech, "speech")
    assert page.run("document.getElementById('listener').value") == "whisper"
    name, data = sound_file()
    drop(page, "sound-drop", data, name, "audio/wav")
    page.until(f"document.getElementById('transcript').textContent === {SAID.strip()!r}")
    assert "1.5 s of sound in" in page.until("document.getElementById('sound-note').textContent")
    set_field(page, "speak-text", "abc")
    press(page, "Speak")
    page.until("document.getElementById('voice').src.startsWith('blob:')")
    page.until("document.getElementById('voice').duration > 0")
    assert page.told == []
    drop(page, "sound-drop", b"no sound", "a.wav", "audio/wav")
    assert "a.wav is no sound" in page.until("document.getElementById('speech-error').textContent")


# -- how it looks ------------------------------------------------------------------------------------------

SMALL = """[...document.querySelectorAll('button, select, textarea, summary, a, label.check, input:not([type=checkbox])')]
    .filter(one => one.checkVisibility() && one.getBoundingClientRect().height < 43.9 && !one.matches('.skip'))
    .map(one => one.id || one.textContent)"""


@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_a_telephone(page: Page, nets: Served, dark: bool) -> None:
    show(page, nets, "chat", width=390, height=700, dark=dark)
    page.until("document.querySelector('#model option')")
    assert page.run("document.getElementById('send').getBoundingClientRect().bottom") <= 700
    page.run("document.getElementById('question').focus()")
    page.type(f"{'long' * 60} **bold** and more\n")
    page.until("document.querySelector('.again')")
    page.run("document.getElementById('settings').open = true")
    colour = page.run("getComputedStyle(document.body).backgroundColor")
    assert colour == ("rgb(20, 23, 27)" if dark else "rgb(246, 247, 249)")
    for view in ("chat", "models", "network", "figures"):
        page.run(f"location.hash = {view!r}")
        page.until(f"!document.getElementById('view-{view}').hidden")
        if view == "network":
            choose(page, "network", RESNET)
            drop(page, "network-drop", DIGIT.read_bytes())
            page.until(TOLD)
        assert page.run("document.documentElement.scrollWidth") <= 390, view
        assert page.run(
            "document.getElementById('main').scrollWidth <= document.getElementById('main').clientWidth"
        ), view
        assert page.run(SMALL) == [], view
    assert page.told == []


@pytest.mark.slow
def test_everything_has_a_name_and_is_reached_by_keys(page: Page, nets: Served) -> None:
    show(page, nets, "chat", width=1280, height=800)
    unnamed = """[...document.querySelectorAll('input, select, textarea')].filter(one => !one.hidden
        && !one.labels?.length && !one.getAttribute('aria-label')).map(one => one.id)"""
    assert page.run(unnamed) == []
    assert (
        page.run("[...document.querySelectorAll('button')].filter(one => !one.textContent.trim()).length")
        == 0
    )
    assert (
        page.run("[...document.querySelectorAll('[tabindex]')].filter(one => one.tabIndex > 0).length") == 0
    )
    assert page.run("document.getElementById('settings').open") is True
    ids = "[...document.querySelectorAll('[id]')].map(one => one.id)"
    assert page.run(f"new Set({ids}).size === {ids}.length")
