"""Log lines: what is said, where, how often; the application's logging is left alone."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rknn3lite.api import RKNN3Lite
from rknnlite.api import RKNNLite
from rknnlite.api.rknn_log import RKNNLog
from rknnlite.log import logger as library
from rknnlite.spi import PerfRow, PerfTable

from .fake_backend import Bench


def test_version_line(capfd: pytest.CaptureFixture[str]) -> None:
    RKNNLite()
    out, err = capfd.readouterr()
    assert out == "" and err.startswith("W rknn-toolkit-lite2 version: 2.5.0") and err.count("\n") == 1


def test_levels(capfd: pytest.CaptureFixture[str]) -> None:
    for verbose, letters in ((False, "WE"), (True, "DIWE")):
        log = RKNNLog(verbose)
        log.d("text")
        log.i("text")
        log.w("text")
        log.e("text", False)
        assert capfd.readouterr().err == "".join(f"{letter} text\n" for letter in letters)


def test_text_is_not_a_format(capfd: pytest.CaptureFixture[str]) -> None:
    RKNNLog().w("100% {} %s %d")
    assert capfd.readouterr().err == "W 100% {} %s %d\n"


def test_p_prints_on_stdout_and_n_without_a_letter(capfd: pytest.CaptureFixture[str]) -> None:
    RKNNLog().p("bare")
    RKNNLog().n("text")
    RKNNLog().rknn_e("broken")
    assert capfd.readouterr() == ("bare\n", "text\nE broken\n")


def test_e_aborts_by_default(capfd: pytest.CaptureFixture[str]) -> None:
    log = RKNNLog()
    log.w("first")
    log.w("second")
    with pytest.raises(ValueError, match="broken"):
        log.e("broken")
    assert capfd.readouterr().err.splitlines()[2:] == [
        "E broken",
        "W ----------------Warning(2)----------------",
    ]
    log.reset()
    with pytest.raises(ValueError, match="again"):
        log.e("again")
    assert "Warning(0)" in capfd.readouterr().err


def test_set_level_silences(bench: Bench, image: np.ndarray, capfd: pytest.CaptureFixture[str]) -> None:
    rknn = RKNNLite()
    capfd.readouterr()
    rknn.rknn_log.logger.setLevel(logging.ERROR)
    rknn.rknn_data = b"model"
    rknn.init_runtime()
    rknn.inference([image.transpose(0, 3, 1, 2)], data_format="nchw")
    assert capfd.readouterr().err == ""
    rknn.inference([])
    assert capfd.readouterr().err.startswith("E ")


def test_verbose_says_what_is_loaded(cpu: None, capfd: pytest.CaptureFixture[str]) -> None:
    from .corpus import genuine

    rknn = RKNNLite(verbose=True)
    rknn.load_rknn(genuine("conv_1x1.rk3588.i8"))
    assert rknn.init_runtime() == 0
    err = capfd.readouterr().err
    assert "D target: None\n" in err
    assert "I RKNN Model Information, version: 6, toolkit version: " in err
    assert "target: RKNPU v2, target platform: rk3588" in err
    rknn.inference([np.zeros((1, 9, 11, 20), np.uint8)])
    assert all(line[:2] in ("D ", "I ") for line in capfd.readouterr().err.splitlines())


def test_verbose_shows_figures_per_layer_where_there_are_some(
    bench: Bench, image: np.ndarray, capfd: pytest.CaptureFixture[str]
) -> None:
    rknn = RKNNLite(verbose=True)
    rknn.rknn_data = b"no metadata in here"
    assert rknn.init_runtime() == 0
    table = PerfTable(
        [PerfRow("1", "Conv", "NPU", "Conv:a", 12.0), PerfRow("2", "Relu", "NPU", "Relu:b", 3.0)]
    )
    for layers, shown in (
        (PerfTable(), ["D No figures per layer: backend fake keeps no per-layer figures yet"]),
        (table, [f"D {line}" for line in str(table).splitlines()]),
    ):
        bench.layers = layers
        rknn.init_runtime()
        capfd.readouterr()
        rknn.inference([image])
        assert capfd.readouterr().err.splitlines() == shown
    bench.layers = PerfTable()
    rknn.init_runtime()
    capfd.readouterr()
    for _ in range(3):
        rknn.inference([image])
    assert capfd.readouterr().err.count("No figures") == 1


# -- the log file -------------------------------------------------------------------------------------------


def test_file_gets_the_same_lines_appended(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "face.log"
    path.write_text("before\n")
    rknn = RKNNLite(verbose=True, verbose_file=str(path))
    rknn.init_runtime()
    assert path.read_text() == "before\n" + capfd.readouterr().err.split("\n", 1)[0] + "\n" + (
        f"D This log is also written to {path}\n"
        "D target: None\n"
        "E Model is not loaded yet, this interface should be called after load_rknn!\n"
    )


def test_bare_file_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rknn = RKNNLite(True, "face.log")
    monkeypatch.chdir("/")
    rknn.init_runtime()
    assert "D target" in (tmp_path / "face.log").read_text()


def test_file_is_not_made_without_verbose(tmp_path: Path) -> None:
    RKNNLite(verbose=False, verbose_file=str(tmp_path / "face.log"))
    assert not (tmp_path / "face.log").exists()


def test_file_in_no_directory(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "missing" / "face.log"
    rknn = RKNNLite(verbose=True, verbose_file=str(path))
    assert "W There is no directory for the log file" in capfd.readouterr().err
    assert rknn.init_runtime() == -1 and not path.exists()


def test_objects_keep_their_own_verbosity_and_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    loud = RKNNLite(True, str(tmp_path / "loud.log"))
    quiet = RKNNLite()
    other = RKNNLite(True, str(tmp_path / "other.log"))
    capfd.readouterr()
    quiet.rknn_log.logger.setLevel(logging.CRITICAL)
    quiet.init_runtime()
    assert capfd.readouterr().err == ""
    loud.rknn_log.d("only here")
    assert "only here" in (tmp_path / "loud.log").read_text()
    assert "only here" not in (tmp_path / "other.log").read_text()
    assert other.verbose and loud.verbose and not quiet.verbose


def test_log_file_is_not_kept_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    faces = [RKNNLite(True, str(tmp_path / f"{i}.log")) for i in range(20)]
    assert len(list(Path("/proc/self/fd").iterdir())) == before and len(faces) == 20


# -- lines of the library -----------------------------------------------------------------------------------


def test_warning_of_the_library_is_one_line_of_the_face(
    rknn: RKNNLite, bench: Bench, image: np.ndarray, capfd: pytest.CaptureFixture[str]
) -> None:
    bench.gates["run"] = lambda: library.warning("it is %s", "warm")
    for _ in range(3):
        rknn.inference([image])
    assert capfd.readouterr().err == "W it is warm\n"


def test_library_outside_of_a_face_is_not_touched(
    rknn: RKNNLite, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    library.warning("native")
    assert [record.message for record in caplog.records] == ["native"]
    assert capfd.readouterr().err == ""


def test_library_speaks_to_the_object_that_called_it(bench: Bench, image: np.ndarray, tmp_path: Path) -> None:
    faces = [RKNNLite(True, str(tmp_path / f"{i}.log")) for i in range(2)]
    bench.gates["set_inputs"] = lambda: library.error("about this input")
    for face in faces:
        face.rknn_data = b"any"
        face.verbose = False  # the fake model has no metadata to talk about
        assert face.init_runtime() == 0
    faces[1].inference([image])
    assert "about this input" not in (tmp_path / "0.log").read_text()
    assert "E about this input" in (tmp_path / "1.log").read_text()


PROGRAM = """
import logging, sys
{setup}
from rknnlite import hookimpl, plugins
sys.path.insert(0, {here!r})
from fake_backend import Bench
import numpy as np
bench = Bench()
from rknnlite.log import logger
bench.gates["run"] = lambda: logger.warning("hot")
plugins.manager().register(bench, name="fake")
before = logging.root.handlers[:], logging.root.level
from rknnlite.api import RKNNLite
rknn = RKNNLite()
rknn.rknn_data = b"any"
assert rknn.init_runtime() == 0
assert rknn.inference([np.zeros((1, 4, 6, 3), np.uint8)]) is not None
assert (logging.root.handlers[:], logging.root.level) == before
logging.getLogger("app").warning("mine")
"""


@pytest.mark.parametrize(
    ("setup", "environment", "shown", "app"),
    [
        ("", {}, "W hot", "mine"),
        ("logging.basicConfig(format='%(name)s:%(message)s')", {}, "W hot", "app:mine"),
        ("", {"RKNN_LOG_LEVEL": "1"}, "W rknnlite: hot", "mine"),
        ("", {"RKNN_LOG_LEVEL": "0"}, None, "mine"),
    ],
)
def test_every_line_is_seen_once(
    setup: str, environment: dict[str, str], shown: str | None, app: str
) -> None:
    program = PROGRAM.format(setup=setup, here=str(Path(__file__).parent))
    import os

    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert [line for line in lines if "hot" in line] == ([shown] if shown else [])
    assert lines[-1] == app
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("number", "letters"), [("0", "E"), ("1", "WE"), ("4", "WE"), ("", "WE"), ("x", "WE")]
)
def test_level_0_is_errors_alone(
    number: str, letters: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RKNN_LOG_LEVEL", number)
    for face in (RKNNLite, RKNN3Lite):
        rknn = face()
        rknn.rknn_log.n("bare")
        assert rknn.get_sdk_version() is None
        lines = capfd.readouterr().err.splitlines()
        assert [line[:1] for line in lines if line != "bare"] == list(letters)
        assert ("bare" in lines) == (letters == "WE")


def test_level_0_leaves_verbose_alone(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RKNN_LOG_LEVEL", "0")
    RKNNLite(verbose=True)
    assert capfd.readouterr().err.startswith("W rknn-toolkit-lite2 version")


def test_no_console_is_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    monkeypatch.setattr(sys, "stdout", None)
    rknn = RKNNLite()
    rknn.rknn_log.n("nothing")
    assert rknn.init_runtime() == -1
    assert rknn.list_devices() == ([], [])
