"""The page at ``/``: what it may do, and in a headless Chromium how one chats with it."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from rknnlite_server.page import PAGE_PATHS
from rknnlite_server.settings import ModelSettings, ServerSettings

from .conftest import MODEL, TINY, Served, running, until
from .test_media import SIGHTED

ANSWER = "2 + 3 = 5"
LAST = "[...document.querySelectorAll('.assistant .text')].pop()?.textContent"
IDLE = "document.body.dataset.state === 'idle'"
MARKUP = "<img src=x onerror=\"document.title='caught'\"><b>hi</b>"
FOLDER = Path(__file__).parents[2] / "plugins" / "rknnlite_server" / "page"
WEATHER = [
    {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    }
]

# -- what is sent to whom ----------------------------------------------------------------------------------


def test_the_page_may_fetch_nothing_elsewhere(server: Served) -> None:
    response = server.http.get("/")
    assert response.status_code == 200 and response.headers["content-type"].startswith("text/html")
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "connect-src 'self'" in policy and "unsafe" not in policy
    assert response.headers["x-content-type-options"] == "nosniff"
    assert server.http.head("/").status_code == 200  # the way Ollama's clients ask whether it is there
    assert "style=" not in response.text and not re.findall(r"<script(?![^>]* src=)| on\w+=", response.text)
    for path in PAGE_PATHS:
        text = server.http.get(path).text.replace("http://www.w3.org/2000/svg", "")
        text = re.sub(r'placeholder="[^"]*"', "", text)
        assert not re.findall(
            r"(?:https?:)?//\w+\.\w+|innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function",
            text,
        ), path


def test_its_files_are_asked_again_and_not_sent_again(server: Served) -> None:
    assert {f"/page/{path.name}" for path in FOLDER.iterdir() if path.name != "index.html"} == set(
        PAGE_PATHS
    ) - {"/"}
    for path in PAGE_PATHS:
        first = server.http.get(path)
        assert first.status_code == 200 and first.headers["cache-control"] == "no-cache"
        tag = first.headers["etag"]
        for given in (tag, f'"x", W/{tag}'):
            again = server.http.get(path, headers={"If-None-Match": given})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        assert server.http.get(path, headers={"If-None-Match": '"x"'}).status_code == 200
    for path in ("none.js", "index.html", "..%2fkeys.py", "%2e%2e/keys.py"):
        assert server.http.get(f"/page/{path}").status_code == 404


def test_with_keys_everybody_gets_the_page_and_nothing_else() -> None:
    far = {"X-Forwarded-For": "10.0.0.7", "Host": "board.example"}
    with running(ServerSettings(models=(MODEL,), api_keys=("secret",), metrics=True)) as server:
        for path in PAGE_PATHS:
            found = server.http.get(path, headers=far)
            assert (
                found.status_code == 200
                and b"secret" not in found.content
                and b"tiny.rknn" not in found.content
            )
        for path in (
            "/page/server.json",
            "/page/none.js",
            "/v1/models",
            "/metrics",
            "/openapi.json",
            "/api/tags",
            "/v2",
        ):
            assert server.http.get(path, headers=far).status_code == 401, path
        told = server.http.get("/page/server.json", headers={**far, "Authorization": "Bearer secret"}).json()
        assert told["ready"] and told["metrics"] and not told["networks"] and not told["pull"]


def test_without_keys_it_is_for_this_machine(server: Served) -> None:
    for path in PAGE_PATHS:
        refused = server.http.get(path, headers={"X-Forwarded-For": "10.0.0.7"})
        assert refused.status_code == 403 and "--api-key-file" in refused.text
        assert server.http.get(path, headers={"Host": "page.example"}).status_code == 403


# -- in a browser ------------------------------------------------------------------------------------------

if os.name == "posix":
    from tests.support.browser import Page


def opened(page: Page, server: Served, **size: int) -> None:
    page.open("about:blank")
    page.open(f"{server.url}/", **size)
    page.until("document.querySelector('#model option')")
    page.run("document.getElementById('question').focus()")
    page.told.clear()
    page.asked.clear()


def set_field(page: Page, name: str, value: str) -> None:
    page.run(
        f"(field => {{ field.value = {json.dumps(value)}; field.dispatchEvent(new Event('input')) }})"
        f"(document.getElementById('{name}'))"
    )


def press(page: Page, label: str, within: str = "document") -> None:
    """The last visible button that is called so."""
    buttons = f"[...({within}).querySelectorAll('button')].filter(one => one.textContent === {label!r} && !one.hidden)"
    page.until(f"{buttons}.length")
    page.run(f"{buttons}.pop().click()")


def stand_in(page: Page, *deltas: dict[str, Any]) -> None:
    """From now on a model answers so, whatever is asked."""
    lines = [f"data: {json.dumps({'choices': [{'delta': delta}]})}\n\n" for delta in deltas]
    page.run(
        f"{{ const real = window.fetch; window.fetch = (path, more) => String(path).includes('completions') "
        f"? Promise.resolve(new Response({json.dumps(''.join(lines) + 'data: [DONE]')})) : real(path, more) }}"
    )


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
    assert re.search(r"\d+\.\d tokens/s · \d+ tokens · .*first after [\d.]+ m?s", figures)
    page.type("What is 40 + 2?\n")
    page.until(f"{LAST} === '40 + 2 = 42' && {IDLE}")
    assert "cached" in page.run("[...document.querySelectorAll('.figures')].pop().textContent")
    assert page.run("document.getElementById('said').textContent") == "The answer is complete."
    assert page.told == []
    assert page.asked and all(address.startswith(f"{server.url}/") for address in page.asked)


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
    press(page, "Again")
    page.until(f"{LAST} === '{ANSWER}' && {IDLE}")
    assert page.run("document.querySelectorAll('.assistant').length") == 1
    press(page, "New chat")
    assert page.run(
        "document.querySelectorAll('.message').length === 0 && !document.getElementById('empty').hidden"
    )


def test_settings_go_with_the_request(page: Page, server: Served) -> None:
    opened(page, server)
    set_field(page, "most", "2")
    page.type("What is 2 + 3?\n")
    page.until(f"{LAST} && {IDLE}")
    assert "cut off at the limit" in page.run("document.querySelector('.assistant .figures').textContent")
    said = set()
    set_field(page, "temperature", "3")
    set_field(page, "most", "12")
    for seed in ("18446744073709551615", "18446744073709551615", "7"):
        set_field(page, "seed", seed)
        press(page, "New chat")
        page.type("Tell me something.\n")
        said.add((seed, page.until(f"{IDLE} && {LAST}")))
    assert len(said) == 2 and len({text for _, text in said}) == 2
    set_field(page, "seed", "some")
    press(page, "Again")
    assert "seed must be" in page.until("document.querySelector('.message .error')?.textContent")


def test_text_of_models_and_people_is_never_markup(page: Page, server: Served) -> None:
    opened(page, server)
    page.type(f"{MARKUP}\n")
    page.until(IDLE)
    assert page.run("document.querySelector('.user .text').textContent") == MARKUP
    fenced = f"# {MARKUP}\n\n- **{MARKUP}**\n\n```html\n{MARKUP}\n```\n[here](javascript:alert(1))"
    call = {"index": 0, "id": "1", "function": {"name": MARKUP, "arguments": MARKUP}}
    stand_in(
        page, {"reasoning_content": MARKUP}, {"content": MARKUP + "\n\n" + fenced}, {"tool_calls": [call]}
    )
    page.type("Go on\n")
    page.until("document.querySelector('.call')")
    assert page.run("document.querySelector('.thought').open === false")
    assert page.run("document.querySelector('.thought div').textContent") == MARKUP
    assert page.run("document.querySelector('.assistant:last-child .text > p').textContent") == MARKUP
    assert page.run("document.querySelector('pre code').textContent") == MARKUP
    assert page.run("document.querySelector('.text li strong').textContent") == MARKUP
    assert page.run("document.querySelector('.call code').textContent") == f"{MARKUP}({MARKUP})"
    assert page.run("document.querySelectorAll('#talk img, #talk b, #talk a, #talk script').length") == 0
    assert page.run("document.title") == "rknnlite"


def test_names_of_models_and_errors_are_never_markup(page: Page) -> None:
    model = ModelSettings(model=str(TINY), alias=MARKUP, temp=0.0)
    with running(ServerSettings(models=(model,))) as server:
        opened(page, server)
        assert page.run("document.querySelector('#model option').textContent") == MARKUP
        page.run("location.hash = 'models'")
        assert page.until("document.querySelector('#language-models h3')?.textContent") == MARKUP
        page.run("location.hash = 'chat'; document.getElementById('question').focus()")
        page.run(
            "window.fetch = () => Promise.resolve(new Response("
            f"JSON.stringify({{error: {{message: {json.dumps(MARKUP)}}}}}), {{status: 400}}))"
        )
        page.type("What is 2 + 3?\n")
        assert page.until("document.querySelector('.message .error')?.textContent") == MARKUP
        assert page.run("document.querySelectorAll('main img, main b').length") == 0
        assert page.run("document.title") == "rknnlite" and page.told == []


def test_the_policy_stops_what_would_be_run(page: Page, server: Served) -> None:
    opened(page, server)
    for script in (
        "document.body.innerHTML = '<p>'",
        "new Function('1')()",
        "setTimeout('document.title = 1', 0)",
    ):
        assert page.run(f"(() => {{ try {{ {script} }} catch (error) {{ return error.name }} }})()"), script
    told = (
        "new Promise(tell => document.addEventListener('securitypolicyviolation',"
        " one => tell(one.effectiveDirective), {once: true}))"
    )
    for script, directive in (
        (f"fetch({server.url.replace('127.0.0.1', 'localhost')!r}).catch(() => {{}})", "connect-src"),
        ("document.body.append(Object.assign(new Image(), {src: 'http://127.0.0.1:9/x.png'}))", "img-src"),
        ("document.body.setAttribute('style', 'color: red')", "style-src-attr"),
    ):
        assert page.run(f"(() => {{ const told = {told}; {script}; return told }})()") == directive


def test_errors_are_shown(page: Page, server: Served) -> None:
    opened(page, server)
    set_field(page, "temperature", "1000")
    page.type("What is 2 + 3?\n")
    assert "temperature is 1000" in page.until("document.querySelector('.message .error')?.textContent")
    set_field(page, "temperature", "")
    press(page, "Again")
    page.until(f"{LAST} === '{ANSWER}'")


def test_the_little_markdown(page: Page, server: Served) -> None:
    opened(page, server)
    text = "# One\nA *b* **c** `d *e*` 2 * 3 * 4 a_b\n\n1. x\n2. y\n   z\n- w\n\n~~~py\n# *no*\n\nend\n~~~\n```open"
    stand_in(page, *({"content": char} for char in text))
    page.type("Go on\n")
    page.until(IDLE)
    shape = "[...document.querySelector('.assistant .text').children].map(one => one.tagName + ' ' + one.textContent)"
    assert page.run(shape) == [
        "H3 One", "P A b c d *e* 2 * 3 * 4 a_b", "OL xy\nz", "UL w", "PRE # *no*\n\nend", "PRE ",
    ]  # fmt: skip
    assert page.run("document.querySelector('.text p code').textContent") == "d *e*"


# -- tools, pictures, keys --------------------------------------------------------------------------------


def test_a_tool_that_the_user_answers(page: Page, server: Served) -> None:
    opened(page, server)
    set_field(page, "tools", "[{]")
    assert "no JSON" in page.run("document.getElementById('tools-error').textContent")
    set_field(page, "tools", json.dumps(WEATHER))
    assert page.run("document.getElementById('tools-error').textContent") == ""
    page.type("What is the weather in Lisbon?\n")
    assert (
        page.until("document.querySelector('.call code')?.textContent") == 'get_weather({"city": "Lisbon"})'
    )
    page.until("document.activeElement.classList.contains('result')")
    page.type('{"sky": "rainy", "degrees": 14}')
    press(page, "Answer")
    page.until(f"{IDLE} && {LAST} === 'It is rainy in Lisbon at 14 degrees.'")
    assert page.told == []


def test_several_calls_in_one_answer(page: Page, server: Served) -> None:
    opened(page, server)
    calls = [
        {
            "index": index,
            "id": f"c{index}",
            "function": {"name": "get_weather", "arguments": f'{{"city": "{city}"}}'},
        }
        for index, city in enumerate(("Lisbon", "Rome"))
    ]
    stand_in(page, *({"tool_calls": [call]} for call in calls))
    page.run(
        "window.sent = []; { const before = window.fetch; window.fetch = (path, more) => {"
        " if (more?.body instanceof Blob) more.body.text().then(text => window.sent.push(JSON.parse(text)));"
        " return before(path, more) } }"
    )
    page.type("What is the weather?\n")
    page.until("document.querySelectorAll('.call form').length === 2")
    assert "Rome" in page.run("document.querySelectorAll('.call')[1].textContent")
    for text in ("wet", "dry"):
        page.run("document.querySelector('.call textarea').focus()")
        page.type(text)
        page.run("document.querySelector('.call form').requestSubmit()")
    page.until("window.sent.length === 2")
    said = page.run("window.sent[1].messages.map(one => [one.role, one.tool_call_id ?? null, one.content])")
    assert said == [
        ["user", None, "What is the weather?"], ["assistant", None, ""], ["tool", "c0", "wet"], ["tool", "c1", "dry"],
    ]  # fmt: skip


def test_a_question_instead_of_a_result(page: Page, server: Served) -> None:
    opened(page, server)
    set_field(page, "tools", json.dumps(WEATHER))
    page.type("What is the weather in Lisbon?\n")
    page.until("document.querySelector('.call textarea')")
    page.run("document.getElementById('question').focus()")
    page.type("What is 2 + 3?\n")
    page.until(f"{IDLE} && document.querySelectorAll('.user').length === 2 && {LAST}")
    assert (
        page.run("document.querySelectorAll('.call form, .message .error').length") == 0 and page.told == []
    )


def test_the_page_answers_calls_of_its_own_tools(page: Page, server: Served) -> None:
    opened(page, server)
    page.run("document.getElementById('calculator').click()")
    call = {
        "index": 0,
        "id": "1",
        "function": {"name": "calculator", "arguments": '{"expression": "2 * (3 + 4)"}'},
    }
    stand_in(page, {"tool_calls": [call]})
    page.type("Compute\n")
    page.until(
        "document.querySelectorAll('.call').length > 8 && document.querySelector('.call form')"
    )  # not for ever
    assert page.run("document.querySelectorAll('.call code')[1].textContent") == '{"value":14}'
    for text, value in (
        ("-2^2", -4), ("2^3^2", 512), ("1/4+.5", 0.75), ("7 % 4 * 2", 6), ("1e3 - 1", 999), ("(2)(3)", None),
        ("alert(1)", None), ("1/0", None), ("", None), ("(" * 900, None), ("constructor", None),
    ):  # fmt: skip
        found = f"import('/page/tools.js').then(m => m.calculated({json.dumps(text)})).catch(() => null)"
        assert page.run(found) == value, text


def drop(page: Page, place: str, data: bytes, name: str = "picture.png", kind: str = "image/png") -> None:
    """A file on an element, as from a file manager."""
    page.run(
        "{ const moved = new DataTransfer();"
        f"moved.items.add(new File([new Uint8Array({list(data)})], {name!r}, {{type: {kind!r}}}));"
        "const event = new DragEvent('drop', {dataTransfer: moved, bubbles: true, cancelable: true});"
        f"document.getElementById({place!r}).dispatchEvent(event) }}"
    )


def picture_file(size: tuple[int, int] = (24, 24)) -> bytes:
    import base64

    from .test_media import picture

    return base64.b64decode(picture(1, size)[1].partition(",")[2])


def test_pictures_go_to_models_that_see(page: Page, server: Served) -> None:
    with running(ServerSettings(models=(SIGHTED,))) as sighted:
        opened(page, sighted)
        for size in ((24, 24), (3000, 20)):  # one as it is, one made smaller
            drop(page, "question", picture_file(size))
        drop(page, "question", b"no picture", "notes.txt", "text/plain")
        page.until(
            "document.querySelectorAll('#pictures img').length === 2 && !document.getElementById('remark').hidden"
        )
        assert "notes.txt is no picture" in page.run("document.getElementById('remark').textContent")
        page.run("document.querySelector('#pictures .remove').click()")
        set_field(page, "most", "4")
        page.run("document.getElementById('question').focus()")
        page.type("What is this?\n")
        page.until(f"{IDLE} && {LAST}")
        assert page.run("document.querySelectorAll('.user img').length") == 1
        assert page.run("document.querySelectorAll('.error:not(:empty):not([hidden])').length") == 0
    opened(page, server)
    drop(page, "question", picture_file())
    assert "takes text only" in page.until("document.getElementById('remark').textContent")


def test_a_key_is_asked_for_and_kept_in_the_tab(page: Page) -> None:
    with running(ServerSettings(models=(MODEL,), api_keys=("secret",))) as server:
        page.open(f"{server.url}/")
        page.until("!document.getElementById('lock').hidden")
        assert page.run(
            "document.getElementById('view-chat').hidden && document.getElementById('views').hidden"
        )
        for given in ("wrong", "secret"):
            page.run("document.getElementById('key').focus()")
            page.type(f"{given}\n")
            if given == "wrong":
                page.until("document.getElementById('lock-error').textContent === 'Invalid API Key'")
                assert page.run("sessionStorage.length") == 0
        page.until("document.querySelector('#model option')")
        page.open(f"{server.url}/")
        assert page.until("document.querySelector('#model option')?.value") == "tiny"
        assert page.run("sessionStorage.getItem('key')") == "secret" and page.run("localStorage.length") == 0
        assert page.run("document.cookie") == ""
        page.run("document.getElementById('question').focus()")
        page.type("What is 2 + 3?\n")
        page.until(f"{LAST} === '{ANSWER}' && {IDLE}")
        press(page, "Forget the key")
        page.until("!document.getElementById('lock').hidden && sessionStorage.length === 0")


@pytest.mark.slow
def test_it_waits_for_models_that_are_being_loaded(page: Page) -> None:
    with running(ServerSettings(models=(MODEL,))) as server:
        server.state.ready = False
        page.open(f"{server.url}/")
        assert "being loaded" in page.until("document.getElementById('notice').textContent")
        server.state.ready = True
        page.until("document.querySelector('#model option')")
        assert page.run("document.getElementById('notice').hidden")
