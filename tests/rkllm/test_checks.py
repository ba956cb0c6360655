"""What is looked at before the library is asked: files, drivers, SoCs, settings; the doctor says the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from rknnlite_llm import open_llm
from rknnlite_rkllm import checks
from rknnlite_rkllm.abi.revisions import REVISIONS
from rknnlite_rkllm.iommu_domains import IommuDomains
from rknnlite_rkllm.log_errors import LOG_ERRORS, context_limit, error_in_log, model_facts
from rknnlite_rkllm.model_file import RkllmFile
from rknnlite_rkllm.settings import RkllmSettings

from rknnlite import plugins
from rknnlite.cli.doctor import examine
from rknnlite.errors import (
    DeviceUnmatch,
    ModelInvalid,
    ModelUnsupported,
    ParamInvalid,
    RknnError,
    TargetPlatformUnmatch,
)
from rknnlite.formats import ModelFile
from rknnlite.native.board import Board
from rknnlite.spi.finding import Level
from tests.doubles.double import compiler
from tests.doubles.rkllm.standin import build, model


def board(root: Path, soc: str, driver: str | None = "0.9.8", free_mib: int = 8192) -> Board:
    """A machine of files."""
    files = {
        "proc/device-tree/compatible": f"vendor,board\0rockchip,{soc}\0",
        "proc/meminfo": f"MemTotal: 16000000 kB\nMemAvailable: {free_mib * 1024} kB\n",
    }
    if driver:
        files["sys/module/rknpu/version"] = f"{driver}\n"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return Board(root)


def raised(found: object) -> RknnError:
    with pytest.raises(RknnError) as caught:
        checks.refuse(found)  # type: ignore[arg-type]
    return caught.value


@pytest.mark.parametrize("driver", ["0.8.2", "0.9.6"])
def test_a_driver_that_computes_garbage_is_refused(tmp_path: Path, driver: str) -> None:
    machine = board(tmp_path, "rk3588", driver)
    error = raised(checks.of_board(machine))
    assert isinstance(error, DeviceUnmatch)
    assert f"driver is {driver}" in str(error) and "0.9.8" in str(error)
    checks.refuse(checks.of_board(machine, old_driver=True))


@pytest.mark.parametrize(
    ("driver", "level"), [("0.9.7", Level.WARN), ("0.9.8", Level.OK), (None, Level.INFO)]
)
def test_drivers_that_will_do(tmp_path: Path, driver: str | None, level: Level) -> None:
    (found,) = checks.of_board(board(tmp_path, "rk3576", driver), REVISIONS["1.2.1"])
    assert found[1].level is level


def test_another_soc_is_refused(tmp_path: Path) -> None:
    error = raised(checks.of_board(board(tmp_path, "rk3566")))
    assert isinstance(error, TargetPlatformUnmatch)
    assert "RK3588, RK3576, RK3562, RV1126B only" in str(error)


def test_a_machine_that_is_no_board_says_nothing(tmp_path: Path) -> None:
    assert list(checks.of_board(Board(tmp_path))) == []


def test_a_model_for_another_soc_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "Qwen3-0.6B_w8a8_rk3588_16k.rkllm"
    path.write_bytes(model())
    found = RkllmFile.of(path, ModelFile(path).data)
    assert (found.soc, found.dtype, found.context, found.toolkit) == ("rk3588", "w8a8", 16384, "1.2.3")
    error = raised(checks.of_file(ModelFile(path), board(tmp_path, "rk3576")))
    assert isinstance(error, TargetPlatformUnmatch)
    assert "target_platform='rk3576'" in str(error)
    checks.refuse(checks.of_file(ModelFile(path), board(tmp_path, "rk3588")))


def test_weights_that_a_soc_does_not_have_and_little_memory_are_warnings(tmp_path: Path) -> None:
    path = tmp_path / "m_w4a16_rk3588.rkllm"
    path.write_bytes(model())
    found = [finding for _, finding in checks.of_file(ModelFile(path), board(tmp_path, "rk3588", free_mib=0))]
    assert [finding.level for finding in found] == [Level.OK, Level.WARN]
    assert "w4a16 by its name" in found[1].text


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        (b"\x7fELF" + b"\0" * 60, "model and library mixed up"),
        (b"RKNN" + b"\0" * 60, "rknnlite.open"),
        (b"GGUF" + b"\0" * 60, "rkllm-toolkit"),
        (b"PK\x03\x04" + b"\0" * 60, "unpack it"),
        (b"<!DOCTYPE html>", "download failed"),
        (b"1234", "truncated"),
    ],
)
def test_files_that_are_something_else(tmp_path: Path, data: bytes, match: str) -> None:
    path = tmp_path / "m.rkllm"
    path.write_bytes(data)
    error = raised(checks.of_file(ModelFile(path), Board(tmp_path)))
    assert isinstance(error, ModelInvalid)
    assert match in str(error)


def test_an_unknown_head_and_no_version_are_told_and_not_refused(tmp_path: Path) -> None:
    path = tmp_path / "old.rkllm"
    path.write_bytes(b"\x01" * 400)
    found = [finding for _, finding in checks.of_file(ModelFile(path), Board(tmp_path))]
    assert [finding.level for finding in found] == [Level.OK, Level.INFO]
    assert "toolkit unknown" in found[0].text


@pytest.mark.parametrize(
    ("revision", "context", "cpus", "domain", "match"),
    [
        ("1.2.1", 16416, 0, 0, r"max_context_len is 16416, librkllmrt 1\.2\.1 to 1\.2\.3 has 16384"),
        ("1.1.0", 8192, 0, 0, r"has 4096"),
        ("1.2.1", 4096, 0xF00, 0, r"CPUs 0 to 7"),
        ("1.1.0", 4096, 0xF0, 0, r"cannot choose CPUs"),
        ("1.1.0", 4096, 0, 1, r"base_domain_id is 1; others than 0 crash"),
    ],
)
def test_settings_of_a_session(
    tmp_path: Path, revision: str, context: int, cpus: int, domain: int, match: str
) -> None:
    path = tmp_path / "m.rkllm"
    path.write_bytes(model())
    file = RkllmFile.of(path, ModelFile(path).data)
    found = checks.of_opening(REVISIONS[revision], file, board(tmp_path, "rk3588"), context, cpus, domain)
    with pytest.raises(ParamInvalid, match=match):
        checks.refuse(found)


def test_models_that_do_not_fit_into_one_domain_get_others() -> None:
    places, gib = IommuDomains(), 1 << 30
    first, second = places.take(3 * gib), places.take(2 * gib)
    small, large = places.take(gib), places.take(9 * gib)
    assert [place.first for place in (first, second, small, large)] == [0, 1, 0, 2]
    assert large.parts == {2: 4 * gib, 3: 4 * gib, 4: gib}
    places.give(first)
    places.give(first)
    assert places.take(3 * gib).first == 0
    assert places.take(gib, wanted=7).first == 7


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"sessions": 0}, "sessions is 0, must be 1 to 64"),
        ({"n_batch": 101}, "n_batch is 101"),
        ({"cpus": []}, "give a mask"),
        ({"cpus": 0}, "give a mask"),
        ({"patience": 0}, "patience"),
        ({"image_tags": ("a", "b")}, "three texts"),
        ({"n_bach": 2}, "did you mean n_batch"),
    ],
)
def test_options_that_are_not_legal(options: dict, match: str) -> None:
    with pytest.raises(ParamInvalid, match=match):
        RkllmSettings.of(options)


def test_cpus_are_a_mask_or_a_list(tmp_path: Path) -> None:
    assert (
        RkllmSettings.of({"cpus": [4, 5, 6, 7]}).cpu_mask == RkllmSettings.of({"cpus": 0xF0}).cpu_mask == 0xF0
    )
    (tmp_path / "t.jinja").write_text("{{ messages }}")
    assert RkllmSettings.of({"chat_template": str(tmp_path / "t.jinja")}).template == "{{ messages }}"
    with pytest.raises(ParamInvalid, match="no template, no file"):
        _ = RkllmSettings.of({"chat_template": "/nowhere"}).template


def test_log_lines_tell_what_went_wrong() -> None:
    line = "E rkllm: max_context[16384] must be less than the model's max_context_limit[4096]"
    error = error_in_log("x", ["I rkllm: fine", line])
    assert isinstance(error, ParamInvalid) and "smaller max_context_len" in str(error)
    assert context_limit([line]) == 4096
    assert error_in_log("x", [line], spoiled=True) is None
    assert error_in_log("x", ["nothing of that"]) is None
    assert len({trouble.pattern for trouble in LOG_ERRORS}) == len(LOG_ERRORS)
    line = "I rkllm: rkllm-toolkit version: 1.2.1b1, max_context_limit: 4096, npu_core_num: 3, "
    told = model_facts([line + "target_platform: RK3588, model_dtype: W8A8"])
    assert told == {"toolkit": "1.2.1b1", "context": "4096", "cores": "3", "soc": "RK3588", "dtype": "W8A8"}


def test_the_doctor_says_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if compiler() is None:
        pytest.skip("no C compiler is installed")
    monkeypatch.setenv("RKNNLITE_RKLLM_LIBRARY", str(build("1.2.3")))
    path = tmp_path / "m_w8a8_rk3588.rkllm"
    path.write_bytes(model())
    machine = board(tmp_path, "rk3588", "0.9.6")
    found = examine(machine, None, path)
    said = [finding for finding in found if finding.topic == "rkllm"]
    assert [finding.level for finding in said] == [Level.WARN, Level.OK]
    assert "say garbage" in said[0].text and "update the kernel" in said[0].remedy
    assert any("backend rkllm runs it" in finding.text for finding in found)
    assert any(finding.text.startswith("rkllm") and "1.2.3" in finding.text for finding in found)


def test_doors_for_networks_say_what_the_file_is(tmp_path: Path) -> None:
    path = tmp_path / "m.rkllm"
    path.write_bytes(model())
    with pytest.raises(ModelUnsupported, match=r"RKLLM language model.*rknnlite\.open_llm"):
        _ = ModelFile(path).model
    with pytest.raises(ModelUnsupported, match="RKLLM language model"):
        open_llm(path, backend="cpu")
    assert plugins.backend("rkllm").refuses(ModelFile(path))
    with pytest.raises(ModelUnsupported, match="RKLLM language model"):
        _ = ModelFile(path.read_bytes()).model  # by head and end, without a name
