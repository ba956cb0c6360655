"""Programs in C and C++, of each kind that collections of samples have; all numbers are those of rknnlite, bit for bit."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import rknnlite
from rknnlite.spi.types import AttrKind
from tests.custom_ops.models import DUAL, PROBE, PlainDual, Probe
from tests.librknnrt.clients import HEADERS, PROGRAMS, environment, program, run
from tests.librknnrt.goldens import inferred, pixels, write
from tests.support.corpus import EXAMPLES, genuine
from tests.support.needs import needs

RESNET = EXAMPLES / "resnet18" / "resnet18_for_RK3588.rknn"


@pytest.mark.parametrize("compiler", ["gcc", pytest.param("clang", marks=pytest.mark.slow)])
def test_common_path(tmp_path: Path, compiler: str) -> None:
    model = genuine("two_images.rk3588.i8")
    images = [write(tmp_path, f"in{i}", pixels(i, 1, 12, 16, 3 + i)) for i in range(2)]
    reals = [write(tmp_path, f"in{i}", image.astype(np.float32) * 1.03) for i, image in enumerate(images)]
    stored = [write(tmp_path, f"in{i}", image.view(np.int8)) for i, image in enumerate(images)]
    for name, given, options in (
        ("out", images, {}), ("of_floats", reals, {}), ("of_int8", stored, {"pass_through": True}),
    ):  # fmt: skip
        for outputs in inferred(model, given, **options):
            for i, output in enumerate(outputs):
                write(tmp_path, f"{name}{i}", output)
    os.mkfifo(tmp_path / "pipe")
    told = run([program("common_path.c", compiler=compiler), model, tmp_path]).stderr
    assert told.count("memory is bound to some tensors only; in1, out0, out1 go by rknn_inputs_set") == 1
    assert told.count("cannot be read: they are not all in it") == 3, (
        "a byte behind the end, before the beginning, and in a pipe"
    )


def test_custom_operators(tmp_path: Path) -> None:
    images = [write(tmp_path, f"in{i}", pixels(i, 1, 32, 32, 3)) for i in range(2)]
    for i, output in enumerate(inferred(DUAL, images, custom_ops=[PlainDual()])[0]):
        write(tmp_path, f"out{i}", output)
    run([program("custom_ops.c"), DUAL, tmp_path])


@pytest.mark.slow
def test_custom_operators_of_the_gpu(tmp_path: Path) -> None:
    """Kernels of OpenCL, on pocl where there is no GPU; without a device registering says so."""
    if not Path("/usr/include/CL/cl_ext.h").exists() or not any(Path("/usr/lib").glob("*/libOpenCL.so")):
        pytest.skip("needs opencl-headers and ocl-icd-opencl-dev")
    if not any(Path("/etc/OpenCL/vendors").glob("*.icd")):
        pytest.skip("needs pocl-opencl-icd")
    images = [write(tmp_path, f"in{i}", pixels(i, 1, 32, 32, 3)) for i in range(2)]
    for i, output in enumerate(inferred(DUAL, images, custom_ops=[PlainDual()])[0]):
        write(tmp_path, f"out{i}", output)
    made = program("gpu_op.c", "-lOpenCL")
    run([made, DUAL, tmp_path])
    told = run([made, DUAL, tmp_path, "neither", -5]).stderr
    assert "there is no kernel neither in its source" in told
    empty = tmp_path / "vendors"
    empty.mkdir()
    told = run([made, DUAL, tmp_path, "both", -3], env=environment(OCL_ICD_VENDORS=str(empty))).stderr
    assert "OpenCL has no device; install a driver for the GPU, or pocl-opencl-icd" in told


def test_attributes_and_tensors_of_every_kind(tmp_path: Path) -> None:
    x = write(tmp_path, "in0", np.random.default_rng(0).normal(0, 1, (1, 8, 8, 3)).astype(np.float32))
    i = write(tmp_path, "in1", np.arange(-3, 5, dtype=np.int64)[None])
    for index, output in enumerate(inferred(PROBE, [x, i], custom_ops=[Probe()])[0]):
        write(tmp_path, f"out{index}", output.astype(np.float32))
    run([program("attributes.c"), PROBE, tmp_path])


def test_what_is_asked_of_every_model_is_no_error() -> None:
    done = run([program("asked_of_every_model.c"), genuine("conv_relu.rk3588.i8")])
    assert (done.stdout, done.stderr) == ("-6\n" * 4, "")


def test_float32_passes_through_to_float16(tmp_path: Path) -> None:
    """Bytes are counted by the type that is named, as librknnrt 2.3.2 does: float16 that is not named so is too short."""
    model = genuine("depthwise_3x3.rk3588.fp16")
    with rknnlite.open(model, backend="cpu") as context:
        count = context.inputs[0].n_elems
    np.zeros(count, np.float32).tofile(tmp_path / "floats")
    done = run([program("passed_floats.c"), model, tmp_path / "floats"])
    assert done.stdout.splitlines() == ["0 0", "-5", "0"], done.stderr
    assert f"{2 * count} bytes given, {4 * count} are needed: type is FLOAT32 (0)" in done.stderr


def test_matmul() -> None:
    lines = run([program("matmul.c")]).stdout.splitlines()
    assert len(lines) == len(set(lines)) == 9


def test_matmul_with_dynamic_shapes() -> None:
    run([program("matmul_dynamic.c")])


@pytest.mark.slow
def test_pictures_of_opencv(tmp_path: Path) -> None:
    cv2 = pytest.importorskip("cv2")
    flags = _opencv()
    picture = EXAMPLES / "resnet18" / "digit_224.png"
    image = cv2.cvtColor(cv2.imread(str(picture)), cv2.COLOR_BGR2RGB)
    (scores,), _ = inferred(RESNET, [image[None]])
    write(tmp_path, "out0", scores)
    for compiler in ("g++", "clang++"):
        done = run([program("picture.cc", *flags, compiler=compiler), RESNET, picture, tmp_path])
        assert int(done.stdout) == scores.argmax()


def _opencv() -> list[str]:
    folder = Path("/usr/include/opencv4")
    if not (folder / "opencv2" / "imgcodecs.hpp").exists():
        pytest.skip("needs libopencv-dev")
    return [f"-isystem{folder}", *(f"-lopencv_{part}" for part in ("core", "imgproc", "imgcodecs"))]


@pytest.mark.parametrize(
    ("name", "masks"),
    [
        ("conv_relu.rk3588.i8", (0, 1, 2, 4, 3, 7, 0xFFFF, 5, 6, 99)),
        ("conv_relu.rk3576.i8", (0, 1, 2, 3, 0xFFFF, 4, 7)),
        ("conv_relu.rk3566.i8", (0, 1, 0xFFFF)),
    ],
)
def test_benchmark_with_core_masks(tmp_path: Path, name: str, masks: tuple[int, ...]) -> None:
    model = genuine(name)
    image = write(tmp_path, "in0", pixels(0, 1, 24, 24, 3))
    write(tmp_path, "out0", inferred(model, [image])[0][0])
    with rknnlite.open(model, backend="cpu") as context:
        codes = [_code(context, mask) for mask in masks]
    assert 0 in codes or name == "conv_relu.rk3566.i8"
    (tmp_path / "masks").write_text("".join(f"{mask} {code}\n" for mask, code in zip(masks, codes)))
    lines = run([program("benchmark.c"), model, tmp_path, 5]).stdout.splitlines()
    assert len(lines) == len(masks) and all(re.search(r"5 runs, \d+ to \d+ us, mean", line) for line in lines)


def _code(context: rknnlite.Context, mask: int) -> int:
    try:
        context.set_core_mask(mask)
    except rknnlite.RknnError as error:
        return error.code
    return 0


@pytest.mark.parametrize("name", ["three_outputs.rk3588.i8", "three_outputs.rk3568.i8"])
def test_zero_copy(tmp_path: Path, name: str) -> None:
    model = genuine(name)
    image = write(tmp_path, "in0", pixels(0, 1, 12, 10, 3))
    floats, stored = inferred(model, [image])
    for i, (real, elements) in enumerate(zip(floats, stored)):
        write(tmp_path, f"out{i}", real)
        write(tmp_path, f"out{i}", elements)
    passed = write(tmp_path, "in0", image.view(np.int8))
    for i, elements in enumerate(inferred(model, [passed], pass_through=True)[1]):
        if elements.ndim == 4:
            write(tmp_path, f"out{i}.nhwc", elements.transpose(0, 2, 3, 1))
        else:
            write(tmp_path, f"out{i}.passed", elements)
    reals = write(tmp_path, "in0", (image * 0.97).astype(np.float32))
    for i, elements in enumerate(inferred(model, [reals])[1]):
        write(tmp_path, f"out{i}.of_floats", elements)
    run([program("zero_copy.c"), model, tmp_path])


def test_liberties_that_programs_take(tmp_path: Path) -> None:
    """Each is taken, and told once."""
    model = genuine("three_outputs.rk3588.i8")
    image = write(tmp_path, "in0", pixels(0, 1, 12, 10, 3))
    write(tmp_path, "turned", image.transpose(0, 3, 1, 2))
    for i, output in enumerate(inferred(model, [image])[0]):
        write(tmp_path, f"out{i}", output)
    told = run([program("liberties.c"), model, tmp_path]).stderr.splitlines()
    warned = [line for line in told if line.startswith("W rknnlite: ")]
    assert [
        sum(words in line for line in warned)
        for words in ("1440 bytes, the first 360", "NCHW", "[2, 0, 1] of 3")
    ] == [1, 1, 1]
    assert len(warned) == len(set(warned)) == 5


@pytest.mark.parametrize("name", ["conv_1x1.rk3588.i8", "conv_1x1.rk3576.i8"])
def test_native_inputs(tmp_path: Path, name: str) -> None:
    model = genuine(name)
    with rknnlite.open(model, backend="cpu") as context:
        dims = context.inputs[0].dims
        natives = context.native_inputs[0].dims
    reals = write(tmp_path, "in0", np.random.default_rng(0).normal(0, 2, dims).astype(np.float32))
    write(tmp_path, "of_floats", inferred(model, [reals])[0][0])
    stored = write(tmp_path, "in0", pixels(1, *dims).view(np.int8))
    channels = np.zeros((1, natives[1] * natives[4], *dims[1:3]), np.int8)
    channels[:, : dims[3]] = stored.transpose(0, 3, 1, 2)
    packed = channels.reshape(1, natives[1], natives[4], *dims[1:3]).transpose(0, 1, 3, 4, 2)
    write(tmp_path, "of_int8", inferred(model, [packed], pass_through=True)[0][0])
    run([program("native_input.c"), model, tmp_path])


def test_caches_that_the_program_keeps(tmp_path: Path) -> None:
    model = genuine("conv_relu.rk3588.i8")
    image = write(tmp_path, "in0", pixels(0, 1, 24, 24, 3))
    write(tmp_path, "out0", inferred(model, [image])[0][0])
    write(tmp_path, "zeros", inferred(model, [np.zeros_like(image)])[0][0])
    run([program("coherence.c"), model, tmp_path])


def test_memory_shared_by_descriptor(tmp_path: Path) -> None:
    models = [genuine("named.rk3588.i8"), genuine("kept.rk3588.i8")]
    for seed, name in enumerate(("frame", "other")):
        image = write(tmp_path, name, pixels(seed, 1, 12, 10, 3))
        for order, model in zip(("first", "second"), models):
            write(tmp_path, f"{order}_{name}", inferred(model, [image])[0][0])
    run([program("shared_memory.c"), *models, tmp_path])


@pytest.mark.parametrize(
    "name", ["dynamic_three.rk3588.i8", "dynamic_two.rk3588.fp16", "dynamic_two.rk3568.i8"]
)
def test_dynamic_shapes(tmp_path: Path, name: str) -> None:
    model = genuine(name)
    with rknnlite.open(model, backend="cpu") as context:
        shapes = [shape for (shape,) in context.shapes]
    for i, shape in enumerate(shapes):
        image = write(tmp_path, f"in{i}", pixels(i, *shape))
        write(tmp_path, f"out{i}", inferred(model, [image])[0][0])
    told = run([program("dynamic_shapes.c"), model, tmp_path]).stderr
    assert told.count("rows of UINT8 are taken without padding") == (".fp16" in name)


def test_batches_duplicates_and_shared_weights(tmp_path: Path) -> None:
    batch, master, slave = (genuine(f"{name}.rk3588.i8") for name in ("batch_four", "kept", "removed"))
    images = write(tmp_path, "batch", pixels(0, 4, 20, 24, 3))
    write(tmp_path, "batch", inferred(batch, [images])[0][0])
    image = write(tmp_path, "master", pixels(1, 1, 12, 10, 3))
    write(tmp_path, "master", inferred(master, [image])[0][0])
    image = write(tmp_path, "slave", pixels(2, 1, 12, 10, 3))
    with rknnlite.open(master, backend="cpu") as owner:
        write(tmp_path, "slave", inferred(slave, [image], master=owner)[0][0])
    run([program("contexts.c"), batch, master, slave, tmp_path])


def test_utilities_of_model_collections(tmp_path: Path) -> None:
    model = genuine("named.rk3588.i8")
    picture = write(tmp_path, "picture", pixels(0, 17, 30, 3))
    boxes = [_letterbox(picture), _letterbox(picture.reshape(30, 17, 3))]
    for i, box in enumerate(boxes):
        write(tmp_path, f"box{i}", box)
        write(tmp_path, f"box{i}", inferred(model, [box[None]])[0][0])
    printed = run([program("utilities.c"), model, tmp_path]).stdout
    with rknnlite.open(model, backend="cpu", collect_perf=True) as context:
        assert f'inputs 1 outputs 1\ncustom string "{context.custom_string}"' in printed
        versions, memory = context.versions, context.memory()
        assert f"api 2.3.2 ({versions.api.replace('.', '-')})" in printed
        assert f"weights {memory.weight} internal {memory.internal}\n" in printed
        for kind in (
            "INPUT",
            "NATIVE_INPUT",
            "NATIVE_NHWC_INPUT",
            "OUTPUT",
            "NATIVE_OUTPUT",
            "NATIVE_NHWC_OUTPUT",
        ):
            for attr in context.attrs(AttrKind[kind]):
                assert _line(kind.lower(), attr) in printed
        context.infer(boxes[0])
        columns = str(context.perf_table()).splitlines()
    assert next(line for line in columns if "OpType" in line) in printed


def _letterbox(picture: np.ndarray) -> np.ndarray:
    """The model's 12 x 10 pixels, grey where the picture does not reach."""
    height, width = picture.shape[:2]
    wide = width * 12 > height * 10
    new_height, new_width = (height * 10 // width, 10) if wide else (12, width * 12 // height)
    rows, columns = np.arange(new_height) * height // new_height, np.arange(new_width) * width // new_width
    box = np.full((12, 10, 3), 114, np.uint8)
    top, left = (12 - new_height) // 2, (10 - new_width) // 2
    box[top : top + new_height, left : left + new_width] = picture[rows][:, columns]
    return box


def _line(kind: str, attr: rknnlite.TensorAttr) -> str:
    return (
        f"{kind} index={attr.index} name={attr.name} n_dims={len(attr.dims)} dims={list(attr.dims)} n_elems={attr.n_elems} "
        f"size={attr.size} w_stride={attr.w_stride} size_with_stride={attr.size_with_stride} fmt={attr.layout.name} "
    )


def test_faults(tmp_path: Path) -> None:
    model = genuine("conv_relu.rk3588.i8")
    image = write(tmp_path, "in0", pixels(0, 1, 24, 24, 3))
    write(tmp_path, "out0", inferred(model, [image])[0][0])
    told = run([program("faults.c"), model, tmp_path]).stderr.splitlines()
    told = [line for line in told if not line.startswith("W rknnlite: rknn_run without inputs")]
    assert told and all(
        re.match(r"E librknnrt \(rknnlite\): rknn_\w+: .+ \(error -\d+\)$", line) for line in told
    )


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["clang", "g++"])
def test_programs_compile_without_a_warning(compiler: str) -> None:
    """The same C sources as C by clang and as C++ by g++; gcc compiles them for the tests above."""
    needs(compiler)
    language = ["-x", "c++", "-std=c++14"] if compiler == "g++" else ["-std=c99"]
    flags = ["-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{HEADERS}"]
    for source in sorted(PROGRAMS.glob("*.c")):
        subprocess.run([compiler, *language, *flags, str(source)], check=True)


def test_every_program_is_run() -> None:
    """No file of ``programs`` is forgotten by the tests."""
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert [
        path.name for path in PROGRAMS.glob("*.*") if path.suffix != ".h" and path.name not in tests
    ] == []
