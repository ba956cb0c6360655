"""examples/docker/server: the image is made of packages that there are, and starts what is understood."""

from __future__ import annotations

import argparse
import json
import re
from typing import Any

import pytest
from ruamel.yaml import YAML

from .project import ROOT, fields, relation

FOLDER = ROOT / "examples" / "docker" / "server"
RECIPE = re.sub(r"\\\n", " ", (FOLDER / "Dockerfile").read_text("utf-8"))


def words(instruction: str) -> list[str]:
    """The list behind an instruction of the Dockerfile."""
    (found,) = re.findall(rf"^{instruction} +(\[.*\])$", RECIPE, re.MULTILINE)
    return list(json.loads(found))


def test_the_packages_are_those_that_are_built() -> None:
    copied = re.findall(r"([\w-]+)_\*\.deb", RECIPE)
    ours = {name: relation(field.get("Depends", "")) for name, field in fields().items() if name != "source"}
    assert {"python3-rknnlite-cpu", "python3-rknnlite-rknnrt", "rknnlite-server"} <= set(copied) <= set(ours)
    needed = {below for name in copied for below in ours[name] if below in ours}
    assert needed <= set(copied), "apt knows no archive that has them"


def test_the_server_that_it_starts_is_understood() -> None:
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    from rknnlite_server.command import COMMAND

    parser = argparse.ArgumentParser()
    COMMAND.arguments(parser)
    program, command, *given = words("ENTRYPOINT") + words("CMD")
    args = parser.parse_args(given)
    assert (program, command, args.host, args.insecure) == ("rknnlite", "serve", "0.0.0.0", False)
    assert re.findall(r"^EXPOSE (\d+) (\d+)$", RECIPE, re.MULTILINE) == [
        (str(args.port), str(args.grpc_port))
    ]
    assert words("VOLUME") == [args.repository]
    assert words("HEALTHCHECK .* CMD")[-1] == f"http://127.0.0.1:{args.port}/v2/health/ready"


def test_compose_gives_what_the_image_takes() -> None:
    made: Any = YAML(typ="safe").load((FOLDER / "compose.yaml").read_text("utf-8"))
    service = made["services"]["networks"]
    keys = words("CMD")[words("CMD").index("--api-key-file") + 1]
    assert [f"/run/secrets/{name}" for name in made["secrets"]] == [keys]
    assert service["secrets"] == list(made["secrets"])
    assert any(mount.split(":")[1] == words("VOLUME")[0] for mount in service["volumes"])
    assert {port.split(":")[1] for port in service["ports"]} == {"8000", "8001"}
