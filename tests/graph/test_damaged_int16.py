"""int16 files that the converter left something out of: refused with the reason, not computed."""

from __future__ import annotations

import tarfile

import pytest

from rknnlite.errors import ModelUnsupported
from rknnlite.formats import ModelFile
from tests.support.corpus import DATA, open_cpu

REFUSED = {
    "binary.0021": ("rk3588.i16", "int8 beside int16 values: the converter stored half of it"),
    "activated.0016": ("rk3576.i16", "the converter left the slopes of int16 PRelu out"),
    "recurrent.0016": ("rk3588.i16", "recurrent layers of int16 models are not decoded"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_the_reason(case: str) -> None:
    target, reason = REFUSED[case]
    with tarfile.open(DATA / "refused" / f"{case}.tar.xz") as tar:
        model = tar.extractfile(f"{target}.rknn").read()  # type: ignore[union-attr]
    with pytest.raises(ModelUnsupported, match=reason):
        open_cpu(ModelFile(model))
