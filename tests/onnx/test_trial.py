"""A written network is tried against the CPU reference; the command tells how far it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from rknnlite_graph.lowering import Form
from rknnlite_onnx.samples import made_up_samples
from rknnlite_onnx.trial import OutputTrial, tried

import rknnlite
from rknnlite.formats import ModelFile
from tests.cli.conftest import RESNET, Call, call
from tests.support.corpus import EXAMPLES, genuine

from .support import onnx

__all__ = ["call"]  # the fixture


def _tried(name: str, form: str, **options: Any) -> Any:
    path = genuine(name)
    network = rknnlite.to_onnx(path, form, options.get("normalise", False), options.get("batch"))
    return tried(network, path, Form(form), made_up_samples(ModelFile(path).model, 2), **options)


@pytest.mark.parametrize(
    "name",
    ["mean_std.rk3588.i8", "embedding.rk3588.i8", "image_and_vector.rk3588.i8", "dynamic_two.rk3568.i8"],
)
def test_forms_are_as_near_as_the_documents_say(name: str) -> None:
    for form, most in (("qdq", 1.001), ("exact", 0), ("exact-int8", 0), ("float", 1e-3)):
        found = _tried(name, form)
        assert found.samples == 2 and found.outputs and not found.why_not
        assert all(output.in_steps and output.most <= most for output in found.outputs), form


def test_means_in_the_network_and_items_at_once() -> None:
    assert _tried("mean_std.rk3588.i8", "qdq", normalise=True).outputs[0].most <= 1.001
    for batch in (None, 0):
        (output,) = _tried("batch_three.rk3576.i8", "exact", batch=batch).outputs
        assert output.most == 0
    assert "it is for 2 items at once, the file for 3" in str(
        _tried("batch_three.rk3576.i8", "exact", batch=2)
    )


def test_outputs_without_steps() -> None:
    """float16, to which runtimes give a scale of 1."""
    (output,) = _tried("conv_relu.rk3588.fp16", "float").outputs
    assert not output.in_steps and output.most < 1e-2
    assert "of its largest value off" in str(output)


def test_a_network_that_is_something_else_is_told() -> None:
    path = genuine("mean_std.rk3588.i8")
    network = rknnlite.to_onnx(path, "qdq")
    bias = next(
        each for each in network.graph.initializer if each.data_type == onnx.TensorProto.FLOAT and each.dims
    )
    bias.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(bias) + 1, bias.name))
    (output,) = tried(network, path, Form.QDQ, made_up_samples(ModelFile(path).model, 2)).outputs
    assert output.most > 5 and output.share > 0.1
    del network.graph.node[0]
    found = tried(network, path, Form.QDQ, made_up_samples(ModelFile(path).model, 2))
    assert str(found).startswith("not tried: onnxruntime does not run it: ")


def test_the_command_tells(call: Call, tmp_path: Path) -> None:
    out = tmp_path / "x.onnx"
    done = call("export-onnx", RESNET, out, "--form", "qdq")
    assert "tried in onnxruntime on 2 samples against the CPU reference" in done.out
    assert "output output: at most " in done.out and "% of elements differ" in done.out
    assert "tried" not in call("export-onnx", RESNET, out, "--tries", "0").out
    custom = call("export-onnx", EXAMPLES / "custom_op" / "dual_for_RK3588.rknn", out)
    assert custom.code == 0 and "not tried: it has nodes in the domain rknnlite" in custom.out
    samples = tmp_path / "samples"
    samples.mkdir()
    words = ("export-onnx", genuine("embedding.rk3588.i8"), out, "--pictures", samples, "--json")
    out.unlink()
    assert call(*words).code == 5 and not out.exists()
    np.save(samples / "a.npy", np.zeros((1, 9), np.int64))
    data = call(*words).data["trial"]
    assert data["samples"] == 1 and max(output["most"] for output in data["outputs"]) < 0.01


def test_words() -> None:
    assert str(OutputTrial("y", 91, 1.27, 0.05, True)) == (
        "output y: at most 91 steps off, 1.3 in the mean, 5 % of elements differ"
    )
