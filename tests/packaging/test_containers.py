"""docs/docker.md: all forms give a container the same, and each is started once by runc, where that is possible."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.support.needs import needs

from .containers import (
    PAGE,
    Container,
    block,
    of_add_on,
    of_command,
    of_compose,
    of_pod,
    runtime_config,
    uncovering,
)
from .project import ROOT

DEVICE, LIBRARY, TREE = (
    "/dev/dri/renderD129",
    "/usr/lib/librknnrt.so",
    "/sys/firmware/devicetree/base/compatible",
)
SERVER = YAML(typ="safe").load((ROOT / "examples/docker/server/compose.yaml").read_text("utf-8"))["services"][
    "networks"
]
FORMS = {
    "docker": of_command(),
    "docker, uncovered": of_command(*uncovering("Docker")),
    "podman, uncovered": of_command(*uncovering("Podman")),
    "compose": of_compose(block("compose.yaml")["services"]["detector"]),
    "kubernetes": of_pod(block("pod.yaml"), block("argument of the device plugin")),
    "home assistant": of_add_on(block("config.yaml of an add-on")),
    "the server": of_compose(SERVER),
}
STARTS = [(form, user) for form, made in FORMS.items() for user in (0, 10001) if not user or made.groups]
"""Forms and users; an image without groups is root's."""
RUNC = shutil.which("runc") or "/usr/sbin/runc"
ENVIRONMENT, PROJECT = "/environment", "/project"
PARTS_OF_IMAGES = {"home assistant": {"groups", "library"}}
"""What a form need not give, and why is on the page: root needs no group, the image has the library."""
LOOK = """
import json, os, stat, sys
sys.path[:0] = {path!r}
from rknnlite import socs
def can(path):
    try:
        os.close(os.open(path, os.O_RDWR))
        return True
    except OSError as error:
        return error.strerror
def text(path):
    try:
        return open(path).read()
    except OSError as error:
        return error.strerror
json.dump(dict(soc=getattr(socs.detect(), "name", None), device=can({device!r}), library=text({library!r}), tree=text({tree!r}),
               node=stat.S_ISCHR(os.stat({device!r}).st_mode)), sys.stdout)
"""


@pytest.mark.parametrize("form", FORMS)
def test_each_form_gives_the_same(form: str) -> None:
    """One table of what a container needs: node, group, SoC, library. Nothing lies inside /proc."""
    made, spared = FORMS[form], PARTS_OF_IMAGES.get(form, set())
    assert made.devices == {DEVICE}
    assert made.groups == (set() if "groups" in spared else {"105"})
    assert made.environment["RKNNLITE_SOC"] == "rk3588"
    assert made.mounts.get(LIBRARY) == (None if "library" in spared else (LIBRARY, False))
    assert not [target for target in made.mounts if target.startswith(("/proc", "/sys"))], (
        "runtimes refuse or cover it"
    )


def test_the_page_is_short() -> None:
    assert len(PAGE.split()) <= 500


def test_what_uncovers_the_tree_is_told() -> None:
    assert [form for form, made in FORMS.items() if "/sys/firmware" in made.uncovered] == [
        "docker, uncovered",
        "podman, uncovered",
    ]
    assert uncovering("Docker")[-1] == "apparmor=unconfined", "Docker's profile denies /sys/firmware as well"


@pytest.fixture(scope="module")
def rootfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """This machine's files, and room to write above them."""
    needs("runc")
    if os.geteuid() != 0:
        pytest.skip("needs root: runc mounts and makes device nodes")
    folder = tmp_path_factory.mktemp("container")
    for name in ("upper", "work", "rootfs"):
        (folder / name).mkdir()
    (folder / "upper").chmod(0o755)  # of the container's "/", whatever the umask is
    options = f"lowerdir=/,upperdir={folder}/upper,workdir={folder}/work"
    done = subprocess.run(
        ["mount", "-t", "overlay", "overlay", "-o", options, folder / "rootfs"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"needs overlayfs: {done.stderr.strip()}")
    for place in Path(sys.executable).resolve().parents:  # a Python in root's home is any user's there
        (folder / "rootfs" / place.relative_to("/")).chmod(0o755)
    yield folder / "rootfs"
    subprocess.run(["umount", folder / "rootfs"], check=True)


def start(
    container: Container, rootfs: Path, folder: Path, command: list[str], **binds: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in a container whose kernel has a device tree, as that of a board."""
    tree = folder / "board/devicetree/base"
    tree.mkdir(parents=True, exist_ok=True)
    (tree / "compatible").write_text("a,board\0rockchip,rk3588\0")
    for name in ("librknnrt.so", "models"):
        (folder / name).write_text("the board's")
    sources = {LIBRARY: str(folder / "librknnrt.so"), "./models": str(folder / "models")}
    more = {"/sys/firmware": str(folder / "board"), ENVIRONMENT: sys.prefix, PROJECT: str(ROOT), **binds}
    container = dataclasses.replace(
        container, mounts={at: what for at, what in container.mounts.items() if at != "/src"}
    )
    config = runtime_config(container, rootfs, command, more, sources)
    (folder / "config.json").write_text(json.dumps(config))
    words = [
        RUNC,
        "--root",
        str(folder / "state"),
        "run",
        "--bundle",
        str(folder),
        f"rknnlite-{uuid.uuid4().hex[:12]}",
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=240)
    if any(word in done.stderr for word in ("cgroup", "namespace", "operation not permitted")):
        pytest.skip(f"runc cannot start containers here: {done.stderr.strip()[-200:]}")
    return done


def looked(container: Container, rootfs: Path, folder: Path) -> dict[str, Any]:
    script = LOOK.format(path=[PROJECT, f"{PROJECT}/plugins"], device=DEVICE, library=LIBRARY, tree=TREE)
    done = start(container, rootfs, folder, [f"{ENVIRONMENT}/bin/python", "-c", script])
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.slow
@pytest.mark.parametrize(("form", "user"), STARTS)
def test_each_form_starts(form: str, user: int, rootfs: Path, tmp_path: Path) -> None:
    """The SoC is known, the node can be opened, the library is there; the tree is seen where it is uncovered."""
    made = dataclasses.replace(FORMS[form], user=user)
    found = looked(made, rootfs, tmp_path)
    assert (found["soc"], found["node"], found["device"]) == ("rk3588", True, True)
    assert (found["library"] == "the board's") is (LIBRARY in made.mounts)
    seen = "a,board\0rockchip,rk3588\0" if "/sys/firmware" in made.uncovered else "No such file or directory"
    assert found["tree"] == seen


@pytest.mark.slow
def test_without_the_group_another_user_may_not_open_it(rootfs: Path, tmp_path: Path) -> None:
    found = looked(dataclasses.replace(FORMS["docker"], user=10001, groups=set()), rootfs, tmp_path)
    assert found["device"] == "Permission denied"


@pytest.mark.slow
def test_a_mount_inside_proc_is_refused(rootfs: Path, tmp_path: Path) -> None:
    """Why no form has one: this is what runc says on a machine without a device tree; on a board it covers what it leads to."""
    done = start(
        FORMS["docker"],
        rootfs,
        tmp_path,
        ["true"],
        **{"/proc/device-tree/compatible": str(tmp_path / "models")},
    )
    assert done.returncode != 0 and "/proc" in done.stderr
