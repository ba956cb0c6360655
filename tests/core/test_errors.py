"""Typed errors and the vendor's codes."""

from __future__ import annotations

import pickle

import pytest

import rknnlite
from rknnlite import errors
from rknnlite.rknn3._code_name import code_name


def subclasses() -> list[type[errors.RknnError]]:
    found = [getattr(errors, name) for name in errors.__all__]
    return [cls for cls in found if isinstance(cls, type) and issubclass(cls, errors.RknnError)]


@pytest.mark.parametrize("cls", subclasses(), ids=lambda cls: cls.__name__)
def test_every_error_has_a_code_of_the_c_api(cls: type[errors.RknnError]) -> None:
    error = cls("what happened")
    assert error.code in errors.ERROR_NAMES
    assert error.name == errors.ERROR_NAMES[error.code]
    assert str(error) == "what happened"
    assert isinstance(error, rknnlite.RknnError)


@pytest.mark.parametrize("code", [code for code in errors.ERROR_NAMES if -14 < code < 0])
def test_error_from_code(code: int) -> None:
    error = errors.error_from_code(code, "text")
    assert (error.code, str(error)) == (code, "text")
    assert type(error) is not errors.RknnError or code == -1


def test_unknown_code_keeps_its_number() -> None:
    error = errors.error_from_code(-4711, "text")
    assert type(error) is errors.RknnError
    assert error.code == -4711 and error.name == "RKNN_ERR_FAIL"
    assert errors.RknnError.code == -1, "the class must not change with an instance"


def test_one_error_may_have_another_code_than_its_class() -> None:
    """Where it is raised; processes that it goes to keep it."""
    error = pickle.loads(pickle.dumps(errors.ParamInvalid("text", code=errors.RknnError.code)))
    assert (type(error), error.code, error.name, str(error)) == (
        errors.ParamInvalid,
        -1,
        "RKNN_ERR_FAIL",
        "text",
    )
    assert errors.ParamInvalid("text").code == -5


def test_the_numbers_are_those_of_the_headers() -> None:
    """Written out, so that a slip in the tables is seen: classes, and what the other library calls the same."""
    assert {row.code: row.error and row.error.__name__ for row in errors.RKNNRT_CODES} == {
        0: None, -1: "RknnError", -2: "RunTimeout", -3: "DeviceUnavailable", -4: "OutOfMemory", -5: "ParamInvalid",
        -6: "ModelInvalid", -7: "ContextInvalid", -8: "InputInvalid", -9: "OutputInvalid", -10: "DeviceUnmatch",
        -11: "PreCompiledModelUnmatch", -12: "OptimizationLevelUnmatch", -13: "TargetPlatformUnmatch", -14: None,
    }  # fmt: skip
    assert {row.code: row.error and row.error.__name__ for row in errors.RKNN3_CODES} == {
        0: None, -1: "RknnError", -2: "ParamInvalid", -3: "ModelInvalid", -4: "ContextInvalid", -5: "RknnError",
        -6: "OutOfMemory", -7: "RunTimeout", -8: "InputInvalid", -9: "OutputInvalid", -10: "DeviceUnavailable",
        -11: "DeviceUnmatch", -12: "TargetPlatformUnmatch", -13: "DeviceUnavailable", -14: "RknnError",
        -15: "ParamInvalid", -16: "ModelInvalid", -17: "ContextInvalid", -18: "DeviceUnmatch", -100: None,
    }  # fmt: skip
    assert (errors.RunTimeout.code, errors.ModelUnsupported.code, errors.BackendUnavailable.code) == (
        -2,
        -6,
        -3,
    )


@pytest.mark.parametrize("row", [*errors.RKNNRT_CODES, *errors.RKNN3_CODES], ids=lambda row: row.name)
def test_a_code_that_means_an_error_says_what_to_do(row: errors.VendorCode) -> None:
    assert (row.error is None) == (not row.remedy)
    assert row.name.startswith(("RKNN_", "RKNN3_")) and row.since in ("1.0.0", "1.0.4")


@pytest.mark.parametrize("table", [errors.RKNNRT_CODES, errors.RKNN3_CODES])
def test_no_code_and_no_name_is_there_twice(table: tuple[errors.VendorCode, ...]) -> None:
    assert len({row.code for row in table}) == len({row.name for row in table}) == len(table)


def test_the_other_library_names_an_error_by_the_first_code_of_its_class() -> None:
    named = {cls: code_name(cls("x")) for cls in (errors.DeviceUnavailable, errors.ModelUnsupported)}
    assert named[errors.DeviceUnavailable] == "RKNN3_ERR_DEVICE_UNAVAILABLE"
    assert named[errors.ModelUnsupported] == "RKNN3_ERR_MODEL_INVALID"
    assert code_name(errors.PreCompiledModelUnmatch("x")) == code_name(KeyError("x")) == "RKNN3_ERR_FAIL"


def test_narrow_errors_are_caught_by_the_wider_ones() -> None:
    with pytest.raises(errors.ModelInvalid):
        raise errors.ModelUnsupported("x")
    with pytest.raises(errors.DeviceUnavailable):
        raise errors.BackendUnavailable("x")
