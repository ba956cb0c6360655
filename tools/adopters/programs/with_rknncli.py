"""rknncli reads .rknn files by itself: it must name the inputs and outputs that rknnlite names."""

from __future__ import annotations

import re
import subprocess

from direct import DETECTOR, DIGITS, demand, seen

import rknnlite

for path in (DIGITS, DETECTOR):
    printed = subprocess.run(["rknncli", str(path)], capture_output=True, text=True, check=False)
    demand(printed.returncode == 0, printed.stdout + printed.stderr)
    with rknnlite.open(path, backend="cpu") as context:
        names = [attr.name for attr in (*context.inputs, *context.outputs)]
    lacking = [name for name in names if not re.search(rf"\b{re.escape(name)}\b", printed.stdout)]
    demand(not lacking, f"{path.name}: it does not name {', '.join(lacking)}:\n{printed.stdout}")
seen("it names the inputs and outputs of two files of examples/ as rknnlite does")
