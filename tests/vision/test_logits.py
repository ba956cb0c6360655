"""What says whether scores are still behind an activation; the examples of the heads of faces and whole pictures."""

from __future__ import annotations

import doctest
import importlib
from typing import Optional

import pytest
from rknnlite_vision.heads.logits import are_logits

from rknnlite.tensor import DType, Layout, QuantParams, TensorAttr

NARROW, WIDE = QuantParams(1 / 256, -128), QuantParams(0.1, 0)


@pytest.mark.parametrize(
    "name, quant, hint, wanted",
    [
        ("output", NARROW, "", False),
        ("output", WIDE, "", True),
        ("softmax_2.tmp_0", WIDE, "", True),  # the range is the file's own word
        ("output", WIDE, "classifyprobabilities", False),
        ("output", NARROW, "scrfdlogits", True),
        ("softmax_2.tmp_0", None, "", False),
        ("face_rpn_cls_prob", None, "", False),
        ("logits", None, "", True),
        ("logits", None, "ctcprobabilities", False),
    ],
)
@pytest.mark.parametrize("usual", [False, True])
def test_hint_range_and_name_in_this_order(
    name: str, quant: Optional[QuantParams], hint: str, wanted: bool, usual: bool
) -> None:
    dtype = DType.INT8 if quant else DType.FLOAT16
    attr = TensorAttr(0, name, (1, 8), dtype, Layout.UNDEFINED, quant)
    assert are_logits(attr, hint, usual) is wanted


@pytest.mark.parametrize("usual", [False, True])
def test_floats_without_a_word_are_what_is_usual(usual: bool) -> None:
    assert are_logits(TensorAttr(0, "output", (1, 8), DType.FLOAT32, Layout.UNDEFINED), "", usual) is usual


@pytest.mark.parametrize("module", ["faces", "whole", "embeddings", "logits"])
def test_examples_run(module: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(f"rknnlite_vision.heads.{module}"))
    assert tried > 0 and failed == 0
