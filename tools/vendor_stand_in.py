#!/usr/bin/env python3
"""A wheel that installs what the vendor's rknn-toolkit-lite2 installs, as far as names go: vendor_stand_in.py FOLDER [TAG]

TAG is the part of a compiled module's name that says who can load it: ``abi3``, the default, for every Python here, or that of
another Python or processor, as ``cpython-311-aarch64-linux-gnu``.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

NAME, VERSION = "rknn_toolkit_lite2", "2.3.2"
INFO = f"{NAME}-{VERSION}.dist-info"
COMPILED = ("rknn_lite", "rknn_platform_utils", "rknn_runtime")


def files(tag: str) -> dict[str, str]:
    """Content by path."""
    return {
        "rknnlite/VERSION": VERSION,
        "rknnlite/__init__.py": "",
        "rknnlite/api/__init__.py": "from .rknn_lite import RKNNLite\n",
        "rknnlite/api/rknn_log.py": "",
        **{f"rknnlite/api/{name}.{tag}.so": "compiled" for name in COMPILED},
        f"{INFO}/METADATA": f"Metadata-Version: 2.1\nName: rknn-toolkit-lite2\nVersion: {VERSION}\n",
        f"{INFO}/WHEEL": "Wheel-Version: 1.0\nGenerator: stand-in\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    content = files(sys.argv[2] if len(sys.argv) > 2 else "abi3")
    folder.mkdir(parents=True, exist_ok=True)
    record = "".join(f"{name},,\n" for name in [*content, f"{INFO}/RECORD"])
    with zipfile.ZipFile(folder / f"{NAME}-{VERSION}-py3-none-any.whl", "w") as wheel:
        for name, text in {**content, f"{INFO}/RECORD": record}.items():
            wheel.writestr(name, text)
