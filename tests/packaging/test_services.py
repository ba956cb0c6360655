"""The services of the Debian package: what they start is understood, and both have the same few rights."""

from __future__ import annotations

import argparse
import re
import shlex

import pytest

from .project import DEBIAN

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

UNITS = {
    "rknnlite-server": DEBIAN / "rknnlite-server.service",
    "rknnlite-networks": DEBIAN / "rknnlite-server.rknnlite-networks.service",
}


def directives(name: str) -> dict[str, list[str]]:
    """The settings of a unit, each with its values in order."""
    found: dict[str, list[str]] = {}
    for key, value in re.findall(r"^(\w+)=(.*)$", UNITS[name].read_text("utf-8"), re.MULTILINE):
        found.setdefault(key, []).append(value)
    return found


def options(name: str) -> str:
    """``OPTIONS`` of the file in /etc/default that a unit names."""
    (given,) = directives(name)["EnvironmentFile"]
    assert given == f"-/etc/default/{name}"
    file = DEBIAN / UNITS[name].name.replace(".service", ".default")
    (found,) = re.findall(r'^OPTIONS="(.*)"$', file.read_text("utf-8"), re.MULTILINE)
    return str(found)


@pytest.mark.parametrize("name", UNITS)
def test_what_a_service_starts_is_understood(name: str) -> None:
    from rknnlite_server.command import COMMAND

    (line,) = directives(name)["ExecStart"]
    words = shlex.split(line.replace("$OPTIONS", options(name)))
    program, given = (words[0], words[1:]) if words[0].endswith("rkllm3-server") else (words[1], words[2:])
    assert program in ("/usr/bin/rkllm3-server", "serve")
    parser = argparse.ArgumentParser(exit_on_error=False)
    COMMAND.arguments(parser)
    args = parser.parse_args(given)
    assert args.host == "127.0.0.1"
    assert not args.allow_upload and not args.insecure


@pytest.mark.parametrize("name", UNITS)
def test_a_service_writes_only_where_it_may(name: str) -> None:
    """And what it writes has folders that systemd makes, and that the package removes when it is purged."""
    found = directives(name)
    own = {f"/var/lib/{folder}" for folder in found["StateDirectory"][0].split()}
    own |= {f"/var/cache/{folder}" for folder in found["CacheDirectory"][0].split()}
    own |= {f"/var/log/{folder}" for folder in found["LogsDirectory"][0].split()}
    advised = (
        (DEBIAN / f"rknnlite-server.{name}.default")
        if name != "rknnlite-server"
        else DEBIAN / "rknnlite-server.default"
    )
    for path in re.findall(r"/var/\S+", found["ExecStart"][0] + advised.read_text("utf-8")):
        assert any(path == folder or path.startswith(f"{folder}/") for folder in own), path
    removing = (DEBIAN / "rknnlite-server.postrm").read_text("utf-8")
    assert f" {name}" in removing and "/var/lib /var/cache /var/log;" in removing


def test_both_services_have_the_same_few_rights() -> None:
    kept = (
        "Protect", "Restrict", "System", "Device", "Capability", "NoNew", "Lock", "Private", "Remove", "Dynamic",
        "Supplementary", "UMask", "OOM",
    )  # fmt: skip
    first, second = ({k: v for k, v in directives(name).items() if k.startswith(kept)} for name in UNITS)
    assert first == second
    assert first["DynamicUser"] == ["yes"] and first["SupplementaryGroups"] == ["video render"]
