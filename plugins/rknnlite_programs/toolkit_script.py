"""Run by the Python of the user's choice, which has the vendor's toolkit; it imports nothing of ours.

``python toolkit_script.py JOB.json``: the job names the network, the SoC, the file to write, means and deviations.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["STEP", "main"]

STEP = "rknnlite: step "
"""Begins the line that names what the toolkit is told to do next: after a crash nobody else knows."""


def main(job: dict[str, Any]) -> str:
    """Convert; what went wrong, or nothing."""
    toolkit: Any = importlib.import_module("rknn.api")
    rknn = toolkit.RKNN(verbose=False)
    steps: tuple[tuple[str, Callable[[], Any]], ...] = (
        ("config", lambda: rknn.config(target_platform=job["soc"], **job["config"])),
        ("load_onnx", lambda: rknn.load_onnx(model=job["network"])),
        ("build", lambda: rknn.build(do_quantization=False, **job["build"])),
        ("export_rknn", lambda: rknn.export_rknn(job["out"])),
    )
    for name, step in steps:
        print(f"{STEP}{name}", flush=True)
        if step() not in (0, None):
            return f"{name} failed"
    return ""


if __name__ == "__main__":
    sys.exit(main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))) or 0)
