"""Typed errors and the vendor's codes."""

from __future__ import annotations

import pytest

import rknnlite
from rknnlite import errors


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


def test_narrow_errors_are_caught_by_the_wider_ones() -> None:
    with pytest.raises(errors.ModelInvalid):
        raise errors.ModelUnsupported("x")
    with pytest.raises(errors.DeviceUnavailable):
        raise errors.BackendUnavailable("x")
