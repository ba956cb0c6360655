"""A plugin is loaded in a child process first: see ``rknnlite_backend.trial``.

The child loads the library and asks for its operator, which is all that happens here before an operator is used. What passed is
remembered by its content, beside the copy that is loaded.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path

from rknnlite_backend.trial import end_of_trial
from rknnlite_programs import buildcache

from rknnlite.abi import rknn_op as abi
from rknnlite.errors import ParamInvalid

__all__ = ["try_loading"]

_PASSED = "loads"


def try_loading(path: Path, file: Path, before: Sequence[str]) -> None:
    """Load ``file`` in a child, with the libraries ``before`` it; raises ParamInvalid, which names ``path``, where that ends it."""
    passed = file.with_name(_PASSED)
    kept = buildcache.is_kept(file)
    if kept and passed.exists():
        return
    end = end_of_trial(file, before, abi.ENTRY_POINT, ctypes.sizeof(abi.CustomOpStruct))
    if end:
        raise ParamInvalid(
            f"{path}: loading it in a process of its own {end}: the file is damaged, or what it does when it is loaded crashes; "
            "copy or build it again"
        )
    if kept:
        buildcache.keep(passed, os.fsencode(path.name))
