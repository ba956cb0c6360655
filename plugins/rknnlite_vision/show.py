"""``--show``: pictures in a window of OpenCV's where there is a display, else on a page that only this machine's browsers reach."""

from __future__ import annotations

import contextlib
import importlib
import os
import secrets
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Optional, Protocol

import numpy as np
from numpy.typing import NDArray

from rknnlite.errors import RknnError

from .pictures import encode

__all__ = ["Browser", "Window", "shown_pictures"]

Array = NDArray[Any]
_BOUNDARY = "picture"
_MOST_VIEWERS = 16
_PATIENCE = 10.0  # seconds that a browser may take for one picture
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>rknnlite</title>
<style>body{margin:0;background:#181818;display:grid;place-items:center;min-height:100vh}
img{max-width:100vw;max-height:100vh;image-rendering:auto}</style>
<img src="stream" alt="What the network sees"></html>
"""


class Viewer(Protocol):
    """Where pictures are looked at."""

    place: str

    def show(self, pixels: Array) -> bool:
        """Show a picture, RGB; False once whoever looks has closed it."""

    def wait(self) -> None:
        """Keep the last picture until it is closed, or Ctrl-C."""

    def close(self) -> None:
        """Give everything back."""


class Browser:
    """Pictures on a page of 127.0.0.1 under an address that nobody can guess, each in the place of the one before.

    Args:
        port: 0 takes any that is free.

    Examples:
        >>> with contextlib.closing(Browser()) as browser:
        ...     browser.place.startswith("http://127.0.0.1:")
        True
    """

    def __init__(self, port: int = 0) -> None:
        self._fresh = threading.Condition()
        self._data = b""
        self._number = 0
        self._closed = False
        self.viewers = 0
        """Browsers that are looking."""
        self.form = _form()
        """Of the pictures."""
        self._secret = secrets.token_urlsafe(12)
        try:
            self._server = _Server(("127.0.0.1", port), _Handler)
        except OSError as error:
            raise RknnError(
                f"no page can be served on port {port}: {error.strerror}; give another one"
            ) from None
        self._server.browser = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)
        self._thread.start()
        self.place = f"http://127.0.0.1:{self._server.server_address[1]}/{self._secret}/"

    def show(self, pixels: Array) -> bool:
        """Put a picture on the page; True."""
        data = encode(pixels, self.form)
        with self._fresh:
            self._data, self._number = data, self._number + 1
            self._fresh.notify_all()
        return True

    def wait(self) -> None:
        """Keep the page until Ctrl-C."""
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()

    def close(self) -> None:
        """End the page and let go of everybody who looks; may be called again."""
        with self._fresh:
            if self._closed:
                return
            self._closed = True
            self._fresh.notify_all()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def is_for_us(self, path: str) -> Optional[str]:
        """What is asked for behind the secret; None for whoever does not know it."""
        _, secret, *rest = [*path.split("/"), "", ""]
        known = secrets.compare_digest(secret.encode(), self._secret.encode())
        return "/".join(rest).rstrip("/") if known else None

    @contextlib.contextmanager
    def viewing(self) -> Iterator[bool]:
        """Whether there is room for one more who looks, as long as the block runs."""
        with self._fresh:
            room = self.viewers < _MOST_VIEWERS
            self.viewers += room
        try:
            yield room
        finally:
            with self._fresh:
                self.viewers -= room

    def pictures(self) -> Iterator[bytes]:
        """What is shown from now on, the last one first; a slow taker misses some."""
        number = 0
        while True:
            with self._fresh:
                self._fresh.wait_for(lambda seen=number: self._closed or self._number > seen)  # type: ignore[misc]
                if self._closed:
                    return
                data, number = self._data, self._number
            yield data


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = False
    browser: Browser

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Browsers leave when they like."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _PATIENCE

    def do_GET(self) -> None:
        browser = self.server.browser
        wanted = browser.is_for_us(self.path)
        if wanted == "":
            self._answer("text/html; charset=utf-8", _PAGE.encode())
        elif wanted != "stream":
            self.send_error(404)
        else:
            with browser.viewing() as room:
                if room:
                    self._stream(browser)
                else:
                    self.send_error(503)

    def _answer(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, browser: Browser) -> None:
        self.send_response(200)
        self.send_header("Content-Type", f"multipart/x-mixed-replace; boundary={_BOUNDARY}")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        between = f"--{_BOUNDARY}\r\n".encode()
        self.wfile.write(between)
        for data in browser.pictures():
            # a browser shows a picture once it has seen where the next begins
            head = f"Content-Type: image/{browser.form[1:]}\r\nContent-Length: {len(data)}\r\n\r\n"
            self.wfile.write(head.encode() + data + b"\r\n" + between)

    def log_message(self, form: str, *args: Any) -> None:
        """Nothing: the terminal is the command's."""


class Window:
    """A window of OpenCV's; Esc, q or its button closes it."""

    place = "a window"
    _TITLE = "rknnlite"

    def __init__(self) -> None:
        import cv2

        self._cv2: Any = cv2
        cv2.namedWindow(self._TITLE, cv2.WINDOW_NORMAL)
        self._open = True

    def show(self, pixels: Array) -> bool:
        """Show a picture; False once the window was closed."""
        if self._open:
            self._cv2.imshow(self._TITLE, np.ascontiguousarray(pixels[..., ::-1]))
            self._look(1)
        return self._open

    def wait(self) -> None:
        """Keep the last picture until the window is closed, or Ctrl-C."""
        with contextlib.suppress(KeyboardInterrupt):
            while self._open:
                self._look(100)

    def _look(self, milliseconds: int) -> None:
        key = self._cv2.waitKey(milliseconds) & 0xFF
        visible = self._cv2.getWindowProperty(self._TITLE, self._cv2.WND_PROP_VISIBLE) >= 1
        self._open = visible and key not in (27, ord("q"))

    def close(self) -> None:
        """Close the window."""
        self._cv2.destroyAllWindows()


def shown_pictures(port: Optional[int] = None) -> Viewer:
    """A window where there is a display and OpenCV can open one, else, or where a port is given, a page."""
    if port is None and _has_display():
        with contextlib.suppress(Exception):  # a display that is not there, a library without windows
            return Window()
    return Browser(port or 0)


def _form() -> str:
    """JPEG, or PNG, which needs no library."""
    for module in ("cv2", "PIL"):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
            return ".jpeg"
    return ".png"


def _has_display() -> bool:
    shown = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if not shown:
        return False
    try:
        import cv2

        return bool(cv2.currentUIFramework())
    except Exception:  # no OpenCV, one without windows, an old one
        return False
