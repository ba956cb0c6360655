"""What `make docs-check` finds on a page: too wide, or hardly to be told from what is behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.needs import needs
from tools.site_check import badly_shown

SCHEME = """<script>
document.body.dataset.mdColorScheme = matchMedia("(prefers-color-scheme: dark)").matches ? "slate" : "default"
</script>"""
STYLE = """<style>
body { margin: 0; color: #111; background: #fff }
[data-md-color-scheme=slate] { color: #eee; background: #111 }
[data-md-color-scheme=slate] .pale { color: #333 }
pre > code { display: block; overflow-x: auto }
.md-typeset__scrollwrap { overflow-x: auto }
.table { width: 700px }
</style>"""


def site(folder: Path, article: str) -> Path:
    text = (
        f"<!doctype html><html><head>{STYLE}</head><body>{SCHEME}<article>{article}</article></body></html>"
    )
    (folder / "page.html").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("article", "light", "dark"),
    [
        ("<p>Good.</p>", "", ""),
        ('<p class="pale">Pale.</p>', "", "contrast of 1.5 in the scheme slate"),
        ('<div class="md-typeset__scrollwrap"><div class="table">Rows.</div></div>', "", ""),
        ('<div class="table">Rows.</div>', "310 px too wide at 390", "310 px too wide at 390"),
        (f"<pre><code>{'x' * 60}</code></pre>", "", ""),
        (f"<pre><code>{'x' * 400}</code></pre>", "too wide at 1280", "too wide at 1280"),
    ],
    ids=["good", "pale in the dark", "table in its frame", "table without one", "code", "long code"],
)
def test_a_page_is_looked_at_wide_and_narrow_light_and_dark(
    article: str, light: str, dark: str, tmp_path: Path
) -> None:
    needs("chromium")
    for expected, night in ((light, False), (dark, True)):
        found = badly_shown(site(tmp_path, article), night)
        assert len(found) == bool(expected) and all(expected in line for line in found), found
