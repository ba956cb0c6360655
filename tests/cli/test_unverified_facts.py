"""``info --check`` lists what no verified file has."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Call
from tests.graph.test_unverified_facts import STEM, UNKNOWN_BIT, with_register
from tests.support.corpus import genuine


def test_info_lists_guesses(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "odd.rknn"
    path.write_bytes(with_register(STEM, 0x4060, UNKNOWN_BIT))
    done = call("info", "--check", path)
    assert done.code == 0 and "not verified:\n  node " in done.out and "register 0x4060" in done.out
    (guess,) = call("info", "--check", "--json", path).data["guesses"]
    assert set(guess) == {"node", "fact"} and guess["node"] in done.out and guess["fact"] in done.out
    assert "guesses" not in call("info", "--json", path).data


def test_nothing_to_list(call: Call) -> None:
    done = call("info", "--check", genuine(STEM))
    assert "not verified:\n  nothing: every pattern has been compared" in done.out
    assert call("info", "--check", "--json", genuine(STEM)).data["guesses"] == []


def test_strides_that_no_runtime_was_asked_for(call: Call) -> None:
    """Reported attributes of these SoCs are inferred; that is listed, and not logged with every file."""
    done = call("info", "--check", genuine("pooling.rk3576.i8"))
    assert "the file: no runtime for its SoC was asked: w_stride and size_with_stride" in done.out
    assert "not verified" not in done.err
    (guess,) = call("info", "--check", "--json", genuine("pooling.rk3576.i8")).data["guesses"]
    assert guess["node"] == "" and "no runtime for its SoC" in guess["fact"]


def test_what_an_int16_file_leaves_out_is_listed(call: Call) -> None:
    done = call("info", "--check", genuine("int16_fused.rk3588.i16"))
    assert 'node ConvElu "Conv:/elu/Conv": alpha of its Elu is not in the file; 1 is taken' in done.out
    (guess,) = call("info", "--check", "--json", genuine("int16_fused.rk3588.i16")).data["guesses"]
    assert guess["node"] == 'ConvElu "Conv:/elu/Conv"' and "alpha" in guess["fact"]
