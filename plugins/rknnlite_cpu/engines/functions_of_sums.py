"""The operator of ``functions_of_sums.c``, built for this machine: what onnxruntime computes functions behind convolutions with.

Without a compiler they are some twenty operators of ONNX each, with the same bytes and two to three times the time of a network
that has many.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Optional

from rknnlite_graph import rational_functions as rational
from rknnlite_programs import buildcache

from rknnlite.errors import BackendUnavailable, ParamInvalid
from rknnlite.log import logger
from rknnlite.native.processors import instructions

__all__ = ["library"]

_SOURCE = Path(__file__).with_suffix(".c")
_TUNED = {"x86_64": "-march=native", "aarch64": "-mcpu=native"}
_ROUNDED = ("-std=gnu11", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fvisibility=hidden")


@functools.cache
def library() -> Optional[Path]:
    """The built library; None without a compiler, or where it fails."""
    pairs = {"LOGISTIC": rational.LOGISTIC, "NORMAL": rational.NORMAL}
    sides = [(f"{name}_{side}", part) for name, pair in pairs.items() for side, part in zip(("OVER", "UNDER"), pair)]
    single = ("LOGISTIC_REACH", "LOGISTIC_FACTOR", "NORMAL_REACH", "NORMAL_FACTOR")
    numbers = [*sides, *((name, (getattr(rational, name),)) for name in single)]
    defined = [f"-D{name}={','.join(f'{value!r}f' for value in values)}" for name, values in numbers]
    machine = buildcache.system()[0]
    tuned = [_TUNED[machine], f"-DPROCESSOR={instructions()}"] if machine in _TUNED else []
    try:
        return buildcache.build_library(
            "librknnlite_sums.so", _SOURCE, "functions of sums on onnxruntime", *_ROUNDED, *defined, *tuned
        )
    except (BackendUnavailable, ParamInvalid) as error:
        logger.info("functions behind convolutions take onnxruntime longer than they could: %s", error)
        return None
