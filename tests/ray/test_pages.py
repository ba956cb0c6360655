"""docs/fleet.md and examples/fleet keep their word."""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ruamel.yaml import YAML

from tests.examples.test_without_extras import run
from tests.ray.conftest import until
from tests.support.corpus import EXAMPLES, ROOT
from tests.support.needs import needs

PAGE = (ROOT / "docs" / "fleet.md").read_text(encoding="utf-8")
KSERVE = EXAMPLES / "fleet" / "kserve.yaml"


def documents() -> list[Any]:
    return list(YAML(typ="safe").load_all(KSERVE.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("program", "hidden", "text"),
    [
        ("evaluate.py", "ray", "ray[data,serve]"),
        ("evaluate.py", "sklearn", "scikit-learn"),
        ("serve.py", "ray", "ray[data,serve]"),
    ],
)
def test_an_example_says_what_it_lacks(program: str, hidden: str, text: str, tmp_path: Path) -> None:
    if hidden != "ray":
        pytest.importorskip("ray")
    done = run(f"fleet/{program}", tmp_path, hidden)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1 and "pip install" in line and text in line


@pytest.mark.parametrize("program", sorted((EXAMPLES / "fleet").glob("*.py")), ids=lambda path: path.name)
def test_examples_are_short(program: Path) -> None:
    assert program.read_text(encoding="utf-8").count("\n") < 100


def test_the_sketch_for_kserve_starts_our_server() -> None:
    """Its arguments are ours, and its probes are paths that need no key."""
    pytest.importorskip("starlette")
    from rknnlite_server import arguments, command
    from rknnlite_server.access import OPEN_PATHS

    runtime, service = documents()
    (container,) = runtime["spec"]["containers"]
    assert container["command"] == ["rknnlite"] and container["args"][0] == command.COMMAND.name
    parser = argparse.ArgumentParser()
    command.COMMAND.arguments(parser)
    name = service["metadata"]["name"]
    given = parser.parse_args([word.replace("{{.Name}}", name) for word in container["args"][1:]])
    assert given.networks == [f"/mnt/models/{name}.rknn"] and given.insecure
    assert given.port == container["ports"][0]["containerPort"]
    for probe in ("readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["path"] in OPEN_PATHS
        assert container[probe]["httpGet"]["port"] == given.port
    assert arguments.settings_of_arguments is not None
    assert service["spec"]["predictor"]["model"]["runtime"] == runtime["metadata"]["name"]


FIELDS = """
import json, sys
import kserve
for name, fields in json.load(sys.stdin):
    assert set(fields) <= set(getattr(kserve, name).attribute_map.values()), name
"""


@pytest.mark.slow
def test_the_sketch_for_kserve_has_fields_that_there_are() -> None:
    """In a process of its own: KServe's messages have the names of Triton's."""
    needs("kserve")
    runtime, service = documents()
    predictor = service["spec"]["predictor"]
    asked = [
        ("V1alpha1ServingRuntime", list(runtime)),
        ("V1alpha1ServingRuntimeSpec", list(runtime["spec"])),
        ("V1alpha1SupportedModelFormat", list(runtime["spec"]["supportedModelFormats"][0])),
        ("V1beta1InferenceService", list(service)),
        ("V1beta1PredictorSpec", list(predictor)),
        ("V1beta1ModelSpec", list(predictor["model"])),
        ("V1beta1ModelFormat", list(predictor["model"]["modelFormat"])),
    ]
    done = subprocess.run(
        [sys.executable, "-c", FIELDS], input=json.dumps(asked), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]


def fragment(name: str) -> Any:
    """A function that a block of the page defines."""
    (code,) = (
        block for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S) if f"def {name}(" in block
    )
    names: dict[str, Any] = {}
    exec(code, names)
    return names[name]


@pytest.mark.slow
def test_the_pipeline_of_the_page_runs(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    monkeypatch.chdir(ROOT)
    rows = ray.data.from_items([{"id": i, "picture": np.full((224, 224, 3), i, np.uint8)} for i in range(6)])
    found = fragment("best_classes")(rows, backend="cpu").take_all()
    assert sorted(row["id"] for row in found) == list(range(6))
    assert all(0 <= row["best"] < 10 for row in found)


@pytest.mark.slow
def test_an_evaluation_goes_on_and_tells_the_shares(ray_environment: Path, tmp_path: Path) -> None:
    for module in ("ray", "sklearn", "cv2"):
        pytest.importorskip(module)
    for before in (0, 40):
        done = example("evaluate.py", tmp_path, "--digits", "40", "--workers", "2")
        assert f"{before} of 40 digits are in digits already" in done
        right, count = map(int, re.findall(r"^all: (\d+) of (\d+) digits", done, re.M)[0])
        assert count == 40 and right >= 36
    assert not [path for path in tmp_path.iterdir() if path.name != "digits"]


@pytest.mark.slow
def test_the_served_model_answers_under_load(ray_environment: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    done = example("serve.py", tmp_path, "--port", "8159", "--seconds", "8", "--clients", "3")
    (counts,) = re.findall(r"^(\{.*\}) in 8 s; [123] replicas", done, re.M)
    counted = json.loads(counts.replace("'", '"'))
    assert counted["right"] > 3 and "WRONG" not in counted


def example(program: str, folder: Path, *arguments: str) -> str:
    """The output of an example; nothing of it may be left."""
    before = set(Path("/tmp").glob("fleet-*"))
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "fleet" / program), *arguments], cwd=folder, capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    left = set(Path("/tmp").glob("fleet-*")) - before
    assert not left and not [line for line in processes() if any(str(path) in line for path in left)]
    return done.stdout


def processes() -> list[str]:
    return subprocess.run(
        ["ps", "-eo", "args"], capture_output=True, text=True, check=True
    ).stdout.splitlines()


# -- ray start -----------------------------------------------------------------------------------------------


@pytest.fixture
def started(ray_environment: Path) -> Iterator[Callable[[str], None]]:
    """``started(line)`` runs a command of Ray's in the foreground until the test ends."""
    running: list[subprocess.Popen[bytes]] = []
    tool = Path(sys.executable).with_name("ray")

    def start(line: str) -> None:
        name, *words = shlex.split(line)
        assert name == "ray"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        running.append(subprocess.Popen([str(tool), *words, "--block"], **quiet))

    yield start
    for process in reversed(running):
        process.send_signal(signal.SIGTERM)
        process.wait(60)


@pytest.mark.slow
def test_the_commands_of_the_page_make_a_cluster(
    started: Callable[[str], None], ray_environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they stand, but for address and port, and for a SoC that this machine need not have."""
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    token = secrets.token_hex(16)
    monkeypatch.setenv("RAY_AUTH_TOKEN", token)
    head, board = re.findall(
        r"^ +(?:rknnlite fleet check \S+ && +)?(ray start .*)$", PAGE.replace("\\\n", ""), re.M
    )
    port = str(20000 + os.getpid() % 10000)
    local = {"6379": port, "192.168.1.10": "127.0.0.1", "192.168.1.11": "127.0.0.1"}
    told = python("-m", "rknnlite", "fleet", "resources", "--soc", "rk3588").stdout.strip()
    local['"$(rknnlite fleet resources)"'] = shlex.quote(told)
    for there, here in local.items():
        head, board = head.replace(there, here), board.replace(there, here)
    started(head)
    ask = f"import ray, json; ray.init('127.0.0.1:{port}'); print(json.dumps(ray.cluster_resources()))"
    until(lambda: python("-c", ask).returncode == 0)
    checked = python("-m", "rknnlite", "fleet", "check", f"127.0.0.1:{port}")
    assert checked.returncode == 0 and "asks for a token, and ours is right" in checked.stdout
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(16))
    assert "asks for a token that this machine does not have" in python(*checked.args[1:]).stderr
    monkeypatch.setenv("RAY_AUTH_TOKEN", token)
    started(board)
    until(lambda: "rk3588" in python("-c", ask).stdout)
    there = json.loads(python("-c", ask).stdout.splitlines()[-1])
    assert (there["rknpu_core"], there["rk3588"]) == (3, 3)


def python(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=ROOT)
