#!/usr/bin/env python3
"""Write what a release consists of, as SPDX 2.3:   SOURCE_DATE_EPOCH=... tools/release/sbom.py FOLDER

FOLDER/rknnlite-VERSION.spdx.json has a package for each sdist and wheel there, every file of the wheels with its checksums,
and what rknnlite depends on, with licences: always, or by an extra that users may choose.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import time
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path
from typing import Any

FOR_DEVELOPERS = {"compare", "docs", "fleet-test", "lint", "server-test", "test"}
LICENCES = dict(
    line.split(maxsplit=1)
    for line in Path(__file__).with_name("licences.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
)
OURS = "Apache-2.0"
_REQUIREMENT = re.compile(r"([\w.-]+)(?:\[[\w,-]*\])?([^;]*)(?:;(.*))?")
Row = dict[str, Any]


def document(folder: Path, epoch: int) -> Row:
    """The document of the files in a folder."""
    releases = sorted([*folder.glob("*.whl"), *folder.glob("*.tar.gz")])
    (pure,) = folder.glob("rknnlite-*-none-any.whl")
    version = pure.name.split("-")[1]
    packages, files, relations = [], [], []
    for path in releases:
        packages.append(release(path))
        relations.append(related("SPDXRef-DOCUMENT", "DESCRIBES", packages[-1]["SPDXID"]))
        inside = list(files_of(path))
        relations += [related(packages[-1]["SPDXID"], "CONTAINS", one["SPDXID"]) for one in inside]
        packages[-1].update(analysed(inside))
        files += inside
    for one, kind in dependencies(pure):
        packages.append(one)
        for path in releases:
            if path.name.startswith("rknnlite-"):
                relations.append(related(one["SPDXID"], kind, identity("Package", path.name)))
    for path in folder.glob("rknn_toolkit_lite2-*.whl"):
        relations.append(
            related(identity("Package", path.name), "DEPENDS_ON", identity("Package", pure.name))
        )
    told = hashlib.sha256(
        "".join(one["checksums"][0]["checksumValue"] for one in packages[: len(releases)]).encode()
    )
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"rknnlite-{version}",
        "documentNamespace": f"https://spdx.org/spdxdocs/rknnlite-{version}-{told.hexdigest()[:32]}",
        "creationInfo": {
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch)),
            "creators": ["Organization: The rknnlite authors", f"Tool: rknnlite-sbom-{version}"],
        },
        "packages": packages,
        "files": files,
        "relationships": relations,
    }


def identity(kind: str, name: str) -> str:
    """Letters, digits, dots and dashes, which is what SPDX allows."""
    return f"SPDXRef-{kind}-" + re.sub(r"[^A-Za-z0-9.]+", "-", name)


def related(one: str, kind: str, other: str) -> Row:
    """A relationship."""
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}


def sums(data: bytes, *kinds: str) -> list[Row]:
    """Checksums."""
    return [{"algorithm": kind, "checksumValue": hashlib.new(kind, data).hexdigest()} for kind in kinds]


def release(path: Path) -> Row:
    """The package that a file of the release is."""
    name, version = path.name.replace(".tar.gz", "").split("-")[:2]
    return {
        "SPDXID": identity("Package", path.name),
        "name": name.replace("_", "-"),
        "versionInfo": version,
        "packageFileName": path.name,
        "supplier": "Organization: The rknnlite authors",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "checksums": sums(path.read_bytes(), "SHA256"),
        "licenseConcluded": OURS,
        "licenseDeclared": OURS,
        "copyrightText": "The rknnlite authors",
    }


def files_of(path: Path) -> Iterator[Row]:
    """The files of a wheel; an sdist is told as a whole."""
    if path.suffix != ".whl":
        return
    with zipfile.ZipFile(path) as wheel:
        for number, name in enumerate(sorted(wheel.namelist())):
            yield {
                "SPDXID": identity("File", f"{path.stem}-{number}"),
                "fileName": f"./{name}",
                "checksums": sums(wheel.read(name), "SHA1", "SHA256"),
                "licenseConcluded": OURS,
                "licenseInfoInFiles": ["NOASSERTION"],
                "copyrightText": "NOASSERTION",
            }


def analysed(files: list[Row]) -> Row:
    """What a package says whose files are listed."""
    if not files:
        return {}
    code = "".join(sorted(one["checksums"][0]["checksumValue"] for one in files))
    return {
        "filesAnalyzed": True,
        "packageVerificationCode": {"packageVerificationCodeValue": hashlib.sha1(code.encode()).hexdigest()},
        "licenseInfoFromFiles": ["NOASSERTION"],
    }


def dependencies(wheel: Path) -> Iterator[tuple[Row, str]]:
    """What it requires, once each, and how it is related: always, or by an extra."""
    with zipfile.ZipFile(wheel) as opened:
        (told,) = (name for name in opened.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(opened.read(told).decode())
    seen = {"rknnlite"}
    for line in metadata.get_all("Requires-Dist") or []:
        name, versions, marker = _REQUIREMENT.fullmatch(line).groups()  # type: ignore[union-attr]
        extra = re.search(r"extra == [\"']([\w-]+)", marker or "")
        if name in seen or (extra and extra[1] in FOR_DEVELOPERS):
            continue
        seen.add(name)
        row = {
            "SPDXID": identity("Dependency", name),
            "name": name,
            "versionInfo": versions.strip() or "any",
            "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False,
            "licenseConcluded": "NOASSERTION",
            "licenseDeclared": LICENCES[name],
            "copyrightText": "NOASSERTION",
            "externalRefs": [
                {
                    "referenceCategory": "PACKAGE-MANAGER",
                    "referenceType": "purl",
                    "referenceLocator": f"pkg:pypi/{name}",
                }
            ],
        }
        yield row, "OPTIONAL_DEPENDENCY_OF" if extra else "DEPENDENCY_OF"


def main() -> None:
    folder = Path(sys.argv[1])
    found = document(folder, int(os.environ["SOURCE_DATE_EPOCH"]))
    path = folder / f"{found['name']}.spdx.json"
    path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    main()
