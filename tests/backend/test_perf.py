"""The table per layer and the memory report, made of rows alone: no backend is needed."""

from __future__ import annotations

import pytest
from rknnlite_backend.perf import UNKNOWN, MemorySize, PerfRow, PerfTable, work_load_header

INPUT = PerfRow("1", "InputOperator", "CPU", "InputOperator:x", None, output_shape="(1,3,8,8)", rw_kb=0.5)
CONV = PerfRow(
    "2", "ConvRelu", "NPU", "ConvRelu:a", 30.4, data_type="INT8", input_shape="(1,3,8,8)",
    output_shape="(1,16,8,8)", rw_kb=1.25,
)  # fmt: skip
SECOND = PerfRow("3", "ConvRelu", "NPU", "ConvRelu:b", 50.0)
SOFTMAX = PerfRow("4", "Softmax", "CPU", "Softmax:c", 20.0)
TABLE = PerfTable([INPUT, CONV, SECOND, SOFTMAX], cores=3)


def cells(line: str) -> list[str]:
    return line.split()


def test_cells_are_found_by_header() -> None:
    assert CONV.cell("OpType") == "ConvRelu"
    assert CONV.cell("Time(us)") == "30"
    assert CONV.cell("RW(KB)") == "1.25"
    assert CONV.cell("WorkLoad(0/1/2)") == UNKNOWN
    assert CONV.cell("DDRCycles") == CONV.cell("a column of tomorrow") == UNKNOWN
    assert INPUT.cell("Time(us)") == UNKNOWN


def test_cells_of_a_runtime_come_first() -> None:
    row = PerfRow(
        "1", "Conv", "NPU", "Conv:a", 12.0, {"ID": "1", "OpType": "Conv", "Time(us)": "12.34", "Lut": ""}
    )
    assert row.cell("Time(us)") == "12.34" and row.cell("Lut") == UNKNOWN
    assert str(row) == "ID=1  OpType=Conv  Time(us)=12.34  Lut=\\"
    assert PerfTable([row]).columns == ["ID", "OpType", "Time(us)", "Lut"]


@pytest.mark.parametrize(
    ("cores", "header"), [(3, "WorkLoad(0/1/2)"), (2, "WorkLoad(0/1)"), (1, "WorkLoad(0)")]
)
def test_the_load_column_names_the_cores(cores: int, header: str) -> None:
    assert work_load_header(cores) == header
    assert header in PerfTable([CONV], cores=cores).columns


def test_totals() -> None:
    assert TABLE.total_us == pytest.approx(100.4)
    assert TABLE.total_kb == 1.75
    assert PerfTable([SECOND]).total_kb is None
    assert PerfTable().total_us == 0


def test_ranking_adds_up_by_operator_and_processor() -> None:
    convolutions, softmax, edge = TABLE.ranking
    assert (convolutions.op, convolutions.calls) == ("ConvRelu", 2)
    assert convolutions.npu_us == pytest.approx(80.4) and convolutions.cpu_us == 0
    assert (softmax.op, softmax.cpu_us) == ("Softmax", 20.0)
    assert edge.total_us == 0
    assert sum(rank.ratio for rank in TABLE.ranking) == pytest.approx(100)


def test_ranking_says_where_it_was_timed() -> None:
    first = PerfTable(TABLE, timed_on="CPU").ranking[0]
    assert first.cpu_us == pytest.approx(80.4) and first.npu_us == 0


def test_the_text_has_the_parts_of_the_manual() -> None:
    lines = str(TABLE).splitlines()
    assert lines[1].strip() == "Network Layer Information Table"
    header = next(line for line in lines if line.startswith("ID"))
    assert cells(header) == [
        "ID", "OpType", "DataType", "Target", "InputShape", "OutputShape", "DDRCycles", "NPUCycles", "MaxCycles",
        "Time(us)", "MacUsage(%)", "WorkLoad(0/1/2)", "TaskNumber", "RW(KB)", "FullName",
    ]  # fmt: skip
    first = lines[lines.index(header) + 2]
    assert cells(first)[:6] == ["1", "InputOperator", "\\", "CPU", "\\", "(1,3,8,8)"]
    conv = lines[lines.index(header) + 3]
    assert dict(zip(cells(header), cells(conv)))["Time(us)"] == "30"
    assert conv.index("(1,16,8,8)") == header.index("OutputShape"), "columns stand under their headers"
    assert "Total Operator Elapsed Per Frame Time(us): 100" in lines
    assert "Total Memory Read/Write Per Frame Size(KB): 1.75" in lines
    assert any(line.strip() == "Operator Time Consuming Ranking Table" for line in lines)
    ranking = lines[-6:]
    assert cells(ranking[0])[:2] == ["ConvRelu", "2"] and cells(ranking[0])[-1] == "80.08%"
    assert cells(ranking[-2]) == ["Total", "4", "20", "0", "80", "100", "\\"]


def test_an_empty_table_has_a_text() -> None:
    assert "Total Operator Elapsed Per Frame Time(us): 0" in str(PerfTable())


def test_the_note_stands_under_the_title() -> None:
    assert str(PerfTable([CONV], note="a laptop")).splitlines()[2].strip() == "a laptop"


def test_memory_report() -> None:
    size = MemorySize(weight=3 << 20, internal=512 << 10, total=4 << 20, model=5 << 20)
    assert size.other == 512 << 10
    lines = [line.strip() for line in str(size).splitlines()]
    assert "Weight Memory: 3.00 MiB" in lines
    assert "Internal Tensor Memory: 512.00 KiB" in lines
    assert "Other Memory: 512.00 KiB" in lines
    assert "Total Memory: 4.00 MiB" in lines
    assert "Model File Size: 5.00 MiB" in lines
    assert "Model File Size" not in str(MemorySize(1, 2, 3))
    assert "SRAM free: 1.00 KiB" in str(MemorySize(1, 2, 3, 2048, 1024))
