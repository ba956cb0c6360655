"""The page at ``/``: what it may do, and in a headless Chromium what it does."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from rknnlite_server.settings import ServerSettings

from tests.support.needs import needs

from .conftest import MODEL, Served, running, until

ANSWER = "2 + 3 = 5"
LAST = "[...document.querySelectorAll('.assistant .text')].pop()?.textContent"
IDLE = "document.body.dataset.state === 'idle'"


def test_the_page_is_one_file_that_may_fetch_nothing_elsewhere(server: Served) -> None:
    response = server.http.get("/")
    assert response.status_code == 200 and response.headers["content-type"].startswith("text/html")
    assert not re.findall(
        r"(?:https?:)?//\w+\.\w+|innerHTML|<script src|<link (?!rel=\"icon\" href=\"data:)", response.text
    )
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "connect-src 'self'" in policy and "unsafe" not in policy
    assert response.headers["x-content-type-options"] == "nosniff"
    assert server.http.head("/").status_code == 200  # the way Ollama's clients ask whether it is there


if os.name == "posix":
    from tests.support.browser import Page, browsing


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    needs("chromium")
    with browsing() as page:
        yield page


def opened(page: Page, server: Served, **size: int) -> None:
    page.open(f"{server.url}/", **size)
    page.until("document.querySelector('#model option')")
    page.run("document.getElementById('question').focus()")
    page.told.clear()


@pytest.fixture
def slow(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens come so slowly that there is time to press a button."""
    import time

    from rknnlite_server import generation

    real = generation._Reader.result

    def later(self: object, result: object, state: object) -> None:
        time.sleep(0.15)
        real(self, result, state)  # type: ignore[arg-type]

    monkeypatch.setattr(generation._Reader, "result", later)


def test_a_question_is_answered_piece_by_piece(page: Page, server: Served, slow: None) -> None:
    opened(page, server)
    page.type("What is 2 + 3?\n")
    part = page.until(LAST)
    assert ANSWER.startswith(part) and part != ANSWER
    page.until(f"{LAST} === '{ANSWER}' && {IDLE}")
    figures = page.run("document.querySelector('.figures:not(:empty)').textContent")
    assert re.search(r"\d+\.\d tokens/s · \d+ tokens · .*first after \d+ ms", figures)
    page.type("What is 40 + 2?\n")
    page.until(f"{LAST} === '40 + 2 = 42' && {IDLE}")
    assert "cached" in page.run("[...document.querySelectorAll('.figures')].pop().textContent")
    assert page.told == []


def test_stop_ends_the_answer(page: Page, server: Served, slow: None) -> None:
    (model,) = server.state.models.values()
    opened(page, server)
    page.type("What is 2 + 3?\n")
    page.until(LAST)
    assert page.run("!document.getElementById('stop').hidden && document.getElementById('send').hidden")
    page.run("document.getElementById('stop').click()")
    page.until(IDLE)
    assert "stopped" in page.run("document.querySelector('.assistant .figures').textContent")
    assert page.run(LAST) != ANSWER
    until(lambda: model.turnstile.running == 0 and model.pool.running == 0)


def test_settings_go_with_the_request(page: Page, server: Served) -> None:
    opened(page, server)
    page.run("document.getElementById('most').value = '2'")
    page.type("What is 2 + 3?\n")
    page.until(f"{LAST} && {IDLE}")
    assert "cut off at the limit" in page.run("document.querySelector('.assistant .figures').textContent")


def test_text_of_models_and_people_is_never_markup(page: Page, server: Served) -> None:
    opened(page, server)
    page.type("<img src=x onerror=alert(1)><b>hi</b>\n")
    page.until(IDLE)
    assert (
        page.run("document.querySelector('.user .text').textContent")
        == "<img src=x onerror=alert(1)><b>hi</b>"
    )
    assert page.run("document.querySelectorAll('main img, main b').length") == 0


def test_thoughts_are_folded(page: Page, server: Served) -> None:
    opened(page, server)
    page.run("think(show('assistant', 'Five.'), 'two and three')")
    assert page.run("document.querySelector('.thought').open === false")
    assert page.run("document.querySelector('.thought div').textContent") == "two and three"


def test_errors_are_shown(page: Page, server: Served) -> None:
    opened(page, server)
    page.run("document.getElementById('temperature').value = '1000'")
    page.type("What is 2 + 3?\n")
    assert "temperature is 1000" in page.until("document.querySelector('.error')?.textContent")


def test_a_key_is_asked_for_and_kept_in_the_tab(page: Page) -> None:
    with running(ServerSettings(models=(MODEL,), api_keys=("secret",))) as server:
        page.open(f"{server.url}/")
        assert page.until(
            "document.getElementById('settings').open && document.getElementById('empty').textContent"
        )
        page.run(
            "(key => { key.value = 'secret'; key.dispatchEvent(new Event('change')) })(document.getElementById('key'))"
        )
        page.until("document.querySelector('#model option')")
        page.open(f"{server.url}/")
        assert page.until("document.querySelector('#model option')?.value") == "tiny"
        assert page.run("sessionStorage.getItem('key')") == "secret" and page.run("localStorage.length") == 0


@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_a_telephone(page: Page, server: Served, dark: bool, tmp_path: Path) -> None:
    page.open(f"{server.url}/", width=360, height=640, dark=dark)
    page.until("document.querySelector('#model option')")
    page.run("document.getElementById('settings').open = true")
    assert page.run("document.documentElement.scrollWidth") <= 360
    colour = page.run("getComputedStyle(document.body).backgroundColor")
    assert colour == ("rgb(20, 23, 27)" if dark else "rgb(246, 247, 249)")
    assert page.run("document.getElementById('send').getBoundingClientRect().bottom") <= 640
