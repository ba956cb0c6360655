"""The seven layouts of librkllmrt, 1.0.0 to 1.3.0: which structures, numbers and functions a version has.

>>> abi = revision_of("1.2.3")
>>> abi.name, ct.sizeof(abi.RKLLMParam), "rkllm_set_function_tools" in abi.functions
('1.2.1', 208, True)

No library tells its version by a call: ``known_files`` has what identifies one. Each revision is told as the change
against the one before. Source: the vendor's public headers.
"""

from __future__ import annotations

import ctypes as ct
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Callable

from rknnlite_backend.abi.signature import Signature

from rknnlite.errors import BackendUnavailable

from . import inputs, params, results
from .results import CallbackReturn

__all__ = ["REVISIONS", "VERSIONS", "Revision", "revision_of", "versions_with"]

_POINTER: Callable[[Any], Any] = ct.POINTER
_HANDLE, _TEXT, _STATUS = ct.c_void_p, ct.c_char_p, ct.c_int


@dataclass(frozen=True)
class Revision:
    """One layout: structures, callbacks and enumerations under their names in C, None for what it does not have."""

    name: str
    """The first version with this layout."""
    versions: tuple[str, ...]
    exports: tuple[str, ...]
    """Functions that the header declares and the library exports."""

    RKLLMParam: Any
    LLMResultCallback: Any
    LLMCallState: Any
    """NORMAL, FINISH, ERROR; from 1.1 on WAITING, in 1.1 GET_LAST_HIDDEN_LAYER. The numbers differ."""
    RKLLMExtendParam: Any = None
    RKLLMLoraAdapter: Any = None
    RKLLMSamplingParam: Any = None
    RKLLMInputType: Any = None
    RKLLMInput: Any = None
    RKLLMInput_u: Any = None
    RKLLMEmbedInput: Any = None
    RKLLMTokenInput: Any = None
    RKLLMMultiModalInput: Any = None
    """``RKLLMMultiModelInput`` in the headers before 1.2.3."""
    RKLLMMultiModalInput_image: Any = None
    RKLLMMultiModalInput_video: Any = None
    RKLLMInferMode: Any = None
    RKLLMInferParam: Any = None
    RKLLMLoraParam: Any = None
    RKLLMPromptCacheParam: Any = None
    RKLLMCrossAttnParam: Any = None
    Token: Any = None
    RKLLMResult: Any = None
    """None in 1.0.0, whose callback gets the text itself."""
    RKLLMResultLastHiddenLayer: Any = None
    RKLLMResultLogits: Any = None
    RKLLMPerfStat: Any = None
    RKLLMCallback: Any = None
    LLMTokenizerCallback: Any = None
    LLMGetEmbedCallback: Any = None

    callback_returns: tuple[CallbackReturn, ...] = ()
    """What the result callback may answer; empty: it returns nothing, and only ``rkllm_abort`` ends a run."""

    @property
    def known_as(self) -> str:
        """The versions with this layout, as messages name them: ``1.2.1 to 1.2.3``."""
        return " to ".join(dict.fromkeys((self.versions[0], self.versions[-1])))

    @cached_property
    def structs(self) -> dict[str, Any]:
        """All structures and unions by name; what is held by value comes before its holder."""
        found = {
            name: value
            for name, value in vars(self).items()
            if isinstance(value, type) and issubclass(value, (ct.Structure, ct.Union))
        }
        return {name: found[name] for name in sorted(found, key=lambda name: _depth(found[name]))}

    @cached_property
    def functions(self) -> dict[str, Signature]:
        """Prototypes of all exports by name."""
        known = _prototypes(self)
        return {name: Signature(known[name][0], known[name][1:]) for name in self.exports}

    def has_field(self, struct: str, field: str) -> bool:
        """Whether a structure exists and has a member: ``has_field("RKLLMInput", "role")``."""
        found = self.structs.get(struct)
        return found is not None and any(entry[0] == field for entry in found._fields_)


def _depth(struct: Any) -> int:
    """How deep structures are nested by value; a pointer counts as one level above what it points to."""
    inside = [getattr(kind, "_type_", kind) for _, kind in struct._fields_]
    held = [kind for kind in inside if hasattr(kind, "_fields_")]
    return 1 + max(map(_depth, held), default=0)


def _prototypes(abi: Revision) -> dict[str, tuple[Any, ...]]:
    """Result, then arguments, of every function there ever was, in the words of a revision."""
    by_value = abi.RKLLMInput is None
    param = abi.RKLLMParam if by_value else _POINTER(abi.RKLLMParam)
    callback = abi.LLMResultCallback if abi.RKLLMCallback is None else _POINTER(abi.RKLLMCallback)
    run: tuple[Any, ...] = (_TEXT,) if by_value else (_POINTER(abi.RKLLMInput), _POINTER(abi.RKLLMInferParam))
    positions = (_POINTER(ct.c_int),) * 2 if "rkllm_get_kv_cache_size" in abi.exports else ()
    return {
        "rkllm_createDefaultParam": (abi.RKLLMParam,),
        "rkllm_init": (_STATUS, _POINTER(_HANDLE), param, callback),
        "rkllm_run": (_STATUS, _HANDLE, *run, ct.c_void_p),
        "rkllm_destroy": (_STATUS, _HANDLE),
        "rkllm_abort": (_STATUS, _HANDLE),
        "rkllm_load_lora": (_STATUS, _HANDLE, _POINTER(abi.RKLLMLoraAdapter)),
        "rkllm_load_prompt_cache": (_STATUS, _HANDLE, _TEXT),
        "rkllm_release_prompt_cache": (_STATUS, _HANDLE),
        "rkllm_run_async": (_STATUS, _HANDLE, *run, ct.c_void_p),
        "rkllm_is_running": (_STATUS, _HANDLE),
        "rkllm_clear_kv_cache": (_STATUS, _HANDLE, ct.c_int, *positions),
        "rkllm_set_chat_template": (_STATUS, _HANDLE, _TEXT, _TEXT, _TEXT),
        "rkllm_get_kv_cache_size": (_STATUS, _HANDLE, _POINTER(ct.c_int)),
        "rkllm_set_function_tools": (_STATUS, _HANDLE, _TEXT, _TEXT, _TEXT),
        "rkllm_set_cross_attn_params": (_STATUS, _HANDLE, _POINTER(abi.RKLLMCrossAttnParam)),
    }


_100 = Revision(
    name="1.0.0",
    versions=("1.0.0",),
    exports=("rkllm_createDefaultParam", "rkllm_init", "rkllm_run", "rkllm_destroy"),
    RKLLMParam=params.RKLLMParam100,
    LLMResultCallback=results.LLMResultCallback100,
    LLMCallState=results.LLMCallState100,
)
_101 = replace(
    _100,
    name="1.0.1",
    versions=("1.0.1", "1.0.2-beta"),
    exports=(*_100.exports, "rkllm_abort"),
    RKLLMParam=params.RKLLMParam101,
    LLMResultCallback=results.LLMResultCallback101,
    Token=results.Token,
    RKLLMResult=results.RKLLMResult101,
)
_110 = replace(
    _101,
    name="1.1.0",
    versions=("1.1.0", "1.1.1", "1.1.2", "1.1.3", "1.1.4"),
    exports=(
        *_101.exports,
        "rkllm_load_lora",
        "rkllm_load_prompt_cache",
        "rkllm_release_prompt_cache",
        "rkllm_run_async",
        "rkllm_is_running",
    ),
    RKLLMParam=params.RKLLMParam110,
    RKLLMExtendParam=params.RKLLMExtendParam110,
    RKLLMLoraAdapter=params.RKLLMLoraAdapter,
    RKLLMInputType=inputs.RKLLMInputType,
    RKLLMInput=inputs.RKLLMInput110,
    RKLLMInput_u=inputs.RKLLMInputUnion110,
    RKLLMEmbedInput=inputs.RKLLMEmbedInput,
    RKLLMTokenInput=inputs.RKLLMTokenInput,
    RKLLMMultiModalInput=inputs.RKLLMMultiModalInput110,
    RKLLMInferMode=inputs.RKLLMInferMode110,
    RKLLMInferParam=inputs.RKLLMInferParam110,
    RKLLMLoraParam=inputs.RKLLMLoraParam,
    RKLLMPromptCacheParam=inputs.RKLLMPromptCacheParam,
    Token=None,
    RKLLMResult=results.RKLLMResult110,
    RKLLMResultLastHiddenLayer=results.RKLLMResultLastHiddenLayer,
    LLMResultCallback=results.LLMResultCallback110,
    LLMCallState=results.LLMCallState110,
)
_120 = replace(
    _110,
    name="1.2.0",
    versions=("1.2.0",),
    exports=(*_110.exports, "rkllm_clear_kv_cache", "rkllm_set_chat_template"),
    RKLLMParam=params.RKLLMParam120,
    RKLLMExtendParam=params.RKLLMExtendParam120,
    RKLLMInferMode=inputs.RKLLMInferMode120,
    RKLLMInferParam=inputs.RKLLMInferParam120,
    RKLLMResult=results.RKLLMResult120,
    RKLLMResultLogits=results.RKLLMResultLogits,
    LLMResultCallback=results.LLMResultCallback120,
    LLMCallState=results.LLMCallState120,
)
_121B1 = replace(
    _120,
    name="1.2.1b1",
    versions=("1.2.1b1",),
    RKLLMInput=inputs.RKLLMInput121b1,
    RKLLMInput_u=inputs.RKLLMInputUnion121b1,
    RKLLMMultiModalInput=inputs.RKLLMMultiModalInput121b1,
)
_121 = replace(
    _121B1,
    name="1.2.1",
    versions=("1.2.1", "1.2.2", "1.2.3"),
    exports=(
        *_121B1.exports,
        "rkllm_get_kv_cache_size",
        "rkllm_set_function_tools",
        "rkllm_set_cross_attn_params",
    ),
    RKLLMParam=params.RKLLMParam121,
    RKLLMExtendParam=params.RKLLMExtendParam121,
    RKLLMInput=inputs.RKLLMInput121,
    RKLLMCrossAttnParam=inputs.RKLLMCrossAttnParam,
    RKLLMResult=results.RKLLMResult121,
    RKLLMPerfStat=results.RKLLMPerfStat,
    LLMResultCallback=results.LLMResultCallback121,
    callback_returns=(CallbackReturn.CONTINUE, CallbackReturn.PAUSE),
)
_130 = replace(
    _121,
    name="1.3.0",
    versions=("1.3.0",),
    RKLLMParam=params.RKLLMParam130,
    RKLLMSamplingParam=params.RKLLMSamplingParam,
    RKLLMInput=inputs.RKLLMInput130,
    RKLLMInput_u=inputs.RKLLMInputUnion130,
    RKLLMMultiModalInput=inputs.RKLLMMultiModalInput130,
    RKLLMMultiModalInput_image=inputs.RKLLMImageInput130,
    RKLLMMultiModalInput_video=inputs.RKLLMVideoInput130,
    RKLLMInferParam=inputs.RKLLMInferParam130,
    RKLLMCallback=results.RKLLMCallback130,
    LLMTokenizerCallback=results.LLMTokenizerCallback,
    LLMGetEmbedCallback=results.LLMGetEmbedCallback,
    callback_returns=tuple(CallbackReturn),
)

REVISIONS = {abi.name: abi for abi in (_100, _101, _110, _120, _121B1, _121, _130)}
"""The seven layouts by name, oldest first."""
VERSIONS = {version: abi for abi in REVISIONS.values() for version in abi.versions}
"""The layout of every known version."""


def versions_with(has: Callable[[Revision], bool]) -> str:
    """In words, the versions of which something is true: ``1.2.1 or later``."""
    found = [abi for abi in REVISIONS.values() if has(abi)]
    last = found[-1].versions[-1]
    return f"{found[0].name} {'or later' if last in tuple(REVISIONS.values())[-1].versions else 'to ' + last}"


def revision_of(version: str) -> Revision:
    """The layout of a version such as ``1.2.1b1``; raises BackendUnavailable for one whose header nobody has read.

    Nothing is rounded: a later version may move any member, and guessing would corrupt memory.
    """
    found = VERSIONS.get(version)
    if found is None:
        raise BackendUnavailable(
            f"librkllmrt is version {version!r}, whose structures are unknown; known are {', '.join(VERSIONS)}. "
            "Install one of those, or a newer rknnlite"
        )
    return found
