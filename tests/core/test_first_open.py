"""Opening a network loads what it needs, and nothing of language models, pools or other backends."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from tests.support.corpus import ROOT

MODEL = ROOT / "examples" / "resnet18" / "resnet18_for_RK3588.rknn"
MOST = 103
"""Modules of ours behind the first open of a network on the CPU reference."""

MAY_LOAD = [
    r"rknnlite(\.(choosing|config|errors|extras|hookspecs|layout|log|plugins|quant|runtime|socs|tensor|_version))?",
    r"rknnlite\.formats(\.(?!llm|rkllm|mini|rknn_classic|rknn1)\w+)?",
    r"rknnlite\.spi(\.(?!llm|matmul|command)\w+)?",
    r"rknnlite\.files(\.reading|\.json_text)?",  # what maps the model, and reads its trailer
    r"rknnlite\.native(\.\w+)?",
    r"rknnlite_graph(\.(graph|node_view|operators|read|unary_functions|(shape_rules|product_shapes)))?",
    r"rknnlite_graph\.reading(\.\w+)?",
    r"rknnlite_backend(\.(running|zero_copy(_context)?|begun_frames|bindings|host_memory|node_runners))?",
    r"rknnlite_cpu(\.(?!llm\b|matmul\b)\w+)?(\.\w+)?",
    r"rknnlite_cplugin|rknnlite\.abi",  # where operators lie
]


ENGINE_MOST = 16
"""More of ours where an engine is to compute."""


def modules_behind(engine: str) -> list[str]:
    """Modules of ours that a fresh interpreter has loaded when a network is open."""
    script = (
        f"import rknnlite, sys, json; rknnlite.open({str(MODEL)!r}, backend='cpu', engine={engine!r}).close();"
        "print(json.dumps([m for m in sys.modules if m.split('.')[0].startswith(('rknnlite', 'rknn3lite'))]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    found: list[str] = json.loads(done.stdout)
    return sorted(found)


@pytest.fixture(scope="module")
def loaded() -> list[str]:
    """Behind the first open on the numpy kernels."""
    return modules_behind("numpy")


def test_only_what_a_network_needs(loaded: list[str]) -> None:
    surplus = [name for name in loaded if not any(re.fullmatch(rule, name) for rule in MAY_LOAD)]
    assert not surplus


def test_how_many(loaded: list[str]) -> None:
    assert len(loaded) <= MOST


def test_an_engine_adds_few(loaded: list[str]) -> None:
    pytest.importorskip("onnxruntime")
    modules_behind("onnxruntime")  # what is built on first use is there now
    more = set(modules_behind("onnxruntime")) - set(loaded)
    assert len(more) <= ENGINE_MOST, sorted(more)
    rooms = (
        "rknnlite_backend.versions",
        "rknnlite_cpu.engines",
        "rknnlite_onnx",
        "rknnlite.files",
        "rknnlite_graph",
        "rknnlite_programs",
    )
    assert not [name for name in more if not name.startswith(rooms)]
