"""The double of librkllmrt as a file: exports, markers, declarations, the default call; every byte of what it is given arrives."""

from __future__ import annotations

import ctypes as ct
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from rknnlite_rkllm.abi import known_files
from rknnlite_rkllm.abi.params import DEFAULTS, RKLLMDefaultParamSpace
from rknnlite_rkllm.abi.revisions import REVISIONS, revision_of

from tests.doubles.double import compiler
from tests.doubles.rkllm.standin import build, model, records

from .raw import Client, described, filled

if compiler() is None:
    pytest.skip("no C compiler is installed", allow_module_level=True)

each = pytest.mark.parametrize("version", REVISIONS)
with_inputs = pytest.mark.parametrize("version", list(REVISIONS)[2:])


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RKLLM_DOUBLE_LOG", str(tmp_path / "log"))
    return tmp_path / "log"


@pytest.fixture
def network(tmp_path: Path) -> Path:
    path = tmp_path / "model.rkllm"
    path.write_bytes(model())
    return path


def rounded(value: Any) -> Any:
    """Floats as float32 in a description."""
    return json.loads(json.dumps(value), parse_float=lambda text: ct.c_float(float(text)).value)


@each
def test_exports_and_marker(version: str) -> None:
    path = build(version)
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", str(path)], capture_output=True, text=True, check=True
    )
    names = {line.split()[-1] for line in listed.stdout.splitlines()}
    assert revision_of(version) in known_files.revisions_exporting(names)
    undeclared = set(known_files.UNDECLARED_EXPORTS)
    assert undeclared & names == (undeclared if "rkllm_clear_kv_cache" in names else set())
    assert known_files.markers(path.read_bytes()) == (version,)


@pytest.mark.parametrize(
    ("claim", "found"), [("", ()), ("1.3.1", ("1.3.1",)), ("1.1.4+1.2.0", ("1.1.4", "1.2.0"))]
)
def test_a_file_may_say_anything(claim: str, found: tuple[str, ...]) -> None:
    assert known_files.markers(build("1.2.0", marker=claim).read_bytes()) == found


def test_a_file_may_have_other_structures_than_its_version() -> None:
    assert build("1.2.3", layout="1.1.4") != build("1.2.3")
    assert not hasattr(ct.CDLL(str(build("1.2.3", layout="1.1.4"))), "rkllm_clear_kv_cache")


@each
def test_the_default_call_with_more_space_than_it_needs(version: str) -> None:
    abi = revision_of(version)
    function = ct.CDLL(str(build(version))).rkllm_createDefaultParam
    function.restype = RKLLMDefaultParamSpace
    space = function()
    param = abi.RKLLMParam.from_buffer(space)
    assert {name: pytest.approx(getattr(param, name)) for name in DEFAULTS} == DEFAULTS


@each
def test_every_byte_of_the_parameters_arrives(version: str, log: Path) -> None:
    client = Client(version)
    param = filled(client.abi.RKLLMParam)
    assert client.init_param(param) == (0 if version == "1.1.0" else -1)
    entry = records(log, "rkllm_init")[-1]
    assert rounded(entry["param"]) == [described(param)]
    assert list(entry["param"][0]) == [name for name, _ in param._fields_]
    if client.abi.RKLLMInput is not None:  # by value, bytes between members are not copied
        assert entry["param bytes"] == bytes(param).hex()
    if client.handle:
        client.destroy()


@with_inputs
@pytest.mark.parametrize("kind", ["PROMPT", "TOKEN", "EMBED", "MULTIMODAL"])
def test_every_byte_of_an_input_arrives(
    version: str, kind: str, network: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(network.parent)  # the path of the prompt cache is any text
    client = Client(version)
    client.double.mode(quiet=1)
    assert client.init(network, max_context_len=512) == 0
    member = f"{kind.lower()}_input"
    given, infer = client.abi.RKLLMInput(), filled(client.abi.RKLLMInferParam, mode=0)
    for name, ctype in client.abi.RKLLMInput._fields_[:-1]:
        setattr(given, name, {"input_type": client.abi.RKLLMInputType[kind], "role": b"tool"}.get(name, True))
        assert ctype
    place = getattr(given.u, member) if kind != "PROMPT" else None
    if place is None:
        given.u.prompt_input = b"hello"
    else:
        setattr(given.u, member, filled(type(place)))
    client.call("rkllm_run", ct.byref(given), ct.byref(infer), 12345)
    client.destroy()
    entry = records(log, "rkllm_run")[-1]
    assert rounded(entry["input"]) == [described(given, member)]
    assert rounded(entry["infer"]) == [described(infer)]
    assert entry["input bytes"] == bytes(given).hex() and entry["infer bytes"] == bytes(infer).hex()
    assert entry["userdata"] == 12345


@pytest.mark.parametrize("version", ["1.1.0", "1.3.0"])
def test_every_byte_of_an_adapter_arrives(version: str, network: Path, log: Path) -> None:
    client = Client(version)
    assert client.init(network) == 0
    adapter = filled(client.abi.RKLLMLoraAdapter)
    assert client.call("rkllm_load_lora", ct.byref(adapter)) == -1  # there is no such file
    client.destroy()
    entry = records(log, "rkllm_load_lora")[-1]
    assert rounded(entry["adapter"]) == [described(adapter)]
    assert entry["adapter bytes"] == bytes(adapter).hex()


def test_a_wrong_layout_is_noticed(log: Path) -> None:
    """The structures of 1.2 given to a library of 1.3: what arrives is something else."""
    client = Client("1.2.3", build("1.3.0"))
    param = filled(client.abi.RKLLMParam)
    assert client.init_param(param) == -1
    arrived = rounded(records(log, "rkllm_init")[-1]["param"][0])
    wanted = described(param)
    assert arrived["top_p"] == wanted["top_p"]  # the beginning is the same
    assert arrived["extend_param"] != wanted["extend_param"]
