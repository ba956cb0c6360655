"""The description of the server: valid, complete, and true of what is answered."""

from __future__ import annotations

import re
from typing import Any

import pytest
from rknnlite_server.app import all_routes

from rknnlite import __version__

from .conftest import BATCH, LOADED, SOFT, Networks, inputs_of
from .test_rest import tensors


@pytest.fixture(scope="module")
def described(networks: Networks) -> dict[str, Any]:
    answer = networks.http.get("/openapi.json")
    assert answer.status_code == 200 and answer.headers["content-type"] == "application/json"
    found: dict[str, Any] = answer.json()
    return found


def test_it_is_valid(described: dict[str, Any]) -> None:
    validator = pytest.importorskip("openapi_spec_validator")
    validator.validate(described)
    assert described["info"]["version"] == __version__


def test_every_route_is_in_it_and_nothing_else(described: dict[str, Any]) -> None:
    routes = {
        (re.sub(r":\w+}", "}", route.path), method.lower())
        for route in all_routes()
        for method in route.methods - {"HEAD"}
    }
    told = {
        (path, word) for path, item in described["paths"].items() for word in item if word != "parameters"
    }
    assert told == routes


def test_every_call_says_what_it_takes_and_gives(described: dict[str, Any]) -> None:
    names = []
    for path, item in described["paths"].items():
        for method, call in item.items():
            if method == "parameters":
                continue
            names.append(call["operationId"])
            assert call["summary"] and call["tags"], path
            assert any(status in call["responses"] for status in ("200", "501")), path
            assert ("requestBody" in call) == (method == "post" and "200" in call["responses"]), path
            given = item.get("parameters", [])
            inside = {entry.get("name") or entry["$ref"].rpartition("/")[2] for entry in given}
            assert inside == set(re.findall(r"{(\w+)}", path))
    assert len(set(names)) == len(names)


def test_answers_are_as_described(networks: Networks, described: dict[str, Any]) -> None:
    """Each schema of the networks' part against what comes, and what is sent."""
    validators = pytest.importorskip("openapi_schema_validator")

    def check(schema: Any, value: Any) -> None:
        whole = {**schema, "components": described["components"]}
        validators.OAS30Validator(whole).validate(value)

    def called(method: str, path: str, template: str, body: Any = None) -> None:
        answer = networks.http.request(method, path, json=body)
        call = described["paths"][template][method.lower()]
        told = call["responses"][str(answer.status_code)]
        told = (
            described["components"]["responses"][told["$ref"].rpartition("/")[2]] if "$ref" in told else told
        )
        check(told["content"]["application/json"]["schema"], answer.json())
        if body is not None and answer.status_code == 200:
            check(call["requestBody"]["content"]["application/json"]["schema"], body)

    for path in ("/v2", "/v2/health/live", "/v2/health/ready", "/v2/models/stats", "/v2/logging", "/health"):
        called("GET", path, path)
    for name in (*LOADED, "none"):
        for end in ("", "/ready", "/config", "/stats"):
            called("GET", f"/v2/models/{name}{end}", f"/v2/models/{{name}}{end}")
            if name == BATCH:
                path = "/v2/models/{name}/versions/{version}" + end
                called("GET", path.format(name=name, version="1"), path)
    body = {"inputs": tensors(inputs_of(SOFT)), "id": "7", "parameters": {"raw": True, "timeout": 10_000_000}}
    for sent in (body, {**body, "outputs": [{"name": "out3"}]}, {}, {**body, "id": 7}):
        called("POST", f"/v2/models/{SOFT}/infer", "/v2/models/{name}/infer", sent)
    called("POST", "/v2/repository/index", "/v2/repository/index", {"ready": False})
    called("POST", "/v2/repository/models/none/load", "/v2/repository/models/{name}/load", {})


def test_only_health_and_the_page_are_open(described: dict[str, Any]) -> None:
    from rknnlite_server.access import OPEN_PATHS
    from rknnlite_server.page import PAGE_PATHS

    told = {path for path, item in described["paths"].items() if item.get("get", {}).get("security") == []}
    files = {
        path for path in OPEN_PATHS if path.startswith("/page/")
    }  # each of them, and no other of that path
    assert told == {*(OPEN_PATHS - files), "/page/{name}"} and files == set(PAGE_PATHS) - {"/"}
