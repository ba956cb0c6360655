"""The verdict names the planted cause."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import numpy as np
import onnx
from rknnlite_insight import Cause, Diagnosis, diagnose

from rknnlite.errors import InputInvalid, ParamInvalid
from tests.support.corpus import DATA

from .networks import FAULTS, Fault

BY_NAME = {fault.name: fault for fault in FAULTS}
PLANTED = [fault for fault in FAULTS if fault.cause != "NONE"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``.rknn`` files, and the network that each is compared with."""
    folder = tmp_path_factory.mktemp("faults")
    with tarfile.open(DATA / "faults.tar.xz") as archive:
        for member in archive.getmembers():
            content = archive.extractfile(member)
            assert content is not None
            (folder / Path(member.name).name).write_bytes(content.read())
    for fault in FAULTS:
        onnx.save((fault.other or fault.build)(fault), str(folder / f"{fault.name}.onnx"))
    return folder


def diagnosed(files: Path, name: str, hybrid: float | None = None, calibrated: bool = False) -> Diagnosis:
    fault = BY_NAME[name]
    samples = fault.samples()
    shown = [{"x": fault.network_inputs(each)} for each in samples] if fault.shown else None
    calibration = [each.transpose(0, 2, 3, 1) for each in fault.calibrated_with()] if calibrated else []
    return diagnose(
        files / f"{name}.rknn",
        files / f"{name}.onnx",
        samples,
        network_inputs=shown,
        hybrid=hybrid,
        calibration=calibration,
    )


def test_enough_is_planted() -> None:
    assert len(PLANTED) >= 12
    assert {fault.cause for fault in PLANTED} >= {
        "LARGE_CHANNELS", "SATURATION", "MEAN", "COLOUR_ORDER", "CALIBRATION", "OVERFLOW", "WEIGHTS", "OTHER_NETWORK"
    }  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_cause_is_named(fault: Fault, files: Path) -> None:
    found = diagnosed(files, fault.name)
    assert found.cause is Cause[fault.cause], str(found)
    assert not fault.where or found.where[0] in fault.where
    assert found.cause is Cause.NONE or found.remedy
    assert found.headline.startswith(found.cause.value) and found.sentences


@pytest.mark.slow
def test_what_the_network_wants_is_told_in_the_converters_words(files: Path) -> None:
    assert "mean_values=[[123.675, 116.28, 103.53]]" in diagnosed(files, "mean_shown").remedy
    guessed = diagnosed(files, "mean")
    assert "123.675" in guessed.remedy and "batch normalisations" in guessed.sentences[0]
    assert "quant_img_RGB2BGR" in diagnosed(files, "colours").remedy


def test_channels_are_told_apart_where_the_whole_tensor_says_nothing(files: Path) -> None:
    found = diagnosed(files, "large_channel")
    edge = found.edges["r1"]
    assert edge.cosine > 0.999 and edge.error("lost") < 0.05
    lost = dict(zip(np.flatnonzero(edge.heard), edge.errors("lost")))
    assert lost.pop(3) < 0.05 and min(lost.values()) > 0.1
    assert edge.large == (3,)
    assert found.harms[0].tensors == ("r1",) and found.harms[0].outputs > 10 * found.harms[1].outputs
    assert "Channel 3 of r1" in found.sentences[0]


def test_a_hybrid_list_is_tried_with_both_sides_of_the_edge(files: Path) -> None:
    found = diagnosed(files, "large_channel", hybrid=0.998)
    before, *steps = found.hybrid
    assert not before.layers and before.cosine == pytest.approx(found.cosine, abs=0.02)
    assert steps[0].layers == ("r1", "r2") and steps[-1].cosine > 0.998
    assert steps[0].converter == ("c1", "r1", "c2", "r2")  # all that the converter makes one layer of
    sizes = [len(step.layers) for step in found.hybrid]
    assert sizes == sorted(set(sizes))


def test_layers_with_coarse_weights_are_in_the_list(files: Path) -> None:
    found = diagnosed(files, "spread_weights", hybrid=0.99)
    assert found.hybrid[0].cosine < 0.9 and "r2" in found.hybrid[1].layers and found.hybrid[-1].cosine > 0.99


def test_nothing_is_tried_that_is_good_enough(files: Path) -> None:
    assert [step.layers for step in diagnosed(files, "sound", hybrid=0.99).hybrid] == [()]


def test_the_odd_one_of_a_calibration_set(files: Path) -> None:
    from rknnlite_insight.causes.calibration import calibration_lines

    names = [f"picture{number}" for number in range(6)]
    lines = calibration_lines(diagnosed(files, "odd_picture", calibrated=True).calibration, names)
    assert lines[0].startswith("Calibration input picture5 is odd") and len(lines) == 1
    (line,) = calibration_lines(diagnosed(files, "saturation", calibrated=True).calibration, names)
    assert "beyond the calibration set in" in line and "first in r1" in line
    (line,) = calibration_lines(diagnosed(files, "sound", calibrated=True).calibration, names)
    assert "covers" in line or "beyond the calibration set in" in line


def test_what_is_refused(files: Path) -> None:
    model, network = files / "sound.rknn", files / "sound.onnx"
    with pytest.raises(InputInvalid, match="no samples"):
        diagnose(model, network, [])
    with pytest.raises(InputInvalid, match="for 1"):
        diagnose(model, network, BY_NAME["sound"].samples(), network_inputs=[{}])
    with pytest.raises(ParamInvalid, match=r"no \.rknn file"):
        diagnose(network, network, BY_NAME["sound"].samples())
