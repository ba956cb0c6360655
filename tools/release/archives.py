#!/usr/bin/env python3
"""Make archives depend on their contents alone, and wheels with the compiled libraries of a machine:

    SOURCE_DATE_EPOCH=1764244800 tools/release/archives.py FOLDER TREE

Every sdist and wheel in FOLDER is written anew: sorted, one time, one owner, plain permissions. For each machine whose
libraries lie in TREE (tools/librknnrt.py, tools/native_engine.py) a wheel is added, the pure one with these libraries; pip
prefers it there. Its name says the glibc that its libraries need.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import os
import re
import sys
import tarfile
import time
import zipfile
from io import BytesIO
from pathlib import Path

MACHINES = ("x86_64", "aarch64")
HOMES = ("rknnlite_librknnrt/lib", "rknnlite_cpu/engines/native/lib")
"""Folders of compiled libraries, in a wheel and in plugins/."""
_LEGACY = {(2, 17): "manylinux2014", (2, 12): "manylinux2010"}
"""Names that older versions of pip know."""


def plain_sdist(path: Path, epoch: int) -> None:
    """Write a ``.tar.gz`` anew."""
    with tarfile.open(path) as archive:
        files = {one.name: (one, archive.extractfile(one)) for one in archive.getmembers()}
        packed = BytesIO()
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as out:
            for name in sorted(files):
                one, content = files[name]
                one.mtime, one.uid, one.gid, one.uname, one.gname = epoch, 0, 0, "root", "root"
                one.mode = 0o755 if one.isdir() or one.mode & 0o100 else 0o644
                one.pax_headers = {}
                out.addfile(one, content)
    with path.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=epoch) as zipped:
        zipped.write(packed.getvalue())


def contents(path: Path) -> dict[str, bytes]:
    """The files of a wheel."""
    with zipfile.ZipFile(path) as wheel:
        return {name: wheel.read(name) for name in wheel.namelist() if not name.endswith("/")}


def write_wheel(path: Path, files: dict[str, bytes], epoch: int) -> None:
    """Write a wheel with a new RECORD, which comes last."""
    (record,) = (name for name in files if name.endswith(".dist-info/RECORD"))
    rows = [f"{name},{_digest(data)},{len(data)}\n" for name, data in sorted(files.items()) if name != record]
    files = {**files, record: "".join([*rows, f"{record},,\n"]).encode()}
    moment = time.gmtime(max(epoch, 315532800))[:6]  # zip begins in 1980
    with zipfile.ZipFile(path, "w") as wheel:
        for name in sorted(files, key=lambda name: (name == record, name)):
            one = zipfile.ZipInfo(name, moment)
            one.compress_type, one.create_system = zipfile.ZIP_DEFLATED, 3
            one.external_attr = (0o100755 if name.endswith(".so") else 0o100644) << 16
            wheel.writestr(one, files[name], compresslevel=9)


def _digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def libraries(tree: Path, machine: str) -> dict[str, bytes]:
    """What was compiled for a machine, by the name in a wheel."""
    found = {}
    for home in HOMES:
        for file in (tree / "plugins" / home / f"{machine}-linux-gnu").rglob("*"):
            if file.is_file():
                found[file.relative_to(tree / "plugins").as_posix()] = file.read_bytes()
    return found


def platform_tag(compiled: dict[str, bytes], machine: str) -> str:
    """``manylinux_2_17_x86_64.manylinux2014_x86_64``: the newest version of glibc that one of them asks for."""
    asked = (re.findall(rb"\0GLIBC_(\d+)\.(\d+)", data) for data in compiled.values())
    needed = max((int(major), int(minor)) for found in asked for major, minor in [*found, (b"2", b"17")])
    tag = f"manylinux_{needed[0]}_{needed[1]}_{machine}"
    return f"{tag}.{_LEGACY[needed]}_{machine}" if needed in _LEGACY else tag


def add_libraries(pure: Path, tree: Path, machine: str, epoch: int) -> Path | None:
    """The wheel for a machine beside the pure one; None where nothing was compiled for it."""
    compiled = libraries(tree, machine)
    if not compiled:
        return None
    tag = platform_tag(compiled, machine)
    files = {**contents(pure), **compiled}
    (told,) = (name for name in files if name.endswith(".dist-info/WHEEL"))
    lines = [line for line in files[told].decode().splitlines() if line and not line.startswith("Tag: ")]
    lines += [f"Tag: py3-none-{one}" for one in tag.split(".")]
    path = pure.with_name(pure.name.replace("-none-any.whl", f"-none-{tag}.whl"))
    write_wheel(path, {**files, told: ("\n".join(lines) + "\n").encode()}, epoch)
    return path


def main() -> None:
    folder, tree = map(Path, sys.argv[1:])
    epoch = int(os.environ["SOURCE_DATE_EPOCH"])
    for path in folder.glob("*.tar.gz"):
        plain_sdist(path, epoch)
    for path in list(folder.glob("*-none-any.whl")):
        write_wheel(path, contents(path), epoch)
    (pure,) = folder.glob("rknnlite-*-none-any.whl")
    for machine in MACHINES:
        path = add_libraries(pure, tree, machine, epoch)
        print(path.name if path else f"no wheel for {machine}: nothing was compiled for it")


if __name__ == "__main__":
    main()
