#!/usr/bin/env python3
"""The pictures of the server's page in docs/images: a server of the examples, looked at in Chromium without a window.

    python tools/page_pictures.py                  those of the documents, into docs/images
    python tools/page_pictures.py --all-looks DIR  every view, narrow and wide, light and dark, to be looked at

Needs chromium (Debian: apt install chromium), Pillow, and the extra ``server``.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from rknnlite_server.control import start_server, stop_server  # noqa: E402
from rknnlite_server.settings import ModelSettings, ServerSettings  # noqa: E402

from tests.support.browser import Page, browsing  # noqa: E402

TINY = ROOT / "examples" / "llm_chat" / "models" / "tiny.rknn"
RESNET = ROOT / "examples" / "resnet18"
PORT = 8653
ADDRESS = f"http://127.0.0.1:{PORT}/"
MOST_BYTES = 80_000
WIDE, NARROW = (1280, 800), (390, 844)
WEATHER = (
    '[{"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}]'
)
_LINES_SECONDS = 45  # until the lines of the figures have a shape


@dataclass(frozen=True)
class Look:
    """A view of the page in a window of that size."""

    name: str
    view: str
    size: tuple[int, int] = WIDE
    dark: bool = False


LOOKS = (
    Look("page-chat", "chat"),
    Look("page-network", "network"),
    Look("page-figures", "figures", dark=True),
    Look("page-telephone", "chat", NARROW),
)
VIEWS = ("chat", "models", "network", "figures")


def settings(folder: Path) -> ServerSettings:
    """A language model, a folder of others, and the networks of an example."""
    for path in TINY.parent.iterdir():
        shutil.copy(path, folder / path.name.replace("tiny", "assistant"))
    return ServerSettings(
        port=PORT, models=(ModelSettings(model=str(TINY), alias="tiny", temp=0.0),), llm_repository=str(folder), explicit=True,
        networks=(str(RESNET / "resnet18_for_RK3588.rknn"),), repository=str(RESNET), grpc_port=-1, metrics=True,
    )  # fmt: skip


def prepare(page: Page, look: Look) -> None:
    """Open the view and do something in it."""
    page.open("about:blank")
    page.open(f"{ADDRESS}#{look.view}", *look.size, dark=look.dark)
    page.until(f"!document.getElementById('view-{look.view}').hidden")
    if look.view == "chat":
        page.until("document.querySelector('#model option')")
        page.run(f"document.getElementById('tools').value = {WEATHER!r}")
        ask(page, "What is the weather in Lisbon?")
        page.run("document.querySelector('.call textarea')?.focus()")
        page.type('{"sky": "rainy", "degrees": 14}')
        page.run("document.querySelector('.call form')?.requestSubmit()")
        page.until(
            "document.body.dataset.state === 'idle' && document.querySelectorAll('.assistant').length > 1"
        )
    if look.view == "network":
        page.until("document.getElementById('network-input').value")
        picture = list((RESNET / "digit_224.png").read_bytes())
        page.run(
            f"{{ const moved = new DataTransfer(); moved.items.add(new File([new Uint8Array({picture})], 'digit_224.png'));"
            "document.getElementById('network-drop').dispatchEvent("
            "new DragEvent('drop', {dataTransfer: moved, bubbles: true, cancelable: true})) }"
        )
        page.until("document.getElementById('network-top')")
    if look.view == "figures":
        end = time.monotonic() + _LINES_SECONDS
        while time.monotonic() < end:
            work(page)
    time.sleep(0.3)


def ask(page: Page, question: str) -> None:
    """A question, and its answer."""
    page.run("document.getElementById('question').focus()")
    page.type(f"{question}\n")
    page.until("document.body.dataset.state === 'idle' && document.querySelector('.again')")


def work(page: Page) -> None:
    """Some requests of every kind, more of them now and less then."""
    count = 1 + int(time.monotonic()) % 7
    body = json.dumps({"model": "tiny", "messages": [{"role": "user", "content": f"What is {count} + 40?"}]})
    page.run(
        f"Promise.all(Array.from({{length: {count}}}, () => fetch('v1/chat/completions', {{method: 'POST', "
        f"headers: {{'Content-Type': 'application/json'}}, body: {body!r}}})))"
    )
    time.sleep(0.5)


def save(page: Page, target: Path) -> int:
    """What is to be seen as a PNG of few colours; its bytes."""
    with Image.open(io.BytesIO(page.picture())) as image:
        few = image.convert("RGB").quantize(128, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
        few.save(target, optimize=True)
    return target.stat().st_size


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--all-looks", type=Path, metavar="DIR")
    folder: Path | None = parser.parse_args().all_looks
    looks = LOOKS
    if folder is not None:
        looks = tuple(
            Look(f"{view}-{size[0]}-{'dark' if dark else 'light'}", view, size, dark)
            for view in VIEWS
            for size in (WIDE, NARROW)
            for dark in (False, True)
        )
    images = folder or ROOT / "docs" / "images"
    images.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as models, browsing() as page:
        ready = threading.Event()
        given = (settings(Path(models)), lambda status, text: ready.set())
        server = threading.Thread(target=start_server, args=given)
        server.start()
        try:
            ready.wait(60)
            for look in looks:
                prepare(page, look)
                size = save(page, images / f"{look.name}.png")
                assert folder is not None or size < MOST_BYTES, f"{look.name}: {size} bytes"
                print(look.name, size)
            assert not page.told, page.told
        finally:
            stop_server()
            server.join()


if __name__ == "__main__":
    main()
