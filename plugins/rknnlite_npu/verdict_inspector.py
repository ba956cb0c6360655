"""What ``rknnlite info`` tells of a model on the NPU of this machine, where that is reached through the kernel alone."""

from __future__ import annotations

from typing import Optional

from rknnlite.errors import RknnError
from rknnlite.formats import ModelFile, is_package
from rknnlite.formats.rkllm import is_rkllm
from rknnlite.spi.command import Line
from rknnlite.spi.inspection import Description, Inspector

__all__ = ["VerdictInspector"]


class VerdictInspector(Inspector):
    """See the module."""

    name = "npu-verdict"

    def describe(self, file: ModelFile, check: bool) -> Optional[Description]:
        """What is kept of a comparison, nothing is run; None on a machine without such a device, and for another NPU's files."""
        from .backend import KernelBackend

        if is_package(file.data) or is_rkllm(file.path, file.data) or not KernelBackend().probe().available:
            return None
        try:
            agrees, text = KernelBackend().known(file)
        except RknnError:
            return None
        line = Line(f"{'backend npu:':15}experimental; {text}", hang=15)
        return Description({"npu_verdict": {"agrees": agrees, "text": text}}, [line], [], [])
