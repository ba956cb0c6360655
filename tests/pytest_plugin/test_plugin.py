"""The pytest plugin: which backend computes, who is skipped, golden outputs, and that it costs other people nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.corpus import ROOT, genuine

pytest_plugins = ["pytester"]

MODEL = genuine("conv_1x1.rk3588.i8")
PLAIN = [word for plugin in ("cacheprovider", "hypothesispytest", "anyio") for word in ("-p", f"no:{plugin}")]
"""Without plugins that only take time."""

BACKEND = f"""
import os
import numpy as np
from rknnlite.api import RKNNLite

def test_native(rknn_open):
    context = rknn_open({str(MODEL)!r})
    print("native", context.backend_name, context.soc.name)

def test_program(rknn_backend):
    rknn = RKNNLite()
    assert rknn.load_rknn({str(MODEL)!r}) == 0 and rknn.init_runtime() == 0
    print("face", rknn_backend, os.environ.get("RKNNLITE_BACKEND"))
    rknn.release()
"""

GOLDEN = """
import numpy as np
from rknnlite import RawOutput

def outputs(off=0):
    scores = np.arange(10, dtype=np.int8).reshape(1, 10)
    scores[0, 3] += off
    return [RawOutput(scores, 0.25, -3), np.linspace(0, 1, 5, dtype=np.float32)]
"""


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """For processes that tests start."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "plugins")]))


@pytest.fixture
def run(pytester: pytest.Pytester) -> Any:
    """``run(code, *options)``: a session of its own with the plugin, of the test file ``test_it.py``.

    It runs inside of this process, unless ``apart``: a process more takes a second.
    """
    pytester.makeconftest("")
    pytester.makeini("[pytest]\n")

    def session(code: str, *options: str, apart: bool = False) -> pytest.RunResult:
        pytester.makepyfile(test_it=code)
        start = pytester.runpytest_subprocess if apart else pytester.runpytest_inprocess
        return start("-p", "rknnlite_pytest", *options, *PLAIN)

    return session


# -- backends ----------------------------------------------------------------------------------------------


def test_the_backend_of_the_command_line_computes_everywhere(run: Any) -> None:
    done = run(BACKEND, "--rknn-backend", "cpu", "-s")
    done.assert_outcomes(passed=2)
    done.stdout.fnmatch_lines(["*native cpu rk3588*", "*face cpu cpu*"])


def test_without_a_word_the_best_one_is_chosen(run: Any) -> None:
    done = run(BACKEND, "-s")
    done.assert_outcomes(passed=2)
    done.stdout.fnmatch_lines(["*face auto None*"])


def test_what_the_command_line_names_must_be_there(run: Any) -> None:
    done = run(BACKEND, "--rknn-backend", "rknn3rt")
    done.assert_outcomes(errors=2)
    done.stdout.fnmatch_lines(["*backend rknn3rt cannot be used here: ?*"])


@pytest.mark.slow
def test_what_the_variable_names_must_be_there(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RKNNLITE_BACKEND", "rknn3rt")
    run(BACKEND).assert_outcomes(errors=2)
    run(BACKEND, "--rknn-backend", "cpu").assert_outcomes(passed=2)
    run(BACKEND, "--rknn-backend", "auto").assert_outcomes(passed=2)


def test_what_the_ini_file_wishes_for_is_skipped_with_the_reason(run: Any, pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nrknn_backend = rknn3rt\n")
    done = run(BACKEND, "-rs")
    done.assert_outcomes(skipped=2)
    done.stdout.fnmatch_lines(["SKIPPED*backend rknn3rt cannot be used here: ?*"])
    run(BACKEND, "--rknn-backend", "cpu").assert_outcomes(passed=2)


@pytest.mark.parametrize("name", ["nonsense", "CPU "])
def test_an_unknown_backend_is_an_error_also_of_the_ini_file(
    run: Any, pytester: pytest.Pytester, name: str
) -> None:
    pytester.makeini(f"[pytest]\nrknn_backend = {name}x\n")
    done = run(BACKEND)
    done.assert_outcomes(errors=2)
    done.stdout.fnmatch_lines([f"*no backend named '{name}x'; there are: *cpu*"])


def test_the_soc_that_is_played(run: Any) -> None:
    model = genuine("lenet_like.rk3566.i8")
    code = f"def test(rknn_open):\n    print('soc', rknn_open({str(model)!r}).soc.name)\n"
    run(code, "-s", "--rknn-soc", "rk3568").stdout.fnmatch_lines(["*soc rk3568*"])
    run(code, "-s").stdout.fnmatch_lines(["*soc rk3566*"])


def test_contexts_are_closed_behind_the_test(run: Any) -> None:
    code = f"""
    kept = []
    def test_open(rknn_open):
        kept.extend(rknn_open({str(MODEL)!r}, threads=1) for _ in range(2))
        assert not any(context.closed for context in kept)
    def test_closed():
        assert all(context.closed for context in kept) and len(kept) == 2
    """
    run(code).assert_outcomes(passed=2)


def test_the_environment_is_left_as_it_was(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session inside of another process, as editors run them."""
    monkeypatch.setenv("RKNNLITE_SOC", "rk3576")
    pytester.makepyfile("import os\ndef test(): assert os.environ['RKNNLITE_BACKEND'] == 'cpu'")
    options = ("--rknn-backend", "cpu", "--rknn-soc", "rk3568", *PLAIN)
    pytester.inline_run("-p", "rknnlite_pytest", *options).assertoutcome(passed=1)
    assert "RKNNLITE_BACKEND" not in os.environ and os.environ["RKNNLITE_SOC"] == "rk3576"


@pytest.mark.slow
def test_under_xdist(run: Any) -> None:
    pytest.importorskip("xdist")
    golden = GOLDEN + "def test(rknn_golden): rknn_golden(outputs())\n" + BACKEND
    run(golden, "-n", "2", "--rknn-backend", "cpu", "--rknn-update-golden", apart=True).assert_outcomes(
        passed=3
    )
    run(golden, "-n", "2", "--rknn-backend", "rknn3rt", apart=True).assert_outcomes(passed=1, errors=2)


# -- golden outputs ----------------------------------------------------------------------------------------


def golden_test(call: str) -> str:
    return f"{GOLDEN}\ndef test_net(rknn_golden):\n    rknn_golden({call})\n"


@pytest.mark.slow
def test_stored_then_compared(run: Any, pytester: pytest.Pytester) -> None:
    missing = run(golden_test("outputs()"))
    missing.assert_outcomes(failed=1)
    missing.stdout.fnmatch_lines(["*golden/test_it.test_net.npz:", "*no outputs were stored yet*"])
    missing.stdout.fnmatch_lines(["*pytest --rknn-update-golden stores*"])
    file = pytester.path / "golden" / "test_it.test_net.npz"
    assert not file.exists()
    run(golden_test("outputs()"), "--rknn-update-golden").assert_outcomes(passed=1)
    assert file.exists()
    run(golden_test("outputs()")).assert_outcomes(passed=1)


@pytest.mark.slow
def test_what_is_off_is_told_in_steps(run: Any) -> None:
    run(golden_test("outputs()"), "--rknn-update-golden").assert_outcomes(passed=1)
    done = run(golden_test("outputs(off=-2)"))
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(
        [
            "*  output 0 int8 [[]1, 10[]]: 1 of 10 values are off, by 2 steps at most (0.5 in real numbers), at [[]0, 3[]]: "
            "1 here, 3 stored"
        ]
    )
    run(golden_test("outputs(off=-2), steps=1")).assert_outcomes(failed=1)
    run(golden_test("outputs(off=-2), steps=2")).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("outputs()[:1]", "1 outputs here, 2 stored"),
        ("[outputs()[0], outputs()[1] + 1e-3]", "output 1 float32*5 of 5 values are off by more than 0 + 0*"),
        ("[outputs()[0], outputs()[1] * np.nan], atol=9", "output 1*5 of 5 values are off*by inf at most*nan here*"),
        ("[outputs()[0], outputs()[1].astype('f8')]", "output 1 float64 *float32 ?5? is stored"),
        ("[outputs()[0]._replace(scale=0.5), outputs()[1]]", "output 0*scale 0.5*0.25*was converted anew"),
        ("[outputs()[0].data, outputs()[1]]", "output 0*scale None*0.25*"),
        ("{'a': outputs()[0], 'b': outputs()[1]}", "output 0 'a'*named 'a' here, '' in the file*"),
        ("None", "there are no outputs: the inference failed*"),
    ],
)  # fmt: skip
def test_what_is_off_is_named(run: Any, call: str, says: str) -> None:
    run(golden_test("outputs()"), "--rknn-update-golden").assert_outcomes(passed=1)
    done = run(golden_test(call))
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines([f"*{says}"])


@pytest.mark.slow
def test_real_numbers_have_a_tolerance(run: Any) -> None:
    run(golden_test("outputs()"), "--rknn-update-golden")
    near = "[outputs()[0], outputs()[1] + 1e-3]"
    run(golden_test(f"{near}, atol=2e-3")).assert_outcomes(passed=1)
    run(golden_test(f"{near}, rtol=2e-3")).assert_outcomes(failed=1)  # 0 has no relative neighbours


@pytest.mark.slow
def test_a_file_that_is_right_keeps_its_bytes(run: Any, pytester: pytest.Pytester) -> None:
    file = pytester.path / "golden" / "test_it.test_net.npz"
    run(golden_test("outputs()"), "--rknn-update-golden")
    before = file.stat().st_ino, file.read_bytes()
    run(golden_test("outputs(), steps=5"), "--rknn-update-golden").assert_outcomes(passed=1)
    assert (file.stat().st_ino, file.read_bytes()) == before
    run(golden_test("outputs(off=1), steps=5"), "--rknn-update-golden").assert_outcomes(passed=1)
    assert file.read_bytes() != before[1]
    file.unlink()
    run(golden_test("outputs()"), "--rknn-update-golden")
    assert file.read_bytes() == before[1], "the same outputs give the same file"


def test_several_in_a_test_have_names(run: Any, pytester: pytest.Pytester) -> None:
    twice = GOLDEN + (
        "import pytest\n@pytest.mark.parametrize('x', ['a/b', 'a_b', '../../up'])\n"
        "def test_net(rknn_golden, x):\n"
        "    rknn_golden(outputs(), name='first')\n    rknn_golden(outputs(), name='se cond')\n"
    )
    run(twice, "--rknn-update-golden").assert_outcomes(passed=3)
    assert len(list((pytester.path / "golden").iterdir())) == 6
    assert [path.name for path in pytester.path.parent.glob("*.npz")] == []
    done = run(
        GOLDEN + "def test(rknn_golden):\n    rknn_golden(outputs())\n    rknn_golden(outputs())\n",
        "--rknn-update-golden",
    )
    done.stdout.fnmatch_lines(["*rknn_golden was called twice with name=''*"])


def test_the_folder_is_an_ini_value(run: Any, pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nrknn_golden_dir = data/stored\n")
    run(golden_test("outputs()"), "--rknn-update-golden").assert_outcomes(passed=1)
    assert (pytester.path / "data" / "stored" / "test_it.test_net.npz").exists()


@pytest.mark.slow
def test_outputs_of_a_model(run: Any) -> None:
    code = f"""
import numpy as np
def test(rknn_open, rknn_golden):
    context = rknn_open({str(MODEL)!r})
    image = np.full(context.inputs[0].dims, 7, np.uint8)
    rknn_golden(context.infer(image, raw=True), name="raw")
    rknn_golden(context.infer(image), name="real")
"""
    run(code, "--rknn-update-golden", "--rknn-backend", "cpu").assert_outcomes(passed=1)
    run(code, "--rknn-backend", "cpu").assert_outcomes(passed=1)
    run(code.replace("7, np.uint8", "9, np.uint8"), "--rknn-backend", "cpu").assert_outcomes(failed=1)


class Evil:
    """Unpickling it leaves a file behind."""

    def __reduce__(self) -> Any:
        return Path.touch, (Path("was_run"),)


def hostile(path: Path, kind: str) -> None:
    """A golden file that somebody else wrote."""
    good = np.zeros(3, np.int8)
    if kind == "pickle":
        np.savez(path, **{"0.data": np.array([Evil()], object)})
    elif kind == "text":
        np.savez(path, **{"0.data": np.array(["a"])})
    elif kind == "compressed":
        np.savez_compressed(path, **{"0.data": np.zeros(1 << 20, np.int8)})
    elif kind == "numbers from 1":
        np.savez(path, **{"1.data": good})
    elif kind == "quant of three":
        np.savez(path, **{"0.data": good, "0.quant": np.zeros(3)})
    elif kind == "a shape beyond the file":
        head = (
            b"\x93NUMPY\x01\x00v\x00"
            + b"{'descr': '|i1', 'fortran_order': False, 'shape': (1000000000000,), }".ljust(117)
            + b"\n"
        )
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("0.data.npy", head)
    elif kind == "no archive":
        path.write_bytes(b"anything")
    elif kind == "half":
        np.savez(path, **{"0.data": good})
        path.write_bytes(path.read_bytes()[:100])
    elif kind == "folder":
        path.mkdir()


KINDS = (
    "pickle", "text", "compressed", "numbers from 1", "quant of three", "a shape beyond the file", "no archive",
    "half", "folder",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    from rknnlite_pytest.golden import GoldenInvalid, read

    monkeypatch.chdir(tmp_path)
    hostile(tmp_path / "bad.npz", kind)
    with pytest.raises(GoldenInvalid, match="golden file"):
        read(tmp_path / "bad.npz")
    assert not Path("was_run").exists()


@pytest.mark.slow
def test_a_hostile_file_fails_the_test_and_can_be_stored_anew(run: Any, pytester: pytest.Pytester) -> None:
    (pytester.path / "golden").mkdir()
    hostile(pytester.path / "golden" / "test_it.test_net.npz", "pickle")
    done = run(golden_test("outputs()"))
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*no golden file of numbers*"])
    assert not (pytester.path / "was_run").exists()
    run(golden_test("outputs()"), "--rknn-update-golden").assert_outcomes(passed=1)
    run(golden_test("outputs()")).assert_outcomes(passed=1)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "i4", "i8", "u8", "?", "f2", "f4", "f8"])
def test_every_type_of_numbers(tmp_path: Path, dtype: str) -> None:
    from rknnlite_pytest.golden import Stored, differences, read, write

    kind = np.dtype(dtype)
    ends = (0, 1) if kind.kind in "bf" else (np.iinfo(kind).min, np.iinfo(kind).max)
    data = np.array([[ends[0]], [ends[1]]], kind)
    write(tmp_path / "a.npz", [Stored(data, "näme")])
    (stored,) = read(tmp_path / "a.npz")
    assert stored.data.dtype == kind and stored.data.shape == (2, 1) and stored.name == "näme"
    assert differences([stored], [Stored(data, "näme")]) == []
    (line,) = differences([stored], [Stored(data[::-1].copy(), "näme")])
    assert "2 of 2 values are off" in line and "'näme'" in line
    if kind.kind != "f":
        assert f"by {int(ends[1]) - int(ends[0])} step" in line


def test_nothing_and_scalars(tmp_path: Path) -> None:
    from rknnlite_pytest.golden import Stored, differences, read, write

    outputs = [
        Stored(np.zeros((0, 4), np.int8)),
        Stored(np.zeros(0, np.float32)),
        Stored(np.array(5, np.int32)),
    ]
    write(tmp_path / "a.npz", outputs)
    assert differences(read(tmp_path / "a.npz"), outputs) == []


# -- other people's sessions -------------------------------------------------------------------------------

LOADED = "import sys\ndef test():\n    assert not [m for m in ('numpy', 'rknnlite') if m in sys.modules]\n"


@pytest.mark.slow
def test_a_session_without_models_loads_nothing_of_ours(run: Any) -> None:
    run(LOADED, "-p", "no:xdist", apart=True).assert_outcomes(passed=1)


@pytest.mark.slow
def test_importing_takes_under_ten_milliseconds() -> None:
    """What every session of people who have rknnlite installed pays."""
    script = (
        "import pytest, contextlib, typing, time\n"
        "from time import process_time\n"
        "start = process_time(); import rknnlite_pytest; print(1000 * (process_time() - start))"
    )
    command = [sys.executable, "-c", script]
    times = [float(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(5)]
    assert min(times) < 10, times


def test_it_can_be_left_out(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test(rknn_open): pass")
    done = pytester.runpytest_inprocess("-p", "no:rknnlite_pytest", *PLAIN)
    done.stdout.fnmatch_lines(["*fixture 'rknn_open' not found*"])


@pytest.mark.slow
def test_pytest_finds_it_by_its_entry_point(pytester: pytest.Pytester) -> None:
    """As pip writes it down; loading it by name, too, does not register it twice."""
    info = pytester.path / "rknnlite-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rknnlite\nVersion: 0\n")
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    entry = 'rknnlite_pytest = "rknnlite_pytest"'
    assert f"[project.entry-points.pytest11]\n{entry}\n" in project
    (info / "entry_points.txt").write_text(f"[pytest11]\n{entry.replace(chr(34), '')}\n")
    pytester.makepyfile("import os\ndef test(): assert os.environ['RKNNLITE_BACKEND'] == 'cpu'")
    pytester.syspathinsert()
    for options in ([], ["-p", "rknnlite_pytest"]):
        done = pytester.runpytest_subprocess("--rknn-backend", "cpu", *options, *PLAIN)
        done.assert_outcomes(passed=1)
