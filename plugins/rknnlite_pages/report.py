"""A report as one HTML file: a verdict, tables that can be sorted, charts. Nothing is fetched from anywhere.

The page comes from the jinja2 templates beside this module (extra ``html``). Names of models and nodes are anybody's: the
templates escape them, and the page itself allows no other script than the one it was written with.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional, Union

from rknnlite._version import __version__
from rknnlite.extras import missing
from rknnlite.files.writing import write_text

from .chart import Chart

__all__ = ["Bar", "Cell", "HtmlReport", "need_templates"]

_FOLDER = Path(__file__).parent / "templates"
_PAGE, _SCRIPT = "report.html", "report.js"


@dataclass(frozen=True)
class Bar:
    """A cell that shows a share of a whole as a bar beside its text; ``share`` from 0 to 1, ``value`` is what is sorted by."""

    text: str
    share: float
    value: Optional[float] = None

    @property
    def width(self) -> str:
        """Of the bar, in percent."""
        return f"{100 * min(1.0, max(0.0, self.share)):.1f}"

    @property
    def key(self) -> float:
        """What is sorted by."""
        return self.share if self.value is None else self.value


Cell = Union[str, int, float, None, Bar]


@dataclass(frozen=True)
class _Table:
    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str
    folded: bool

    @property
    def kinds(self) -> list[str]:
        """What the columns hold: ``number``, ``bar`` or ``text``; all but text are sorted from the largest down."""
        return [_kind(column) for column in (zip(*self.rows) if self.rows else [()] * len(self.headers))]


def _kind(column: Sequence[Cell]) -> str:
    known = [value for value in column if value is not None]
    if not known or any(isinstance(value, str) for value in known):
        return "text"
    return "bar" if any(isinstance(value, Bar) for value in known) else "number"


@dataclass
class HtmlReport:
    """Title, verdict, facts, and any number of tables and charts; all text is escaped.

    ``headline`` is the verdict in a few words, ``verdict`` what it rests on; ``mood`` colours it: ``good``, ``doubtful``,
    ``bad`` or ``plain``. ``str()`` and ``write`` raise BackendUnavailable without jinja2.
    """

    title: str
    facts: Sequence[tuple[str, str]] = ()
    headline: str = ""
    verdict: Sequence[str] = ()
    mood: str = "plain"
    _parts: list[Union[_Table, Chart]] = field(default_factory=list)

    def table(
        self,
        title: str,
        headers: Sequence[str],
        rows: Sequence[Sequence[Cell]],
        note: str = "",
        folded: bool = False,
    ) -> None:
        """Add a table; ``note`` stands above it; a folded one shows its title until it is asked for."""
        self._parts.append(_Table(title, headers, rows, note, folded))

    def chart(self, chart: Chart) -> None:
        """Add a chart."""
        self._parts.append(chart)

    def __str__(self) -> str:
        templates = _templates()
        script, _, _ = templates.loader.get_source(templates, _SCRIPT)
        known = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        page: str = templates.get_template(_PAGE).render(
            report=self, parts=self._parts, script=script, script_hash=known, version=__version__
        )
        return page

    def write(self, path: Path) -> None:
        """Write the file; raises OSError."""
        write_text(path, str(self))


def need_templates() -> None:
    """Raises BackendUnavailable where jinja2 is not installed, so that it is told before the work."""
    _templates()


def _templates() -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise missing("html", "pages need jinja2", error) from None
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.tests["bar"] = lambda value: isinstance(value, Bar)
    templates.tests["chart"] = lambda value: isinstance(value, Chart)
    return templates
