"""Workflows and issue forms are sound: what they run is in the tree, and they may do no more than they need."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.corpus import ROOT

from .project import table

GITHUB = ROOT / ".github"
if not GITHUB.exists():
    pytest.skip("an installed package has no workflows", allow_module_level=True)

WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
ALLOWED = {
    "release/attest": {"attestations": "write", "contents": "read", "id-token": "write"},
    "release/assets": {"contents": "write"},
    "release/index": {"id-token": "write"},
    "release/site": {"id-token": "write", "pages": "write"},
}
"""What a job may do beyond reading the repository."""
TARGETS = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def read(path: Path) -> Any:
    """A YAML file; ``on`` is a word here, as for GitHub."""
    return pytest.importorskip("ruamel.yaml").YAML(typ="safe").load(path.read_text("utf-8"))


def jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in WORKFLOWS:
        for name, job in read(path)["jobs"].items():
            yield f"{path.stem}/{name}", job


def commands() -> list[tuple[str, str]]:
    return [
        (name, line)
        for name, job in jobs()
        for step in job["steps"]
        for line in step.get("run", "").splitlines()
    ]


def test_there_are_workflows_and_forms() -> None:
    assert {path.stem for path in WORKFLOWS} == {"release", "test"}
    assert {path.stem for path in FORMS} == {"bug", "model_refused", "wish", "wrong_result"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_reads_and_nothing_else(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["concurrency"]["group"].startswith(path.stem)


def test_a_job_may_do_what_it_needs() -> None:
    assert {name: job["permissions"] for name, job in jobs() if "permissions" in job} == ALLOWED


def test_every_command_is_a_target_or_a_script_of_the_tree() -> None:
    """So that all of it runs on any machine, without GitHub."""
    assert len(commands()) >= 8
    for name, line in commands():
        word, *rest = line.split()
        if word == "make":
            assert rest[0] in TARGETS, f"{name}: make has no target {rest[0]}"
        else:
            script = ROOT / word
            assert script.is_file() and script.stat().st_mode & 0o100, (
                f"{name}: {word} is no script of the tree"
            )


def test_git_works_in_a_container() -> None:
    """The files there belong to another user than the one who runs, which git refuses unless it is told."""
    for name, job in jobs():
        assert ("container" in job) == (job.get("env", {}).get("GIT_CONFIG_KEY_0") == "safe.directory"), name


def test_actions_are_of_one_version_each() -> None:
    used = [step["uses"] for _, job in jobs() for step in job["steps"] if "uses" in step]
    versions = dict(action.split("@") for action in used)
    for action in used:
        name, _, version = action.partition("@")
        assert re.fullmatch(r"v\d+\.\d+\.\d+|[0-9a-f]{40}", version), f"{action} may change under us"
        assert versions[name] == version, f"{name} in two versions"


def test_the_matrix_has_the_pythons_that_are_promised() -> None:
    matrix = dict(jobs())["test/pythons"]["strategy"]["matrix"]
    named = [re.search(r"Python :: (3\.\d+)$", line) for line in table("project")["classifiers"]]
    assert matrix["python"] == [match[1] for match in named if match]
    assert f">={matrix['python'][0]}" == table("project")["requires-python"]
    assert {"ubuntu-24.04", "ubuntu-24.04-arm"} == set(matrix["machine"])


def test_everything_that_a_merge_must_pass_is_run() -> None:
    run = {line for name, line in commands() if name.startswith("test/")}
    assert {"make test PYTHON=python", "make bare-test", "make release-check", ".ci/run"} <= run


def test_a_tag_is_the_version_before_anything_is_built() -> None:
    first = next(line for name, line in commands() if name == "release/build")
    assert first == 'tools/release/version.sh "$GITHUB_REF_NAME"'


def test_an_index_gets_nothing_before_the_project_owns_its_name_there() -> None:
    release = dict(jobs())
    assert release["release/index"]["if"] == "vars.RKNNLITE_INDEX == 'yes'"
    (index,) = (
        step["with"]["path"].split()
        for step in release["release/build"]["steps"]
        if step.get("with", {}).get("name") == "index"
    )
    assert index == ["build/release/rknnlite-*.whl", "build/release/rknnlite-*.tar.gz"]


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_is_one(path: Path) -> None:
    form = read(path)
    assert form["name"] and form["description"] and form["labels"]
    names = [field["id"] for field in form["body"]]
    assert len(set(names)) == len(names) >= 1
    for field in form["body"]:
        assert field["type"] in ("dropdown", "input", "textarea") and field["attributes"]["label"]
    assert any(field.get("validations", {}).get("required") for field in form["body"])


@pytest.mark.parametrize("name", ["bug", "model_refused", "wrong_result"])
def test_forms_of_faults_ask_for_the_report(name: str) -> None:
    (report,) = (
        field for field in read(GITHUB / "ISSUE_TEMPLATE" / f"{name}.yml")["body"] if field["id"] == "report"
    )
    assert "rknnlite doctor --report" in report["attributes"]["description"]
    assert report["validations"]["required"]
