"""Numbers and types of the protocol's messages are those of the clients that others wrote; what is shipped is compiled."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("google.protobuf")

from rknnlite_protocol.grpc_messages import INFERENCE, message, methods

from tests.support.needs import needs

PROTOCOL = Path(__file__).parents[2] / "plugins" / "rknnlite_protocol"
FILES = ("open_inference.proto", "health.proto", "board.proto")
DUMP = """
import json, sys
from importlib import import_module
found = {}
def add(descriptor):
    fields = {}
    for field in descriptor.fields:
        repeated = field.is_repeated if hasattr(field, "is_repeated") else field.label == 3
        kind = field.message_type.full_name if field.message_type else field.enum_type.full_name if field.enum_type else ""
        fields[field.name] = [field.number, field.type, bool(repeated), kind]
    found[descriptor.full_name] = fields
    for nested in descriptor.nested_types:
        add(nested)
calls = {}
for name in sys.argv[1:]:
    file = import_module(name).DESCRIPTOR
    for descriptor in file.message_types_by_name.values():
        add(descriptor)
    for descriptor in file.enum_types_by_name.values():
        found[descriptor.full_name] = {value.name: value.number for value in descriptor.values}
    for service in file.services_by_name.values():
        for method in service.methods:
            calls[method.name] = [method.input_type.full_name, method.output_type.full_name]
print(json.dumps([found, calls]))
"""
CLIENTS = {
    "tritonclient": ("tritonclient.grpc.model_config_pb2", "tritonclient.grpc.service_pb2"),
    "kserve": ("kserve.protocol.grpc.grpc_predict_v2_pb2",),
}


@pytest.mark.parametrize("client", [pytest.param("kserve", marks=pytest.mark.slow), "tritonclient"])
def test_every_field_has_the_number_and_type_that_the_client_gives_it(client: str) -> None:
    needs(client)
    theirs, calls = _dumped(*CLIENTS[client])
    compared = 0
    for name, fields in _ours().items():
        for field, told in fields.items():
            if name not in theirs or field not in theirs[name] or _differs_by_right(client, name, field):
                continue
            assert told == theirs[name][field], f"{name}.{field}"
            compared += 1
    assert compared > {"tritonclient": 130, "kserve": 60}[client]
    found = methods(INFERENCE)
    for name, (asked, answered) in calls.items():
        if name in found:
            assert [m.DESCRIPTOR.full_name for m in (found[name].request, found[name].response)] == [
                asked,
                answered,
            ]


@pytest.mark.parametrize("client", [pytest.param("kserve", marks=pytest.mark.slow), "tritonclient"])
def test_no_field_that_a_client_sends_has_another_meaning_here(client: str) -> None:
    """A number that both have is the same field; numbers that only they have are skipped by protobuf."""
    needs(client)
    theirs, _ = _dumped(*CLIENTS[client])
    for name, fields in _ours().items():
        numbers = {told[0]: field for field, told in theirs.get(name, {}).items() if isinstance(told, list)}
        for field, told in fields.items():
            if isinstance(told, list) and told[0] in numbers and not _differs_by_right(client, name, field):
                assert numbers[told[0]] == field, f"{name}: field {told[0]}"


def test_the_descriptors_are_those_of_the_definitions(tmp_path: Path) -> None:
    needs("grpc_tools")
    from google.protobuf import descriptor_pb2

    made = tmp_path / "made.desc"
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", "-I.", f"--descriptor_set_out={made}", *FILES],
        cwd=PROTOCOL, check=True,
    )  # fmt: skip
    read = descriptor_pb2.FileDescriptorSet.FromString
    assert read(made.read_bytes()) == read((PROTOCOL / "messages.desc").read_bytes())


def test_field_one_is_the_model_in_kserves_definition_of_loading() -> None:
    """The one place where the two definitions differ; the server takes either."""
    for kind in ("Load", "Unload"):
        fields = message(f"inference.RepositoryModel{kind}Request").DESCRIPTOR.fields_by_name
        assert (fields["repository_name"].number, fields["model_name"].number) == (1, 2)


def _differs_by_right(client: str, name: str, field: str) -> bool:
    if client != "kserve":
        return False
    return name.startswith("inference.RepositoryModel") and name.endswith("Request") and "_name" in field


def _dumped(*modules: str) -> Any:
    done = subprocess.run([sys.executable, "-c", DUMP, *modules], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def _ours() -> dict[str, Any]:
    """As ``DUMP`` prints it."""
    file = message("inference.ModelInferRequest").DESCRIPTOR.file
    found: dict[str, Any] = {}

    def add(descriptor: Any) -> None:
        found[descriptor.full_name] = {
            field.name: [field.number, field.type, _repeated(field), _kind(field)]
            for field in descriptor.fields
        }
        for nested in descriptor.nested_types:
            add(nested)

    for descriptor in file.message_types_by_name.values():
        add(descriptor)
    for descriptor in file.enum_types_by_name.values():
        found[descriptor.full_name] = {value.name: value.number for value in descriptor.values}
    return found


def _repeated(field: Any) -> bool:
    return bool(field.is_repeated) if hasattr(field, "is_repeated") else field.label == 3


def _kind(field: Any) -> str:
    kind = field.message_type or field.enum_type
    return kind.full_name if kind else ""
