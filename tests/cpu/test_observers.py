"""What the CPU reference tells about a run: time per layer, memory, every tensor."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rknnlite_insight import dumps
from rknnlite_insight.dumps import MANIFEST, Dump

import rknnlite
from rknnlite.errors import ContextInvalid, ParamInvalid
from rknnlite.spi import Context, CustomOp, PerfTable
from tests.support.corpus import EXAMPLES, FIXTURES, genuine, golden_of, open_cpu

TWO = "two_images.rk3588.i8"
BATCH = "batch_three.rk3588.fp16"
RESNET = EXAMPLES / "resnet18" / "resnet18_for_RK3588.rknn"


@pytest.fixture
def context() -> Context:
    """A model that has run once, without being asked for figures."""
    context = open_cpu(genuine(TWO))
    context.infer(golden_of(TWO).inputs)
    return context


# -- time per layer -------------------------------------------------------------------------------------------


def test_one_row_per_node_between_inputs_and_outputs(context: Context) -> None:
    table = context.perf_table()
    assert [row.op for row in table] == [
        "InputOperator", "InputOperator", "ConvRelu", "ConvRelu", "Add", "Concat", "Conv", "OutputOperator",
        "OutputOperator",
    ]  # fmt: skip
    assert [row.id for row in table] == [str(number) for number in range(1, 10)]
    conv = table[2]
    assert conv.name.count(":") == 1 and conv.target == "NPU" and conv.data_type == "INT8"
    assert (conv.input_shape, conv.output_shape) == ("(1,3,12,16)", "(1,8,6,8)")
    assert conv.time_us is not None and conv.time_us > 0
    assert table[4].input_shape == "(1,8,6,8),(1,8,6,8)"
    assert table[0].time_us is None and table[0].input_shape == "\\" == table[-1].output_shape
    assert conv.mac_usage == conv.work_load == "\\", "nobody knows them here"


def test_traffic_counts_operands_results_and_weights(context: Context) -> None:
    row = next(row for row in context.perf_table() if row.op == "Add")
    assert row.rw_kb is not None and row.rw_kb * 1024 >= 3 * 8 * 6 * 8


def test_the_time_of_the_layers_is_nearly_that_of_the_run() -> None:
    context = rknnlite.open(RESNET, backend="cpu", collect_perf=True)
    context.infer(np.zeros(context.inputs[0].dims, np.uint8))
    table = context.perf_table()
    assert 0.5 * context.last_run_us < table.total_us <= context.last_run_us
    assert table.ranking[0].cpu_us == table.ranking[0].total_us, "all was timed on this CPU"
    assert "WorkLoad(0/1/2)" in str(table)


def test_figures_belong_to_the_last_run_when_runs_are_timed() -> None:
    context = open_cpu(genuine(TWO), extra={"collect_perf": True})
    context.infer(golden_of(TWO).inputs)
    first = context.perf_table()
    assert context.perf_table() is first
    context.infer(golden_of(TWO).inputs)
    assert context.perf_table() is not first


def test_asking_does_not_change_results(context: Context, tmp_path: Path) -> None:
    before = context.get_outputs()
    context.perf_table()
    context.dump(tmp_path)
    assert all(np.array_equal(a, b) for a, b in zip(before, context.get_outputs()))


def test_without_inputs_the_answer_says_what_to_do(tmp_path: Path) -> None:
    context = open_cpu(genuine(TWO))
    for attempt in (context.perf_table, lambda: context.dump(tmp_path)):
        with pytest.raises(ContextInvalid, match="call infer"):
            attempt()
    context.close()
    for attempt in (context.perf_table, context.memory, lambda: context.dump(tmp_path)):
        with pytest.raises(ContextInvalid, match="closed"):
            attempt()


def test_another_shape_has_figures_of_its_own() -> None:
    context = open_cpu(genuine("dynamic_three.rk3588.i8"))
    shapes = context.shapes
    for wanted in shapes[:2]:
        context.infer([np.zeros(shape, np.uint8) for shape in wanted])
        n, h, w, c = wanted[0]
        assert context.perf_table()[0].output_shape == f"({n},{c},{h},{w})"


class Doubled(CustomOp):
    op_type = "Add"
    target = "gpu"

    def compute(self, ctx, inputs, outputs):  # type: ignore[no-untyped-def]
        outputs[0][...] = inputs[0] + inputs[1]


def test_a_custom_operator_names_its_processor() -> None:
    context = open_cpu(genuine(TWO), custom_ops=[Doubled()])
    context.infer(golden_of(TWO).inputs)
    assert [row.target for row in context.perf_table() if row.op == "Add"] == ["GPU"]


# -- the log --------------------------------------------------------------------------------------------------


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "rknnlite"]


@pytest.mark.parametrize("way", ["level", "verbose"])
def test_every_run_logs_its_table(
    way: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "rknnlite")
    if way == "level":
        monkeypatch.setenv("RKNN_LOG_LEVEL", "4")
    context = open_cpu(genuine(TWO), verbose=way == "verbose")
    context.infer(golden_of(TWO).inputs)
    assert "\n".join(logged(caplog)) == str(context.perf_table())
    caplog.clear()
    context.infer(golden_of(TWO).inputs)
    assert logged(caplog)[1].strip() == "Network Layer Information Table"


@pytest.mark.parametrize("number", ["3", None])
def test_runs_are_quiet_otherwise(
    number: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "rknnlite")
    if number:
        monkeypatch.setenv("RKNN_LOG_LEVEL", number)
    open_cpu(genuine(TWO), extra={"collect_perf": True}).infer(golden_of(TWO).inputs)
    assert not [line for line in logged(caplog) if "Table" in line]


# -- memory ---------------------------------------------------------------------------------------------------


def test_memory_of_a_known_model() -> None:
    """The converter's own figures in this file: 1,629,184 bytes of weights, a plan of 551,936 for tensors."""
    context = rknnlite.open(RESNET, backend="cpu")
    size = context.memory()
    assert (size.weight, size.internal) == (1_629_184, 551_936)
    assert size.total > size.weight + size.internal and size.other == size.total - size.weight - size.internal
    assert size.model == RESNET.stat().st_size
    assert "Internal Tensor Memory: 539.00 KiB" in str(size)


@pytest.mark.parametrize("name", [TWO, BATCH, "vit_like.rk3588.i8", "lstm_bidirectional.rk3562.i8"])
def test_memory_of_any_model(name: str) -> None:
    size = open_cpu(genuine(name)).memory()
    assert 0 < size.weight < size.model and 0 <= size.internal < size.total


# -- dumps ----------------------------------------------------------------------------------------------------


def test_a_dump_has_every_tensor(context: Context, tmp_path: Path) -> None:
    dump = context.dump(tmp_path)
    assert dump.names == [
        "in0", "in1", "/left/left.2/Relu_output_0", "/right/right.2/Relu_output_0", "out1", "/Concat_output_0", "out0",
    ]  # fmt: skip
    assert [tensor.role for tensor in dump.tensors] == ["input"] * 2 + ["activation"] * 2 + [
        "output", "activation", "output",
    ]  # fmt: skip
    assert dump.info["soc"] == "rk3588" and dump.info["fidelity"] == "simulator"
    assert json.loads((tmp_path / MANIFEST).read_text())["tensors"][2]["op"] == "ConvRelu"


def test_real_values_and_stored_ones_agree(context: Context, tmp_path: Path) -> None:
    context.dump(tmp_path)
    dump = Dump.read(tmp_path)
    for name in dump.names:
        entry, raw = dump.entry(name), dump.raw(name)
        assert raw.dtype == np.int8 and entry.scale is not None and entry.zero_point is not None
        assert np.allclose(dump.value(name), (raw.astype(np.float32) - entry.zero_point) * entry.scale)
    for attr, output in zip(context.outputs, context.get_outputs()):
        assert np.array_equal(dump.value(attr.name), output)
    for attr, stored in zip(context.outputs, context.get_outputs(want_float=False)):
        assert np.array_equal(dump.raw(attr.name), stored)


def test_a_batch_is_dumped_whole(tmp_path: Path) -> None:
    context = open_cpu(genuine(BATCH))
    (output,) = context.infer(golden_of(BATCH).inputs)
    dump = context.dump(tmp_path)
    assert np.array_equal(dump.value("out0"), output)
    assert [tensor.item for tensor in dump.tensors if tensor.name == "out0"] == [0, 1, 2]
    assert dump.entry("out0").raw_file is None, "float16 is not quantised"


def test_golden_operands_take_the_place_of_computed_ones(context: Context, tmp_path: Path) -> None:
    golden = context.dump(tmp_path / "golden")
    right = "/right/right.2/Relu_output_0"
    entry = golden.entry(right)
    np.save(tmp_path / "golden" / entry.file, np.zeros(entry.shape, np.float32))
    alone = context.dump(tmp_path / "alone", golden=golden)
    left = golden.value("/left/left.2/Relu_output_0")
    assert np.array_equal(alone.value(right), context.dump(tmp_path / "again").value(right)), (
        "its own node still runs"
    )
    scale = alone.entry("out1").scale
    assert scale is not None and np.abs(alone.value("out1") - left).max() <= scale, "left + 0"


def test_level_5_dumps_every_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rknnlite")
    monkeypatch.setenv("RKNN_LOG_LEVEL", "5")
    monkeypatch.setenv("RKNNLITE_DUMP_DIR", str(tmp_path))
    outputs = open_cpu(genuine(TWO)).infer(golden_of(TWO).inputs)
    dump = Dump.read(tmp_path / TWO)
    assert np.array_equal(dump.value("out0"), outputs[0])
    assert dump.entry("out0").time_us is not None
    assert any(str(tmp_path) in line for line in logged(caplog))


@pytest.mark.parametrize("when", ["at first", "in the middle", "at the end"])
def test_a_full_disk_is_one_line_and_the_inference_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, when: str
) -> None:
    inputs = golden_of(TWO).inputs
    want = open_cpu(genuine(TWO)).infer(inputs)
    monkeypatch.setenv("RKNN_LOG_LEVEL", "5")
    monkeypatch.setenv("RKNNLITE_DUMP_DIR", str(tmp_path))
    folder = tmp_path / TWO
    if when == "at first":
        folder.write_bytes(b"no folder")
    else:
        folder.mkdir()
        full = MANIFEST if when == "at the end" else "0003"
        monkeypatch.setattr("rknnlite_insight.dumps.write_array", _full_at(full, dumps.write_array))
        monkeypatch.setattr("rknnlite_insight.dumps.write_text", _full_at(full, dumps.write_text))
    got = open_cpu(genuine(TWO)).infer(inputs)
    assert all(map(np.array_equal, got, want))
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert str(folder) in line
    assert ("File exists" if when == "at first" else "No space left on device") in line
    assert "its results are not affected" in line


def _full_at(name: str, write: Any) -> Any:
    """Writing, on a disk that is full when a file of that name comes."""

    def on_full_disk(path: Path, content: Any, **more: Any) -> None:
        write(Path("/dev/full") if name in path.name else path, content, **more)

    return on_full_disk


def test_a_dump_on_a_full_disk_says_so(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rknnlite_insight.dumps.write_array", _full_at(".npy", dumps.write_array))
    with pytest.raises(ParamInvalid, match=f"cannot write tensor .* to {tmp_path}: No space left on device"):
        context.dump(tmp_path)


def test_rows_are_what_other_backends_read_from_text(context: Context) -> None:
    """The text is read back by the parser of the vendor runtime's own tables."""
    parser = pytest.importorskip("rknnlite_rknnrt.perf")
    table = context.perf_table()
    read = parser.parse(str(table))
    assert [(row.id, row.op, row.target, row.name) for row in read] == [
        (row.id, row.op, row.target, row.name) for row in table
    ]
    assert all(row.name in str(PerfTable(read)) for row in table)


@pytest.mark.skipif(not FIXTURES.exists(), reason="third-party files are not there")
def test_older_containers_tell_as_much() -> None:
    path = FIXTURES / "vendor" / "multiple_input_old"
    found = sorted(path.glob("*.rknn"))
    if not found:
        pytest.skip("no older container is there")
    context = open_cpu(found[0])
    context.infer([np.zeros(attr.dims, np.uint8) for attr in context.inputs])
    assert len(context.perf_table()) >= 3 and context.memory().weight >= 0


# -- values in the place of others -----------------------------------------------------------------------------


def test_values_that_are_changed(tmp_path: Path) -> None:
    """What stands in a tensor's place is what its readers get, and what is written."""
    with rknnlite.open(genuine(TWO), backend="cpu", fidelity="float") as context:
        context.infer(golden_of(TWO).inputs)
        plain = context.dump(tmp_path / "plain")
        same = context.dump(tmp_path / "same", change=lambda name, value: value)
        for name in plain.names:
            assert np.array_equal(plain.value(name), same.value(name))
        asked: list[str] = []

        def change(name: str, value: Any) -> Any:
            asked.append(name)
            return np.zeros_like(value) if name == plain.names[0] else value

        changed = context.dump(tmp_path / "changed", change=change)
        assert asked.count(plain.names[0]) == 1 and set(asked) == set(plain.names)
        last = plain.names[-1]
        assert not np.array_equal(plain.value(last), changed.value(last))
    with open_cpu(genuine(TWO)) as context:
        context.infer(golden_of(TWO).inputs)
        with pytest.raises(ParamInvalid, match="fidelity='float'"):
            context.dump(tmp_path / "no", change=change)
