"""What the library's log lines mean: librkllmrt answers -1 for everything, and the reason is only printed.

Lines as users have reported them; docs/rkllm.md lists those that users meet most.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple, Optional

from rknnlite.errors import (
    DeviceUnmatch,
    InputInvalid,
    ModelInvalid,
    ModelUnsupported,
    OutOfMemory,
    ParamInvalid,
    RknnError,
    TargetPlatformUnmatch,
)

__all__ = ["LOG_ERRORS", "LogError", "context_limit", "error_in_log", "model_facts", "runtime_version"]


class LogError(NamedTuple):
    """A line of the log, the error that it is here, and what to do. ``spoils``: results cannot be trusted behind it."""

    pattern: str
    error: type[RknnError]
    remedy: str
    spoils: bool = False


LOG_ERRORS = (
    LogError(r"matmul\([^)]*\) run failed", DeviceUnmatch,
            "what the model says is garbage; update the NPU driver to 0.9.8 (rknnlite doctor shows it)", True),
    LogError(r"failed to malloc npu memory", OutOfMemory,
            "close other models, or give this one a base_domain_id of its own (an IOMMU domain holds 4 GiB)"),
    LogError(r"max_context\[\d+\] must be less than the model's max_context_limit\[\d+\]", ParamInvalid,
            "give a smaller max_context_len, or convert the model with a larger max_context"),
    LogError(r"Platform error: must be either", TargetPlatformUnmatch,
            "librkllmrt runs on RK3588, RK3576, RK3562 and RV1126B only"),
    LogError(r"target_platform does not match", TargetPlatformUnmatch, "convert the model for this SoC"),
    LogError(r"invalid rknn llm model magic|load model file error", ModelInvalid,
            "copy the file again, or convert the model for this version of the runtime"),
    LogError(r"model version is too old", ModelUnsupported, "convert the model with a newer rkllm-toolkit"),
    LogError(r"The n_batch must be between", ParamInvalid,
            "give n_batch from 1 to 100; with 1 already, library and layout do not fit"),
    LogError(r"n_image/n_image_token of multimodal_input is not set", InputInvalid,
            "give image_tags when the model is opened, and content of the image"),
    LogError(r"does not support saving prompt cache", ModelUnsupported,
            "only models with full attention in all layers save their cache"),
    LogError(r"Chat template auto-parsing failed", ModelUnsupported,
            "open the model with chat_template, e.g. chat_template='chatml'"),
    LogError(r"start_pos and end_pos are only valid", ParamInvalid,
            "the library is another version than it seems; install it as the vendor published it"),
)  # fmt: skip
"""In the order in which they count."""

_LIMIT = re.compile(r"max_context_limit\s*[:\[]\s*(\d+)")
_RUNTIME = re.compile(r"rkllm-runtime version: (\d+\.\d+\.\d+[0-9A-Za-z.-]*)")
_MODEL = re.compile(
    r"rkllm-toolkit version: (?P<toolkit>[^,\s]+).*?max_context_limit: (?P<context>\d+).*?"
    r"npu_core_num: (?P<cores>\d+).*?target_platform: (?P<soc>[^,\s]+).*?model_dtype: (?P<dtype>[^,\s]+)"
)


def error_in_log(what: str, lines: Iterable[str], spoiled: bool = False) -> Optional[RknnError]:
    """The error that log lines tell of; None where none of them is known. ``spoiled``: only what spoils results."""
    for line in lines:
        for trouble in LOG_ERRORS:
            if (trouble.spoils or not spoiled) and re.search(trouble.pattern, line):
                return trouble.error(f"{what}: librkllmrt printed {line.strip()[:200]!r}; {trouble.remedy}")
    return None


def context_limit(lines: Iterable[str]) -> int:
    """The model's largest context in tokens, as the log tells it; 0 where it does not."""
    return next((int(found.group(1)) for found in map(_LIMIT.search, lines) if found), 0)


def runtime_version(lines: Iterable[str]) -> str:
    """The version that the library prints of itself when it has loaded a model; empty where it prints none."""
    return next((found.group(1) for found in map(_RUNTIME.search, lines) if found), "")


def model_facts(lines: Iterable[str]) -> dict[str, str]:
    """What the library prints of a model that it has loaded: toolkit, context, cores, soc, dtype."""
    return next((found.groupdict() for found in map(_MODEL.search, lines) if found), {})
