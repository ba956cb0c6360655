"""``rknn3_query``: every command answered by the structure that the C API has for it."""

from __future__ import annotations

import ctypes as ct
import operator
from typing import Any, Callable

from .._faces.arguments import described
from ..abi.rknn3_enums import RKNN3QueryCmd as Cmd
from ..abi.rknn3_enums import RKNN3TensorLayout
from ..abi.rknn3_llm import RKNN3LLMConfig
from ..abi.rknn3_types import (
    RKN3NodeMemInfo,
    RKNN3CoreMemSize,
    RKNN3CustomString,
    RKNN3DevMemInfo,
    RKNN3InputOutputNum,
    RKNN3PerfRun,
    RKNN3SDKVersion,
    RKNN3ShapeConfig,
    RKNN3TensorAttr,
)
from ..capi.rknn3_attrs import config_numbers
from ..errors import ParamInvalid
from ..layout import nhwc_to_nchw_shape
from .rknn3_runtime import RKNN3Runtime, list_devices
from .rknn3_types import rknn3_get_layout_string, rknn3_get_type_string

__all__ = ["dynamic_shapes", "query"]

_TEXT = 255


def query(runtime: RKNN3Runtime, command: int, index: int = 0) -> Any:
    """Answer one command; ``index`` for those that ask for one tensor, core or device.

    Raises:
        ParamInvalid: an unknown command, an index that is not there, or nothing to say here.
    """
    try:
        answer = _ANSWERS[Cmd(operator.index(command))]
    except Exception:  # no number of a command, or an object that cannot even be compared with one
        raise ParamInvalid(f"rknn3_query has no answer to command {described(command)}") from None
    if not isinstance(index, int):
        raise ParamInvalid(f"index is {described(index)}, must be an int")
    return answer(runtime, index)


def _io_num(runtime: RKNN3Runtime, index: int) -> RKNN3InputOutputNum:
    return RKNN3InputOutputNum(len(runtime.attrs(False)), len(runtime.attrs(True)))


def _attr(outputs: bool, native: bool) -> Callable[[RKNN3Runtime, int], Any]:
    def answer(runtime: RKNN3Runtime, index: int) -> Any:
        attrs = runtime.attrs(outputs, native)
        if not 0 <= index < len(attrs):
            raise ParamInvalid(
                f"there is no {'output' if outputs else 'input'} {index}, the model has {len(attrs)}"
            )
        return attrs[index]

    return answer


def _version(runtime: RKNN3Runtime, index: int) -> RKNN3SDKVersion:
    api, driver = runtime.versions
    return RKNN3SDKVersion(api.encode()[:_TEXT], driver.encode()[:_TEXT])


def _core_memory(runtime: RKNN3Runtime, index: int) -> Any:
    cores = runtime.cnn().memory().cores
    if not cores:
        raise ParamInvalid(f"backend {runtime.cnn().backend_name} does not know the memory of each core")
    sizes = (RKNN3CoreMemSize * len(cores))()
    for size, core in zip(sizes, cores):
        size.core_id, size.weight_size, size.internal_size = core.core_id, core.weight, core.internal
    return sizes


def _core_number(runtime: RKNN3Runtime, index: int) -> ct.c_uint32:
    if runtime.llm_context is not None:
        return ct.c_uint32(runtime.llm_context.config.core_num)
    return ct.c_uint32(runtime.cnn().core_num or 1)


def _device_memory(runtime: RKNN3Runtime, index: int) -> RKNN3DevMemInfo:
    devices = list_devices()
    if not 0 <= index < len(devices):
        raise ParamInvalid(f"there is no device {index}, {len(devices)} are attached")
    device = devices[index]
    info = RKNN3DevMemInfo(1, device.memory_total, device.memory_free)
    info.node_mem_info[0] = RKN3NodeMemInfo(device.memory_total, device.memory_free)
    return info


def _shape_config(runtime: RKNN3Runtime, index: int) -> RKNN3ShapeConfig:
    shapes = runtime.cnn().shapes
    return RKNN3ShapeConfig(len(shapes), _current(runtime) if shapes else -1)


def _current(runtime: RKNN3Runtime) -> int:
    context = runtime.cnn()
    now = [attr.dims for attr in context.inputs]
    return next((i for i, shapes in enumerate(context.shapes) if list(shapes) == now), -1)


def dynamic_shapes(runtime: RKNN3Runtime) -> list[dict[str, Any]]:
    """One dictionary per legal set of input shapes; empty for a model with static shapes.

    Shapes of images are NCHW there, as programs for the later package read them; ``inference`` takes NHWC.
    """
    context = runtime.cnn()
    current = _current(runtime)
    return [
        {
            "shape_id": number,
            "is_default": number == 0,
            "is_current": number == current,
            "inputs": [_input(attr, shape) for attr, shape in zip(runtime.attrs(False), shapes)],
        }
        for number, shapes in enumerate(context.shapes)
    ]


def _input(attr: RKNN3TensorAttr, shape: tuple[int, ...]) -> dict[str, Any]:
    image = attr.layout == RKNN3TensorLayout.RKNN3_TENSOR_NHWC
    layout = RKNN3TensorLayout.RKNN3_TENSOR_NCHW if image else attr.layout
    return {
        "index": attr.index,
        "name": attr.name.decode("utf-8", "replace"),
        "shape": list(nhwc_to_nchw_shape(shape) if image else shape),
        "layout": rknn3_get_layout_string(layout),
        "dtype": rknn3_get_type_string(attr.dtype),
    }


def _llm_config(runtime: RKNN3Runtime, index: int) -> RKNN3LLMConfig:
    config = runtime.llm().config
    return RKNN3LLMConfig(
        chat_template=config.chat_template.encode(),
        model_type=config.model_type.encode(),
        **config_numbers(config),
    )


_ANSWERS: dict[int, Callable[[RKNN3Runtime, int], Any]] = {
    Cmd.RKNN3_QUERY_IN_OUT_NUM: _io_num,
    Cmd.RKNN3_QUERY_INPUT_ATTR: _attr(False, False),
    Cmd.RKNN3_QUERY_OUTPUT_ATTR: _attr(True, False),
    Cmd.RKNN3_QUERY_PERF_RUN: lambda runtime, index: RKNN3PerfRun(runtime.cnn().last_run_us),
    Cmd.RKNN3_QUERY_SDK_VERSION: _version,
    Cmd.RKNN3_QUERY_CORE_MEM_SIZE: _core_memory,
    Cmd.RKNN3_QUERY_CUSTOM_STRING: lambda runtime, index: RKNN3CustomString(
        runtime.cnn().custom_string.encode()[:1023]
    ),
    Cmd.RKNN3_QUERY_NATIVE_INPUT_ATTR: _attr(False, True),
    Cmd.RKNN3_QUERY_NATIVE_OUTPUT_ATTR: _attr(True, True),
    Cmd.RKNN3_QUERY_DEVICE_MEM_INFO: _device_memory,
    Cmd.RKNN3_QUERY_CORE_NUMBER: _core_number,
    Cmd.RKNN3_QUERY_DYNAMIC_SHAPE_CONFIG: _shape_config,
    Cmd.RKNN3_QUERY_LLM_CONFIG: _llm_config,
    Cmd.RKNN3_QUERY_POSTPROCESS_IN_OUT_NUM: _io_num,
    Cmd.RKNN3_QUERY_POSTPROCESS_OUTPUT_ATTR: _attr(True, False),
}
