"""What tests need beside Python and the package itself: skips name it, and the end of a run says how to get it.

``needs("gcc")`` skips a test where that is absent, ``skip_for_want(output)`` one whose child process said so. Reasons of
other origin (``pytest.importorskip``) are recognised by ``wanted``.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
from collections import Counter
from collections.abc import Iterable

import pytest

from rknnlite.extras import EXTRAS

__all__ = ["needs", "skip_for_want", "summary", "wanted"]

COMMANDS = {
    "gcc": ("cc", "gcc"),
    "gcc-riscv64-unknown-elf": ("riscv64-unknown-elf-gcc",),
    "zsh": ("zsh",),
    "fish": ("fish",),
    "bash": ("bash",),
}
"""Debian package -> commands of which one is enough."""

FILES = "model files of third parties"
_MODULES = {
    "cv2": "opencv-python-headless",
    "PIL": "pillow",
}  # what PyPI calls it, where that is another name
_PHRASES = (
    (r"could not import '(\w+)|needs the package (\w+)|pip install ([\w-]+)|No module named '(\w+)", ""),
    (r"riscv64-unknown-elf|RISC-V compiler", "gcc-riscv64-unknown-elf"),
    (r"gcc-arm-linux-gnueabihf", "gcc-arm-linux-gnueabihf"),
    (r"qemu", "qemu-user"),
    (r"opencl-headers", "opencl-headers"),
    (r"OpenCL", "pocl-opencl-icd"),
    (r"valgrind", "valgrind"),
    (r"C compiler|\bgcc\b", "gcc"),
    (r"extra plot", "matplotlib"),
    (r"extra docs", "mkdocs-material"),
    (r"third-party|RKNNLITE_FIXTURES|older container", FILES),
)
_FROM_PIP = {
    "mkdocs-material",
    "pytest",
    "safetensors",
    "gguf",
    "torch",
    "opencv",
    "opencv-python-headless",
} | {_MODULES.get(module, module) for extra in EXTRAS.values() for module in extra.modules}


def needs(*names: str) -> None:
    """Skip the test unless these are here: keys of ``COMMANDS``, or Python modules."""
    for name in names:
        if not _here(name):
            pytest.skip(f"needs {_package(name)}")


def skip_for_want(output: str) -> None:
    """Skip the test when its child process says that something is missing, and it is; else nothing."""
    lacking = [
        module for extra in re.findall(r"rknnlite\[(\w+)\]", output) for module in EXTRAS[extra].lacking
    ]
    needs(*lacking, *re.findall(r"No module named '(\w+)", output))
    if re.search(
        r"No such file or directory: '(cc|gcc)'|no C compiler|(cc|gcc): (command )?not found", output
    ):
        needs("gcc")


def wanted(reason: str) -> str | None:
    """What to install, of the reason of a skip; None where no package would help."""
    plain = re.search(r"needs ([\w-]+)$", reason)
    if plain and (plain[1] in COMMANDS or plain[1] in _FROM_PIP):
        return plain[1]
    for phrase, name in _PHRASES:
        found = re.search(phrase, reason)
        if found:
            return name or _package(next(group for group in found.groups() if group))
    return None


def summary(reasons: Iterable[str], slow: bool) -> str:
    """The last line of a run: what was not tested, and the command that gets it."""
    missing = Counter(filter(None, map(wanted, reasons)))
    files = missing.pop(FILES, 0)
    parts = [f"{name} ({count})" for name, count in missing.most_common()]
    parts += [f"{FILES} ({files}; a folder named by RKNNLITE_FIXTURES)"] if files else []
    parts += [] if slow else ["slow tests"]
    if not parts:
        return "nothing was left out for want of a package"
    command = "sudo make packages && make test" if set(missing) - _FROM_PIP else "make test"
    return f"not tested for want of: {', '.join(parts)}; all of it: {command}{'' if slow else ' SLOW=1'}"


def _here(name: str) -> bool:
    if name in COMMANDS:
        return any(map(shutil.which, COMMANDS[name]))
    return importlib.util.find_spec(name) is not None


def _package(name: str) -> str:
    return _MODULES.get(name, name)
