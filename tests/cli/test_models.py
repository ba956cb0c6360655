"""info, run, bench, perf and compare on genuine files."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rknnlite.extras import EXTRAS
from rknnlite.spi.command import Exit
from tests.support.corpus import DATA, EXAMPLES, FIXTURES, genuine
from tests.support.needs import needs

from .conftest import DIGIT, RESNET, Call

SAMPLE = sorted(DATA.glob("*.rknn"))[::17]
OTHERS = sorted(FIXTURES.rglob("*.rknn"))


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RKNNLITE_BACKEND", "cpu")


# -- info ----------------------------------------------------------------------------------------------------


def test_info_says_what_the_file_says(call: Call) -> None:
    done = call("info", RESNET)
    assert done.code == 0
    for text in (
        "version 6",
        "2.5.0",
        "RK3588",
        "dims=[1, 224, 224, 3]",
        "fmt=NHWC",
        "mean=[123.675",
        "ConvRelu",
    ):
        assert text in done.out
    data = call("info", "--json", RESNET).data
    assert data["inputs"][0]["shape"] == [1, 224, 224, 3]
    assert {"op": "ConvRelu", "npu": 9, "cpu": 0} in data["operators"]
    assert data["bytes"] == RESNET.stat().st_size


def test_info_prints_strides_as_the_runtime_does(call: Call) -> None:
    """Rows of 28 pixels are padded to 32; 20 channels of 10 rows of 12 pixels lie as 32 of 10 rows of 16."""
    picture = call("info", "--json", genuine("espcn_like.rk3588.i8")).data["inputs"][0]
    assert (picture["shape"], picture["w_stride"], picture["bytes_with_stride"]) == ([1, 20, 28, 3], 32, 1920)
    result = call("info", "--json", genuine("squeeze_excite.rk3588.i8")).data["outputs"][0]
    assert (result["shape"], result["w_stride"], result["bytes_with_stride"]) == ([1, 20, 10, 12], 0, 5120)


def test_info_lists_shapes_batch_and_custom_operators(call: Call) -> None:
    dynamic = call("info", EXAMPLES / "dynamic_shape" / "dynamic_for_RK3588.rknn")
    assert "3 sets" in dynamic.out
    assert call("info", genuine("batch_four.rk3588.i8"), "--json").data["batch"] == 4
    custom = call("info", EXAMPLES / "custom_op" / "dual_for_RK3588.rknn", "--json").data
    assert any(row["op"].startswith("cst") for row in custom["operators"])


@pytest.mark.parametrize("path", SAMPLE, ids=lambda p: p.stem)
def test_info_on_the_corpus(call: Call, path: Path) -> None:
    data = call("info", "--json", path).data
    assert data["inputs"]
    assert data["outputs"]
    assert data["runs_on"]
    assert data["operators"] or data["graph_problem"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "empty"),
        (b"\x89PNG....", "not an RKNN model"),
        (b"CYPTRKNN" + bytes(80), "encrypted"),
        (b"RKNX", "RKNN3"),
    ],
)
def test_files_that_are_no_models(call: Call, tmp_path: Path, content: bytes, says: str) -> None:
    file = tmp_path / "x.rknn"
    file.write_bytes(content)
    for command in ("info", "run", "bench", "perf"):
        done = call(command, file)
        assert done.code == Exit.MODEL
        assert says in done.err
        assert str(file) in done.err


@pytest.mark.slow
def test_paths_that_lead_to_no_file(call: Call, tmp_path: Path) -> None:
    """A pipe is not opened: that would wait for somebody who writes."""
    os.mkfifo(tmp_path / "pipe")
    for path, says in (
        (tmp_path, "Is a directory; give a file"), (tmp_path / "pipe", "it is a pipe"), (tmp_path / "none", "No such file"),
        (Path("/dev/zero"), "it is a pipe"), (Path("x" * 5000), "too long"),
    ):  # fmt: skip
        for command in ("info", "run", "perf"):
            done = call(command, path)
            assert done.code == Exit.MODEL
            assert str(path) in done.err
            assert says in done.err
        done = call("doctor", path)
        assert done.code == Exit.UNAVAILABLE
        assert says in done.out


def test_an_endless_input_is_not_read_to_its_end(call: Call) -> None:
    done = call("run", RESNET, "/dev/zero")
    assert done.code == Exit.DATA
    assert "has more than 602112 bytes" in done.err


@pytest.mark.parametrize("name", ["x", "x.npy", "x.npz", "x.png"])
def test_a_pipe_is_no_input(call: Call, tmp_path: Path, name: str) -> None:
    """Opening it would wait for somebody who writes."""
    pipe = tmp_path / name
    os.mkfifo(pipe)
    done = call("run", RESNET, pipe)
    assert done.code == Exit.DATA
    assert f"{pipe} cannot be read: it is a pipe, a socket or a device; give a file" in done.err


def test_a_pipe_is_nothing_that_an_option_names(call: Call, tmp_path: Path) -> None:
    for name in ("ops.py", "librkcst_x.so", "attributes.json", "post.o", "net.onnx", "net.rknn"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "dump").mkdir()
    os.mkfifo(tmp_path / "dump" / "manifest.json")
    os.mkfifo(tmp_path / "config.json")
    for words in (
        ("run", RESNET, "--custom-op", tmp_path / "ops.py"),
        ("run", RESNET, "--custom-op", tmp_path / "librkcst_x.so"),
        ("run", RESNET, "--attributes", tmp_path / "attributes.json"),
        ("run", RESNET, "--postprocess", tmp_path / "post.o"),
        ("compare", RESNET, tmp_path / "net.onnx"),
        ("compare", tmp_path / "net.onnx", RESNET),
        ("compare", RESNET, tmp_path / "net.rknn"),
        ("compare", RESNET, tmp_path / "dump"),
        ("export-llm", tmp_path, tmp_path / "out"),
    ):  # fmt: skip
        done = call(*words, *(() if words[0] == "export-llm" else ("--backend", "cpu")))
        assert done.code != Exit.OK, words
        assert "pipe" in done.err or "not a file" in done.err, (words, done.err)


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.png"])
def test_a_device_is_no_picture(call: Call, tmp_path: Path, name: str) -> None:
    (tmp_path / name).symlink_to("/dev/zero")
    done = call("run", RESNET, tmp_path / name)
    assert done.code == Exit.DATA
    assert "it is a pipe, a socket or a device" in done.err


# -- run -----------------------------------------------------------------------------------------------------


def test_run_names_the_digit(call: Call) -> None:
    pytest.importorskip("PIL")
    done = call("run", RESNET, DIGIT, "--json")
    assert done.data["outputs"][0]["top"][0][0] == 7
    assert done.data["backend"] == "cpu"
    assert "    7: " in call("run", RESNET, DIGIT).out


def test_run_takes_npy_npz_raw_and_names(call: Call, tmp_path: Path) -> None:
    pixels = np.full((1, 224, 224, 3), 90, np.uint8)
    np.save(tmp_path / "x.npy", pixels)
    np.savez(tmp_path / "x.npz", input=pixels)
    (tmp_path / "x.bin").write_bytes(pixels.tobytes())
    (tmp_path / "x.raw").write_bytes(pixels.astype(np.float32).tobytes())
    results = [
        call("run", RESNET, word, "--json").data["outputs"]
        for word in (
            tmp_path / "x.npy",
            tmp_path / "x.npz",
            tmp_path / "x.bin",
            tmp_path / "x.raw",
            f"input={tmp_path / 'x.npy'}",
        )
    ]
    assert all(result == results[0] for result in results)
    nchw = tmp_path / "nchw.npy"
    np.save(nchw, pixels.transpose(0, 3, 1, 2))
    assert call("run", RESNET, nchw, "--layout", "nchw", "--json").data["outputs"] == results[0]


def test_run_in_every_fidelity(call: Call) -> None:
    model = genuine("act_silu.rk3588.i8")
    for fidelity in ("simulator", "npu", "table", "silicon", "float"):
        assert call("run", model, "--fidelity", fidelity, "--json").data["outputs"]


def test_run_writes_outputs(call: Call, tmp_path: Path) -> None:
    assert call("run", RESNET, "--out", tmp_path / "new", "--raw").code == 0
    (file,) = (tmp_path / "new").glob("*.npy")
    assert np.load(file).dtype == np.int8


@pytest.mark.parametrize("path", SAMPLE, ids=lambda p: p.stem)
def test_run_on_the_corpus(call: Call, path: Path) -> None:
    """With the inputs that lie beside the file; models that the CPU reference refuses say why."""
    archive = path.with_suffix(".npz")
    keys = np.load(archive).files if archive.exists() else []
    done = call("run", path, *([archive] if "in0" in keys else []), "--json")
    if done.code == 0:
        assert done.data["outputs"]
    else:
        assert done.code == Exit.MODEL
        assert path.name in done.err


@pytest.mark.parametrize("path", OTHERS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_files_made_by_others(call: Call, path: Path) -> None:
    assert call("info", path, "--json").data["operators"]
    custom = [EXAMPLES / "custom_op" / "dual_residual.py"] if path.parent.name == "dual_residual" else []
    done = call("run", path, *(word for file in custom for word in ("--custom-op", file)), "--json")
    if path.parent.name == "human_seg":
        assert (done.code, "ArgMax" in done.err) in ((0, False), (Exit.MODEL, True))
    else:
        assert done.data["outputs"], done.err
        assert call("perf", path, *(w for file in custom for w in ("--custom-op", file)), "--json").data[
            "layers"
        ]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["a.npy", "b.npy"], Exit.DATA, "1 inputs (input), 2 files"),
        (["missing.npy"], Exit.DATA, "cannot be read"),
        (["text.npy"], Exit.DATA, "no .npy file"),
        (["text.npz"], Exit.DATA, "no .npz file"),
        (["text.bin"], Exit.DATA, "has 5 bytes"),
        (["--soc", "rk9999"], Exit.USAGE, "unknown SoC"),
        (["--soc", "rk3576"], Exit.MODEL, "was built for rk3588"),
        (["--core-mask", "0x5"], Exit.USAGE, "not legal on rk3588"),
        (["--backend", "nobody"], Exit.UNAVAILABLE, "no backend named 'nobody'"),
        (["--custom-op", "text.py"], Exit.USAGE, "text.py"),
        (["--custom-op", "none.so"], Exit.USAGE, "no such file"),
    ],
)
def test_mistakes(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], code: int, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for suffix in ("npy", "npz", "bin", "png", "py"):
        Path(f"text.{suffix}").write_text("hello")
    done = call("run", RESNET, *words)
    assert done.code == code
    assert says in done.err


def test_a_picture_that_is_none(call: Call, tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    (tmp_path / "text.png").write_text("hello")
    assert "no picture" in call("run", RESNET, tmp_path / "text.png").err


def test_a_missing_extra_names_pip_and_debian(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for name in ("PIL", "PIL.Image", "cv2"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setenv("RKNNLITE_OPENCV", "0")
    done = call("run", RESNET, DIGIT)
    assert done.code == Exit.UNAVAILABLE
    assert "pip install pillow (extra pictures" in done.err
    assert "python3-pil" in done.err


# -- bench ---------------------------------------------------------------------------------------------------


def test_bench_counts(call: Call) -> None:
    model = genuine("conv_1x1.rk3588.i8")
    words = (
        "--runs",
        4,
        "--warmup",
        1,
        "--threads",
        "1,2",
        "--core-masks",
        "auto,core_0",
        "--zero-copy",
        "both",
    )
    rows = call("bench", model, *words, "--json").data["rows"]
    assert [(row["threads"], row["core_mask"], row["zero_copy"]) for row in rows[:3]] == [
        (1, 0, False), (2, 0, False), (1, 1, False),
    ]  # fmt: skip
    assert len(rows) == 8
    for row in rows:
        assert row["runs"] == 4 * row["threads"]
        assert 0 < row["p50_us"] <= row["p95_us"] <= row["p99_us"] <= row["max_us"]
        assert row["fps"] > 0
        assert row["rss_bytes"] > 1 << 20
    assert "FPS" in call("bench", model, "--runs", 1).out


def test_bench_ends_when_a_worker_fails(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    from rknnlite_cpu.context import CpuContext

    from rknnlite.errors import RunTimeout

    def fails(self: Any) -> None:
        raise RunTimeout("hangs")

    monkeypatch.setattr(CpuContext, "run", fails)
    done = call("bench", genuine("conv_1x1.rk3588.i8"), "--threads", "3")
    assert done.code == Exit.FAILED
    assert "hangs" in done.err


# -- perf and compare ------------------------------------------------------------------------------------------


def test_perf_report_is_self_contained(call: Call, tmp_path: Path) -> None:
    needs("jinja2")
    page = tmp_path / "report.html"
    done = call("perf", genuine("resnet_like.rk3588.i8"), "--html", page)
    assert "Network Layer Information Table" in done.out
    text = page.read_text()
    assert "<table>" in text
    assert "ConvRelu" in text
    assert not any(word in text for word in ("http:", "https:", "src=", "href="))
    assert text.count("<script") == 1  # our own, see test_pages
    data = call("perf", genuine("resnet_like.rk3588.i8"), "--json").data
    assert len(data["layers"]) > 5
    assert data["memory"]["total_bytes"] > 0


def test_compare_puts_ways_side_by_side(call: Call) -> None:
    model = genuine("residual_silu_add.rk3588.i8")
    text = call("compare", model, "--ways").out
    assert "/1/body/body.2/Mul_output_0  ConvExSwish" in text
    assert "of each layer alone, on the simulator's values, from a chip: " in text
    assert "executes the command words: 0 of 4320 values differ (0.000 %), at most 0 steps" in text
    data = call("compare", model, "--ways", "--json").data
    assert data["tensors"][-1]["role"] == "output" and data["tensors"][-1]["machine"] == {
        "differ": 0,
        "most": 0,
    }


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "a REFERENCE is missing; with --ways MODEL is compared with itself"),
        (("--ways", "--mode", "single"), "--ways has a table of its own"),
        (("--ways", "--plot", "a.png"), "--ways has a table of its own"),
    ],
)
def test_compare_without_a_reference(call: Call, words: tuple[str, ...], told: str) -> None:
    done = call("compare", genuine("conv_1x1.rk3588.i8"), *words)
    assert done.code and told in done.err


def test_names_are_escaped_in_pages() -> None:
    needs("jinja2")
    from rknnlite_pages.report import Bar, HtmlReport

    report = HtmlReport("<b>", [("a", "<i>")])
    report.table("<u>", ["<s>"], [[Bar("<p>", 2.0)], [None], [0.5], ["<q>"]])
    assert not any(tag in str(report) for tag in ("<b>", "<i>", "<u>", "<s>", "<p>", "<q>"))


def test_plots(call: Call, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra plot")
    model, picture = genuine("resnet_like.rk3588.i8"), tmp_path / "layers.png"
    assert call("perf", model, "--plot", picture).code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert call("compare", model, model, "--plot", picture).code == 0


def test_an_extra_that_is_missing_is_told_before_the_work(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(*_: object, **__: object) -> None:
        raise AssertionError("has begun")

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setattr("rknnlite_insight.commands.compare.compare", work)
    monkeypatch.setattr("rknnlite_insight.commands.perf.open_context", work)
    for words in (("perf", RESNET), ("compare", RESNET, RESNET)):
        done = call(*words, "--plot", "layers.png")
        assert done.code == Exit.UNAVAILABLE and EXTRAS["plot"].remedy in done.err


def test_a_folder_that_does_not_exist_is_told_before_the_work(call: Call, tmp_path: Path) -> None:
    for command in (["perf", RESNET], ["compare", RESNET, RESNET]):
        done = call(*command, "--html", tmp_path / "none" / "x.html")
        assert done.code == Exit.FAILED
        assert "name a file" in done.err


def test_compare_a_model_with_itself_in_float(call: Call, tmp_path: Path) -> None:
    needs("jinja2")
    model = genuine("resnet_like.rk3588.i8")
    same = call("compare", model, model, "--min-cosine", "0.999999")
    assert same.code == 0
    assert "tensors compared" in same.out
    np.save(tmp_path / "x.npy", np.zeros(call("info", model, "--json").data["inputs"][0]["shape"], np.uint8))
    page = tmp_path / "page.html"
    data = call(
        "compare", model, model, tmp_path / "x.npy", "--mode", "single", "--html", page, "--json"
    ).data
    assert all(tensor["entire"]["cosine"] > 0.9999999 for tensor in data["tensors"])
    assert "alone" in page.read_text()


def test_compare_beside_a_network_in_float(call: Call, tmp_path: Path) -> None:
    needs("jinja2")
    import rknnlite

    model, page = genuine("resnet_like.rk3588.i8"), tmp_path / "page.html"
    done = call("compare", model, model, "--float", model, "--html", page)
    assert "reference to float" in done.out and "network in float: resnet_like.rk3588.i8.rknn" in done.out
    assert "1 - cosine, reference to float" in page.read_text()
    with rknnlite.open(model) as context:
        image = np.zeros(context.inputs[0].dims, np.uint8)
        context.infer(image)
        context.dump(tmp_path / "dump")
    np.save(tmp_path / "x.npy", image)
    dump = tmp_path / "dump"
    data = call("compare", dump, dump, tmp_path / "x.npy", "--float", model, "--json").data
    assert all(tensor["to_float"] == tensor["reference_to_float"] for tensor in data["tensors"])
    assert "float" in data["floating"]


def test_compare_with_dumps_and_a_threshold(call: Call, tmp_path: Path) -> None:
    import rknnlite

    model = genuine("resnet_like.rk3588.i8")
    for folder, value in (("a", 0), ("b", 200)):
        with rknnlite.open(model) as context:
            context.infer(np.full(context.inputs[0].dims, value, np.uint8))
            context.dump(tmp_path / folder)
    done = call("compare", tmp_path / "a", tmp_path / "b", "--min-cosine", "1.0", "--json")
    assert done.code == Exit.BELOW
    assert done.data["below"]
    assert "is below" in done.err


def test_compare_two_networks_in_onnx(call: Call, tmp_path: Path) -> None:
    needs("onnx")
    needs("onnxruntime")
    import onnx

    import rknnlite

    network = rknnlite.to_onnx(genuine("per_tensor.rk3588.i8"))
    one, two = tmp_path / "a.onnx", tmp_path / "b.onnx"
    one.write_bytes(network.SerializeToString())
    weights = next(tensor for tensor in network.graph.initializer if len(tensor.dims) == 4)
    weights.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weights) * 2, weights.name))
    two.write_bytes(network.SerializeToString())
    assert "Identical" in call("compare", one, one).out
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((1, 12, 10, 3), np.float32))
    nhwc = call("compare", one, two, tmp_path / "x.npy", "--min-cosine", "0.999", "--json")
    assert nhwc.code == Exit.BELOW and nhwc.data["verdict"]["kind"] == "WRONG"
    np.save(tmp_path / "x.npy", np.load(tmp_path / "x.npy").transpose(0, 3, 1, 2))
    nchw = call("compare", one, two, tmp_path / "x.npy", "--layout", "nchw", "--json")
    assert nchw.data["tensors"] == nhwc.data["tensors"]
    done = call("compare", one, tmp_path / "gone.onnx")
    assert done.code not in (Exit.OK, Exit.BELOW) and "gone.onnx" in done.err


def test_no_write_permission(call: Call) -> None:
    done = call("run", RESNET, "--out", "/proc/nowhere")
    assert done.code == Exit.FAILED
    assert "/proc/nowhere" in done.err


def test_every_result_is_json(call: Call) -> None:
    model = genuine("conv_1x1.rk3588.i8")
    for words in (
        ["info", model],
        ["run", model],
        ["bench", model, "--runs", 1],
        ["devices"],
        ["plugins"],
        ["doctor"],
    ):
        done = call(*words, "--json")
        assert [json.loads(line) for line in done.out.splitlines()]
