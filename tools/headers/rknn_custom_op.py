"""``rknn_custom_op.h``, and ``rknn_op.h``: the part of it that a plugin needs, in one file."""

from __future__ import annotations

from rknnlite.abi import rknn_op

from . import rknn
from .parts import Constants, Enum, Function, Header, Part, Struct, Text, members_of

__all__ = ["CUSTOM_OP", "OP"]

_TARGETS = Enum(
    "rknn_target_type",
    {**members_of(rknn_op.Target, "RKNN_TARGET_TYPE_"), "RKNN_TARGET_TYPE_MAX": max(rknn_op.Target) + 1},
    "Where an operator computes.",
)
_CONTEXTS: tuple[Part, ...] = (
    Struct("rknn_gpu_op_context", rknn_op.GpuOpContext, about="OpenCL's objects, for operators of the GPU."),
    Struct(
        "rknn_custom_op_context", rknn_op.CustomOpContext,
        {"target": "rknn_target_type", "internal_ctx": "rknn_custom_op_interal_context"},
        "What every callback gets.", {"internal_ctx": "the library's", "priv_data": "the operator's own"},
    ),
    Struct("rknn_custom_op_tensor", rknn_op.CustomOpTensor, about="An input or output of a node."),
    Struct(
        "rknn_custom_op_attr", rknn_op.CustomOpAttr, {"dtype": "rknn_tensor_type"},
        "An attribute of a node.", {"n_elems": "0: there is none of that name"},
    ),
)  # fmt: skip
_CALLBACKS = {
    "init": "Optional, once, when the operator is registered.",
    "prepare": "Optional, before every compute.",
    "compute": "Needed: float32 in and out, in NCHW order; int64 where the network has it.",
    "compute_native": "For later; leave it NULL.",
}
_ARGUMENTS = (
    "rknn_custom_op_context *op_ctx, rknn_custom_op_tensor *inputs, uint32_t n_inputs, "
    "rknn_custom_op_tensor *outputs, uint32_t n_outputs"
)


def _operator(text: str) -> Struct:
    """The operator itself; ``text``: C type of the kernel's source, which the vendor leaves without ``const``."""
    words = {name: f"rknn_custom_op_{name}_cb" for name in (*_CALLBACKS, "destroy")}
    return Struct(
        "rknn_custom_op",
        rknn_op.CustomOpStruct,
        {"target": "rknn_target_type", "cl_kernel_source": text, **words},
        "An operator.",
        {"cl_kernel_source": "a path where cl_source_size is 0, else the text"},
    )


_LIMITS = Constants(
    {"RKNN_CUSTOM_OP_MAX_STR_LEN": rknn_op.MAX_STRING, "RKNN_CUSTOM_OP_MAX_VALUE_LEN": rknn_op.MAX_VALUE},
    "Limits.",
)
_EXPORT = Text(
    "/* Before the function that a plugin exports. */\n"
    '#define RKNN_CUSTOM_OP_EXPORT __attribute__((visibility("default")))'
)
_TYPES: tuple[Part, ...] = (
    Text("typedef rknn_context rknn_custom_op_interal_context;"),
    _TARGETS,
    *_CONTEXTS,
    *(
        Function(f"typedef int (*rknn_custom_op_{name}_cb)({_ARGUMENTS})", about)
        for name, about in _CALLBACKS.items()
    ),
    Function(
        "typedef int (*rknn_custom_op_destroy_cb)(rknn_custom_op_context *op_ctx)",
        "Optional, once, when the model's context is destroyed.",
    ),
)
_ENTRY = Function(
    "typedef rknn_custom_op *(*get_custom_op_func)(void)",
    f"What a plugin exports under the name {rknn_op.ENTRY_POINT}.",
)
_GET_ATTR = Function(
    "void rknn_custom_op_get_op_attr(rknn_custom_op_context *op_ctx, const char *attr_name, "
    "rknn_custom_op_attr *op_attr)",
    "Reads an attribute of the node; for callbacks.",
)

CUSTOM_OP = Header(
    "rknn_custom_op.h",
    "The C API of librknnrt (2.3.2): operators of a program's own. Declarations of rknnlite's own; the layouts are "
    "the vendor's.",
    ('"rknn_api.h"',),
    (
        _LIMITS,
        _EXPORT,
        *_TYPES,
        _operator("char *"),
        _ENTRY,
        Function(
            "int rknn_register_custom_ops(rknn_context ctx, rknn_custom_op *op, uint32_t custom_op_num)",
            "After rknn_init and before the first rknn_run.",
        ),
        _GET_ATTR,
    ),
    others=(rknn.API,),
)
OP = Header(
    "rknn_op.h",
    "What an operator plugin needs of the C API of librknnrt (2.3.2), in one file; instead of rknn_custom_op.h, not "
    "beside it. Declarations of rknnlite's own; the layouts are the vendor's.",
    ("<stdint.h>",),
    (
        Text('#define RKNN_EXPORT __attribute__((visibility("default")))'),
        rknn.ERRORS,
        rknn.HANDLE,
        Text("typedef rknn_context rknn_op_handle;"),
        *rknn.TENSOR_ENUMS,
        *rknn.TENSOR_STRUCTS,
        *_TYPES,
        Function(f"typedef int rknn_op_callback({_ARGUMENTS})"),
        _operator("const char *"),
        _ENTRY,
        _GET_ATTR,
    ),
)
