"""A package that is asked for often and has nothing that runs .rknn files: when a version has, this fails."""

from __future__ import annotations

import sys
from importlib import metadata

from direct import demand, seen

files = metadata.files(sys.argv[2]) or []
sources = [file for file in files if file.suffix in (".py", ".yaml", ".yml", ".json", ".so")]
demand(sources, f"{sys.argv[2]} lists no files")
naming = [str(file) for file in sources if b"rknn" in file.locate().read_bytes().lower()]
demand(not naming, f"it names RKNN now: {', '.join(naming[:5])}")
seen(f"no RKNN engine in any of {len(sources)} files")
