"""npm's packages ``openai`` and ``ai``, unchanged.

They are found where node looks: ``npm install openai ai @ai-sdk/openai zod`` in a folder, whose ``node_modules`` is
``NODE_PATH``.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from .conftest import Served

PROGRAM = Path(__file__).with_name("npm_clients.js")
PACKAGES = ("openai", "ai", "@ai-sdk/openai", "zod")
ANSWER = "2 + 3 = 5"
RAINY = "It is rainy in Lisbon at 14 degrees."


@pytest.fixture(scope="module")
def found(server: Served) -> Any:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    for package in PACKAGES:
        looked = subprocess.run(
            [node, "-e", f"require.resolve({package!r})"], capture_output=True, timeout=60
        )
        if looked.returncode:
            pytest.skip(f"npm's {package} is not in NODE_PATH")
    ran = subprocess.run(
        [node, str(PROGRAM), f"{server.url}/v1"], capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


def test_openai(found: Any) -> None:
    said = {"first": ANSWER, "streamed": ANSWER, "gathered": ANSWER, "more": "1 + 1 = 2"}
    assert found["openai"] == {**said, "kept": True, "gone": 404}


def test_ai(found: Any) -> None:
    told = found["ai"]
    assert (told["first"], told["streamed"], told["more"]) == (ANSWER, ANSWER, "1 + 1 = 2")
    assert told["reason"] == "stop" and told["tokens"] > 5 and told["failed"] == 400
    assert (told["called"], told["called_in_pieces"], told["asked"]) == (RAINY, RAINY, ["Lisbon", "Lisbon"])
    assert set(told["object"]) == {"wet", "dry"}
