"""The contract test kit: on backends that keep what they promise, and on one for each promise that breaks it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import rknnlite
from rknnlite import plugins
from tests.support.backend_packages import installed, run_there
from tests.support.corpus import ROOT, genuine

from .broken_backends import DYNAMIC, FAULTS, LEAKED, broken

pytest_plugins = ["pytester"]

KIT = ROOT / "plugins" / "rknnlite_pytest" / "contract"
PLAIN = [
    word
    for plugin in ("cacheprovider", "hypothesispytest", "anyio", "xdist")
    for word in ("-p", f"no:{plugin}")
]


@pytest.fixture
def session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``session(*options)``: the kit in an empty directory, inside of this process."""
    monkeypatch.setenv("RKNNLITE_BACKEND", "")
    return lambda *options: pytester.inline_run("-q", "-p", "rknnlite_pytest", *PLAIN, *options)


@pytest.fixture
def offered() -> Iterator[Any]:
    """``offered(backend)``: as an installed plugin offers it."""
    names = []

    def offer(backend: Any) -> None:
        register = rknnlite.hookimpl(lambda register: register(backend))
        names.append(f"offered {len(names)}")
        plugins.manager().register(SimpleNamespace(rknnlite_register_backends=register), name=names[-1])
        plugins.backends.cache_clear()

    yield offer
    for name in names:
        plugins.manager().unregister(name=name)
    plugins.backends.cache_clear()


def test_every_promise_is_broken_once() -> None:
    tests = [
        name
        for path in sorted(KIT.glob("test_*.py"))
        for name in re.findall(r"^def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
    ]
    assert sorted(tests) == sorted(FAULTS)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_broken_promise_fails_its_test_alone_and_says_what_to_do(
    name: str, session: Any, offered: Any
) -> None:
    fault = FAULTS[name]
    backend = broken(fault)
    offered(backend)
    model = genuine("dynamic_two.rk3588.fp16" if fault in DYNAMIC else "two_images.rk3588.i8")
    try:
        _, _, failed = session(
            "--rknnlite-backend", backend.name, "--rknnlite-model", str(model)
        ).listoutcomes()
    finally:
        while LEAKED:
            os.close(LEAKED.pop())
    assert {re.sub(r"\[.*", "", report.nodeid).rpartition("::")[2] for report in failed} == {name}
    for report in failed:
        assert re.search(r"(; |: )(\w+ )+", str(report.longrepr)) and "Traceback" not in str(
            report.longrepr
        ), report.longrepr
        assert ".py" not in str(report.longrepr).partition("\n")[0], report.longrepr


def test_the_cpu_reference_keeps_all_promises(session: Any) -> None:
    passed, skipped, failed = session("--rknnlite-backend", "cpu").listoutcomes()
    assert not failed and len(passed) > 100
    reasons = {str(report.longrepr[2]) for report in skipped}
    assert all("shapes" in reason for reason in reasons), reasons


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "name", "model"),
    [("backend_package", "mean", ""), ("onnx_backend", "ort", "tests/weighted.onnx")],
)
def test_the_examples_keep_theirs(package: str, name: str, model: str, tmp_path: Path) -> None:
    if name == "ort":
        pytest.importorskip("onnxruntime")
    site = installed(package, tmp_path / "site")
    words = ["--rknnlite-model", model] if model else []
    printed = run_there(
        site, "-m", "pytest", "-q", *PLAIN, "-p", "rknnlite_pytest", "--rknnlite-backend", name, *words, "-rs"
    )
    assert re.search(r"^\d\d+ passed, \d+ skipped", printed, re.MULTILINE)
    assert f"backend {name} has no duplicates" in printed


@pytest.mark.slow
def test_it_runs_beside_tests_that_are_named_and_alone_where_none_is(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text("def test_mine(): pass\n", "utf-8")
    path = os.pathsep.join([str(ROOT), str(ROOT / "plugins")])

    def collected(*words: str) -> str:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--collect-only",
            *PLAIN,
            "-p",
            "rknnlite_pytest",
            "--rknnlite-backend",
            "cpu",
            *words,
        ]
        return subprocess.run(
            command,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    assert "test_mine" not in collected() and "test_its_name_is_a_word" in collected()
    both = collected("test_mine.py")
    assert "test_mine.py::test_mine" in both and "test_its_name_is_a_word" in both


@pytest.mark.slow
def test_who_is_not_there_or_cannot_be_used_is_told(session: Any, offered: Any) -> None:
    passed, _, failed = session("--rknnlite-backend", "nonsense").listoutcomes()
    assert not passed and all("no backend named 'nonsense'" in str(report.longrepr) for report in failed)
    passed, skipped, failed = session("--rknnlite-backend", "rknn3rt").listoutcomes()
    assert passed and not failed
    assert all("backend rknn3rt cannot be used here" in str(report.longrepr) for report in skipped)


def test_a_model_that_is_refused_is_told(session: Any) -> None:
    path = ROOT / "examples" / "onnx_backend" / "tests" / "weighted.onnx"
    _, skipped, failed = session("--rknnlite-backend", "cpu", "--rknnlite-model", str(path)).listoutcomes()
    assert not failed and all(
        "name one of yours: --rknnlite-model" in str(report.longrepr) for report in skipped
    )
