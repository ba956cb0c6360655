"""The native engine gives the bytes of the numpy kernels: random nodes, threads, programs that are damaged, no compiler."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from rknnlite_cpu.engines import choice
from rknnlite_cpu.engines.native import description, recipe
from rknnlite_cpu.engines.native.library import _ADDRESSES, Library, NativeProgram, _c_op, _Op, library
from rknnlite_cpu.engines.native.lowering import NativeLowering
from rknnlite_cpu.engines.native.prebuilt import prebuilt
from rknnlite_cpu.engines.partition import segment_of
from rknnlite_cpu.engines.proof import random_value
from rknnlite_graph.graph import Accumulator, Activation, FusedOp, Join, Node, TensorRole
from rknnlite_graph.lowering import Form, NotLowered

from rknnlite.errors import BackendUnavailable, ModelInvalid
from rknnlite.tensor import DType
from tests.cpu.engines import native
from tests.cpu.engines.strategies import CHANNELS, SIDE, SMALL, convolutions
from tests.support.corpus import ROOT, genuine, golden_of, open_cpu
from tests.support.needs import needs

# -- the same bytes --------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(
    convolutions(dtype=st.sampled_from([DType.INT8, DType.UINT8]), extreme=st.booleans()),
    st.integers(0, 1 << 20),
    st.sampled_from([1, 2, 5]),
)
def test_any_convolution(built: Library, arguments: dict[str, Any], seed: int, threads: int) -> None:
    graph = native.convolution(np.random.default_rng(seed), **arguments)
    assert native.differing(built, graph, seed, threads) == 0


@pytest.mark.parametrize("depthwise", [False, True], ids=["dense", "depthwise"])
@pytest.mark.parametrize("kind", native.JOINED)
def test_whatever_is_fused(built: Library, kind: str, depthwise: bool) -> None:
    fused = native.JOINED[kind]
    for channels, one_each in ((40, False), (16, False), (70, True)):
        operand = (1, channels, 1, 1) if one_each else (1, channels, 9, 11)
        graph = native.convolution(
            np.random.default_rng(channels), (1, channels, 9, 11), channels, pads=(1, 1, 1, 1),
            depthwise=depthwise, fused=fused, operand=operand if fused.join else None,
        )  # fmt: skip
        assert native.differing(built, graph, 1, 2) == 0


@pytest.mark.parametrize("kernel", [1, 3], ids=str)
def test_work_that_threads_share(built: Library, kernel: int) -> None:
    """Bands of rows, and where there are few rows parts of the channels."""
    random = np.random.default_rng(kernel)
    for shape, channels in (((1, 64, 56, 56), 64), ((1, 512, 7, 7), 512), ((2, 64, 14, 14), 256)):
        pads = (kernel // 2,) * 4
        for depthwise in (False, True):
            graph = native.convolution(random, shape, shape[1] if depthwise else channels, (kernel, kernel),
                                       pads=pads, depthwise=depthwise)  # fmt: skip
            for threads in (1, 2, 4):
                assert native.differing(built, graph, 1, threads) == 0


@given(
    st.sampled_from(["Add", "AddRelu", "Mul", "MulRelu"]),
    CHANNELS,
    SIDE,
    st.integers(-128, 127),
    st.booleans(),
    st.booleans(),
)
def test_joins(
    built: Library, op: str, channels: int, side: int, zero: int, one_each: bool, first: bool
) -> None:
    shape = (1, channels, side, 3)
    other = (1, channels, 1, 1) if one_each else shape
    tensors = [
        native.tensor(0, shape, zero, 0.031),
        native.tensor(1, other, -zero - 1, 0.27),
        native.tensor(2, shape, 7, 0.11),
    ]
    tensors[2] = replace(tensors[2], zero_first=first)
    order = [1, 0] if zero % 2 else [0, 1]
    graph = native.graph_of(tensors, [Node(0, op, "j", order, [2])])
    assert native.differing(built, graph, zero + 128, 2) == 0


@pytest.mark.parametrize("op", ["BatchNormalization", "BatchNormalizationRelu", "PRelu"])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8], ids=lambda dtype: dtype.short)
@pytest.mark.parametrize("first", [False, True], ids=["zero last", "zero first"])
def test_numbers_per_channel(built: Library, op: str, dtype: DType, first: bool) -> None:
    random = np.random.default_rng(2)
    for channels in (5, 16, 70):
        shape = (2, channels, 6, 5)
        numbers = random.normal(size=(2, channels)).astype(np.float32)
        tensors = [native.tensor(0, shape, 17, 0.04, dtype), native.tensor(1, shape, 5, 0.03, dtype)]
        tensors[1] = replace(tensors[1], zero_first=first)
        given = [numbers[:1]] if op == "PRelu" else [*numbers]
        for i, each in enumerate(given):
            stored = native.tensor(2 + i, each.shape if op != "PRelu" else (channels, 1, 1))
            stored = replace(stored, dtype=DType.FLOAT32, quant=None, role=TensorRole.CONST,
                             load=lambda each=each, shape=stored.shape: each.reshape(shape))  # fmt: skip
            tensors.append(stored)
        fused = FusedOp(Accumulator.BATCH_NORM, after=Activation.RELU) if op.endswith("Relu") else None
        node = Node(0, op, "n", [0, *range(2, len(tensors))], [1], fused=None if op == "PRelu" else fused)
        graph = replace(native.graph_of(tensors, [node]), inputs=[0])
        assert native.differing(built, graph, channels, 2) == 0


@pytest.mark.parametrize("op", ["Sigmoid", "exSwish", "HardSwish", "Relu", "Neg", "Abs"])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8], ids=lambda dtype: dtype.short)
def test_functions_are_tables(built: Library, op: str, dtype: DType) -> None:
    shape = (1, 5, 16, 16)
    tensors = [native.tensor(0, shape, 100, 0.03, dtype), native.tensor(1, shape, 3, 0.02, dtype)]
    assert native.differing(built, native.graph_of(tensors, [Node(0, op, "f", [0], [1])])) == 0


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8], ids=lambda dtype: dtype.short)
def test_what_moves(built: Library, dtype: DType) -> None:
    """Concat of other steps, Split, Reshape, Resize, MaxPool: one program."""

    def made(index: int, shape: tuple[int, ...], zero: int = 9, scale: float = 0.05) -> Any:
        return native.tensor(index, shape, zero, scale, dtype)

    tensors = [
        made(0, (2, 3, 8, 6)), made(1, (2, 20, 8, 6), 30, 0.04), made(2, (2, 23, 8, 6)), made(3, (2, 5, 8, 6)),
        made(4, (2, 18, 8, 6)), made(5, (2, 18, 16, 18)), made(6, (2, 5, 4, 6)), made(7, (2, 5, 1, 1)), made(8, (2, 5)),
    ]  # fmt: skip
    pool = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 1, 1, 0]}
    nodes = [
        Node(0, "Concat", "a", [0, 1], [2], {"axis": 1}),
        Node(1, "Split", "b", [2], [3, 4], {"axis": -3}),
        Node(2, "Resize", "c", [4, -1, 9], [5], {"mode": "nearest", "coordinate_transformation_mode": "asymmetric",
                                                "nearest_mode": "floor"}),
        Node(3, "MaxPool", "d", [3], [6], pool),
        Node(4, "MaxPool", "e", [3], [7], {"kernel_shape": [8, 6], "strides": [1, 1]}),
        Node(5, "Reshape", "f", [7], [8]),
    ]  # fmt: skip
    scales = np.array([1, 1, 2, 3], np.float32)
    constant = replace(
        native.tensor(9, (4,)),
        dtype=DType.FLOAT32,
        quant=None,
        role=TensorRole.CONST,
        load=lambda: scales,
    )
    graph = replace(native.graph_of([*tensors, constant], nodes), inputs=[0, 1], outputs=[2, 5, 6, 8])
    assert native.differing(built, graph, 3, 2) == 0


@given(
    st.sampled_from([1, 3, 16, 40]),
    CHANNELS,
    SMALL,
    SMALL,
    st.integers(1, 3),
    st.integers(1, 3),
    st.booleans(),
)
def test_transposed_convolutions(
    built: Library, inputs: int, channels: int, down: int, across: int, stride: int, pad: int, depthwise: bool
) -> None:
    random = np.random.default_rng(inputs)
    source = (1, channels if depthwise else inputs, 5, 4)
    sides = [(side - 1) * stride + kernel - 2 * pad for side, kernel in zip(source[2:], (down, across))]
    assume(min(sides) > 0)
    graph = native.convolution(
        random, source, channels, (down, across), depthwise=depthwise, pads=(3, 3, 3, 3)
    )
    node = graph.nodes[0]
    assert node.conv is not None
    conv = replace(node.conv, transposed=True, strides=(stride, stride), pads=(pad, pad))
    y = replace(graph.tensors[1], shape=(1, channels, *sides))
    graph = native.graph_of([graph.tensors[0], y], [replace(node, op="ConvTranspose", conv=conv)])
    assert native.differing(built, graph, stride, 2) == 0


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Max"])
def test_a_stored_number_makes_a_table(built: Library, op: str) -> None:
    number = replace(
        native.tensor(1, (1, 1, 1, 1)), dtype=DType.FLOAT32, quant=None, role=TensorRole.CONST,
        load=lambda: np.full((1, 1, 1, 1), 0.7, np.float32),
    )  # fmt: skip
    tensors = [native.tensor(0, (1, 6, 7, 9), 40), number, native.tensor(2, (1, 6, 7, 9), -9, 0.06)]
    graph = replace(native.graph_of(tensors, [Node(0, op, "n", [0, 1], [2])]), inputs=[0])
    assert native.differing(built, graph) == 0


def test_sums_of_more_than_32_bits_are_left_to_numpy(built: Library) -> None:
    graph = native.convolution(np.random.default_rng(0), (1, 70000, 1, 1), 1, (1, 1))
    with pytest.raises(NotLowered, match="sums of more than 32 bits"):
        native.program(built, graph, 1)


@pytest.mark.slow
@pytest.mark.parametrize("processor", ["x86-64", "haswell", "skylake-avx512"])
def test_other_processors(built: Library, processor: str) -> None:
    """Without dot products of 8 bits, as far as this processor can run what is built for another one."""
    wanted = {"haswell": "avx2", "skylake-avx512": "avx512bw"}.get(processor, "sse2")
    if wanted not in Path("/proc/cpuinfo").read_text(encoding="utf-8"):
        pytest.skip(f"this processor has no {wanted}")
    other = Library(f"-march={processor}")
    random = np.random.default_rng(3)
    for number in range(24):
        depthwise, channels = bool(number % 2), int(random.integers(1, 80))
        fused = list(native.JOINED.values())[number % 5]
        graph = native.convolution(
            random, (1, channels, 11, 9), channels, (3, 2), pads=(1, 1, 1, 0), depthwise=depthwise, fused=fused,
            extreme=number % 3 == 0,
        )  # fmt: skip
        assert native.differing(other, graph, number, 2) == 0
    for op in ("Add", "MulRelu", "Sigmoid"):
        shape = (1, 21, 5, 5)
        tensors = [
            native.tensor(0, shape, 3),
            native.tensor(1, shape, -7, 0.02),
            native.tensor(2, shape, 9, 0.1),
        ]
        inputs = [0] if op == "Sigmoid" else [0, 1]
        graph = replace(native.graph_of(tensors, [Node(0, op, "j", inputs, [2])]), inputs=inputs)
        assert native.differing(other, graph) == 0


ARM = {"cortex-a76": (4, 4, 0), "cortex-a53": (4, 4, 0)}


@pytest.mark.slow
@pytest.mark.parametrize("processor", ARM)
def test_arm_processors(tmp_path: Path, processor: str) -> None:
    """With ARM's dot product and without, under emulation."""
    needs("gcc-aarch64-linux-gnu")
    needs("qemu-user")
    folder = Path(description.__file__).parent
    sources = [*map(str, folder.glob("*.c")), str(Path(__file__).with_name("run_program.c"))]
    runner = str(tmp_path / "run")
    flags = [
        f"-mcpu={processor}",
        "-O2",
        "-ffp-contract=off",
        "-static",
        "-pthread",
        f"-DADDRESSES={len(_ADDRESSES)}",
    ]
    subprocess.run(["aarch64-linux-gnu-gcc", *flags, f"-I{folder}", "-o", runner, *sources], check=True)
    random = np.random.default_rng(4)
    fused = [*native.JOINED.values()]
    for number in range(24):
        depthwise, channels, kind = bool(number % 2), int(random.integers(1, 70)), fused[number % 5]
        dtype = DType.UINT8 if number % 4 == 3 else DType.INT8
        graph = native.convolution(
            random, (1, channels, 9, 8), channels, (3, 3), pads=(1, 0, 1, 2), depthwise=depthwise, fused=kind, dtype=dtype,
        )  # fmt: skip
        assert _differing_under_emulation(runner, processor, graph, 1 + number % 3) == 0
    shape = (1, 37, 6, 6)
    tensors = [native.tensor(0, shape, 3), native.tensor(1, shape, -7, 0.02), native.tensor(2, shape, 9, 0.1)]
    nodes = [Node(0, "Sigmoid", "s", [0], [1]), Node(1, "AddRelu", "a", [0, 1], [2])]
    assert _differing_under_emulation(runner, processor, native.graph_of(tensors, nodes), 1) == 0
    for graph in _of_one_operand(random):
        assert _differing_under_emulation(runner, processor, graph, 2) == 0


def _of_one_operand(random: np.random.Generator) -> Iterator[Any]:
    """Recurrent layers, attention of a tensor with itself, a normalisation, a Resize."""
    for op, late, whole in (
        ("exLSTM", True, True),
        ("exLSTM", True, False),
        ("exGRU", True, True),
        ("exGRU", False, False),
    ):
        yield native.recurrent(
            random, op, batch=2, hidden=21, directions=2, late=late, whole=whole, floating=whole
        )
    shape = (2, 24, 1, 37)
    tensors = [native.tensor(0, shape, 7, 0.03), native.tensor(1, shape, -9, 0.02)]
    steps = {"scale": 0.2, "score_step": 0.02, "score_zero_point": 5, "weight_step": 0.001}
    norm = {"axes": [1], "eps": 1e-5, "mode": "layer"}
    yield native.graph_of(tensors, [Node(0, "exSDPAttention", "a", [0, 0, 0], [1], steps)])
    yield native.graph_of(tensors, [Node(0, "exNorm", "n", [0], [1], norm)])
    shape = (2, 24, 3, 90)
    form = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
    yield native.graph_of(
        [tensors[0], native.tensor(1, shape, -9, 0.02)], [Node(0, "Resize", "r", [0], [1], form)]
    )


def _differing_under_emulation(runner: str, processor: str, graph: Any, threads: int) -> int:
    """How many results of a graph of one input and one output are not those of the numpy kernels."""
    segment = segment_of(graph, graph.nodes, [])
    content = NativeLowering(ARM[processor]).segment(graph, segment, Form.EXACT_INT8)
    text = description.ProgramText.unpack(content)
    ops, arrays = (_Op * len(text.ops))(*map(_c_op, text.ops)), bytearray()
    for made, op in zip(ops, text.ops):
        for name, array in op.arrays.items():
            arrays += bytes(-len(arrays) % 64)
            setattr(made, name, len(arrays) + 1)
            arrays += array.tobytes()
    values = random_value(graph.tensors[0], np.random.default_rng(1))
    shape = graph.tensors[graph.outputs[0]].shape
    size = -(-text.size // 64) * 64 + 256
    sizes = np.array([len(ops), len(arrays), size, values.nbytes, 4 * int(np.prod(shape)), threads], np.int64)
    found = subprocess.run(
        ["qemu-aarch64", "-cpu", "max" if processor == "cortex-a76" else processor, runner],
        input=sizes.tobytes() + bytes(ops) + bytes(arrays) + values.tobytes(), capture_output=True, check=True,
    )  # fmt: skip
    expected = native.on_numpy(graph, {0: values})[0]
    return int(np.count_nonzero(np.frombuffer(found.stdout, np.float32).reshape(shape) != expected))


def test_many_runs_at_once(built: Library) -> None:
    """Runs of one program in several threads have workspaces and helpers of their own."""
    from concurrent.futures import ThreadPoolExecutor

    graph = native.convolution(np.random.default_rng(5), (1, 64, 20, 20), 96, pads=(1, 1, 1, 1))
    compiled, _ = native.program(built, graph, 3)
    random = np.random.default_rng(6)
    values = [random.integers(-20, 20, (1, 64, 20, 20)).astype(np.float32) for _ in range(24)]
    alone = [compiled.run([value])[0] for value in values]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda value: compiled.run([value])[0], values))
    assert all(np.array_equal(a, b) for a, b in zip(alone, together))


def test_a_genuine_network_is_one_island(built: Library) -> None:
    name = "mobilenetv2_like.rk3588.i8"
    with (
        open_cpu(genuine(name), extra={"engine": "native"}) as fast,
        open_cpu(genuine(name), extra={"engine": "numpy"}) as slow,
    ):
        answers = [context.infer(golden_of(name).inputs, raw=True) for context in (fast, slow)]
        islands = fast._shapes.current.plan._accelerator._islands  # type: ignore[attr-defined]
    assert all(np.array_equal(a.data, b.data) for a, b in zip(*answers))
    assert [(island.engine.name, len(island.segment.nodes)) for island in islands] == [("native", 14)]


# -- what is checked -------------------------------------------------------------------------------------------


def content_of(built: Library) -> bytes:
    graph = native.convolution(np.random.default_rng(0), (1, 8, 6, 6), 24, pads=(1, 1, 1, 1))
    segment = segment_of(graph, graph.nodes, [])
    return NativeLowering(built.layout).segment(graph, segment, Form.EXACT_INT8)


DAMAGES = {
    "another kernel": lambda op: setattr(op, "kernel", (3, 300)),
    "another result": lambda op: setattr(op.y, "height", 700),
    "another pitch": lambda op: setattr(op.y, "pitch", 1 << 20),
    "another place": lambda op: setattr(op.x, "offset", 1 << 20),
    "before the workspace": lambda op: setattr(op.x, "offset", -64),
    "fewer weights": lambda op: op.arrays.update(weights=op.arrays["weights"][:-1]),
    "fewer factors": lambda op: op.arrays.update(factor=op.arrays["factor"][:3]),
    "no bias": lambda op: op.arrays.pop("bias"),
    "no strides": lambda op: setattr(op, "strides", (0, 1)),
    "another depth": lambda op: setattr(op, "depth", 4096),
    "an operand that is not there": lambda op: setattr(op, "flags", description.Flag.JOIN_ADD),
    "another op": lambda op: setattr(op, "kind", "CALL"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_program_that_would_leave_its_workspace_is_refused(built: Library, damage: str) -> None:
    text = description.ProgramText.unpack(content_of(built))
    DAMAGES[damage](next(op for op in text.ops if op.kind == "CONVOLVE"))
    with pytest.raises(ModelInvalid, match="op 1"):
        description.ProgramText.unpack(text.pack())


def test_what_is_no_program_is_refused(built: Library) -> None:
    content = content_of(built)
    for wrong in (b"", b"\xff" * 40, content[:200], content[:-4000]):
        with pytest.raises(ModelInvalid):
            description.ProgramText.unpack(wrong)
    with pytest.raises(ModelInvalid, match="another processor"):
        other = description.ProgramText.unpack(content)
        NativeProgram(built, replace(other, layout=(built.lanes, built.across, 7)).pack(), 1)


def test_values_of_another_size_are_refused(built: Library) -> None:
    compiled = NativeProgram(built, content_of(built), 1)
    with pytest.raises(ValueError, match="values"):
        compiled.run([np.zeros((1, 8, 6, 5), np.float32)])
    with pytest.raises(ValueError, match="values"):
        compiled.run([])


SANITIZED = """
import numpy as np
from rknnlite_cpu.engines.native.library import Library
from tests.cpu.engines import native
from tests.cpu.engines.strategies import CHANNELS, SIDE, SMALL, convolutions

built = Library("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
random = np.random.default_rng(0)
for number in range(60):
    depthwise = bool(number % 2)
    channels, count = (int(c) for c in random.integers(1, 80, 2))
    kernel = tuple(int(k) for k in random.integers(1, 5, 2))
    graph = native.convolution(
        random, (1, channels, *(int(n) for n in random.integers(6, 20, 2))), channels if depthwise else count, kernel,
        strides=tuple(int(s) for s in random.integers(1, 3, 2)), pads=tuple(int(p) for p in random.integers(0, 3, 4)),
        depthwise=depthwise,
    )
    assert native.differing(built, graph, number, 1 + number % 3) == 0
print("done")
"""


@pytest.mark.parametrize("side", [6, 40])  # values that a workspace has a place for, and larger ones
def test_results_are_the_callers_own(built: Library, side: int) -> None:
    random = np.random.default_rng(0)
    graph = native.convolution(random, (1, 8, side, side), 8)
    compiled, entering = native.program(built, graph, 1)
    inputs = [
        [native.random_value(graph.tensors[i], random)[..., ::step][..., ::step] for i in entering]
        for step in (1, -1)
    ]
    first, second = (compiled.run(values) for values in inputs)
    kept = [each.copy() for each in first]
    first[0][...] = 0
    assert np.array_equal(compiled.run(inputs[0])[0], kept[0])
    assert not np.array_equal(second[0], kept[0])


@pytest.mark.slow
def test_nothing_outside_of_the_workspace_is_touched(tmp_path: Path) -> None:
    needs("gcc")
    found = subprocess.run(
        ["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not Path(found).is_absolute():
        pytest.skip("no libasan.so")
    paths = os.pathsep.join([str(ROOT), str(ROOT / "plugins")])
    done = subprocess.run(
        [sys.executable, "-c", SANITIZED],
        env={**os.environ, "PYTHONPATH": paths, "LD_PRELOAD": found, "RKNNLITE_CACHE": str(tmp_path), "PYTHONMALLOC": "malloc",
             "ASAN_OPTIONS": "detect_leaks=0"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "done\n", done.stderr[-3000:]


# -- without a compiler ----------------------------------------------------------------------------------------


def test_without_a_compiler_others_compute(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caches = (library, prebuilt, choice._native, choice._native_where_possible)
    for cache in caches:
        cache.cache_clear()
    monkeypatch.setattr(recipe, "FOLDER", tmp_path)
    monkeypatch.delenv("RKNNLITE_ENGINE", raising=False)
    monkeypatch.setenv("RKNNLITE_CACHE", str(tmp_path))
    monkeypatch.setenv("CC", "no-such-compiler")
    try:
        with caplog.at_level(logging.INFO, "rknnlite"):
            assert "native" not in [engine.name for engine in choice.chosen(None)]
        assert "the native engine needs the compiler no-such-compiler" in caplog.text
        with pytest.raises(BackendUnavailable, match="the native engine needs the compiler"):
            choice.chosen("native")
    finally:
        for cache in caches:
            cache.cache_clear()


def test_operands_that_multiply_need_a_second_tensor(built: Library) -> None:
    graph = native.convolution(
        np.random.default_rng(0), (1, 8, 4, 4), 8, fused=replace(native.JOINED["mul"], join=Join.MUL)
    )
    with pytest.raises(NotLowered, match="no operand"):
        native.program(built, graph, 1)
