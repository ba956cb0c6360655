"""Which backend the tests of a context on the NPU's words try: the machine, or a kernel's on the rig."""

from __future__ import annotations

import os

__all__ = ["BACKEND"]

BACKEND = os.environ.get("RKNNLITE_TEST_NPU_BACKEND", "npu-machine")
