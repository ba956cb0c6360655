"""The operator of ``functions_of_sums.c``, built for this machine: what onnxruntime computes functions behind convolutions with.

Without a compiler they are some twenty operators of ONNX each, with the same bytes and two to three times the time of a network
that has many.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Optional

from rknnlite_graph.rational_functions import LOGISTIC, LOGISTIC_REACH, NORMAL, NORMAL_REACH
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
    parts = {"LOGISTIC_OVER": LOGISTIC[0], "LOGISTIC_UNDER": LOGISTIC[1], "NORMAL_OVER": NORMAL[0], "NORMAL_UNDER": NORMAL[1]}
    numbers = [f"-D{name}={','.join(f'{value!r}f' for value in values)}" for name, values in parts.items()]
    reaches = [f"-DLOGISTIC_REACH={LOGISTIC_REACH!r}f", f"-DNORMAL_REACH={NORMAL_REACH!r}f"]
    machine = buildcache.system()[0]
    tuned = [_TUNED[machine], f"-DPROCESSOR={instructions()}"] if machine in _TUNED else []
    try:
        return buildcache.build_library(
            "librknnlite_sums.so", _SOURCE, "functions of sums on onnxruntime", *_ROUNDED, *numbers, *reaches, *tuned
        )
    except (BackendUnavailable, ParamInvalid) as error:
        logger.info("functions behind convolutions take onnxruntime longer than they could: %s", error)
        return None
