"""Damaged files in registers: a typed error or an answer, soon and within little memory."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from rknnlite.errors import RknnError
from tests.support import damage
from tests.support.corpus import genuine, open_cpu
from tests.support.examples import examples

VICTIMS = (
    "acts_alone.rk3588.i8", "arithmetic.rv1103b.i8", "channels.rk3588.i8", "deconv_k3_s1.rk3576.i8", "packed_i16.rk3588.i16",
    "pooling.rv1106.i8", "residual_leaky_add.rk3588.i8",
)  # fmt: skip
SECONDS, ALLOWANCE = 60.0, 64 << 20


def computed(data: bytes) -> None:
    with damage.limits(SECONDS, ALLOWANCE + 60 * len(data)):
        try:
            with open_cpu(data, extra={"fidelity": "silicon", "inputs": "board"}) as context:
                if sum(attr.n_elems for attr in context.inputs) < 1 << 20:
                    context.infer([np.zeros(attr.dims, np.uint8) for attr in context.inputs])
        except RknnError as error:
            assert str(error)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Every example would warn."""
    caplog.set_level(logging.CRITICAL, "rknnlite")


@pytest.mark.parametrize("name", VICTIMS)
def test_any_damage(name: str) -> None:
    whole = genuine(name).read_bytes()

    @settings(max_examples=examples(4), deadline=None, suppress_health_check=list(HealthCheck))
    @given(damage.mixed(whole))
    def check(data: bytes) -> None:
        computed(data)

    check()


@pytest.mark.slow
@pytest.mark.parametrize("name", VICTIMS)
def test_damaged_commands(name: str) -> None:
    """Every integer of a stage may be anything."""
    whole = genuine(name).read_bytes()

    @settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))
    @given(damage.mixed(whole, ["commanded"]))
    def check(data: bytes) -> None:
        computed(data)

    check()
