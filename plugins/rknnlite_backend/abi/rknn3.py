"""The functions of librknn3_api and its two known revisions: which structures and signatures a version has.

>>> abi = revision("1.0.0 (abc@2026-01-05)")
>>> abi.name, ct.sizeof(abi.RKNN3TensorAttr)
('1.0.0', 512)

``rknn3_get_type_string``, ``rknn3_get_layout_string`` and ``rknn3_get_qnt_type_string`` of the manual are inline
functions of the header: no library exports them.
"""

from __future__ import annotations

import ctypes as ct
import re
from dataclasses import dataclass
from typing import Any, Callable

from rknnlite.abi import rknn3_llm, rknn3_types, rknn3_v104
from rknnlite.abi.rknn3_types import (
    RKNN3Config,
    RKNN3Devices,
    RKNN3ImMem,
    RKNN3InitExtend,
    RKNN3TensorMemory,
    rknn3_context,
)
from rknnlite.errors import ModelUnsupported

from . import rknn3_op
from .signature import Signature

__all__ = ["FIRST", "LATER", "Revision", "Signature", "revision"]

Struct = type[ct.Structure]
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_POINTER: Callable[[Any], Any] = ct.POINTER


@dataclass(frozen=True)
class Revision:
    """One revision of the ABI: the structures that differ, under their common names, and the functions.

    What is not here is the same in all revisions; take it from ``rknn3_types`` and ``rknn3_llm``.
    """

    name: str
    RKNN3TensorAttr: Struct
    RKNN3Tensor: Struct
    RKNN3ShapeInfo: Struct
    RKNN3LLMConfig: Struct
    RKNN3KVCachePolicyParam: Struct
    RKNN3LLMInferParam: Struct
    RKLLMCallback: Struct
    RKLLMRunState: Struct
    LLMOutputCallback: Any
    RKNN3CustomOpContext: Struct
    functions: dict[str, Signature]


def revision(version: str) -> Revision:
    """The revision that a runtime's version string names; raises ModelUnsupported for a version nobody has seen.

    1.0.0 has the first layouts (manuals of 1.0.0); 1.0.4 to 1.1 have the later ones (a public header, and a
    runtime 1.0.5 that refuses the first layout). What lies between is unknown, and guessing would corrupt memory.
    """
    found = _VERSION.search(version)
    number = tuple(int(part) for part in found.groups()) if found else None
    if number == (1, 0, 0):
        return FIRST
    if number is not None and (1, 0, 4) <= number < (1, 2, 0):
        return LATER
    raise ModelUnsupported(
        f"librknn3_api says it is version {version!r}; known are the structures of 1.0.0 and of 1.0.4 to 1.1.x. "
        "Install one of those, or a newer rknnlite"
    )


def _functions(
    tensor: Struct, policy: Struct, infer: Struct, callback: Struct, state: Struct
) -> dict[str, Any]:
    """Signatures that both revisions have; arguments: the structures that differ."""
    ctx, session, status, text = rknn3_context, ct.c_void_p, ct.c_int, ct.c_char_p
    tensors, mem, im = _POINTER(tensor), _POINTER(RKNN3TensorMemory), _POINTER(RKNN3ImMem)
    feeds = (ctx, tensors, ct.c_uint32, tensors, ct.c_uint32)
    lora, params = _POINTER(rknn3_llm.RKNN3Lora), _POINTER(rknn3_llm.RKNN3LLMParam)
    run = (session, _POINTER(rknn3_llm.RKNN3LLMInput), ct.c_uint32, _POINTER(infer))
    return {
        "rknn3_init": (status, _POINTER(ctx), _POINTER(RKNN3InitExtend)),
        "rknn3_load_model_from_path": (status, ctx, text, text),
        "rknn3_load_model_from_data": (status, ctx, ct.c_void_p, ct.c_uint64, ct.c_void_p, ct.c_uint64),
        "rknn3_model_init": (status, ctx, _POINTER(RKNN3Config)),
        "rknn3_destroy": (status, ctx),
        "rknn3_query": (status, ctx, ct.c_int32, ct.c_void_p, ct.c_uint64),
        "rknn3_run": (status, *feeds),
        "rknn3_create_mem_from_fd": (mem, ctx, ct.c_int32, ct.c_void_p, ct.c_uint64, ct.c_uint64),
        "rknn3_create_mem": (mem, ctx, ct.c_uint64, ct.c_int32, ct.c_int32),
        "rknn3_destroy_mem": (status, ctx, mem),
        "rknn3_mem_sync": (status, ctx, mem, ct.c_int32),
        "rknn3_set_shape": (status, ctx, ct.c_int32),
        "rknn3_set_kvcache_mem": (status, ctx, _POINTER(mem), _POINTER(ct.c_int), ct.c_int),
        "rknn3_set_internal_mem": (status, ctx, _POINTER(mem), ct.c_uint32),
        "rknn3_find_devices": (status, _POINTER(RKNN3Devices)),
        "rknn3_session_init": (session, ctx, params, ct.c_int),
        "rknn3_session_set_kvcache_policy": (status, session, ct.c_int32, _POINTER(policy)),
        "rknn3_session_clear_kvcache": (status, session, ct.c_int32),
        "rknn3_session_save_kvcache": (status, session, text),
        "rknn3_session_query_state": (status, session, _POINTER(state)),
        "rknn3_session_set_chat_template": (status, session, text, text, text),
        "rknn3_session_set_callback": (status, session, _POINTER(callback)),
        "rknn3_session_run": (status, *run),
        "rknn3_session_run_async": (status, *run),
        "rknn3_session_stop": (status, session),
        "rknn3_session_destroy": (status, session),
        "rknn3_session_set_function_tools": (status, session, text),
        "rknn3_session_set_llm_param": (status, session, params, ct.c_int),
        "rknn3_session_enable_lora": (status, session, lora),
        "rknn3_session_disable_lora": (status, session, lora),
        "rknn3_profile_ops": (status, *feeds, ct.c_uint32),
        "rknn3_profile_mem": (status, ctx),
        "rknn3_register_custom_ops_plugins": (status, ctx, text, ct.c_int64),
        "rknn3_im_mem_create": (status, ctx, *[ct.c_int32] * 6, im),
        "rknn3_im_mem_destroy": (status, ctx, im),
        "rknn3_im_cvt_color": (status, ctx, im, im),
    }


def _first() -> dict[str, Signature]:
    """All functions of 1.0.0."""
    tensor = rknn3_types.RKNN3Tensor
    ctx, session, status = rknn3_context, ct.c_void_p, ct.c_int
    feeds = (ctx, _POINTER(tensor), ct.c_uint32, _POINTER(tensor), ct.c_uint32)
    lora = _POINTER(rknn3_llm.RKNN3Lora)
    table = _functions(
        tensor,
        rknn3_llm.RKNN3KVCachePolicyParam,
        rknn3_llm.RKNN3LLMInferParam,
        rknn3_llm.RKLLMCallback,
        rknn3_llm.RKLLMRunState,
    )
    table.update(
        rknn3_dup_context=(status, ctx, _POINTER(ctx)),
        rknn3_run_async=(status, *feeds),
        rknn3_wait=(status, ctx),
        rknn3_create_mem_from_phys=(
            _POINTER(RKNN3TensorMemory),
            ctx,
            ct.c_uint64,
            ct.c_void_p,
            ct.c_uint64,
        ),
        rknn3_dump_features=(status, *feeds, ct.c_char_p),
        rknn3_session_query_lora=(status, session, _POINTER(lora), _POINTER(ct.c_int)),
        rknn3_session_load_kvcache=(status, session, ct.c_char_p, ct.c_int64),
    )
    return _signatures(table)


def _later() -> dict[str, Signature]:
    """All functions of the later header."""
    tensor = rknn3_v104.RKNN3Tensor
    ctx, session, status, text, data = rknn3_context, ct.c_void_p, ct.c_int, ct.c_char_p, ct.c_void_p
    feeds = (ctx, _POINTER(tensor), ct.c_uint32, _POINTER(tensor), ct.c_uint32)
    mem, lora = _POINTER(RKNN3TensorMemory), _POINTER(rknn3_llm.RKNN3Lora)
    table = _functions(
        tensor,
        rknn3_v104.RKNN3KVCachePolicyParam,
        rknn3_v104.RKNN3LLMInferParam,
        rknn3_v104.RKLLMCallback,
        rknn3_v104.RKLLMRunState,
    )
    table.update(
        rknn3_dump_features=(status, *feeds, text, ct.c_uint32, text),
        rknn3_set_decrypt_key_from_path=(status, ctx, text),
        rknn3_set_decrypt_key_from_data=(status, ctx, data, ct.c_uint64),
        rknn3_load_weight_chunk=(status, ctx, ct.c_uint64, data, ct.c_uint64),
        rknn3_mem_sync_range=(status, ctx, mem, ct.c_int32, ct.c_uint64, ct.c_uint64),
        rknn3_set_kvcache_group=(status, ctx, ct.c_int32),
        rknn3_set_weight_mem=(status, ctx, _POINTER(mem), ct.c_uint32),
        rknn3_lora_init=(status, ctx, text),
        rknn3_lora_init_from_data=(status, ctx, data, ct.c_uint64),
        rknn3_lora_load=(status, ctx, lora),
        rknn3_lora_unload=(status, ctx, lora),
        rknn3_lora_enable=(status, ctx, lora),
        rknn3_lora_disable=(status, ctx, lora),
        rknn3_session_load_kvcache_from_path=(status, session, text),
        rknn3_session_load_kvcache_from_data=(status, session, data, ct.c_int64),
        rknn3_session_pause=(status, session),
        rknn3_session_resume=(status, session),
        rknn3_set_input_name_alias=(status, ctx, text, text),
    )
    return _signatures(table)


def _signatures(table: dict[str, Any]) -> dict[str, Signature]:
    return {name: Signature(types[0], tuple(types[1:])) for name, types in table.items()}


def _revision(name: str, types: Any, llm: Any, ops: Any, functions: dict[str, Signature]) -> Revision:
    return Revision(
        name=name,
        RKNN3TensorAttr=types.RKNN3TensorAttr,
        RKNN3Tensor=types.RKNN3Tensor,
        RKNN3ShapeInfo=types.RKNN3ShapeInfo,
        RKNN3LLMConfig=llm.RKNN3LLMConfig,
        RKNN3KVCachePolicyParam=llm.RKNN3KVCachePolicyParam,
        RKNN3LLMInferParam=llm.RKNN3LLMInferParam,
        RKLLMCallback=llm.RKLLMCallback,
        RKLLMRunState=llm.RKLLMRunState,
        LLMOutputCallback=llm.LLMOutputCallback,
        RKNN3CustomOpContext=ops.RKNN3CustomOpContext,
        functions=functions,
    )


FIRST = _revision("1.0.0", rknn3_types, rknn3_llm, rknn3_op, _first())
"""Runtime 1.0.0."""
LATER = _revision("1.0.4", rknn3_v104, rknn3_v104, rknn3_v104, _later())
"""Runtimes from 1.0.4 on."""
