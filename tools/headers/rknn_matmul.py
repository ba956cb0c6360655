"""``rknn_matmul_api.h``: the C names of ``rknnlite_backend.abi.rknn_matmul`` and of the kinds of ``rknnlite.spi.matmul``."""

from __future__ import annotations

from rknnlite_backend.abi.rknn_matmul import Info, Io, QuantParams, Shape, Tensor

from rknnlite.spi.matmul import BLayout, BQuant, MatmulType

from . import rknn
from .parts import Enum, Function, Header, Struct, Text, strings

__all__ = ["MATMUL"]

_LAYOUTS = {"NORMAL": "NORM", "TRANSPOSED": "TP_NORM"}


def _type_name(kind: MatmulType) -> str:
    a, b, c = kind.name.split("_")
    return f"RKNN_{a}_MM_{b}_TO_{c}"


def _quant_name(kind: BQuant) -> str:
    return f"RKNN_QUANT_TYPE_PER_{kind.name.split('_')[0]}_{'SYM' if kind.symmetric else 'ASYM'}"


_ENUMS = (
    Enum(
        "rknn_matmul_quant_type",
        {_quant_name(kind): int(kind) for kind in BQuant},
        "What the scales of B count for.",
    ),
    Enum(
        "rknn_matmul_type",
        {_type_name(kind): int(kind) for kind in MatmulType},
        "Element types of A, B and C.",
    ),
    Enum(
        "rknn_matmul_layout",
        {f"RKNN_MM_LAYOUT_{_LAYOUTS.get(kind.name, kind.name)}": int(kind) for kind in BLayout},
        "How a matrix lies: rows, the NPU's tiles, or B transposed.",
    ),
)
_STRUCTS = (
    Struct(
        "rknn_quant_params", QuantParams, {}, "Scales and zero points of a matrix.",
        {"name": "as in rknn_matmul_io_attr"},
    ),
    Struct(
        "rknn_matmul_tensor_attr", Tensor, {"type": "rknn_tensor_type"}, "A matrix as it lies in memory.", {"size": "bytes"}
    ),
    Struct("rknn_matmul_io_attr", Io),
    Struct("rknn_matmul_shape", Shape, about="A is M x K, B is K x N."),
    Struct(
        "rknn_matmul_info", Info, {"type": "rknn_matmul_type"}, "What is computed.",
        {
            "B_layout": "rknn_matmul_layout", "B_quant_type": "rknn_matmul_quant_type",
            "AC_layout": "RKNN_MM_LAYOUT_NORM or _NATIVE", "group_size": "rows of B with one scale",
        },
        tag="rknn_matmul_info_t",
    ),
)  # fmt: skip
_FUNCTIONS = (
    Function(
        "int rknn_matmul_create(rknn_matmul_ctx *ctx, rknn_matmul_info *info, rknn_matmul_io_attr *io_attr)",
        "Opens a product and fills io_attr.",
    ),
    Function(
        "int rknn_matmul_create_dynamic_shape(rknn_matmul_ctx *ctx, rknn_matmul_info *info, int shape_num, "
        "rknn_matmul_shape dynamic_shapes[], rknn_matmul_io_attr io_attrs[])",
        "One with several shapes; io_attrs has shape_num elements.",
    ),
    Function(
        "int rknn_matmul_set_io_mem(rknn_matmul_ctx ctx, rknn_tensor_mem *mem, rknn_matmul_tensor_attr *attr)",
        "Binds A, B or C; call it again when A or B have new data.",
    ),
    Function("int rknn_matmul_set_core_mask(rknn_matmul_ctx context, rknn_core_mask core_mask)"),
    Function("int rknn_matmul_set_quant_params(rknn_matmul_ctx context, rknn_quant_params *params)"),
    Function(
        "int rknn_matmul_get_quant_params(rknn_matmul_ctx ctx, rknn_quant_params *params, float *scale)"
    ),
    Function("int rknn_matmul_set_dynamic_shape(rknn_matmul_ctx ctx, rknn_matmul_shape *shape)"),
    Function("int rknn_matmul_run(rknn_matmul_ctx ctx)"),
    Function("int rknn_matmul_destroy(rknn_matmul_ctx ctx)"),
    Function(
        "int rknn_B_normal_layout_to_native_layout(void *B_input, void *B_output, int K, int N, "
        "rknn_matmul_info *info)",
        "Packs B (K x N) into the NPU's tiles.",
    ),
)

MATMUL = Header(
    "rknn_matmul_api.h",
    "The C API of librknnrt (2.3.2): products of matrices. Declarations of rknnlite's own; the layouts are the vendor's.",
    ('"rknn_api.h"',),
    (
        Text("typedef rknn_context rknn_matmul_ctx;"),
        *_ENUMS,
        strings(
            "get_matmul_type_string",
            "rknn_matmul_type",
            # the vendor's function does not know its last member
            {
                _type_name(kind): _type_name(kind)
                for kind in MatmulType
                if kind is not MatmulType.INT8_INT4_FLOAT16
            },
        ),
        *_STRUCTS,
        *_FUNCTIONS,
    ),
    others=(rknn.API,),
)
