"""The page of ``--show``: pictures one after the other, for whoever knows its address and for nobody else."""

from __future__ import annotations

import contextlib
import http.client
import io
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from rknnlite_vision import show
from rknnlite_vision.show import Browser, Window, shown_pictures

from rknnlite.errors import RknnError
from tests.support.needs import needs

PICTURE = np.full((12, 16, 3), (250, 20, 20), np.uint8)


@pytest.fixture
def browser() -> Iterator[Browser]:
    with contextlib.closing(Browser()) as made:
        yield made


def asked(browser: Browser, path: str | None = None) -> Any:
    """The answer to a request for a path; None: the page's own."""
    place = urlsplit(browser.place)
    connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=20)
    connection.request("GET", place.path if path is None else path)
    return connection.getresponse()


def part(answer: Any) -> tuple[str, bytes]:
    """Type and bytes of the next picture of a stream."""
    assert answer.readline() == b"--picture\r\n"
    kind = answer.readline().decode().split()[1]
    length = int(answer.readline().split()[1])
    assert answer.readline() == b"\r\n"
    data = answer.read(length)
    assert answer.readline() == b"\r\n"
    return kind, data


def test_the_page_and_its_pictures(browser: Browser) -> None:
    needs("PIL")
    page = asked(browser)
    assert page.status == 200 and b'<img src="stream"' in page.read()
    browser.show(PICTURE)
    stream = asked(browser, urlsplit(browser.place).path + "stream")
    assert stream.status == 200 and "x-mixed-replace" in stream.headers["Content-Type"]
    assert colour_of(*part(stream)) == "red"
    browser.show(np.full_like(PICTURE, (20, 20, 250)))
    assert colour_of(*part(stream)) == "blue"
    stream.close()


def colour_of(kind: str, data: bytes) -> str:
    assert kind == "image/jpeg"
    image = pytest.importorskip("PIL.Image").open(io.BytesIO(data))
    red, _, blue = np.array(image).mean((0, 1))
    return "red" if red > blue else "blue"


def test_without_libraries_it_is_png(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("cv2", "PIL"):
        monkeypatch.setitem(sys.modules, module, None)
    with contextlib.closing(Browser()) as browser:
        browser.show(PICTURE)
        kind, data = part(asked(browser, urlsplit(browser.place).path + "stream"))
        assert kind == "image/png" and data.startswith(b"\x89PNG")


@pytest.mark.parametrize("path", ["/", "/stream", "/wrong/", "/wrong/stream", "//stream", "/../etc/passwd"])
def test_nobody_else(browser: Browser, path: str) -> None:
    answer = asked(browser, path)
    assert answer.status == 404 and b"img" not in answer.read()


def test_it_is_this_machines_alone(browser: Browser) -> None:
    assert browser._server.socket.getsockname()[0] == "127.0.0.1"


def test_closing_lets_everybody_go() -> None:
    threads = threading.active_count()
    browser = Browser()
    stream = asked(browser, urlsplit(browser.place).path + "stream")
    browser.close()
    browser.close()
    assert stream.readline() == b"--picture\r\n" and stream.read() == b""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and "process_request" in thread.name:
            thread.join(20)
    assert threading.active_count() == threads
    with pytest.raises(OSError):
        asked(browser)


def test_a_browser_that_leaves_is_no_error(browser: Browser, capfd: pytest.CaptureFixture[str]) -> None:
    place = urlsplit(browser.place)
    for _ in range(20):  # more than may look at once
        with socket.create_connection((str(place.hostname), place.port)) as raw:
            raw.sendall(f"GET {place.path}stream HTTP/1.0\r\n\r\n".encode())
            raw.recv(16)
        while browser.viewers:
            browser.show(PICTURE)
    assert capfd.readouterr() == ("", "")


def test_too_many_viewers(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(show, "_MOST_VIEWERS", 1)
    path = urlsplit(browser.place).path + "stream"
    first = asked(browser, path)
    assert first.status == 200 and asked(browser, path).status == 503


def test_a_port_that_is_taken(browser: Browser) -> None:
    port = urlsplit(browser.place).port
    assert port
    with pytest.raises(RknnError, match=f"no page can be served on port {port}"):
        Browser(port)


def test_where_there_is_no_display(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    with contextlib.closing(shown_pictures()) as viewer:
        assert isinstance(viewer, Browser)


class Windows:
    """OpenCV with windows, as far as ``Window`` calls it."""

    WINDOW_NORMAL, WND_PROP_VISIBLE = 0, 4

    def __init__(self) -> None:
        self.shown: list[Any] = []
        self.key = -1
        self.visible = 1.0
        self.closed = False

    def currentUIFramework(self) -> str:
        return "QT5"

    def namedWindow(self, title: str, flags: int) -> None:
        assert title

    def imshow(self, title: str, pixels: Any) -> None:
        self.shown.append(pixels)

    def waitKey(self, milliseconds: int) -> int:
        return self.key

    def getWindowProperty(self, title: str, name: int) -> float:
        return self.visible

    def destroyAllWindows(self) -> None:
        self.closed = True


def test_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    windows = Windows()
    monkeypatch.setitem(sys.modules, "cv2", windows)
    monkeypatch.setenv("DISPLAY", ":1")
    viewer = shown_pictures()
    assert isinstance(viewer, Window) and viewer.show(PICTURE)
    assert windows.shown[0][0, 0].tolist() == [20, 20, 250], "BGR"
    windows.key = ord("q")
    assert not viewer.show(PICTURE)
    viewer.wait()
    viewer.close()
    assert windows.closed
    with contextlib.closing(shown_pictures(port=0)) as page:
        assert isinstance(page, Browser), "a port asks for a page"
