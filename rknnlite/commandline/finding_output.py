"""Findings of ``doctor`` as it prints them: under their topics, each with what to do about it."""

from __future__ import annotations

from collections.abc import Sequence

from ..spi.command import Line, Part, Tone
from ..spi.finding import Finding, Level
from .readiness import brief

__all__ = ["finding_parts"]


def finding_parts(found: Sequence[Finding], apart: Sequence[Finding] = ()) -> list[Part]:
    """One topic after the other, a line each; without those ``apart``, which are told elsewhere."""
    parts: list[Part] = []
    topic = ""
    for finding in found:
        if finding in apart:
            continue
        if finding.topic != topic:
            topic = finding.topic
            parts += [""] * bool(parts) + [Line(f"{topic}:", Tone.HEAD)]
        parts += _lines(finding)
    return parts


def _lines(finding: Finding) -> list[Part]:
    """The finding, and what to do about it unless it does not matter."""
    told: list[Part] = [Line(f"{finding.level.value:4}  {brief(finding.text)}", hang=6)]
    # --backend makes it a failure with a remedy
    unneeded = finding.topic == "backends" and finding.level is Level.INFO
    if finding.remedy and not unneeded:
        told.append(Line(f"      -> {finding.remedy}", hang=9))
    return told
