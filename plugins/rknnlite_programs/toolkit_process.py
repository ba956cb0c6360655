"""The vendor's toolkit as a program: run with a network, and what it says when it fails."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rknnlite.errors import BackendUnavailable, ModelUnsupported, visible
from rknnlite.files.writing import write_text
from rknnlite.log import logger

from . import toolkit_script

__all__ = ["Toolkit"]

_MANY = 3600
_NAMED = "--toolkit-python names the Python of an environment that has it, e.g. ~/toolkit/bin/python"
_LEFT = "try another release of the toolkit or --dtype fp16, or write the network with export-onnx and convert that by hand"
_LAST_LINES = 3
_COLOURS = re.compile(r"\x1b?\[[\d;]*m")
_RAISED = re.compile(r"^[\w.]*(Error|Exception|Interrupt|Exit)\b")


@dataclass(frozen=True)
class Toolkit:
    """A Python interpreter that has the vendor's toolkit, and settings for its process."""

    python: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    def convert(
        self, network: Path, soc: str, out: Path, config: dict[str, Any], build: dict[str, Any]
    ) -> None:
        """Write a ``.rknn`` file. Raises BackendUnavailable: no such toolkit; ModelUnsupported: it refuses the network or fails."""
        job = {"network": str(network), "soc": soc, "out": str(out), "config": config, "build": build}
        order = network.with_name("job.json")
        write_text(order, json.dumps(job))
        python = _program(self.python)
        left_out = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
        environment = {k: v for k, v in os.environ.items() if k not in left_out}
        command = [str(python), str(Path(toolkit_script.__file__).resolve()), str(order)]
        try:
            done = subprocess.run(
                command,
                cwd=network.parent,
                env={**environment, **self.environment},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_MANY,
                check=False,
            )
        except OSError as error:
            raise BackendUnavailable(f"{python} cannot be run: {error.strerror or error}; {_NAMED}") from None
        except subprocess.TimeoutExpired:
            raise BackendUnavailable(f"the toolkit of {python} took more than {_MANY} seconds") from None
        said = done.stdout + done.stderr
        logger.debug("%s", said)
        if "No module named 'rknn'" in said:
            raise BackendUnavailable(f"{python} has no vendor toolkit (module rknn.api); {_NAMED}")
        if done.returncode or not out.exists():
            raise ModelUnsupported(_failure(python, soc, done.returncode, said))


def _program(python: Path) -> Path:
    """Where the interpreter is, whatever folder it is run in; links stay, by which an environment is known."""
    bare = len(python.parts) == 1 and not python.exists()
    found = shutil.which(str(python)) if bare else None
    return Path.cwd() / (found or python.expanduser())


def _failure(python: Path, soc: str, status: int, said: str) -> str:
    """What went wrong, in whose code, and what can be done."""
    lines = [_COLOURS.sub("", line).strip() for line in said.replace("\r", "\n").splitlines()]
    step = next(
        (
            line[len(toolkit_script.STEP) :]
            for line in reversed(lines)
            if line.startswith(toolkit_script.STEP)
        ),
        "",
    )
    lines = [line for line in lines if line and not line.startswith(toolkit_script.STEP)]
    where = f" in {step}" if step else ""
    who = f"the toolkit of {python}"
    last = f"it said last: {visible(_last(lines))}"
    if status < 0:
        fault = f"{who} crashed{where} for {soc} with {_signal(-status)}, a fault of the toolkit's own"
        return f"{fault}; {last}; {_LEFT}"
    raised = [
        line
        for line in lines
        if _RAISED.match(line) and not line.endswith("Traceback (most recent call last):")
    ]
    if raised:
        fault = f"{who} failed{where} for {soc} with an exception of its own (exit status {status}): {visible(raised[-1])}"
        return f"{fault}; {last}; {_LEFT}"
    return f"{who} refuses the network for {soc}: {visible(_last(lines))} (exit status {status}{where})"


def _signal(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
    more = ", as a system that is out of memory does" if name == "SIGKILL" else ""
    return f"signal {number} ({name}{more})"


def _last(lines: Sequence[str]) -> str:
    """What it complained of at the end, else the last lines."""
    told = [line for line in lines if "Error" in line or "failed" in line or line.startswith("E ")]
    return "; ".join(dict.fromkeys((told or list(lines))[-_LAST_LINES:])) or "nothing"
