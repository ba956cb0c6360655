"""One trial: an environment of its own, rknnlite and the adopter from packages, the adopter's code run, what was seen."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tools.adopters.adopter_rows import Adopter

__all__ = ["Outcome", "Trial", "TrialFailed", "wheel_of"]

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).resolve().parent / "programs"
COMPANION = ROOT / "tools" / "companion"
SEEN = "seen: "


class TrialFailed(Exception):
    """A step that did not succeed, with the end of what it printed."""


@dataclass(frozen=True)
class Outcome:
    """What came of one trial."""

    adopter: Adopter
    version: str
    good: bool
    seen: str
    seconds: float


def done(command: list[str], **words: object) -> str:
    """What a command printed, both streams; TrialFailed where it fails."""
    ran = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        **words,
    )  # type: ignore[call-overload]
    if ran.returncode:
        end = "\n".join(ran.stdout.splitlines()[-25:])
        raise TrialFailed(f"{' '.join(command)}: exit code {ran.returncode}\n{end}")
    return str(ran.stdout)


def wheel_of(root: Path, folder: Path) -> Path:
    """A wheel of this checkout, made from a copy: what setuptools leaves behind must not end up in the tree."""
    tree = folder / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    names = done(["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
    for name in filter(None, names.split("\0")):
        if (root / name).is_file() and name.startswith(
            ("rknnlite/", "plugins/", "pyproject", "README", "LICENSE")
        ):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, tree / name)
    wheels = folder / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    dated = {
        **os.environ,
        "SOURCE_DATE_EPOCH": "1700000000",
    }  # the same tree is the same wheel, which is then left in place
    done(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheels), str(tree)],
        env=dated,
    )
    return next(wheels.glob("*.whl"))


class Trial:
    """An adopter and the folder of its environment, which is kept for the next time."""

    def __init__(self, adopter: Adopter, folder: Path, wheel: Path, checkout: Path | None = None) -> None:
        self.adopter, self.wheel, self.checkout = adopter, wheel, checkout
        self.environment = folder / adopter.name
        self.python = self.environment / "bin" / "python"

    def prepare(self) -> None:
        """Make the environment; what is in it already is left there."""
        if not self.python.exists():
            done([sys.executable, "-m", "venv", str(self.environment)])
        self._once("rknnlite", hashlib.sha256(self.wheel.read_bytes()).hexdigest(), self._install_rknnlite)
        self._once("packages", "\n".join(self.adopter.install), self._install_packages)

    def _once(self, name: str, wanted: str, step: Callable[[], None]) -> None:
        stamp = self.environment / f"{name}.installed"
        if not stamp.exists() or stamp.read_text() != wanted:
            stamp.unlink(missing_ok=True)
            step()
            stamp.write_text(wanted)

    def _install_rknnlite(self) -> None:
        """First of all, and its companion with it: then pip has no reason to fetch the vendor's wheel."""
        self._pip("--force-reinstall", "--no-deps", str(self.wheel), str(COMPANION))
        self._pip(str(self.wheel))

    def _install_packages(self) -> None:
        for arguments in self.adopter.install:
            self._pip(*arguments.split())

    def _pip(self, *arguments: str) -> None:
        command = [
            str(self.python),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            *arguments,
        ]
        done(command, cwd=ROOT)  # where ./tools is

    def command(self) -> list[str]:
        """The adopter's program, on the board that it looks for."""
        played = ["-m", "rknnlite", *self.adopter.exec, str(self.python)] if self.adopter.exec else []
        words = [str(self.checkout) if self.checkout else "", self.adopter.distribution]
        return [str(self.python), *played, str(PROGRAMS / self.adopter.script), *words]

    def run(self) -> Outcome:
        """Prepare and run; never raises for what the adopter does."""
        start = time.monotonic()
        version, good = "", False
        try:
            if self.adopter.checkout and not self.checkout:
                raise TrialFailed(
                    f"no checkout: add --checkout {self.adopter.name}=FOLDER ({self.adopter.source})"
                )
            self.prepare()
            version = self.version()
            seen, good = self._seen(), True
        except TrialFailed as failure:
            seen = str(failure)
        return Outcome(self.adopter, version, good, seen, time.monotonic() - start)

    def version(self) -> str:
        """Of the distribution, or the commit of the checkout where git knows it."""
        if self.checkout:
            try:
                return (
                    done(["git", "-C", str(self.checkout), "log", "-1", "--format=%h", "--", "."]).strip()
                    or "no commit"
                )
            except TrialFailed:
                return "no commit"
        ask = f"import importlib.metadata as m; print(m.version({self.adopter.distribution!r}))"
        return done([str(self.python), "-c", ask]).strip()

    def _seen(self) -> str:
        work = self.environment / "work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "RKNNLITE_SOC")}
        environment.update(
            PATH=f"{self.python.parent}{os.pathsep}{os.environ['PATH']}", RKNNLITE_BACKEND="cpu"
        )
        printed = done(self.command(), cwd=work, env=environment)
        seen = [line[len(SEEN) :] for line in printed.splitlines() if line.startswith(SEEN)]
        if not seen:
            raise TrialFailed(
                f"{self.adopter.script} ended well and said nothing of what it saw:\n{printed[-2000:]}"
            )
        return "; ".join(seen)
