"""The backend ``npu-machine``: a context as any other, whose numbers come out of command words."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_npu.backend import MachineBackend
from rknnlite_npu.machine_transport import MachineTransport

import rknnlite
from rknnlite import errors, plugins
from rknnlite.api import RKNNLite
from rknnlite.layout import nchw_to_nc1hwc2
from rknnlite.spi import AttrKind, Context, Input
from rknnlite.tensor import DType, Layout
from tests.cli.conftest import Call, call
from tests.custom_ops.models import DUAL, FullDual, dual_golden
from tests.support.corpus import genuine, golden_of
from tests.zerocopy.memories import bound, elements, fill, plain

from .backend_name import BACKEND

__all__ = ["call"]  # the fixture

IMAGE = "mean_std.rk3588.i8"
FEATURES = "conv_group.rk3588.i8"  # more than four channels
ON_BOTH = "arithmetic.rk3588.i8"  # Div and Min on the CPU
BATCH = "batch_four.rk3588.i8"
ALIKE = [
    IMAGE, FEATURES, ON_BOTH, BATCH, "three_outputs.rk3588.i8", "image_and_vector.rk3588.i8", "resnet_like.rk3588.i8",
    "conv_relu.rk3588.fp16",
]  # fmt: skip


of_the_machine = pytest.mark.skipif(BACKEND != "npu-machine", reason="told of the machine alone")


def opened(name: str, **options: Any) -> Context:
    return rknnlite.open(genuine(name), backend=BACKEND, **options)


@pytest.fixture
def context() -> Iterator[Context]:
    with opened(IMAGE) as found:
        yield found


def pixels(seed: int = 0) -> np.ndarray:
    with opened(IMAGE) as context:
        shape = context.inputs[0].dims
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def as_floats(arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Pictures in float32: the CPU converts them then, as the simulator does; the NPU itself rounds offsets."""
    return [a.astype(np.float32) if a.dtype == np.uint8 and a.ndim == 4 else a for a in arrays]


def raws(context: Context, *arrays: np.ndarray, **options: Any) -> list[np.ndarray]:
    return [output.data for output in context.infer(*arrays, raw=True, **options)]


# -- numbers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALIKE)
def test_the_numbers_of_the_reference(name: str) -> None:
    """Within a few steps: a machine of integers beside kernels that follow the simulator."""
    inputs = as_floats(golden_of(name).inputs)
    with opened(name) as machine, rknnlite.open(genuine(name), backend="cpu") as reference:
        for attr, ours, theirs in zip(machine.outputs, raws(machine, *inputs), raws(reference, *inputs)):
            assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
            if attr.dtype is DType.INT8:
                steps = np.abs(ours.astype(int) - theirs)
                if name == ON_BOTH and attr.name in ("out9", "out10"):
                    continue  # made of tables
                assert steps.max() <= 2 and (steps > 1).mean() < 0.01, attr.name
            else:
                assert np.allclose(ours.astype(float), theirs.astype(float), rtol=2e-2, atol=2e-2)


def test_nodes_of_the_cpu_are_computed_by_the_reference() -> None:
    inputs = as_floats(golden_of(ON_BOTH).inputs)
    with opened(ON_BOTH) as machine, rknnlite.open(genuine(ON_BOTH), backend="cpu") as reference:
        ours, theirs = raws(machine, *inputs), raws(reference, *inputs)
        for number in (3, 5):  # Div, Min
            assert np.array_equal(ours[number], theirs[number])


def test_the_npu_converts_pixels_itself(context: Context) -> None:
    """With offsets that are integers: close to what the CPU converts, and not the same."""
    image = pixels()
    ours, exact = raws(context, image), raws(context, image.astype(np.float32))
    differences = [np.abs(a.astype(int) - b) for a, b in zip(ours, exact)]
    assert 0 < max(d.max() for d in differences) < 12
    again = raws(context, image)
    assert all(np.array_equal(a, b) for a, b in zip(ours, again))


def test_layouts_of_an_input(context: Context) -> None:
    image = pixels()
    for data in (image, image.astype(np.float32)):
        wanted = raws(context, data)
        turned = raws(context, np.ascontiguousarray(data.transpose(0, 3, 1, 2)), layout="nchw")
        assert all(np.array_equal(a, b) for a, b in zip(wanted, turned))


def test_outputs_in_real_numbers(context: Context) -> None:
    image = pixels()
    for attr, raw, real in zip(context.outputs, context.infer(image, raw=True), context.infer(image)):
        assert attr.quant is not None and real.dtype == np.float32
        assert np.array_equal(real, (raw.data.astype(np.float32) - raw.zero_point) * np.float32(raw.scale))


def test_items_of_a_batch() -> None:
    inputs = as_floats(golden_of(BATCH).inputs)
    with opened(BATCH) as context:
        assert context.batch == 4
        together = raws(context, *inputs)
        for item in range(4):
            alone = [np.repeat(array[item : item + 1], 4, axis=0) for array in inputs]
            for a, b in zip(together, raws(context, *alone)):
                assert np.array_equal(a[item], b[0])


def test_stored_elements_pass_through() -> None:
    (data,) = golden_of(FEATURES).inputs
    with opened(FEATURES) as context:
        (attr,) = context.native_inputs
        assert attr.layout is Layout.NC1HWC2 and attr.quant is not None
        stored = np.random.default_rng(1).integers(-128, 128, data.shape).astype(np.int8)
        io = context._variant.ins[0]  # type: ignore[attr-defined]
        mean, std = np.float32(io.mean or 0), np.float32(io.std or 1)
        real = (stored - np.float32(attr.quant.zero_point)) * np.float32(attr.quant.scale) * std + mean
        wanted = raws(context, real.astype(np.float32))
        packed = nchw_to_nc1hwc2(stored.transpose(0, 3, 1, 2), attr.dims[-1])
        for given in (stored, packed):
            context.set_inputs([Input(0, given, Layout.NHWC, pass_through=True)])
            context.run()
            for a, b in zip(context.get_outputs(want_float=False), wanted):
                assert np.array_equal(a, b)


# -- cores, duplicates, operators ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [1, 2, 4, 3, 7, 0xFFFF])
def test_every_core_mask_gives_the_same(context: Context, mask: int) -> None:
    image = pixels()
    wanted = raws(context, image)
    context.set_core_mask(mask)
    assert all(np.array_equal(a, b) for a, b in zip(wanted, raws(context, image)))


def test_a_core_mask_that_the_soc_does_not_have(context: Context) -> None:
    with pytest.raises(errors.RknnError):
        context.set_core_mask(6)


def test_a_duplicate_is_a_context_of_its_own(context: Context) -> None:
    images = pixels(1), pixels(2)
    wanted = [raws(context, image) for image in images]
    with context.dup() as twin:
        context.set_inputs([Input(0, images[0])])
        twin.set_inputs([Input(0, images[1])])
        context.run()
        twin.run()
        for each, results in zip((context, twin), wanted):
            for a, b in zip(each.get_outputs(want_float=False), results):
                assert np.array_equal(a, b)
        context.close()
        assert all(np.array_equal(a, b) for a, b in zip(raws(twin, images[1]), wanted[1]))


def test_a_custom_operator_is_called_between_two_jobs() -> None:
    golden = dual_golden()
    ours, theirs = [], []
    for backend, found in ((BACKEND, ours), ("cpu", theirs)):
        with rknnlite.open(DUAL, backend=backend, custom_ops=[FullDual()]) as context:
            found += raws(context, *golden.inputs)
    for a, b in zip(ours, theirs):
        assert np.abs(a.astype(float) - b).max() <= 2
    with rknnlite.open(DUAL, backend=BACKEND) as machine:
        with pytest.raises(errors.RknnError, match="cstDualResidual"):
            machine.infer(*golden.inputs)
        machine.register_ops([FullDual()])
        machine.infer(*golden.inputs)


def test_a_dynamic_model_takes_the_shapes_of_its_inputs() -> None:
    name = "dynamic_three.rk3588.i8"
    with opened(name) as machine, rknnlite.open(genuine(name), backend="cpu") as reference:
        assert machine.shapes == reference.shapes and len(machine.shapes) == 3
        for number, (shape,) in enumerate([*machine.shapes, machine.shapes[0]]):
            data = np.random.default_rng(number).integers(0, 256, shape).astype(np.float32)
            ours, theirs = raws(machine, data), raws(reference, data)
            assert [a.shape for a in ours] == [b.shape for b in theirs]
            assert max(np.abs(a.astype(int) - b).max() for a, b in zip(ours, theirs)) <= 2
        with pytest.raises(errors.InputInvalid):
            machine.infer(np.zeros((1, 5, 5, 3), np.uint8))


# -- zero-copy ----------------------------------------------------------------------------------------------------


def test_native_memory_is_what_the_npu_reads_and_writes(context: Context) -> None:
    image = pixels()
    wanted = raws(context, image)
    with opened(IMAGE) as other:
        attr = dataclasses.replace(other.native_inputs[0], dtype=DType.UINT8)
        attr, frame = bound(other, attr)
        results = [bound(other, out) for out in other.native_outputs]
        fill(attr, frame, image)
        other.run()
        for (out, mem), value in zip(results, wanted):
            assert np.array_equal(plain(out, mem, value.shape), value)
        program = other._program  # type: ignore[attr-defined]
        memories = (frame, *(mem for _, mem in results))
        assert all(placed is mine for placed, mine in zip(program.io, memories))
        with pytest.raises(errors.ContextInvalid, match="common path"):
            other.get_outputs()


@pytest.mark.parametrize("kind", [AttrKind.OUTPUT, AttrKind.NATIVE_NHWC_OUTPUT])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.FLOAT32, DType.FLOAT16])
def test_memory_in_another_form_is_converted(context: Context, kind: AttrKind, dtype: DType) -> None:
    image = pixels()
    reals, stored = context.infer(image), raws(context, image)
    with opened(IMAGE) as other:
        attr, frame = bound(other, dataclasses.replace(other.native_inputs[0], dtype=DType.UINT8))
        fill(attr, frame, image)
        results = [
            bound(
                other,
                out if dtype is out.dtype else dataclasses.replace(out, size_with_stride=0),
                dtype=dtype,
            )
            for out in other.attrs(kind)
        ]
        other.run()
        for (out, mem), real, raw in zip(results, reals, stored):
            value = raw if dtype is DType.INT8 else real.astype(dtype.numpy)
            assert np.array_equal(plain(out, mem, raw.shape), value)


def test_memory_is_shared_by_descriptor(context: Context) -> None:
    image = pixels()
    wanted = raws(context, image)
    with opened(IMAGE) as writer, opened(IMAGE) as reader:
        attr = dataclasses.replace(writer.native_inputs[0], dtype=DType.UINT8)
        attr, frame = bound(writer, attr)
        imported = reader.import_mem(frame.fd, frame.size)
        reader.bind(attr, imported)
        results = [bound(reader, out) for out in reader.native_outputs]
        fill(attr, frame, image)
        reader.run()
        for (out, mem), value in zip(results, wanted):
            assert np.array_equal(plain(out, mem, value.shape), value)
        frame.close()
        elements(attr, imported)[:] = 0
        reader.run()


@of_the_machine
def test_memory_comes_and_goes_without_a_trace() -> None:
    with opened(IMAGE) as context:
        transport = context._shared.transport  # type: ignore[attr-defined]
        gc.collect()
        before = len(transport._sizes), len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(20):
            context.create_mem(5000).close()
            context.create_mem(70000)  # dropped
        gc.collect()
        assert (len(transport._sizes), len(list(Path("/proc/self/fd").iterdir()))) == before
    assert transport._sizes == {}


# -- frames -------------------------------------------------------------------------------------------------------


def test_frames_that_were_begun(context: Context) -> None:
    images = [pixels(seed) for seed in range(3)]
    wanted = [raws(context, image) for image in images]
    numbers = []
    for image in images:
        context.set_inputs([Input(0, image)])
        numbers.append(context.start())
    for number in numbers:
        context.wait(number)
    for a, b in zip(context.get_outputs(want_float=False), wanted[-1]):
        assert np.array_equal(a, b)
    with pytest.raises(errors.ParamInvalid):
        context.wait(99)


def test_async_mode_answers_the_frame_before() -> None:
    images = [pixels(seed) for seed in range(3)]
    with opened(IMAGE) as plainly, opened(IMAGE, async_mode=True) as behind:
        wanted = [raws(plainly, image) for image in images]
        found = [raws(behind, image) for image in images]
    for result, number in zip(found, (0, 0, 1)):
        assert all(np.array_equal(a, b) for a, b in zip(result, wanted[number]))


@of_the_machine
def test_a_refusal_names_the_register_and_the_context_goes_on(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = pixels()
    wanted = raws(context, image)
    words = context._program.words._words  # type: ignore[attr-defined]
    first = context._variant.program.tasks[1].first  # type: ignore[attr-defined]
    kept = int(words[first])
    words[first] = 0x0201_0000_0001_0FFC
    with pytest.raises(errors.ModelUnsupported, match=r"task 0 of node 1 \(ConvRelu .*\): CNA 0x0ffc"):
        context.infer(image)
    with pytest.raises(errors.ContextInvalid):
        context.get_outputs()
    words[first] = kept
    assert all(np.array_equal(a, b) for a, b in zip(wanted, raws(context, image)))


# -- figures ------------------------------------------------------------------------------------------------------


def test_figures_of_nodes(context: Context) -> None:
    with pytest.raises(errors.ContextInvalid):
        context.perf_table()
    context.infer(pixels())
    table = context.perf_table()
    if BACKEND == "npu-machine":
        assert "counts, not times" in str(table) and table.total_us == 0
    else:
        assert "handed over one by one" in str(table) and table.total_us > 0
    convolutions = [row for row in table if row.op.startswith("Conv")]
    assert convolutions and all(int(row.cell("TaskNumber")) > 0 for row in convolutions)
    memory = context.memory()
    assert memory.weight > 0 and memory.total > memory.weight + memory.internal


def test_a_dump_has_what_every_node_gave(context: Context, tmp_path: Path) -> None:
    image = pixels().astype(np.float32)
    outputs = context.infer(image)
    dump = context.dump(tmp_path / "dump")
    for attr, value in zip(context.outputs, outputs):
        assert np.array_equal(dump.value(attr.name), value)
    assert len(dump.names) >= len(outputs)


def test_a_dump_leaves_out_what_has_no_place(context: Context, tmp_path: Path) -> None:
    """Parts of a Split that nobody wants are tensors of the graph alone."""
    context.infer(pixels())
    before = context.dump(tmp_path / "before").names
    variant = context._variant
    node = next(node for node in variant.graph.nodes if node.on_npu and node.outputs)
    node.outputs.append(len(variant.program.tensors))
    assert context.dump(tmp_path / "after").names == before


# -- who is there -------------------------------------------------------------------------------------------------


@of_the_machine
def test_it_is_named_and_never_chosen_by_itself(call: Call) -> None:
    assert plugins.probe(plugins.backend("npu-machine")).priority < 0
    with rknnlite.open(genuine(IMAGE)) as context:
        assert context.backend_name == "cpu"
    found = {entry["backend"]: entry for entry in call("devices", "--json").data}
    assert found["npu-machine"]["available"]


def test_what_it_cannot_run_is_said_when_it_is_opened() -> None:
    old = Path(__file__).parents[2] / "examples" / "rknn1" / "digits.rknn"
    with pytest.raises(errors.ModelUnsupported, match="never recorded"):
        rknnlite.open(old, backend=BACKEND)
    with pytest.raises(errors.ModelUnsupported, match="weights were removed"):
        opened("removed.rk3588.i8")
    with pytest.raises(errors.TargetPlatformUnmatch):
        opened(IMAGE, soc="rk3576")
    with pytest.raises(errors.ParamInvalid):
        opened(IMAGE, no_such_option=1)


def test_programs_for_the_vendors_class_run_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RKNNLITE_BACKEND", BACKEND)
    image = pixels()
    with opened(IMAGE) as context:
        wanted = context.infer(image)
    rknn = RKNNLite()
    assert rknn.load_rknn(str(genuine(IMAGE))) == 0
    assert rknn.init_runtime(core_mask=RKNNLite.NPU_CORE_0_1_2) == 0
    for a, b in zip(rknn.inference(inputs=[image]), wanted):
        assert np.array_equal(a, b)
    rknn.release()


def test_a_pool_of_it() -> None:
    images = [pixels(seed) for seed in range(4)]
    with opened(IMAGE) as context:
        wanted = [context.infer(image) for image in images]
    with rknnlite.Pool(genuine(IMAGE), 3, backend=BACKEND) as pool:
        futures = [pool.submit(image) for image in images]
        for future, results in zip(futures, wanted):
            assert all(np.array_equal(a, b) for a, b in zip(future.result(), results))


def test_addresses_fit_and_are_used_again() -> None:
    transport = MachineTransport("RKNPU v2")
    first, second = transport.allocate(5000), transport.allocate(100)
    assert first.address % 4096 == second.address % 4096 == 0 and second.address < first.address
    place = first.address
    first.close()
    assert transport.allocate(8192).address == place
    with pytest.raises(errors.RknnError):
        _ = [transport.allocate(0xF000_0000) for _ in range(3)]
    transport.close()


def test_a_backend_says_what_it_is() -> None:
    probe = MachineBackend().probe()
    assert probe.available and "only when it is named" in probe.reason


def test_frames_are_flat_in_memory_and_descriptors() -> None:
    with opened("conv_relu.rk3588.i8") as context:
        image = np.zeros(context.inputs[0].dims, np.uint8)
        other = image.astype(np.float32)
        context.infer(image)
        gc.collect()
        before = len(gc.get_objects()), len(list(Path("/proc/self/fd").iterdir()))
        for number in range(60):
            context.infer(other if number % 2 else image)
        gc.collect()
        after = len(gc.get_objects()), len(list(Path("/proc/self/fd").iterdir()))
        assert after[0] - before[0] < 50 and after[1] == before[1]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("act_softplus.rv1126b.fp16", ["CNA 0x", "IN_PRECISION"]),
        (
            "int16_chain.rk3588.i16",
            ["of node 4 (ConvExSwish", "DPU 0x4070 EW_LUT_BYPASS = 0x0", "no table was uploaded"],
        ),
    ],
)
def test_a_refusal_names_model_node_register_and_a_way_out(name: str, told: list[str]) -> None:
    path = genuine(name)
    with (
        pytest.raises(errors.ModelUnsupported) as raised,
        rknnlite.open(path, backend="npu-machine") as context,
    ):
        context.infer([np.zeros(attr.dims, np.float32) for attr in context.inputs])
    text = str(raised.value)
    assert text.startswith(f"{path}: ")
    assert all(part in text for part in told)
    assert text.endswith("backend='cpu', whose fidelity='silicon' computes what is known of a chip")
