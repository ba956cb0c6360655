"""Look at the built site in a headless Chromium: on a desk and on a telephone, by day and by night; search in it, filter tables.

    python tools/site_check.py [build/site]

Nothing is wider than its place at 1280 and 390 pixels, tables scroll in themselves, every text stands out from what is behind it
in the light and in the dark scheme, and the search finds. The pages are opened from the file system, as a reader without a
server does. Ends with 1 and a line per finding.
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

DESK, TELEPHONE = (1280, 900), (390, 844)
LEAST_CONTRAST = 4.4
"""Of text and its background, as WCAG 2 computes it, which asks for 4.5; numbers in code have 4.4 in the theme."""
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
const dark = %(dark)s
const note = (page, element, what) => found.push([page, element.tagName + "." + element.className, what, element.textContent.trim().slice(0, 90)])

const channels = colour => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true})
  canvas.fillStyle = colour
  canvas.fillRect(0, 0, 1, 1)
  return [...canvas.getImageData(0, 0, 1, 1).data].map(value => value / 255)
}
const known = new Map()
const colour = text => known.get(text) || known.set(text, channels(text)).get(text)
const over = ([r, g, b, a], below) => [r, g, b].map((value, i) => value * a + below[i] * (1 - a))
const background = (element, styled) => {
  if (!element) return dark ? [0, 0, 0] : [1, 1, 1]
  const own = colour(styled(element).backgroundColor)
  return own[3] === 1 ? own.slice(0, 3) : over(own, background(element.parentElement, styled))
}
const luminance = rgb => rgb.map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4).reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0)
const contrast = (element, styled) => {
  const behind = background(element, styled)
  const [low, high] = [luminance(over(colour(styled(element).color), behind)), luminance(behind)].sort((a, b) => a - b)
  return (high + 0.05) / (low + 0.05)
}

const look = (page, width, height) => new Promise(done => {
  const frame = document.createElement("iframe")
  frame.style = `width: ${width}px; height: ${height}px; border: 0; color-scheme: ${dark ? "dark" : "light"}`
  frame.onload = () => {
    const styled = element => frame.contentWindow.getComputedStyle(element)
    const root = frame.contentDocument.documentElement
    const scheme = frame.contentDocument.body.dataset.mdColorScheme
    if ((scheme === "slate") !== dark) note(page, root, `is shown in the scheme ${scheme}`)
    if (root.scrollWidth > width) note(page, root, `is ${root.scrollWidth - width} px too wide at ${width}`)
    for (const element of frame.contentDocument.querySelectorAll("article *")) {
      if (element.closest("svg") || !element.getClientRects().length) continue
      const words = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim())
      if (words && !element.matches(".headerlink")) {
        const seen = contrast(element, styled)
        if (seen < %(least)s) note(page, element, `has a contrast of ${seen.toFixed(1)} in the scheme ${scheme}`)
      }
      if (element.matches(".md-typeset__scrollwrap, .md-typeset__table")) continue  // tables scroll in their frames
      if (width < 600 && element.matches("pre > code, p:has(> img)")) continue  // so do code and drawings on a telephone
      if (styled(element).display === "inline" || styled(element).overflowX === "visible") continue
      const by = element.scrollWidth - element.clientWidth
      if (element.clientWidth && by > 1) note(page, element, `is ${by} px too wide at ${width}`)
    }
    frame.remove()
    done()
  }
  frame.src = page
  document.body.append(frame)
})
const all = async () => {
  for (const page of %(pages)s) for (const [width, height] of %(sizes)s) await look(page, width, height)
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
            browser(), "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={DESK[0]},{DESK[1]}", f"--user-data-dir={profile}",
            "--virtual-time-budget=60000", *flags, "--dump-dom", address,
        ]  # fmt: skip
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    return done.stdout


def badly_shown(site: Path, dark: bool) -> list[str]:
    """Elements of all pages that run out of their place, or hardly stand out, in one of the schemes."""
    pages = [f"file://{page}" for page in sorted(site.rglob("*.html")) if page.name != "404.html"]
    script = MEASURE % {
        "pages": json.dumps(pages),
        "sizes": json.dumps((DESK, TELEPHONE)),
        "dark": json.dumps(dark),
        "least": LEAST_CONTRAST,
    }
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    with tempfile.TemporaryDirectory() as folder:
        driver = Path(folder) / "driver.html"
        driver.write_text(f"<!doctype html><body><script>{script}</script></body>", encoding="utf-8")
        shown = dom(f"file://{driver}", "--allow-file-access-from-files", scheme)
        body = re.search(r"<body>(\[.*\])\s*</body>", shown, re.DOTALL)
    if body is None:
        return ["the pages could not be measured"]
    found = dict.fromkeys(map(tuple, json.loads(html.unescape(body[1]))))  # mostly the same in both sizes
    return [
        f"{page.removeprefix(f'file://{site}/')}: {element} {what}: {text!r}"
        for page, element, what, text in found
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
    shown = [finding for dark in (False, True) for finding in badly_shown(site, dark)]
    problems = [*dict.fromkeys(shown), *not_found(site), *no_tables(site)]
    sizes = " and ".join(str(width) for width, _ in (DESK, TELEPHONE))
    print(
        "\n".join(problems)
        or f"site_check: every page fits {sizes} px and is readable in both schemes, the search finds, tables filter"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
