"""Networks: a genuine RKNPU2 file on the coprocessor that the CPU reference plays."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_llm import Package

from rknn3lite.api import RKNN3CoreMask, RKNN3Lite, RKNN3QueryCmd
from rknnlite import abi
from rknnlite.errors import visible
from rknnlite.spi import PostProcess
from rknnlite.tensor import DType, Layout, TensorAttr
from tests.support.corpus import ROOT, genuine, goldens

MODEL = genuine("mobilenetv2_like.rk3588.i8")
Opener = Callable[..., RKNN3Lite]


@pytest.fixture
def opened() -> Iterator[Opener]:
    faces: list[RKNN3Lite] = []

    def open_face(model: Path = MODEL, core_mask: Any = 1, weight: Any = None, **options: Any) -> RKNN3Lite:
        rknn = RKNN3Lite()
        faces.append(rknn)
        assert rknn.load_rknn(str(model), weight) == 0
        assert rknn.init_runtime(options.pop("target", "rk1820"), core_mask, **options) == 0
        return rknn

    yield open_face
    for rknn in faces:
        rknn.release()


def test_a_wrong_rank_has_the_vendors_words(opened: Opener, capfd: pytest.CaptureFixture[str]) -> None:
    rknn = opened()
    capfd.readouterr()
    assert rknn.inference([np.zeros((4, 4), np.uint8)]) is None
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(
        "E Catch exception when running RKNN model. The input[0] need 4dims input, but 2dims input buffer feed."
    )
    assert line.endswith("(error code: RKNN3_ERR_INPUT_INVALID)")


def test_outputs_are_those_of_the_model(opened: Opener) -> None:
    golden = goldens(MODEL.with_suffix(".npz"))[0]
    rknn = opened()
    outputs = rknn.inference(inputs=golden.inputs)
    assert isinstance(outputs, list) and [o.dtype for o in outputs] == [np.float32] * len(golden.outputs)
    for ours, theirs in zip(outputs, golden.outputs):
        assert ours.shape == theirs.shape and np.allclose(ours, theirs, atol=0.05)
    image = golden.inputs[0]
    for given, data_format in (
        ((image,), None),
        (image, None),
        (image[0], None),
        ([image], ["nhwc"]),
        ([image], ["undefined"]),
        ([image.transpose(0, 3, 1, 2)], ["nchw"]),
        ([image.astype(np.float64)], None),
    ):
        again = rknn.inference(given, data_format)
        assert again is not None and np.array_equal(again[0], outputs[0])


def test_attributes_are_those_of_a_coprocessor(opened: Opener) -> None:
    rknn = opened()
    (given,) = rknn.get_inputs_tensor_attr()
    golden = goldens(MODEL.with_suffix(".npz"))[0]
    assert tuple(given.shape[: given.n_dims]) == golden.inputs[0].shape
    assert given.layout == 2 and given.dtype == 2 and given.qnt_type == 2 and given.qnt_info.scale > 0
    assert given.n_elems == golden.inputs[0].size <= given.aligned_size
    assert list(given.stride[: given.n_stride]) == list(golden.inputs[0].astype(np.int8).strides)
    (out,) = rknn.get_outputs_tensor_attr()
    assert tuple(out.shape[: out.n_dims]) == golden.outputs[0].shape and out.core_id == 0


@pytest.mark.parametrize(
    ("name", "lanes"),
    [("conv_wide.rk3588.i8", 32), ("conv_wide.rk3566.i8", 32), ("conv_relu.rk3588.fp16", 16)],
)
def test_feature_layout_has_32_or_16_lanes(name: str, lanes: int, opened: Opener) -> None:
    rknn = opened(genuine(name))
    attr = rknn.rknn3_query(RKNN3QueryCmd.RKNN3_QUERY_NATIVE_OUTPUT_ATTR)
    plain = rknn.get_outputs_tensor_attr()[0]
    assert attr.layout == 3 and attr.n_dims == 5 and attr.shape[4] == lanes
    assert attr.shape[1] == -(-plain.shape[1] // lanes)
    assert plain.aligned_size == attr.aligned_size >= plain.n_elems


def test_dynamic_shapes_follow_the_arrays(opened: Opener) -> None:
    path = genuine("dynamic_two.rk3588.fp16")
    rknn = opened(path)
    infos = rknn.get_dynamic_shape_infos()
    stored = goldens(path.with_suffix(".npz"))
    assert [info["shape_id"] for info in infos] == list(range(len(stored)))
    for golden in [*stored, stored[0]]:
        outputs = rknn.inference(golden.inputs)
        assert outputs is not None and [o.shape for o in outputs] == [o.shape for o in golden.outputs]
        number = rknn.rknn3_query(RKNN3QueryCmd.RKNN3_QUERY_DYNAMIC_SHAPE_CONFIG).current_shape_id
        n, h, w, c = golden.inputs[0].shape
        told = infos[number]["inputs"][0]
        assert told["shape"] == [n, c, h, w] and told["layout"] == "NCHW"
        assert tuple(rknn.get_inputs_tensor_attr()[0].shape[:4]) == golden.inputs[0].shape
    assert rknn.inference([np.zeros((1, 3, 3, 3), np.uint8)]) is None
    assert opened().get_dynamic_shape_infos() == []


def test_questions(opened: Opener) -> None:
    rknn = opened()
    number = rknn.rknn3_query(RKNN3QueryCmd.RKNN3_QUERY_IN_OUT_NUM)
    assert (number.n_input, number.n_output) == (1, 1)
    version = rknn.rknn3_query(RKNN3QueryCmd.RKNN3_QUERY_SDK_VERSION)
    assert b"CPU reference" in version.api_version
    assert "API: rknnlite CPU reference" in rknn.get_sdk_version()
    sizes = rknn.rknn3_query(RKNN3QueryCmd.RKNN3_QUERY_CORE_MEM_SIZE)
    assert len(sizes) == 1 and sizes[0].weight_size > 0 and sizes[0].core_id == 0
    assert rknn.rknn3_query(13).value == 1
    rknn.inference([np.zeros(tuple(rknn.get_inputs_tensor_attr()[0].shape[:4]), np.uint8)])
    assert rknn.rknn3_query(RKNN3QueryCmd.RKNN3_QUERY_PERF_RUN).run_duration > 0
    for bad in (
        (99, 0),
        (RKNN3QueryCmd.RKNN3_QUERY_INPUT_ATTR, 7),
        (RKNN3QueryCmd.RKNN3_QUERY_LLM_CONFIG, 0),
    ):
        assert rknn.rknn3_query(*bad) is None


def test_devices(opened: Opener) -> None:
    ids = RKNN3Lite().get_devices_id()
    assert ids and all(isinstance(device, bytes) for device in ids)
    opened(device_id=ids[0])
    opened(device_id=ids[0].decode())


@pytest.mark.parametrize("mask", [0, 1, 0x80, 0x0F, 0xFF, 0xFFFFFFFF, RKNN3CoreMask.RKNN3_NPU_CORE_ALL])
def test_core_masks(mask: int, opened: Opener) -> None:
    rknn = opened(core_mask=mask, target="rk1828")
    assert rknn.rknn_config.run_core_mask == (0xFF if mask == 0xFFFFFFFF else mask)


@pytest.mark.parametrize("mask", [-1, 0x100, 0xFFFF, None, "0xff", 1.5])
def test_core_masks_that_do_not_exist(mask: Any, capsys: pytest.CaptureFixture[str]) -> None:
    rknn = RKNN3Lite()
    rknn.load_rknn(str(MODEL), None)
    assert rknn.init_runtime("rk1820", mask) == -1
    assert "RKNN3_ERR_ARGUMENT_INVALID" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["rk3588", "rk9999", "", 7])
def test_targets_that_are_no_coprocessors(target: Any, capsys: pytest.CaptureFixture[str]) -> None:
    rknn = RKNN3Lite()
    rknn.load_rknn(str(MODEL), None)
    assert rknn.init_runtime(target, 1) == -1
    assert "Traceback" not in capsys.readouterr().err


def test_weights_may_be_empty_or_absent(tmp_path: Path) -> None:
    (tmp_path / "empty.weight").touch()
    for weight in (None, str(tmp_path / "empty.weight"), tmp_path / "none.weight", ""):
        rknn = RKNN3Lite()
        assert rknn.load_rknn(str(MODEL), weight) == 0
        assert rknn.model_data == MODEL.read_bytes()
    assert RKNN3Lite().load_rknn(model_path=MODEL, weight_path=MODEL) == 0


def test_a_device_file_needs_the_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.rknn").write_bytes(b"RKNX" + bytes(200))
    (tmp_path / "m.weight").write_bytes(b"weights")
    for llm in (False, True):
        rknn = RKNN3Lite(llm_mode=llm)
        assert rknn.load_rknn(str(tmp_path / "m.rknn"), str(tmp_path / "m.weight")) == 0
        assert rknn.init_runtime("rk1820", 0xFF) == -1
        line = capsys.readouterr().err.splitlines()[-1]
        assert line.startswith("E Catch exception when load model data!")
        assert "needs the device: an RK1820 or RK1828 with librknn3_api.so" in line
        assert rknn.rknn_runtime is None


def test_a_language_model_is_no_network(package: Package, capsys: pytest.CaptureFixture[str]) -> None:
    rknn = RKNN3Lite()
    assert rknn.load_rknn(str(package.model), str(package.weight)) == 0
    assert rknn.init_runtime("rk1820", 0xFF) == -1
    assert "LLM mode" in capsys.readouterr().err
    network = RKNN3Lite(llm_mode=True)
    assert network.load_rknn(str(MODEL), str(package.weight)) == 0
    assert network.init_runtime("rk1820", 0xFF) == -1
    assert "open it without LLM mode" in capsys.readouterr().err


class Largest(PostProcess):
    """Index of the largest output."""

    def open(self, inputs: Any, outputs: Any) -> list[TensorAttr]:
        return [TensorAttr(0, "largest", (1,), DType.INT32, Layout.UNDEFINED)]

    def compute(self, arrays: Any) -> list[np.ndarray]:
        return [np.array([arrays[0].argmax()], np.int32)]

    def close(self) -> None:
        pass


def test_a_post_process_plugin_takes_the_place_of_the_outputs(opened: Opener) -> None:
    golden = goldens(MODEL.with_suffix(".npz"))[0]
    rknn = opened()
    (plain,) = opened().inference(golden.inputs)
    assert rknn.register_postprocess(Largest()) == 0
    assert rknn.register_postprocess(Largest()) == -1
    assert [a.name for a in rknn.get_outputs_tensor_attr()] == [b"largest"]
    assert rknn.rknn3_query(RKNN3QueryCmd.RKNN3_QUERY_POSTPROCESS_IN_OUT_NUM).n_output == 1
    assert rknn.inference(golden.inputs)[0] == plain.argmax()
    late = opened()
    late.inference(golden.inputs)
    assert late.register_postprocess(Largest()) == -1


def test_plugins_that_are_none(opened: Opener, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rknn = opened()
    assert rknn.register_postprocess(tmp_path / "none.so") == -1
    assert "no such file" in capsys.readouterr().err
    assert RKNN3Lite().register_postprocess("x.so") == -1


@pytest.mark.skipif(shutil.which("riscv64-unknown-elf-gcc") is None, reason="no RISC-V compiler is installed")
def test_a_compiled_plugin(opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RKNNLITE_CACHE", str(tmp_path))
    source = ROOT / "tests" / "custom_ops" / "c" / "argmax_riscv.c"
    plugin = tmp_path / "libpostprocess_argmax.so"
    flags = ["--specs=picolibc.specs", "-march=rv64gc", "-mabi=lp64d", "-mcmodel=medany", "-fpic", "-w", "-c"]
    headers = f"-I{abi.include_dir()}"
    subprocess.run(["riscv64-unknown-elf-gcc", *flags, headers, "-o", str(plugin), str(source)], check=True)
    model = genuine("conv_relu.rk3588.i8")
    golden = goldens(model.with_suffix(".npz"))[0]
    (plain,) = opened(model).inference(golden.inputs)
    rknn = opened(model)
    assert rknn.register_postprocess(plugin) == 0
    assert [a.name for a in rknn.get_outputs_tensor_attr()] == [b"channel", b"value"]
    channel, value = rknn.inference(golden.inputs)
    assert np.array_equal(value, plain.max(1)) and np.array_equal(channel, plain.argmax(1))


def test_mistakes_of_the_caller(opened: Opener, capsys: pytest.CaptureFixture[str]) -> None:
    rknn = opened()
    image = goldens(MODEL.with_suffix(".npz"))[0].inputs[0]
    capsys.readouterr()
    for given, text in (
        ((None,), "E inputs is None, the model requires input"),
        (([image], ["nhwc", "nhwc"]), "E data_format length is not equal to inputs length"),
        (([image, image],), "1 inputs"),
        (([image], ["nwhc"]), "unknown layout"),
        (([image[:, :5]],), "expected shape"),
        ((["text"],), "element type"),
        (([],), "0 were given"),
    ):
        assert rknn.inference(*given) is None
        printed = capsys.readouterr()
        assert text in printed.err and "Traceback" not in printed.err and not printed.out
    assert rknn.inference([image]) is not None


def test_llm_methods_say_that_this_is_a_network(opened: Opener, capsys: pytest.CaptureFixture[str]) -> None:
    rknn = opened()
    assert rknn.session_run(prompt="hello") == (-1, [])
    assert "E RKNN model inference, please use inference interface!" in capsys.readouterr().err
    assert rknn.set_chat_template("", "", "") == rknn.session_stop() == rknn.clear_kvcache() == -1
    assert rknn.session_query_state() is None
    assert rknn.init_llm_session() == -1


def test_release_and_use_after_it(opened: Opener, capsys: pytest.CaptureFixture[str]) -> None:
    rknn = opened()
    image = goldens(MODEL.with_suffix(".npz"))[0].inputs[0]
    first = rknn.inference([image])
    assert rknn.release() is None and rknn.release() is None
    assert rknn.inference([image]) is None
    assert "please call init_runtime" in capsys.readouterr().err
    assert rknn.get_inputs_tensor_attr() is None and rknn.get_sdk_version() is None
    assert rknn.init_runtime("rk1820", 1) == 0
    assert np.array_equal(rknn.inference([image])[0], first[0])
    assert rknn.init_runtime("rk1820", 2) == 0  # once more, without release
    assert np.array_equal(rknn.inference([image])[0], first[0])


def test_before_load(capsys: pytest.CaptureFixture[str]) -> None:
    rknn = RKNN3Lite()
    assert rknn.init_runtime("rk1820", 1) == -1
    assert (
        "E Model is not loaded yet, this interface should be called after load_rknn!"
        in capsys.readouterr().err
    )
    rknn.release()


@pytest.mark.parametrize(
    "paths",
    [("none.rknn", "none.weight"), ("", ""), (None, None), (7, 8), ("a\0b", "c"), (".", ".")],
)
def test_files_that_are_not_there(paths: tuple[Any, Any], capsys: pytest.CaptureFixture[str]) -> None:
    rknn = RKNN3Lite()
    assert rknn.load_rknn(*paths) == -1
    said = visible(f"E Invalid RKNN weight path or model path: {paths[1]} or {paths[0]}")
    assert said in capsys.readouterr().err
    assert rknn.model_data is None


def test_a_second_thread_is_refused(opened: Opener, capsys: pytest.CaptureFixture[str]) -> None:
    rknn = opened()
    image = goldens(MODEL.with_suffix(".npz"))[0].inputs[0]
    answers: list[Any] = []
    with rknn.rknn_runtime.cnn().exclusive():
        thread = threading.Thread(target=lambda: answers.append(rknn.inference([image])))
        thread.start()
        thread.join()
    assert answers == [None] and "in use by another thread" in capsys.readouterr().err
