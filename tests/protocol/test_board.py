"""What a board and its clients say to each other: values become JSON and the same values again; other JSON is refused."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

pytest.importorskip("hypothesis")

from hypothesis import given, settings
from hypothesis import strategies as st
from rknnlite_backend.perf import CoreMemory, MemorySize, PerfRow, PerfTable
from rknnlite_protocol.board import (
    Description,
    PerfFigures,
    Refusal,
    Shapes,
    attr_text,
    digest_of,
    parse_attr,
    parse_shapes,
    shapes_text,
    stored_name,
)
from rknnlite_protocol.board_facts import BackendFacts, Facts
from rknnlite_protocol.dataclass_json import from_text, to_text

from rknnlite.errors import InputInvalid, ModelUnsupported, ParamInvalid, RknnError, RunTimeout
from rknnlite.native.board import Board, Clock, DeviceNode, Reading, Sram
from rknnlite.spi.types import AttrKind, Device, Probe, Versions
from rknnlite.tensor import DType, Layout, QuantParams, TensorAttr
from tests.support.examples import examples

KINDS = (Description, Facts, PerfFigures, TensorAttr, Shapes, Refusal, MemorySize)
whole = st.integers(-(1 << 63), (1 << 64) - 1)
words = st.text(max_size=8)
reals = st.floats(allow_nan=False)
dims = st.lists(st.integers(0, 300), max_size=5).map(tuple)
attrs = st.builds(
    TensorAttr,
    index=st.integers(0, 9),
    name=words,
    dims=dims,
    dtype=st.sampled_from(DType),
    layout=st.sampled_from(Layout),
    quant=st.none() | st.builds(QuantParams, reals, whole),
    w_stride=st.integers(0, 999),
    h_stride=st.integers(0, 999),
    size_with_stride=st.integers(0, 1 << 39),
    pass_through=st.booleans(),
)
rows = st.builds(
    PerfRow,
    *[words] * 4,
    time_us=st.none() | reals,
    cells=st.dictionaries(words, words, max_size=3),
    rw_kb=st.none() | reals,
)
descriptions = st.builds(
    Description,
    model_name=words,
    backend=words,
    soc=words,
    versions=st.builds(Versions, words, words, words),
    attrs=st.dictionaries(st.sampled_from(AttrKind), st.lists(attrs, max_size=2).map(tuple), max_size=3),
    refused=st.dictionaries(words, st.builds(Refusal, words, words, whole), max_size=2),
    custom_string=words,
    shapes=st.lists(st.lists(dims, max_size=2).map(tuple), max_size=2).map(tuple),
    shape_chosen=st.booleans(),
    memory=st.none()
    | st.builds(MemorySize, whole, whole, whole, cores=st.just((CoreMemory(0, 1, 2), CoreMemory(1, 2, 3)))),
)
clocks = st.builds(Clock, words, st.none() | whole, st.none(), whole, words, st.just(("a", "b")), words)
known = st.builds(
    Facts,
    rknnlite=words,
    driver=st.builds(Reading, st.none() | words, words, words),
    load=st.builds(Reading, st.none() | st.lists(whole, max_size=3), words),
    sram=st.builds(Reading, st.none() | st.builds(Sram, whole, whole, whole)),
    npu_clock=st.none() | clocks,
    cpu_clocks=st.lists(clocks, max_size=2).map(tuple),
    temperatures=st.dictionaries(words, reals, max_size=3),
    memory=st.dictionaries(words, whole, max_size=3),
    nodes=st.just((DeviceNode("/dev/dri/card1", "video", True, False),)),
    backends=st.just((BackendFacts("cpu", Probe(True, "it is", 0, ("a",)), (Device("a", "b", 1, 2),)),)),
    models=st.lists(words, max_size=2).map(tuple),
    uploads=st.booleans(),
)


@settings(max_examples=examples(30), deadline=None)
@given(descriptions)
def test_descriptions_travel(value: Description) -> None:
    assert from_text(Description, to_text(value)) == value


@settings(max_examples=examples(40), deadline=None)
@given(known)
def test_facts_travel(value: Facts) -> None:
    assert from_text(Facts, to_text(value)) == value


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(rows, max_size=3), st.integers(0, 9), st.none() | words, words)
def test_tables_travel(lines: list[PerfRow], cores: int, timed_on: Any, note: str) -> None:
    table = PerfTable(lines, cores, timed_on, note)
    found = from_text(PerfFigures, to_text(PerfFigures.of(table, 7)))
    again = found.table()
    assert (again, again.cores, again.timed_on, again.note) == (table, cores, timed_on, note)
    assert found.run_us == 7
    assert str(again) == str(table)


@settings(max_examples=examples(30), deadline=None)
@given(attrs)
def test_attributes_travel(attr: TensorAttr) -> None:
    assert parse_attr(attr_text(attr), "it") == attr


def test_numbers_that_are_none_travel_and_the_text_is_json() -> None:
    for number in (math.nan, math.inf, -math.inf):
        attr = TensorAttr(0, "x", (1,), DType.INT8, Layout.NHWC, QuantParams(number, 0))
        text = attr_text(attr)
        json.loads(text, parse_constant=lambda word: pytest.fail(word))
        assert repr(parse_attr(text, "it")) == repr(attr)


def test_numbers_of_numpy_and_half_characters_can_be_told() -> None:
    attr = TensorAttr(
        0, "x\ud800", (np.int64(3),), DType.INT8, Layout.NHWC, QuantParams(np.float32(0.5), np.int8(-3))
    )
    found = parse_attr(attr_text(attr), "it")
    assert (found.dims, found.quant, found.name) == ((3,), (0.5, -3), "x\\ud800")
    found.name.encode()


def test_the_facts_of_this_machine_travel() -> None:
    board = Board()
    facts = Facts("1", driver=board.driver(), cpu_clocks=tuple(board.cpu_clocks()), memory=board.memory())
    assert from_text(Facts, to_text(facts)) == facts


def test_other_versions_are_understood() -> None:
    """Fields that are new there, and fields that are missing there."""
    text = '{"rknnlite":"9","later":[1],"driver":{"value":"0.9.8","why":{}}}'
    assert from_text(Facts, text) == Facts("9", driver=Reading("0.9.8"))


# -- hostile JSON -----------------------------------------------------------------------------------------

texts = st.text(max_size=60)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=examples(100), deadline=None)
@given(st.sampled_from(KINDS), texts | anything.map(json.dumps))
def test_any_text_is_understood_or_refused(kind: Any, text: str) -> None:
    try:
        from_text(kind, text)
    except ParamInvalid as error:
        assert len(str(error)) < 500


@settings(max_examples=examples(100), deadline=None)
@given(st.data(), st.sampled_from([*range(40)]), anything)
def test_one_wrong_value_is_refused_by_its_place_or_fits(data: Any, number: int, wrong: Any) -> None:
    kind, value = data.draw(
        st.tuples(st.just(Description), descriptions)
        | st.tuples(st.just(Facts), known)
        | st.tuples(st.just(TensorAttr), attrs)
    )
    tree = json.loads(to_text(value))
    places = list(_places(tree))
    holder, key = places[number % len(places)]
    holder[key] = wrong
    try:
        from_text(kind, json.dumps(tree), "it")
    except ParamInvalid as error:
        assert str(error).startswith("it")


def _places(tree: Any) -> Any:
    for key, item in tree.items() if isinstance(tree, dict) else enumerate(tree):
        yield tree, key
        if isinstance(item, (dict, list)):
            yield from _places(item)


@pytest.mark.parametrize(
    "text", ["", "[", "null", "7", "[" * 100_000, "9" * 100_000, "NaN", '{"rknnlite":NaN}', "\ud800"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_nothing_is_refused(kind: Any, text: str) -> None:
    with pytest.raises(ParamInvalid):
        from_text(kind, text)


def test_lists_and_texts_are_bounded() -> None:
    with pytest.raises(ParamInvalid, match="at most 65536 items"):
        from_text(Shapes, "[" + "[]," * 70_000 + "[]]")
    with pytest.raises(ParamInvalid, match="characters"):
        from_text(Shapes, " " * (17 << 20))


@pytest.mark.parametrize(
    "text",
    [
        "", "{}", "[]", 7, None, True, '{"index":0}',
        '{"index":0,"name":"x","dims":[-1],"dtype":"INT8","layout":"NHWC"}',
        '{"index":0,"name":"x","dims":[1099511627776],"dtype":"INT8","layout":"NHWC"}',
        '{"index":0,"name":"x","dims":[1048576,1048576,1048576],"dtype":"INT8","layout":"NHWC"}',
        '{"index":0,"name":"x","dims":[1],"dtype":"INT8","layout":"NHWC","size_with_stride":-5}',
        '{"index":0,"name":"x","dims":[1],"dtype":2,"layout":"NHWC"}',
        '{"index":0,"name":"x","dims":[1],"dtype":"__class__","layout":"NHWC"}',
        '{"index":0,"name":"x","dims":[1.0],"dtype":"INT8","layout":"NHWC"}',
        '{"index":false,"name":"x","dims":[1],"dtype":"INT8","layout":"NHWC"}',
        '{"index":0,"name":"x","dims":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"dtype":"INT8","layout":"NHWC"}',
    ],
)  # fmt: skip
def test_what_is_no_attribute_is_refused(text: Any) -> None:
    with pytest.raises(InputInvalid, match="input x"):
        parse_attr(text, "input x")


def test_shapes() -> None:
    assert parse_shapes(shapes_text([(1, 2), [np.int64(3)]]), "it") == ((1, 2), (3,))
    assert parse_shapes("", "it") is None
    assert parse_shapes(None, "it") is None
    for text in (7, False, "7", "[7]", '[["a"]]', "[[1.5]]"):
        with pytest.raises(ParamInvalid, match="it"):
            parse_shapes(text, "it")


def test_refusals_are_the_errors_that_they_were() -> None:
    late = RunTimeout("too late")
    late.code = -77
    for error in (ModelUnsupported("no such operator"), late):
        again = from_text(Refusal, to_text(Refusal.of(error))).error()
        assert (type(again), str(again), again.code) == (type(error), str(error), error.code)
    assert type(Refusal("SystemExit", "no class of ours", -1).error()) is RknnError


def test_what_a_description_has_not_raises() -> None:
    empty = Description(
        "m", "cpu", "rk3588", Versions("", ""), refused={"memory": Refusal("ParamInvalid", "none", -5)}
    )
    with pytest.raises(ParamInvalid, match="native_input"):
        empty.attributes(AttrKind.NATIVE_INPUT)
    with pytest.raises(ParamInvalid, match="none"):
        empty.memory_size()


def test_names_by_content() -> None:
    sha256 = "0123456789abcdef" * 4
    assert digest_of(stored_name(sha256)) == sha256
    for name in (
        "resnet",
        "sha256-",
        f"sha256-{sha256.upper()}",
        f"sha256-{sha256}0",
        f"sha256-{sha256}\n",
        sha256,
    ):
        assert digest_of(name) is None
    for wrong in ("", sha256[1:], sha256.upper(), "../" + sha256[3:], sha256 + "\n"):
        with pytest.raises(ParamInvalid, match="SHA-256"):
            stored_name(wrong)
