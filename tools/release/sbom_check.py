#!/usr/bin/env python3
"""Hold an SBOM against what SPDX 2.3 requires:   tools/release/sbom_check.py FILE.spdx.json"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]
REQUIRED = {
    "document": ("SPDXID", "creationInfo", "dataLicense", "documentNamespace", "name", "spdxVersion"),
    "package": ("SPDXID", "downloadLocation", "name"),
    "file": ("SPDXID", "checksums", "fileName"),
    "relationship": ("spdxElementId", "relatedSpdxElement", "relationshipType"),
}
LENGTHS = {"SHA1": 40, "SHA256": 64}
KINDS = {"CONTAINS", "DEPENDENCY_OF", "DEPENDS_ON", "DESCRIBES", "OPTIONAL_DEPENDENCY_OF"}


def problems(document: Row) -> list[str]:
    """What is missing or contradicts itself; empty for a good document."""
    rows = {"package": document.get("packages", []), "file": document.get("files", [])}
    relations = document.get("relationships", [])
    found = [*lacking("document", document), *head(document)]
    for kind, kinds in (*rows.items(), ("relationship", relations)):
        found += [problem for row in kinds for problem in lacking(kind, row)]
    if found:
        return found
    inside = {row["SPDXID"]: row for row in (*rows["package"], *rows["file"])}
    times = Counter([document["SPDXID"], *(row["SPDXID"] for row in (*rows["package"], *rows["file"]))])
    found += [f"{name} stands for {count} things" for name, count in times.items() if count > 1]
    found += [
        f"{name} is no name of SPDX" for name in times if not re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", name)
    ]
    found += [problem for row in inside.values() for problem in checksums(row)]
    found += [problem for row in relations for problem in relation(row, {*inside, document["SPDXID"]})]
    found += [problem for row in rows["package"] for problem in verification(row, relations, inside)]
    if not any(row["relationshipType"] == "DESCRIBES" for row in relations):
        found.append("the document describes nothing")
    return found


def lacking(kind: str, row: Row) -> Iterator[str]:
    """Fields that are not there."""
    for field in REQUIRED[kind]:
        if not row.get(field):
            yield f"{kind} {row.get('SPDXID', '')} has no {field}"


def head(document: Row) -> Iterator[str]:
    """What a document says of itself."""
    said = document.get("creationInfo", {})
    if document.get("spdxVersion") != "SPDX-2.3" or document.get("dataLicense") != "CC0-1.0":
        yield "the document is not SPDX-2.3 under CC0-1.0"
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", said.get("created", "")):
        yield f"created is {said.get('created')}, not a time in UTC"
    if not said.get("creators") or not all(
        re.match(r"(Person|Organization|Tool): \S", one) for one in said["creators"]
    ):
        yield "creators are neither persons, organizations nor tools"
    if not re.fullmatch(r"[a-z]+://[^#]+", document.get("documentNamespace", "")):
        yield "documentNamespace is no address without a #"


def checksums(row: Row) -> Iterator[str]:
    """Checksums of the right length; SHA1 for each file."""
    told = {one["algorithm"]: one["checksumValue"] for one in row.get("checksums", [])}
    if "fileName" in row and "SHA1" not in told:
        yield f"{row['SPDXID']} has no SHA1, which SPDX requires of files"
    for kind, value in told.items():
        if not re.fullmatch(rf"[0-9a-f]{{{LENGTHS[kind]}}}", value):
            yield f"{row['SPDXID']}: {value} is no {kind}"


def relation(row: Row, known: set[str]) -> Iterator[str]:
    """Both ends exist, and the kind is one that SPDX has."""
    for end in (row["spdxElementId"], row["relatedSpdxElement"]):
        if end not in known:
            yield f"a relationship names {end}, which is not there"
    if row["relationshipType"] not in KINDS:
        yield f"{row['relationshipType']} is no relationship that is used here"


def verification(row: Row, relations: list[Row], inside: dict[str, Row]) -> Iterator[str]:
    """A package whose files are listed has the code of their checksums; another has no files."""
    names = [
        one["relatedSpdxElement"]
        for one in relations
        if one["spdxElementId"] == row["SPDXID"] and one["relationshipType"] == "CONTAINS"
    ]
    if not row.get("filesAnalyzed", True):
        if names:
            yield f"{row['SPDXID']} says that its files are not analysed, and lists {len(names)}"
        return
    code = "".join(sorted(inside[name]["checksums"][0]["checksumValue"] for name in names if name in inside))
    told = row.get("packageVerificationCode", {}).get("packageVerificationCodeValue")
    if told != hashlib.sha1(code.encode()).hexdigest():
        yield f"{row['SPDXID']}: its verification code is not that of its {len(names)} files"


if __name__ == "__main__":
    wrong = problems(json.loads(Path(sys.argv[1]).read_text("utf-8")))
    sys.exit("\n".join(wrong[:20]) or None)
