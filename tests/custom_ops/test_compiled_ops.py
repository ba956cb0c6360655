"""Compiled CPU operators on the CPU reference: in this process and isolated."""

from __future__ import annotations

import ast
import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import example as example_of
from hypothesis import strategies as st

import rknnlite
from rknnlite.api import RKNNLite
from rknnlite.errors import ModelUnsupported, ParamInvalid, RknnError, RunTimeout
from rknnlite.spi import CustomOpFailed
from tests.support.corpus import fixture_file
from tests.support.examples import examples

from .conftest import C_SOURCES, CUSTOM_OP
from .models import DUAL, PROBE, dual_golden, probe_golden
from .test_python_ops import SOCS, assert_close_to_simulator

Behaviour = Callable[..., Path]
WAYS = pytest.mark.parametrize("options", [{}, {"isolate": True, "time_limit": 20}], ids=["here", "isolated"])


def run_dual(library: Path, **options: Any) -> list[np.ndarray]:
    ops = rknnlite.load_custom_ops(library, **options)
    with rknnlite.open(DUAL, custom_ops=ops) as context:
        outputs: list[np.ndarray] = context.infer(dual_golden().inputs)
    return outputs


@pytest.fixture(scope="session")
def example(compiled: Callable[..., Path]) -> Path:
    return compiled(CUSTOM_OP / "librkcst_dual_residual.c", "-Wall", name="librkcst_dual_residual.so")


# -- the numbers -------------------------------------------------------------------------------------------------


@WAYS
@pytest.mark.parametrize("soc", SOCS)
def test_the_vendors_model_gives_the_vendors_outputs(
    soc: str, options: dict[str, Any], example: Path
) -> None:
    model = fixture_file(f"vendor/dual_residual/{soc}.rknn")
    inputs = [np.load(fixture_file(f"vendor/dual_residual/dual_residual_input_{i}_nhwc.npy")) for i in (0, 1)]
    with rknnlite.open(model, custom_ops=rknnlite.load_custom_ops(example, **options)) as context:
        answers = context.infer(inputs)
    for i, answer in enumerate(answers):
        stored = np.fromfile(fixture_file(f"vendor/dual_residual/dual_residual_output_{i}.bin"), np.float32)
        assert np.array_equal(answer.reshape(-1), stored.astype(np.float16).astype(np.float32))


@WAYS
def test_attributes_and_tensors_arrive_through_the_abi(
    options: dict[str, Any], compiled: Callable[..., Path]
) -> None:
    library = compiled(C_SOURCES / "probe.c")
    with rknnlite.open(PROBE, custom_ops=rknnlite.load_custom_ops(library, **options)) as context:
        for _ in range(2):
            answers = context.infer(probe_golden().inputs)
            for answer, expected in zip(answers, probe_golden().outputs):
                assert np.abs(answer - expected).max() <= np.abs(expected).max() / 1000


def test_a_path_stands_for_the_operator(example: Path) -> None:
    with rknnlite.open(DUAL, custom_ops=[example]) as context:
        assert_close_to_simulator(context.infer(dual_golden().inputs), context)
    rknn = RKNNLite()
    assert rknn.reg_custom_op(str(example)) == 0
    rknn.load_rknn(DUAL)
    rknn.init_runtime()
    assert rknn.inference(dual_golden().inputs) is not None
    rknn.release()


def test_prepare_runs_before_compute_and_offsets_work(behaviour: Behaviour) -> None:
    plain, isolated = run_dual(behaviour()), run_dual(behaviour(), isolate=True)
    assert all(np.array_equal(a, b) for a, b in zip(plain, isolated))


@pytest.fixture
def linked(tmp_path: Path, compiled: Callable[..., Path], behaviour: Behaviour) -> Path:
    """A plugin that is linked against a runtime which is gone."""
    stub = tmp_path / "stub.c"
    stub.write_text("void rknn_custom_op_get_op_attr(void) {}\n")
    runtime = compiled(stub, "-Wl,-soname,librknnrt.so", name="librknnrt.so")
    library = behaviour(f"-L{runtime.parent}", "-Wl,--no-as-needed", "-lrknnrt")
    runtime.unlink()
    return library


def test_a_library_linked_against_the_runtime_loads_without_it(linked: Path) -> None:
    assert run_dual(linked, isolate=True)


# -- files that are no plugins --------------------------------------------------------------------------------------


def refused(path: Path, text: str) -> None:
    for options in ({}, {"isolate": True}):
        with pytest.raises(ParamInvalid, match=text):
            rknnlite.load_custom_ops(path, **options)


def test_missing_file(tmp_path: Path) -> None:
    refused(tmp_path / "none.so", "no such file")
    refused(tmp_path, "not a file")


def test_not_a_library(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("hello")
    refused(tmp_path / "text.so", "no ELF header")
    (tmp_path / "text.txt").write_text("hello")
    with pytest.raises(ParamInvalid, match=r"no host for such a file; there are: .*cplugin"):
        rknnlite.load_custom_ops(tmp_path / "text.txt")


def test_wrong_architecture(tmp_path: Path, example: Path) -> None:
    data = bytearray(example.read_bytes())
    data[18:20] = (183 if data[18] != 183 else 62).to_bytes(2, "little")
    (tmp_path / "other.so").write_bytes(data)
    refused(tmp_path / "other.so", "built for (aarch64|x86_64).*compile the plugin for this machine")


def test_a_risc_v_object_is_told_where_it_belongs(tmp_path: Path, example: Path) -> None:
    data = bytearray(example.read_bytes())
    data[16:20] = (1).to_bytes(2, "little") + (243).to_bytes(2, "little")
    (tmp_path / "plugin.so").write_bytes(data)
    refused(tmp_path / "plugin.so", "RISC-V cores of RK182x; pass it as postprocess")


@settings(
    max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    changes=st.dictionaries(st.integers(0, 199), st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]), max_size=8),
    size=st.integers(0, 4000),
)
@example_of(changes={}, size=52)
def test_a_damaged_header_is_refused_before_the_loader_sees_it(
    changes: dict[int, int], size: int, example: Path, tmp_path: Path
) -> None:
    """The loader itself may crash on such files, so only what comes before it is asked."""
    from rknnlite_cplugin import library

    data = bytearray(example.read_bytes())
    for at, value in changes.items():
        data[at] = value
    (tmp_path / "some.so").write_bytes(data[:size] if size < 1000 else data)
    with contextlib.suppress(ParamInvalid):
        library._check_header(tmp_path / "some.so")


MUTANTS = """
import os, random, sys
from collections import Counter
from pathlib import Path
from rknnlite.errors import ParamInvalid
from rknnlite_cplugin.library import open_library
WORDS = ["loaded", "refused", "ended a child"]
def outcome(file):
    try:
        open_library(file)
        return 0
    except ParamInvalid as error:
        return 2 if "process of its own" in str(error) else 1
whole, folder, count = Path(sys.argv[1]).read_bytes(), Path(sys.argv[2]), int(sys.argv[3])
draw, outcomes = random.Random(count), Counter()
for number in range(count):
    data = bytearray(whole)
    for _ in range(draw.choice((1, 2, 8))):  # most in the headers and tables at the beginning
        data[draw.randrange(draw.choice((64, 1200, 4000, len(data))))] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)))
    file = folder / f"m{number}.so"
    file.write_bytes(data)
    program = os.fork()
    if not program:
        os._exit(outcome(file))
    code = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
    outcomes[WORDS[code] if code >= 0 and code < 3 else "ended the program"] += 1
print(dict(outcomes))
"""


@pytest.mark.parametrize("count", [40, pytest.param(300, marks=pytest.mark.slow)])
def test_a_damaged_library_ends_a_child_and_not_this_process(
    count: int, example: Path, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MUTANTS, str(example), str(tmp_path), str(count)],
        env={**os.environ, "RKNNLITE_CACHE": str(tmp_path / "cache")}, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    outcomes = ast.literal_eval(done.stdout)
    assert sum(outcomes.values()) == count and outcomes["loaded"] and outcomes["ended a child"], outcomes
    assert outcomes.get("ended the program", 0) <= max(1, count // 100), (
        "damage that shows at few addresses only"
    )


def test_truncated_library(tmp_path: Path, example: Path) -> None:
    (tmp_path / "half.so").write_bytes(example.read_bytes()[:3000])
    refused(tmp_path / "half.so", "truncated: it has 3000 bytes of")


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("-DENTRY=something_else", "no function get_rknn_custom_op"),
        pytest.param("-DANSWER_NULL", "answers NULL", marks=pytest.mark.slow),
        ("-DVERSION=2", "version 2 of rknn_custom_op, this host knows version 1"),
        pytest.param("-DVERSION=0", "version 0", marks=pytest.mark.slow),
        pytest.param("-DTARGET=7", "target 7", marks=pytest.mark.slow),
        ('-DOP_TYPE=""', "op_type is empty"),
        pytest.param("-DNO_COMPUTE", "no compute function", marks=pytest.mark.slow),
    ],
)
def test_structures_that_cannot_be_used(flag: str, text: str, behaviour: Behaviour) -> None:
    refused(behaviour(flag), text)


def test_operator_for_another_type(behaviour: Behaviour) -> None:
    with pytest.raises(ModelUnsupported, match=r"nobody registered one of type cstDualResidual.*cstOther"):
        run_dual(behaviour('-DOP_TYPE="cstOther"'))


def test_unknown_options(example: Path) -> None:
    with pytest.raises(ParamInvalid, match=r"unknown options \['speed'\]"):
        rknnlite.load_custom_ops(example, speed=9)
    with pytest.raises(ParamInvalid, match="time_limit needs isolate"):
        rknnlite.load_custom_ops(example, time_limit=1)
    for limit in (0, -1, "2", True, float("nan")):
        with pytest.raises(ParamInvalid, match="time_limit must be a number of seconds above 0 or None"):
            rknnlite.load_custom_ops(example, isolate=True, time_limit=limit)


def test_an_isolated_operator_is_nothing_for_librknnrt(example: Path) -> None:
    (op,) = rknnlite.load_custom_ops(example, isolate=True)
    with pytest.raises(ParamInvalid, match="isolate=True is for the CPU reference"):
        op.native  # noqa: B018


# -- operators that fail --------------------------------------------------------------------------------------------


@WAYS
@pytest.mark.parametrize(
    ("flag", "code", "text"),
    [
        ("-DINIT_CODE=-4", -4, "failed in init.*answers -4.*alpha float32"),
        ('-DATTRIBUTE="beta"', -5, "answers -5; attributes: alpha float32"),
        pytest.param(
            "-DATTRIBUTE_TYPE=RKNN_TENSOR_INT64",
            -5,
            "answers -5; attributes: alpha float32",
            marks=pytest.mark.slow,
        ),
        ("-DCOMPUTE_CODE=-1", -1, "failed in compute.*answers -1"),
        ("-DOVERRUN=4", -1, "wrote past the end of output difference"),
    ],
)
def test_failures_name_the_plugin_and_the_node(
    flag: str, code: int, text: str, options: dict[str, Any], behaviour: Behaviour
) -> None:
    with pytest.raises(CustomOpFailed, match=text) as caught:
        run_dual(behaviour(flag), **options)
    assert caught.value.code == code
    assert "librkcst_test.so" in str(caught.value)
    assert "cstDualResidual:dual" in str(caught.value)


@WAYS
def test_minus_14_asks_for_the_builtin(options: dict[str, Any], behaviour: Behaviour) -> None:
    with pytest.raises(ModelUnsupported, match=r"leaves node .* to the runtime's own"):
        run_dual(behaviour("-DINIT_CODE=-14"), **options)


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("-DCRASH", "signal 11"),
        pytest.param("-DEXIT", "status 3", marks=pytest.mark.slow),
        pytest.param("-DOVERRUN=100000000", "signal 11", marks=pytest.mark.slow),
    ],
)
def test_a_crash_stays_in_the_worker(flag: str, text: str, behaviour: Behaviour) -> None:
    ops = rknnlite.load_custom_ops(behaviour(flag), isolate=True)
    with rknnlite.open(DUAL, custom_ops=ops) as context:
        for expected in (text, "open the model again"):
            with pytest.raises(CustomOpFailed, match=expected):
                context.infer(dual_golden().inputs)
        context.register_ops(rknnlite.load_custom_ops(behaviour(), isolate=True))
        assert_close_to_simulator(context.infer(dual_golden().inputs), context)


def test_a_plugin_that_never_returns_is_ended(behaviour: Behaviour) -> None:
    with pytest.raises(CustomOpFailed, match=r"did not return from compute within 0\.5 s") as caught:
        run_dual(behaviour("-DHANG"), isolate=True, time_limit=0.5)
    assert caught.value.code == RunTimeout.code


# -- plugin directories ---------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example: Path) -> Path:
    """A directory of operator plugins that holds the example."""
    place = tmp_path / "op_plugins"
    place.mkdir(mode=0o755)
    shutil.copy(example, place)
    monkeypatch.setenv("RKNNLITE_OP_PLUGINS", str(place))
    return place


def test_plugins_in_the_directory_are_found(folder: Path) -> None:
    (folder / "notes.txt").write_text("not a plugin")
    with rknnlite.open(DUAL) as context:
        assert_close_to_simulator(context.infer(dual_golden().inputs), context)


@pytest.mark.parametrize("what", ["folder", "file"])
def test_a_directory_that_others_can_write_is_not_used(
    folder: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    (folder if what == "folder" else folder / "librkcst_dual_residual.so").chmod(0o777)
    with rknnlite.open(DUAL) as context, pytest.raises(ModelUnsupported):
        context.infer(dual_golden().inputs)
    assert "can be written by others" in caplog.text


def test_a_link_in_a_directory_that_others_can_write_is_not_followed(
    folder: Path, example: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "librkcst_dual_residual.so").unlink()
    (folder / "librkcst_link.so").symlink_to(example)
    rknnlite.open(DUAL).infer(dual_golden().inputs)
    folder.chmod(0o777)
    rknnlite.open(DUAL)
    assert "op_plugins can be written by others" in caplog.text


def test_two_libraries_for_one_type_are_named(folder: Path) -> None:
    shutil.copy(folder / "librkcst_dual_residual.so", folder / "librkcst_second.so")
    with pytest.raises(RknnError, match=r"librkcst_dual_residual.so \(plugin cplugin\), librkcst_second.so"):
        rknnlite.open(DUAL)


def test_a_broken_file_in_the_directory_does_not_stop_the_others(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "librkcst_broken.so").write_bytes(b"\x7fELF")
    with rknnlite.open(DUAL) as context:
        context.infer(dual_golden().inputs)
    assert "librkcst_broken.so is skipped" in caplog.text


ASK = """
import ctypes, sys, rknnlite
from rknnlite.abi import rknn_op
loaded = [ctypes.CDLL(path) for path in sys.argv[2:]]
ops = rknnlite.load_custom_ops(sys.argv[1])
context, attr = rknn_op.CustomOpContext(internal_ctx=12345), rknn_op.CustomOpAttr(n_elems=1)
ctypes.CDLL(None).rknn_custom_op_get_op_attr(ctypes.byref(context), b"alpha", ctypes.byref(attr))
print(attr.n_elems)
"""


def ask(plugin: Path, *runtimes: Path) -> int:
    """How many elements an attribute of a context has that is not ours; libraries are loaded in this order, then the plugin."""
    command = [sys.executable, "-c", ASK, str(plugin), *map(str, runtimes)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_contexts_of_the_genuine_runtime_are_passed_on_to_it(
    tmp_path: Path, compiled: Callable[..., Path], example: Path
) -> None:
    """A node that librknnrt computes has a context of librknnrt's, which nobody else may look into."""
    source = tmp_path / "runtime.c"
    source.write_text(
        '#include "rknn_op.h"\n'
        "void rknn_custom_op_get_op_attr(rknn_custom_op_context *c, const char *n, rknn_custom_op_attr *a)\n"
        "{ a->n_elems = 77; }\n"
    )
    runtime = compiled(source, "-Wl,-soname,librknnrt.so", name="librknnrt.so")
    assert ask(example, runtime) == 77


def test_contexts_of_nobody_have_no_attributes(linked: Path, example: Path) -> None:
    """The library that a linked plugin is given bears the runtime's name, and is not asked as if it were that."""
    assert ask(linked) == 0
    assert ask(example) == 0


def test_without_a_compiler_operators_that_read_attributes_say_so(example: Path, tmp_path: Path) -> None:
    script = "import sys, rknnlite\nrknnlite.open(sys.argv[1], custom_ops=[sys.argv[2]])\n"
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "CC": "no-such-compiler",
        "RKNNLITE_CACHE": str(tmp_path / "empty"),
    }  # fmt: skip
    command = [sys.executable, "-c", script, str(DUAL), str(example)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "needs a C compiler here" in done.stderr
    assert done.returncode == 1
