"""What a program can import, call and read: names, signatures, values, helpers."""

from __future__ import annotations

import ctypes as ct
import inspect
import logging
from pathlib import Path

import numpy as np
import pytest

import rknn3lite.api as api
from rknn3lite.api import RKNN3Lite, rknn3_types


def words(text: str) -> list[str]:
    return text.split()


CLASSES = words(
    "RKNN3Lite RKNN3Session rknn3Log RKNN3QueryCmd RKNN3TensorType RKNN3TensorQntType RKNN3TensorLayout "
    "RKNN3MemAllocFlags RKNN3MemSyncMode RKNN3CoreMask RKNN3KVCachePolicy RKNN3KVCacheClearPolicy RKNN3LLMInputType "
    "LLMCallState RKNN3InputOutputNum RKNN3QuantInfo RKNN3TensorAttr RKNN3PerfDetail RKNN3PerfRun RKNN3SDKVersion "
    "RKNN3MemSize RKNN3CustomString RKNN3TensorMemory RKNN3Config RKNN3Tensor RKNN3AllocationInfo RKNN3ShapeInfo "
    "RKNN3ShapeConfig RKNN3InitExtend RKN3NodeMemInfo RKNN3DevMemInfo RKNN3Device RKNN3Devices Float16 RKNN3VocabInfo "
    "RKNN3SamplingParams RECURRENT RKNN3KVCachePolicyParam RKNN3Lora RKNN3LLMTensor RKNN3Image RKNN3Audio RKNN3Video "
    "RKNN3LLMMultiModelTensor RKNN3LLMInputUnion RKNN3LLMInput RKNN3LLMExtendParam RKNN3LLMParam RKNN3LLMInferParam "
    "RKLLMResult RKLLMRunState RKLLMResultLastHiddenLayer RKLLMCallback RKNN3AuxTensor LLMResultCallback "
    "LLMSamplingCallback LLMGetEmbedCallback LLMTokenizerCallback LLMGetLastHiddenLayerCallback "
    "RKNN3AuxTensorWrapper"
)
LATER = words("LLMOutputCallback LLMInputCallback LLMOutputCallbackState RKNN3LLMTaskType RKNN3LLMConfig")
HELPERS = words(
    "rknn_dtype_to_numpy_dtype rknn3_get_layout_string rknn3_get_type_string dump_tensor_attr get_os_platform"
)
CONSTANTS = {
    "RKNN3_MAX_DIMS": 16, "RKNN3_MAX_STRIDE_DIMS": 17, "RKNN3_MAX_NAME_LEN": 256, "RKNN3_MAX_DYNAMIC_SHAPE_NUM": 512,
    "RKNN3_MAX_DEVS": 64, "RKNN3_MAX_DEV_LEN": 64, "RKNN3_MAX_NPU_NODE_NUM": 128, "RKNN3_MAX_SPECIAL_BOS_ID_NUM": 64,
    "RKNN3_MAX_SPECIAL_EOS_ID_NUM": 64, "LIBRKNN3RT_PATH": "/usr/lib/librknn3_api.so",
}  # fmt: skip
LEAKED = words(
    "c_int c_uint64 c_void_p c_char_p POINTER Structure CFUNCTYPE cast byref memset np platform time IntEnum auto"
)


@pytest.mark.parametrize("name", [*CLASSES, *LATER, *HELPERS, *LEAKED])
def test_exported(name: str) -> None:
    assert getattr(api, name) is not None
    if name not in ("RKNN3Lite", "RKNN3Session", "rknn3Log", "np", "platform", "time", "IntEnum", "auto"):
        assert hasattr(rknn3_types, name)


def test_constants() -> None:
    assert {name: getattr(api, name) for name in CONSTANTS} == CONSTANTS
    assert ct.sizeof(api.rknn3_context) == ct.sizeof(ct.c_void_p)
    codes = api.rknn3_runtime_api_ret_code
    assert list(codes) == [str(-n) for n in range(15)]
    assert codes["0"] == "RKNN3_SUCCESS" and codes["-8"] == "RKNN3_ERR_INPUT_INVALID"


def test_star_import_brings_everything_and_modules_have_the_vendors_names() -> None:
    space: dict[str, object] = {}
    exec("from rknn3lite.api import *", space)
    assert {*CLASSES, *HELPERS, *LEAKED} <= set(space)
    for module in ("rknn3_types", "rknn3_lite", "rknn3_runtime", "rknn3_log"):
        assert inspect.ismodule(getattr(api, module))


def test_enumerations_have_the_names_of_package_and_header() -> None:
    query = api.RKNN3QueryCmd
    assert (query.RKNN3_QUERY_MEM_SIZE, query.RKNN3_QUERY_NATIVE_NC1HWC2_INPUT_ATTR) == (6, 8)
    assert (query.RKNN3_QUERY_PERF_RUN, query.RKNN3_QUERY_LLM_CONFIG) == (4, 17)
    assert api.RKNN3CoreMask.RKNN3_NPU_CORE_ALL == 255 and RKNN3Lite.RKNN3CoreMask is api.RKNN3CoreMask
    policy = api.RKNN3KVCachePolicy
    assert policy.RKNN3_KVCACHE_POLICY_AUTO == policy.RKNN3_KVCACHE_POLICY_DEFAULT == 0
    assert [int(state) for state in api.LLMCallState] == [0, 1, 2, 3, 4, 5]


SIGNATURES = {
    "__init__": "(self, llm_mode=False, verbose=False, verbose_file=None)",
    "load_rknn": "(self, model_path, weight_path)",
    "init_runtime": "(self, target, core_mask, llm_args=None, llm_callback=None, llm_embed_path=None, device_id=None",
    "inference": "(self, inputs=None, data_format=None)",
    "session_run": "(self, inputs=None, prompt=None, embeds=None, tokens=None, keep_history=None, "
    "max_new_tokens=None, enable_thinking=False",
    "session_run_async": "(self, inputs=None, prompt=None, embeds=None, tokens=None, keep_history=None",
    "session_stop": "(self",
    "session_query_state": "(self",
    "set_kvcache_policy": "(self, policy=",
    "clear_kvcache": "(self, policy=",
    "save_kvcache": "(self, kvcache_path",
    "load_kvcache": "(self, kvcache_path=None, kvcache_data=None, size=None",
    "set_function_tools": "(self, tools",
    "set_llm_param": "(self, llm_args",
    "register_postprocess": "(self, plugin_path)",
    "set_chat_template": "(self, system_prompt, prompt_prefix, prompt_postfix",
    "get_sdk_version": "(self)",
    "get_devices_id": "(self)",
    "get_inputs_tensor_attr": "(self)",
    "get_outputs_tensor_attr": "(self)",
    "release": "(self",
    "stream": "(self, prompt=None, decode=None",
    "astream": "(self, prompt=None, decode=None",
    "rknn3_query": "(self, cmd, index=0)",
    "init_llm_session": "(self, llm_args=None, llm_callback=None, llm_embed_path=None, session_index=0)",
}


@pytest.mark.parametrize("method", SIGNATURES)
def test_signatures(method: str) -> None:
    parameters = inspect.signature(getattr(RKNN3Lite, method)).parameters.values()
    plain = [p.replace(annotation=p.empty) for p in parameters]
    assert str(inspect.Signature(plain)).startswith(SIGNATURES[method])
    assert not any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in plain)


def test_attributes_of_a_new_object(capsys: pytest.CaptureFixture[str]) -> None:
    rknn = RKNN3Lite()
    assert (rknn.verbose, rknn.llm_mode, rknn.rknn_runtime, rknn.llm) == (False, False, None, None)
    assert (rknn.model_data, rknn.weight_data) == (None, None)
    assert isinstance(rknn.rknn_config, api.RKNN3Config)
    assert isinstance(rknn.rknn_log, api.rknn3Log) and isinstance(rknn.rknn_log.logger, logging.Logger)
    printed = capsys.readouterr()
    assert printed.err.startswith("W rknn3-toolkit-lite version: 1.0.0") and not printed.out
    assert RKNN3Lite(True).llm_mode is True  # the first positional


def test_log_file(tmp_path: Path) -> None:
    RKNN3Lite(verbose=True, verbose_file=str(tmp_path / "log")).rknn_log.d("seen")
    assert (tmp_path / "log").read_text().endswith("D seen\n")
    RKNN3Lite(verbose=False, verbose_file=str(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


def test_dump_tensor_attr(capsys: pytest.CaptureFixture[str]) -> None:
    attr = api.RKNN3TensorAttr(
        index=1, name=b"data", n_dims=2, n_stride=1, aligned_size=64, layout=1, dtype=2, qnt_type=2
    )
    attr.shape[0], attr.shape[1], attr.stride[0] = 3, 4, 12
    api.dump_tensor_attr(attr, prefix="input")
    assert capsys.readouterr().out == (
        "input_1: name=data, n_dims=2, shape=[3, 4], stride=[12], aligned_size=64, layout=NCHW, dtype=INT8, "
        "qnt_type=QNT2, scale=1.00000, zero_point=0\n"
    )
    attr.qnt_type, attr.qnt_info.scale, attr.qnt_info.zero_point = 0, 0.25, -3
    api.dump_tensor_attr(attr)
    line = capsys.readouterr().out
    assert line.startswith("tensor_1: ") and line.endswith("qnt_type=NONE, scale=0.25000, zero_point=-3\n")


def test_helpers() -> None:
    kinds = api.RKNN3TensorType
    assert api.rknn_dtype_to_numpy_dtype(kinds.RKNN3_TENSOR_FLOAT16) is np.float16
    assert api.rknn_dtype_to_numpy_dtype(kinds.RKNN3_TENSOR_INT4) is np.float32
    assert api.rknn_dtype_to_numpy_dtype(99) is np.float32
    types = [api.rknn3_get_type_string(kind) for kind in kinds]
    assert types == words("FP32 FP16 INT8 UINT8 INT16 UINT16 INT32 UINT32 INT64 UNKNOWN BOOL INT4 UNKNOWN")
    assert api.rknn3_get_layout_string(api.RKNN3TensorLayout.RKNN3_TENSOR_NHWC) == "NHWC"
    assert api.rknn3_get_layout_string(-1) == api.rknn3_get_type_string(1000) == "UNKNOWN"
    assert (
        api.get_os_platform() == f"Linux_x{ct.sizeof(ct.c_void_p) * 8 if ct.sizeof(ct.c_void_p) == 4 else 64}"
    )
    wrapper = api.RKNN3AuxTensorWrapper()
    assert (wrapper.aux_data, wrapper.index, wrapper.align_size) == (None, 0, 0)
    assert api.RKNN3AuxTensor is api.RKNN3Tensor
    half = np.array([1.5], np.float16).view(np.uint8).tobytes()
    assert (api.Float16.from_buffer_copy(half).exp, api.Float16.from_buffer_copy(half).frac) == (15, 512)


def test_fields_take_what_programs_put_in() -> None:
    rows = np.ones((1, 4, 8), np.float16)
    image = api.RKNN3Image()
    image.image_embed = rows.ctypes.data_as(ct.POINTER(api.Float16))
    image.n_image_tokens, image.n_image, image.image_start = rows.shape[1], rows.shape[0], b"<|vision_start|>"
    assert image.image_embed[0].exp == 15 and image.image_start == b"<|vision_start|>"
    request = api.RKNN3LLMInput()
    request.input_union.llm_input.prompt = b"hello"
    assert request.input_union.multimodal_input.prompt == b"hello"  # a union: prompt is second in both
    callback = api.RKLLMCallback()
    callback.hidden_layer_callback = api.LLMGetLastHiddenLayerCallback(lambda *_: 0)
    assert callback.hidden_layer_userdata is None
