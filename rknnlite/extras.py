"""The optional packages: which extra of pip brings them, and which Debian packages do."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

from .errors import BackendUnavailable

__all__ = ["EXTRAS", "Extra", "missing"]


@dataclass(frozen=True)
class Extra:
    """One extra. ``modules`` are its import names; ``absent`` says what Debian 12 does not have."""

    name: str
    purpose: str
    modules: tuple[str, ...]
    debian: tuple[str, ...]
    absent: str = ""

    @property
    def remedy(self) -> str:
        """How to get it, with pip and with apt."""
        packages = " ".join(self.debian)
        lacking = f"; Debian 12 has no {self.absent}" if self.absent else ""
        return f"pip install 'rknnlite[{self.name}]' (Debian: apt install {packages}{lacking})"

    @property
    def lacking(self) -> list[str]:
        """Modules that are not installed; nothing is imported to find out."""
        return [module for module in self.modules if importlib.util.find_spec(module) is None]


EXTRAS = {
    extra.name: extra
    for extra in (
        Extra(
            "cpu", "speed of the CPU reference, pictures on the command line", ("cv2",), ("python3-opencv",)
        ),
        Extra(
            "llm",
            "chat templates of language models, and tokenizers other than byte-level BPE",
            ("tokenizers", "jinja2"),
            ("python3-jinja2",),
            "tokenizers",
        ),
        Extra("onnx", "ONNX files in compare", ("onnx", "onnxruntime"), ("python3-onnx",), "onnxruntime"),
        Extra("plot", "PNG pictures", ("matplotlib",), ("python3-matplotlib",)),
        Extra("opencl", "GPU operators", ("pyopencl",), ("python3-pyopencl", "pocl-opencl-icd")),
    )
}


def missing(name: str, what: str, error: ImportError | None = None) -> BackendUnavailable:
    """The error of something that needs an extra: ``what`` cannot be done, and how to get it."""
    reason = f" ({error})" if error is not None else ""
    return BackendUnavailable(f"{what}{reason}; {EXTRAS[name].remedy}")
