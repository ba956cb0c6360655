"""Look at the built site in a headless Chromium: nothing is wider than its place at 1280 pixels, the search finds, tables filter.

    python tools/site_check.py [build/site]

The pages are opened from the file system, as a reader without a server does. Ends with 1 and a line per finding.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlencode

WIDTH, HEIGHT = 1280, 900
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
QUERIES = {
    "core mask": "pipelines.html",
    "infer_async": "reference/",
    "RKNN_ERR_TIMEOUT": "troubleshooting.html",
}
"""What is typed, and a page that must be among the results."""
TABLES = {
    "coverage.html": {"search": "gelu", "SoC": "RK3588"},
    "llm-families.html": {"search": "moe", "from": "GGUF"},
}
"""Pages with tables of data, and what is filled in above the first of them."""

MEASURE = """
const found = []
const look = page => new Promise(done => {
  const frame = document.createElement("iframe")
  frame.style = "width: %(width)spx; height: %(height)spx; border: 0"
  frame.onload = () => {
    const root = frame.contentDocument.documentElement
    const note = (element, by) => found.push([page, element.tagName + "." + element.className, by, element.textContent.trim().slice(0, 90)])
    if (root.scrollWidth > %(width)s) note(root, root.scrollWidth - %(width)s)
    for (const element of frame.contentDocument.querySelectorAll("article *")) {
      if (element.matches(".md-typeset__scrollwrap")) continue  // tables of figures scroll in their frames
      if (element.closest("svg") || frame.contentWindow.getComputedStyle(element).display === "inline") continue
      const by = element.scrollWidth - element.clientWidth
      if (element.clientWidth && by > 1 && frame.contentWindow.getComputedStyle(element).overflowX !== "visible") note(element, by)
    }
    frame.remove()
    done()
  }
  frame.src = page
  document.body.append(frame)
})
const all = async () => {
  for (const page of %(pages)s) await look(page)
  document.body.innerHTML = ""
  document.body.append(JSON.stringify(found))
}
all()
"""


def browser() -> str:
    """The first browser there is; ends the program where there is none."""
    for name in BROWSERS:
        if path := shutil.which(name):
            return path
    sys.exit(f"site_check: none of {', '.join(BROWSERS)} is installed (Debian: apt-get install chromium)")


def dom(address: str, *flags: str) -> str:
    """What a page has become when its scripts have run."""
    with tempfile.TemporaryDirectory() as profile:
        words = [
            browser(), "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={WIDTH},{HEIGHT}", f"--user-data-dir={profile}",
            "--virtual-time-budget=60000", *flags, "--dump-dom", address,
        ]  # fmt: skip
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    return done.stdout


def too_wide(site: Path) -> list[str]:
    """Elements of all pages that scroll sideways, by how many pixels."""
    pages = [f"file://{page}" for page in sorted(site.rglob("*.html")) if page.name != "404.html"]
    script = MEASURE % {"width": WIDTH, "height": HEIGHT, "pages": json.dumps(pages)}
    with tempfile.TemporaryDirectory() as folder:
        driver = Path(folder) / "driver.html"
        driver.write_text(f"<!doctype html><body><script>{script}</script></body>", encoding="utf-8")
        body = re.search(
            r"<body>(\[.*\])\s*</body>", dom(f"file://{driver}", "--allow-file-access-from-files"), re.DOTALL
        )
    if body is None:
        return ["the pages could not be measured"]
    found = json.loads(html.unescape(body[1]))
    return [
        f"{page.removeprefix(f'file://{site}/')}: {element} is {by} px too wide: {text!r}"
        for page, element, by, text in found
    ]


def not_found(site: Path) -> list[str]:
    """Queries whose results lack the page that answers them."""
    problems = []
    for query, page in QUERIES.items():
        shown = dom(f"file://{site}/index.html?q={query.replace(' ', '+')}")
        results = re.findall(r'href="([^"]+)" class="md-search-result__link', shown)
        if not any(page in result for result in results):
            problems.append(f"search for {query!r} gives {len(results)} results, none of them in {page}")
    return problems


def no_tables(site: Path) -> list[str]:
    """Pages where a table of data is missing, or where fewer rows are not fewer."""
    problems = []
    for page, fields in TABLES.items():
        shown = dom(f"file://{site}/{page}?{urlencode(fields)}")
        wanted = len(re.findall(r'<p>\s*<a href="assets/[^"]+\.js"', shown))
        counts = [
            (int(some), int(whole)) for some, whole in re.findall(r"<output>(\d+) of (\d+) rows<", shown)
        ]
        if len(counts) != wanted or not wanted:
            problems.append(f"{page}: {len(counts)} tables of {wanted} are shown")
        elif not 0 < counts[0][0] < counts[0][1]:
            problems.append(f"{page}: {fields} leaves {counts[0][0]} of {counts[0][1]} rows")
        elif any(some != whole for some, whole in counts[1:]):
            problems.append(f"{page}: a table without a filter lacks rows")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("site", nargs="?", type=Path, default=Path("build/site"))
    site = parser.parse_args().site.resolve()
    problems = [*too_wide(site), *not_found(site), *no_tables(site)]
    print("\n".join(problems) or f"site_check: every page fits {WIDTH} px, the search finds, tables filter")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
