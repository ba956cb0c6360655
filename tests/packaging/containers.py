"""What each form of docs/docker.md gives a container, as one record; and that record as runc takes it."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from .project import ROOT

PAGE = (ROOT / "docs" / "docker.md").read_text("utf-8")
GROUP = "105"
"""Of the device node, where a command asks the board for it."""
MASKED = ("/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/scsi", "/sys/firmware")
"""What Docker, Podman and containerd cover unless they are told otherwise."""
CAPABILITIES = (
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_KILL",
    "CAP_MKNOD",
    "CAP_SETGID",
    "CAP_SETUID",
)


@dataclass
class Container:
    """What a form asks for."""

    devices: set[str] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    environment: dict[str, str] = field(default_factory=dict)
    mounts: dict[str, tuple[str, bool]] = field(default_factory=dict)
    """Where it appears: where it comes from, and whether it may be written."""
    user: int = 0
    uncovered: tuple[str, ...] = ()
    read_only: bool = False
    capable: bool = True
    no_new_privileges: bool = False


def block(title: str) -> Any:
    """A form of the page, parsed."""
    (text,) = re.findall(rf'^```yaml title="{re.escape(title)}"\n(.*?)^```', PAGE, re.MULTILINE | re.DOTALL)
    return YAML(typ="safe").load(text)


def uncovering(runtime: str) -> list[str]:
    """The words of the table that uncover the device tree, for Docker or Podman."""
    (row,) = re.findall(rf"^\| {runtime}[^|]*\| `(--[^`]*)` \|", PAGE, re.MULTILINE)
    return shlex.split(row)


def of_command(*more: str) -> Container:
    """``docker run`` of the page, with more words in front."""
    (text,) = re.findall(r"^docker run (.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    words = shlex.split(
        re.sub(r'"\$\(stat -c %g [^)]*\)"', GROUP, text.replace("\\\n", " ")).replace('"$PWD"', str(ROOT))
    )
    parser = argparse.ArgumentParser()
    for flag in ("--rm", "-it"):
        parser.add_argument(flag, action="store_true")
    for flag in ("--device", "--group-add", "--security-opt", "-e", "-v"):
        parser.add_argument(flag, action="append", default=[])
    parser.add_argument("-w")
    parser.add_argument("image")
    parser.add_argument("command", nargs="+")
    given = parser.parse_args([*more, *words])
    return Container(
        set(given.device),
        set(given.group_add),
        dict(pair.split("=", 1) for pair in given.e),
        dict(map(_mount, given.v)),
        uncovered=_uncovered(given.security_opt),
    )


def of_compose(service: dict[str, Any]) -> Container:
    options = service.get("security_opt", [])
    return Container(
        set(service["devices"]),
        set(service["group_add"]),
        service["environment"],
        dict(map(_mount, service["volumes"])),
        uncovered=_uncovered(options),
        read_only=service.get("read_only", False),
        capable=service.get("cap_drop") != ["ALL"],
        no_new_privileges="no-new-privileges:true" in options,
    )


def of_pod(pod: dict[str, Any], argument: list[str]) -> Container:
    """A pod, and what the device plugin is told."""
    plugin = json.loads(argument[0].partition("=")[2])
    (container,) = pod["spec"]["containers"]
    volumes = {volume["name"]: volume["hostPath"]["path"] for volume in pod["spec"]["volumes"]}
    asked = container["resources"]["limits"]
    assert asked == {f"squat.ai/{plugin['name']}": 1}
    return Container(
        {path["path"] for group in plugin["groups"] for path in group["paths"]},
        {str(group) for group in pod["spec"]["securityContext"]["supplementalGroups"]},
        {pair["name"]: pair["value"] for pair in container["env"]},
        {
            each["mountPath"]: (volumes[each["name"]], not each["readOnly"])
            for each in container["volumeMounts"]
        },
        no_new_privileges=not container["securityContext"]["allowPrivilegeEscalation"],
    )


def of_add_on(config: dict[str, Any]) -> Container:
    """An add-on runs as root, which needs no group; the library is part of its image."""
    assert {"name", "version", "slug", "description", "arch"} <= config.keys(), "what the supervisor demands"
    return Container(set(config["devices"]), set(), config["environment"], {})


def _mount(text: str) -> tuple[str, tuple[str, bool]]:
    source, target, *options = text.split(":")
    return target, (source, options != ["ro"])


def _uncovered(options: list[str]) -> tuple[str, ...]:
    if "systempaths=unconfined" in options:
        return MASKED
    return tuple(option.partition("=")[2] for option in options if option.startswith("unmask="))


def runtime_config(
    container: Container, rootfs: Path, command: list[str], binds: dict[str, str], sources: dict[str, str]
) -> dict[str, Any]:
    """The OCI configuration. ``sources``: what stands here for files of the board's; ``binds``: further mounts."""

    def bind(target: str, source: str, writable: bool = False) -> dict[str, Any]:
        options = ["rbind", "rw" if writable else "ro"]
        return {
            "destination": target,
            "type": "bind",
            "source": sources.get(source, source),
            "options": options,
        }

    capabilities = list(CAPABILITIES) if container.capable else []
    return {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False,
            "user": {
                "uid": container.user,
                "gid": container.user,
                "additionalGids": sorted(map(int, container.groups)),
            },
            "args": command,
            "env": [
                "PATH=/usr/bin:/bin",
                "RKNNLITE_CONFIG=",
                *(f"{key}={value}" for key, value in container.environment.items()),
            ],
            "cwd": "/",
            "capabilities": {"bounding": capabilities}
            | dict.fromkeys(("effective", "permitted"), [] if container.user else capabilities),
            "noNewPrivileges": container.no_new_privileges,
        },
        "root": {"path": str(rootfs), "readonly": container.read_only},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
            {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["nosuid", "ro"]},
            *(bind(target, source) for target, source in binds.items()),
            *(bind(target, *source) for target, source in container.mounts.items()),
        ],
        "linux": {
            "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount", "network")],
            "maskedPaths": [path for path in MASKED if path not in container.uncovered],
            # a device of this machine stands for the NPU's: what counts is who may open it
            "devices": [
                {
                    "path": path,
                    "type": "c",
                    "major": 1,
                    "minor": 3,
                    "fileMode": 0o660,
                    "uid": 0,
                    "gid": int(GROUP),
                }
                for path in sorted(container.devices)
            ],
        },
    }
