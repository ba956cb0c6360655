"""One archive of converted cases for the tests: files of one SoC are nearly alike, together they take a twentieth.

    python tools/sweep/pack_many.py --cache FOLDER --out tests/data/uneven.tar.xz 'deconv_*.i8' 'one_channel.rk3576.*'

Takes shell patterns of ``case.soc.type``. tests/support/packed.py unpacks.
"""

from __future__ import annotations

import argparse
import fnmatch
import io
import json
import lzma
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

_INDEX = "index.json"  # as __main__.py writes it


def _members(cache: Path, patterns: list[str]) -> Iterator[tuple[str, bytes]]:
    """(name in the archive, bytes), alike files beside each other."""
    found = {}
    for case, entry in json.loads((cache / _INDEX).read_text()).items():
        for model in (cache / entry["folder"]).glob("*.rknn"):
            name = f"{case}.{model.stem}"
            if any(fnmatch.fnmatch(name, pattern) for pattern in patterns):
                found[name] = model
    for name, model in sorted(found.items(), key=lambda item: (item[1].name, item[0])):
        yield f"{name}.rknn", model.read_bytes()
    for name, model in sorted(found.items()):
        yield f"{name}.npz", _plain(model.with_suffix(".npz"))


def _plain(archive: Path) -> bytes:
    """The same arrays, not compressed one by one: equal ones of several targets then cost nothing."""
    with np.load(archive) as stored:
        arrays = {name: stored[name] for name in stored.files}
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("patterns", nargs="+", help="shell patterns of case.soc.type")
    parser.add_argument("--cache", type=Path, required=True, help="folder of conversions")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for name, data in _members(args.cache, args.patterns):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 1 << 26}]
    packed = lzma.compress(plain.getvalue(), filters=filters)
    args.out.write_bytes(packed)
    print(f"{args.out}: {len(packed)} bytes")


if __name__ == "__main__":
    main()
