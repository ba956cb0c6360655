"""A headless Chromium, spoken to by its remote debugging pipe: no driver and no package is needed."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from .needs import COMMANDS

__all__ = ["Page", "browsing"]

_SECONDS = 20.0
_LAUNCH = """import fcntl, os, sys
given = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]
os.dup2(given[0], 3)
os.dup2(given[1], 4)
os.execv(sys.argv[3], sys.argv[3:])"""
"""The browser reads commands from descriptor 3 and writes answers to 4."""


class Page:
    """The one tab of a browser."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._buffer, self._number, self._session = b"", 0, ""
        self.told: list[str] = []
        """What pages wrote to their console, and errors of scripts."""
        self.asked: list[str] = []
        """Addresses that pages asked for."""
        target = self._send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._send(f"{domain}.enable")

    def open(self, address: str, width: int = 1000, height: int = 760, dark: bool = False) -> None:
        """Show a page in a window of that size, in CSS pixels."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._send("Emulation.setEmulatedMedia", features=features)
        self._send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self._send("Page.navigate", url=address)
        self.until("document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        """The value of an expression, which may do what the page may; raises AssertionError for what a script throws."""
        found = self._send(
            "Runtime.evaluate",
            expression=script,
            returnByValue=True,
            awaitPromise=True,
            allowUnsafeEvalBlockedByCSP=False,
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, script: str, seconds: float = _SECONDS) -> Any:
        """Wait until an expression is true; its value. While a page is loaded anew its elements are not there: not yet, then."""
        end = time.monotonic() + seconds
        while True:
            thrown = ""
            try:
                value = self.run(f"(found => found instanceof Node || found)({script})")
            except AssertionError as error:
                value, thrown = None, f", it threw {error}"
            if value:
                return value
            assert time.monotonic() < end, f"waited in vain for {script}; the page told {self.told}{thrown}"
            time.sleep(0.05)

    def type(self, text: str) -> None:
        """As from a keyboard, where the focus is; a new line is the enter key."""
        for part in text.splitlines(keepends=True):
            self._send("Input.insertText", text=part.rstrip("\n"))
            if part.endswith("\n"):
                for kind in ("keyDown", "keyUp"):
                    self._send("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", text="\r",
                               windowsVirtualKeyCode=13)  # fmt: skip

    def picture(self) -> bytes:
        """What is to be seen, PNG."""
        return base64.b64decode(self._send("Page.captureScreenshot", format="png")["data"])

    def _send(self, method: str, **params: Any) -> Any:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self._hear(answer)

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + _SECONDS
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, end - time.monotonic()))
            data = os.read(self._answers, 1 << 16) if ready else b""
            assert data, "the browser does not answer"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(line)
        return found

    def _hear(self, event: dict[str, Any]) -> None:
        method, params = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.told.append(str(params["exceptionDetails"]))
        elif method == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"])
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.told.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")


@contextlib.contextmanager
def browsing() -> Iterator[Page]:
    """A browser with a fresh profile, for as long as it is needed."""
    program = next(filter(None, map(shutil.which, COMMANDS["chromium"])))
    (theirs, commands), (answers, told) = os.pipe(), os.pipe()
    words = [
        program, "--headless", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe",
        "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream",
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
    ]  # fmt: skip
    profile = tempfile.mkdtemp()
    process = subprocess.Popen(
        [sys.executable, "-c", _LAUNCH, str(theirs), str(told), *words, f"--user-data-dir={profile}"],
        pass_fds=(theirs, told), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(theirs)
    os.close(told)
    try:
        yield Page(commands, answers)
    finally:
        os.close(commands)
        os.close(answers)
        process.terminate()
        process.wait(30)
        shutil.rmtree(profile, ignore_errors=True)
