"""Where constants lie; models for several sets of shapes have those of all in one buffer."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from rknnlite_npu.placement import Bases
from rknnlite_npu.submission import plan
from rknnlite_npu.weight_buffer import read_weight_buffer

from rknnlite.errors import ParamInvalid
from rknnlite.formats import ModelFile
from rknnlite.formats.rknn6 import Rknn6
from rknnlite.formats.slots import RootSlot, TensorKind, TensorSlot
from tests.support.corpus import DATA, EXAMPLES, genuine

MEMORY = 19
"""Slot of the root: bytes of weights, activations and helpers, as the converter prints them."""
DYNAMIC = sorted([*DATA.glob("dynamic*.rknn"), *EXAMPLES.glob("dynamic_shape/*.rknn")])
BASES = Bases(1 << 28, 2 << 28)


def told_memory(model: Rknn6) -> tuple[int, int, int]:
    """(weights, activations, helpers) in bytes; helpers are left out where there are none."""
    table = model.flat
    at = table._at(MEMORY)
    start = at + struct.unpack_from("<I", table._buf, at)[0]
    fields = struct.unpack_from("<I", table._buf, start)[0]
    numbers = struct.unpack_from("<3Q", table._buf, start + 4)
    return numbers[0], numbers[1], numbers[2] if fields > 8 else 0


def files() -> Iterator[tuple[str, Rknn6]]:
    """All of container 6 that say it."""
    for path in sorted([*DATA.glob("*.rknn"), *EXAMPLES.glob("*/*.rknn")]):
        model = ModelFile(path).model
        if isinstance(model, Rknn6) and model.flat.has(MEMORY) and not path.stem.startswith("removed"):
            yield path.stem, model


@pytest.mark.slow
def test_the_file_counts_activations_of_the_largest_shapes() -> None:
    checked = 0
    for name, model in files():
        for shape in range(max(1, len(model.shapes))):
            found = plan(model, BASES, shape=shape)
            assert found.program.internal_size == told_memory(model)[1], name
            checked += 1
    assert checked > 200


@pytest.mark.parametrize("path", DYNAMIC, ids=lambda path: path.stem)
def test_the_file_counts_constants_of_all_shapes_once(path: Path) -> None:
    model = ModelFile(path).model
    assert isinstance(model, Rknn6)
    buffer = read_weight_buffer(model)
    weights = helpers = 0
    for one in buffer.graphs:
        for index, table in enumerate(one.tables):
            size = -(-len(one.storage.of(index)) // 64) * 64 if one.storage.has(index) else 0
            kind = table.i8(TensorSlot.KIND)
            weights += size * (kind in (TensorKind.WEIGHT, TensorKind.OPERAND))
            helpers += size * (kind == TensorKind.HELPER)
    assert (weights, helpers) == (told_memory(model)[0], told_memory(model)[2])
    assert len(buffer.graphs) == model.flat.count(RootSlot.GRAPHS) == len(model.shapes)


@pytest.mark.parametrize("path", DYNAMIC, ids=lambda path: path.stem)
def test_shapes_share_weights_and_nothing_else(path: Path) -> None:
    model = ModelFile(path).model
    assert isinstance(model, Rknn6)
    buffer = read_weight_buffer(model)
    shared = set(model.flat.strings(RootSlot.SHARED_NAMES))
    ends: list[tuple[int, int]] = []
    for number, one in enumerate(buffer.graphs):
        for index, at in buffer.offsets[number].items():
            name, size = one.tables[index].string(TensorSlot.NAME), len(one.storage.of(index))
            if number and name in shared:
                assert not one.storage.has(index) and at in buffer.offsets[0].values()
            else:
                ends.append((at, at + size))
    ends.sort()
    assert all(end <= start for (_, end), (start, _) in zip(ends, ends[1:])) and ends[-1][1] <= buffer.size


def test_each_set_of_shapes_has_commands_of_its_own() -> None:
    model = ModelFile(genuine("dynamic_three.rk3588.i8")).model
    found = [plan(model, BASES, shape=shape) for shape in range(3)]
    assert [one.program.commands_offset for one in found] == [6080, 15232, 24384]
    assert {one.program.weight_size for one in found} == {29888}
    images = [one.weight_image() for one in found]
    own = [
        slice(one.program.commands_offset, one.program.commands_offset + one.words.nbytes) for one in found
    ]
    for one, image in zip(found, images):
        assert (
            image[one.program.commands_offset :][: one.words.nbytes].view("<u8").tolist()
            == one.words.tolist()
        )
        assert [bool(image[part].any()) for part in own].count(True) == 1
    everything_else = np.ones(29888, bool)
    for one in found:
        records = next(t for t in one.program.tensors if t.kind == TensorKind.TASKS)
        assert records.offset is not None
        for start, size in ((one.program.commands_offset, one.words.nbytes), (records.offset, records.size)):
            everything_else[start : start + size] = False
    assert all((images[0][everything_else] == image[everything_else]).all() for image in images)
    assert all("never recorded" in one.doubts[0] for one in found)


def test_a_set_of_shapes_that_is_not_there() -> None:
    model = ModelFile(genuine("dynamic_three.rk3588.i8")).model
    for shape in (-1, 3):
        with pytest.raises(ParamInvalid, match=f"shape {shape}: the model has 3 sets of shapes; give 0 to 2"):
            plan(model, BASES, shape=shape)
