"""Whatever a program hands to ``RKNNLite``: one line in the log, -1 or None, no traceback, and the next run is well."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import rknnlite
from rknn3lite.api import RKNN3Lite
from rknnlite.api import RKNNLite
from rknnlite.errors import InputInvalid
from tests.support.corpus import genuine
from tests.support.examples import examples

SHAPE = (1, 24, 24, 3)
IMAGE = np.zeros(SHAPE, np.uint8)
TWO = np.array([0, 1])
HUGE = np.lib.stride_tricks.as_strided(np.zeros(1), (1, 1 << 20, 1 << 20, 1 << 10), (0, 0, 0, 0))


class Raises:
    """An array that fails to be one."""

    def __array__(self, *args: Any, **options: Any) -> Any:
        raise RuntimeError("no array today")


class Interface:
    """An array interface of nonsense."""

    __array_interface__ = "nonsense"


def opened(face: Any) -> Any:
    """A face with an open model."""
    rknn = face()
    model = genuine("conv_relu.rk3588.i8")
    if face is RKNNLite:
        assert rknn.load_rknn(model) == 0 and rknn.init_runtime() == 0
    else:
        assert rknn.load_rknn(model, None) == 0 and rknn.init_runtime("rk1820", 1) == 0
    return rknn


@pytest.fixture
def rknn(cpu: None, capfd: pytest.CaptureFixture[str]) -> Iterator[RKNNLite]:
    face = opened(RKNNLite)
    capfd.readouterr()
    yield face
    face.release()


def with_data(rknn: RKNNLite, data: Any) -> Any:
    """Open what a program put in the place of the model."""
    rknn.rknn_data = data
    return rknn.init_runtime()


MISTAKES: dict[str, tuple[Callable[[RKNNLite], Any], Any, str]] = {
    "an __array__ that raises": (lambda r: r.inference([Raises()]), None, "no array today"),
    "a bad interface": (lambda r: r.inference([Interface()]), None, "input in0 is no array"),
    "petabytes": (lambda r: r.inference([HUGE]), None, "expected shape [1, 24, 24, 3]"),
    "petabytes passed through": (
        lambda r: r.inference([HUGE], inputs_pass_through=[1]), None, "expected shape [1, 24, 24, 3]",
    ),
    "petabytes as float32": (
        lambda r: r.inference([HUGE], "float32", "nchw"), None, "expected shape [1, 24, 24, 3]",
    ),
    "real values passed through": (
        lambda r: r.inference([np.full(SHAPE, 3e9, np.float32)], inputs_pass_through=[1]), None,
        "input in0: 6912 bytes given to be passed through (1728 float32 elements), 1728 bytes needed (INT8 NHWC [1, 24, 24, 3]); "
        "pass through what the tensor stores, or leave pass_through out",
    ),
    "flags in an array": (lambda r: r.inference([IMAGE], None, None, TWO), None, "pass_through flags of shape [2]"),
    "a flag that is an array": (
        lambda r: r.inference([IMAGE], None, None, [TWO]), None, "inputs_pass_through is neither true nor false",
    ),
    "get_frame_id": (lambda r: r.inference([IMAGE], get_frame_id=TWO), None, "get_frame_id is neither"),
    "reuse_outputs": (lambda r: r.inference([IMAGE], reuse_outputs=TWO), None, "reuse_outputs is neither"),
    "data_format": (lambda r: r.inference([IMAGE], data_format=TWO), None, "layouts of shape [2] given"),
    "data_type": (lambda r: r.inference([IMAGE], data_type=[TWO]), None, "unknown data_type"),
    "beyond float32": (lambda r: r.inference([np.full(SHAPE, 1e300)]), None, "NaN or infinite"),
    "rknn_data": (lambda r: with_data(r, 5), -1, "must be the bytes of a model; call load_rknn"),
    "async_mode": (lambda r: r.init_runtime(async_mode=TWO), -1, "async_mode is neither"),
    "core_mask": (lambda r: r.init_runtime(core_mask=TWO), -1, "core_mask must be an int"),
    "target": (lambda r: r.init_runtime(target=TWO), -1, "target must be the name of a SoC"),
    "a path that is an array": (lambda r: r.load_rknn(TWO), -1, "Invalid RKNN model path"),
    "a long path": (lambda r: r.load_rknn("a" * 70000), -1, "(70000 characters)"),
    "a long path to list": (
        lambda r: r.list_support_target_platform("a" * 70000), None, "(70000 characters)",
    ),
    "an array to list": (lambda r: r.list_support_target_platform(TWO), None, "Invalid RKNN model path"),
}  # fmt: skip


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line(name: str, rknn: RKNNLite, capfd: pytest.CaptureFixture[str]) -> None:
    call, answer, text = MISTAKES[name]
    assert call(rknn) == answer
    lines = [line for line in capfd.readouterr().err.splitlines() if not line.startswith("W ")]
    assert len(lines) == 1 and lines[0].startswith("E ") and text in lines[0], lines
    rknn.load_rknn(genuine("conv_relu.rk3588.i8"))
    assert rknn.init_runtime() == 0 and rknn.inference([IMAGE]) is not None


@pytest.mark.parametrize("name", ["a\0b", "a" * 70000, "/no/such/folder/log"])
@pytest.mark.parametrize("face", [RKNNLite, RKNN3Lite])
def test_a_log_file_that_cannot_be(
    face: Any, name: str, capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    face(verbose=True, verbose_file=name).get_sdk_version()
    lines = capfd.readouterr().err.splitlines()
    assert [line[:1] for line in lines[:1] + lines[-1:]] == ["W", "E"] and "Traceback" not in "".join(lines)
    assert not list(tmp_path.iterdir())


class BadPath:
    """A path that fails to be one."""

    def __fspath__(self) -> str:
        raise RuntimeError("no path today")


class BadRepr:
    """An object that not even an error message can show."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr today")


ODD = {
    "array": np.ones(3),
    "empty array": np.zeros(0),
    "texts": np.array(["a", "b"]),
    "path": BadPath(),
    "repr": BadRepr(),
}


@pytest.mark.parametrize("odd", ODD)
def test_constructors_take_anything(
    odd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)  # some of them name log files
    value = ODD[odd]
    for face, names in ((RKNNLite, ("verbose",)), (RKNN3Lite, ("llm_mode", "verbose"))):
        for name in names:
            assert not getattr(face(**{name: np.ones(3)}), name)
            errors = [line for line in capfd.readouterr().err.splitlines() if line.startswith("E ")]
            assert len(errors) == 1 and f"{name} is neither true nor false" in errors[0]
            face(**{name: value})
            capfd.readouterr()
        face(True, verbose_file=value)
        face(verbose=True, verbose_file=value)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("odd", ODD)
def test_paths_and_settings_of_any_kind(odd: str, cpu: None, capfd: pytest.CaptureFixture[str]) -> None:
    value, model = ODD[odd], genuine("conv_relu.rk3588.i8")
    rknn, rknn3 = opened(RKNNLite), opened(RKNN3Lite)
    assert rknn.load_rknn(value) == rknn.load_rknn(model, value) == -1
    assert rknn3.load_rknn(value, None) == -1
    assert rknn.list_support_target_platform(value) is None
    for name in ("target", "core_mask"):
        assert rknn.load_rknn(model) == 0 and rknn.init_runtime(**{name: value}) == -1
        rknn3.load_rknn(model, None)
        assert rknn3.init_runtime(**{"target": None, "core_mask": 1, name: value}) == -1
    assert (
        rknn3.init_runtime(None, 1, device_id=value)
        == rknn3.init_runtime(None, 1, decrypt_key_path=value)
        == -1
    )
    assert rknn.init_runtime() == rknn3.init_runtime("rk1820", 1) == 0
    assert rknn.reg_custom_op(value) == rknn3.register_postprocess(value) == rknn3.destroy_mem(value) == -1
    assert rknn3.create_mem(value, value) is rknn3.rknn3_query(value) is None
    assert rknn3.create_output_tensors(value) == (None, 0)
    rknn3.release(value)
    rknn.rknn_runtime.verbose = value
    captured = capfd.readouterr().err
    assert "Traceback" not in captured
    rknn.release(), rknn3.release()


def test_flags_that_numpy_made(rknn: RKNNLite) -> None:
    outputs = rknn.inference([IMAGE], None, None, np.array([0]), np.bool_(True), np.bool_(False))
    assert outputs is not None and len(outputs) == 2


def test_token_ids_outside_the_table_are_the_callers(cpu: None, capfd: pytest.CaptureFixture[str]) -> None:
    rknn = RKNNLite()
    rknn.load_rknn(genuine("embedding.rk3588.fp16"))
    assert rknn.init_runtime() == 0
    capfd.readouterr()
    shapes = [attr.dims for attr in rknn.rknn_runtime.get_inputs()]
    assert rknn.inference([np.full(shape, 1 << 20, np.int64) for shape in shapes]) is None
    (line,) = capfd.readouterr().err.splitlines()
    assert "check the input ids" in line and "RKNN_ERR_INPUT_INVALID" in line


@pytest.mark.parametrize("item", [Raises(), Interface(), HUGE, np.full(SHAPE, "x")])
def test_the_native_api_raises_typed_errors(item: Any) -> None:
    with rknnlite.open(genuine("conv_relu.rk3588.i8"), backend="cpu") as context:
        for flag in (False, True):
            with pytest.raises(InputInvalid):
                context.infer(item, pass_through=flag)


# -- anything at all ------------------------------------------------------------------------------------------

Anything = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=6), st.binary(max_size=6),
    st.sampled_from([Raises(), Interface(), HUGE, TWO, IMAGE, object(), [IMAGE], {"in0": IMAGE}, [TWO], [None]]),
    st.lists(st.integers(-1, 2), max_size=3), st.complex_numbers(),
)  # fmt: skip


@pytest.fixture(scope="module")
def faces() -> Iterator[tuple[RKNNLite, RKNN3Lite]]:
    both = opened(RKNNLite), opened(RKNN3Lite)
    yield both
    for face in both:
        face.release()


@pytest.fixture
def no_traceback(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """A traceback is for what nobody foresaw; here everything must be."""
    yield
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.usefixtures("no_traceback")
@settings(max_examples=examples(60), deadline=None)
@given(values=st.lists(Anything, min_size=6, max_size=6))
@example(values=[float("inf"), None, None, True, False, False])
def test_inference(faces: tuple[RKNNLite, RKNN3Lite], values: list[Any]) -> None:
    rknn, rknn3 = faces
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for answer in (
            rknn.inference(*values), rknn.inference([IMAGE], *values[1:]), rknn3.inference(*values[:2]),
            rknn3.inference([IMAGE], values[1]),
        ):  # fmt: skip
            assert answer is None or isinstance(answer, list)
    assert rknn.inference([IMAGE]) is not None and rknn3.inference([IMAGE]) is not None


@pytest.mark.usefixtures("no_traceback")
@settings(max_examples=examples(40), deadline=None)
@given(values=st.lists(Anything, min_size=6, max_size=6))
def test_everything_else(values: list[Any]) -> None:
    rknn, rknn3 = RKNNLite(), RKNN3Lite()
    for face in (rknn, rknn3):
        face.rknn_log.logger.setLevel(100)
    assert rknn.load_rknn(values[0], values[1]) == -1 and rknn3.load_rknn(values[0], values[1]) == -1
    rknn.list_support_target_platform(values[2])
    rknn.load_rknn(genuine("conv_relu.rk3588.i8"))
    rknn3.load_rknn(genuine("conv_relu.rk3588.i8"), None)
    assert rknn.init_runtime(*values[:4]) in (0, -1)
    assert rknn3.init_runtime(*values) in (0, -1)
    assert rknn3.init_runtime("rk1820", values[1], *values[2:]) in (0, -1)
    assert rknn.reg_custom_op(values[4]) in (0, -1)
    assert rknn3.register_postprocess(values[5]) in (0, -1)
    rknn3.rknn3_query(values[0], values[1])
    rknn3.create_output_tensors(values[2])
    for face in (rknn, rknn3):
        face.get_sdk_version()
        face.release()
