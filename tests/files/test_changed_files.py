"""A file that is cut or written anew while it is mapped: a typed error, and the process lives."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from rknnlite_graph.read import read_graph
from rknnlite_llm import export_llm

from rknnlite.errors import ModelInvalid
from rknnlite.formats import ModelFile
from tests.support.corpus import ROOT, genuine
from tests.support.llm_models import write_model

DYNAMIC = genuine("dynamic_three.rk3588.i8")
RENAME = "replace a model file by rename"

HEAD = """
    import os, shutil, sys
    from pathlib import Path
    import numpy as np
    import rknnlite
    from rknnlite.errors import ModelInvalid
    from rknnlite.formats import ModelFile

    folder, change = Path(sys.argv[1]), sys.argv[2]

    def harm(path):
        if change == "cut":
            os.truncate(path, 0)
        elif change == "shorter":
            os.truncate(path, path.stat().st_size // 2)
        else:  # cp another model over it
            content = path.read_bytes()
            os.utime(path, ns=(1, 1))
            path.write_bytes(content)

    def refused(call, path):
        try:
            call()
        except ModelInvalid as error:
            assert str(path) in str(error) and "replace a model file by rename" in str(error), error
        else:
            raise SystemExit("no error")
"""

NETWORK = """
    path = folder / "model.rknn"
    with rknnlite.open(path, backend="cpu") as context:
        few, more = context.shapes[0], context.shapes[-1]
        zeros = lambda shapes: [np.zeros(shape, np.float32) for shape in shapes]
        context.set_shapes(few)
        before = context.infer(zeros(few))
        harm(path)
        refused(lambda: context.set_shapes(more), path)
        refused(lambda: context.infer(zeros(more)), path)
        context.set_shapes(few)  # what is prepared goes on
        after = context.infer(zeros(few))
        assert all((a == b).all() for a, b in zip(before, after))
        context.perf_table(), context.memory(), context.custom_string, context.shapes, context.versions
        assert context.dump(folder / "dump").tensors
"""

LANGUAGE = """
    from rknnlite_llm import EmbedTable, Package, open_llm
    from rknnlite.spi.llm import InferParams, LlmCallbacks, TokenInput

    package = Package.of(folder / "tiny")
    path = getattr(package, sys.argv[3])
    context = open_llm(package.model, backend="cpu")
    config = context.config
    embed = EmbedTable(package.embed, config.vocab_size, config.embedding_dim)
    session = context.session(callbacks=LlmCallbacks(embed=embed))
    turn = lambda: session.run(TokenInput([3, 5, 7]), InferParams(max_new_tokens=2))
    turn()
    harm(path)
    if path == package.model:  # it was copied
        turn()
    else:
        refused(turn, path)
        session.clear_kvcache()
        refused(turn, path)
    session.close()
    context.close()
"""

LOADED = """
    path = folder / "model.rknn"
    file = ModelFile(path)
    file.data
    harm(path)
    refused(lambda: file.model, path)
    refused(lambda: rknnlite.open(file, backend="cpu"), path)
"""

PREPARED = """
    path = folder / "model.rknn"
    with rknnlite.open(path, backend="cpu") as context:
        inputs = [np.zeros(attr.dims, np.float32) for attr in context.inputs]
        harm(path)
        context.infer(inputs)
        context.perf_table(), context.memory(), context.custom_string
        assert context.dump(folder / "dump").tensors
"""

MASTER = """
    path = folder / "kept.rknn"
    with rknnlite.open(path, backend="cpu") as context:
        harm(path)
        refused(lambda: rknnlite.open(folder / "model.rknn", backend="cpu", master=context), path)
"""

CHANGES = ["cut", "shorter", "anew"]


def run(code: str, *words: object) -> None:
    """A process of its own, which SIGBUS would end."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(HEAD) + textwrap.dedent(code), *map(str, words)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, f"status {done.returncode}: {done.stderr[-2000:]}"


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("code", [NETWORK, LOADED], ids=["open", "loaded"])
def test_a_network_that_is_changed_in_place(tmp_path: Path, code: str, change: str) -> None:
    (tmp_path / "model.rknn").write_bytes(DYNAMIC.read_bytes())
    run(code, tmp_path, change)


@pytest.mark.parametrize(
    "name",
    [
        "arithmetic.rk3588.i8",
        "gru.rk3568.fp16",
        "dense.rk3568.fp16",
        "bytes.rk3562.w8a16",
        "conv_1x1.rv1106.i8",
    ],
)
def test_what_is_prepared_needs_the_file_no_more(tmp_path: Path, name: str) -> None:
    (tmp_path / "model.rknn").write_bytes(genuine(name).read_bytes())
    run(PREPARED, tmp_path, "cut")


@pytest.mark.parametrize("change", CHANGES)
def test_a_model_that_lends_its_weights(tmp_path: Path, change: str) -> None:
    (tmp_path / "kept.rknn").write_bytes(genuine("kept.rk3588.i8").read_bytes())
    (tmp_path / "model.rknn").write_bytes(genuine("removed.rk3588.i8").read_bytes())
    run(MASTER, tmp_path, change)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("part", ["weight", "embed", "model"])
def test_a_language_model_that_is_changed_in_place(tmp_path: Path, part: str, change: str) -> None:
    write_model(tmp_path / "hf", "qwen2")
    export_llm(tmp_path / "hf", tmp_path / "tiny", "w8")
    run(LANGUAGE, tmp_path, change, part)


def test_a_file_that_is_replaced_by_rename_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "model.rknn"
    path.write_bytes(DYNAMIC.read_bytes())
    file = ModelFile(path)
    want = read_graph(file.model, 1).nodes
    (tmp_path / "new").write_bytes(b"RKNN")
    (tmp_path / "new").replace(path)
    file.check()
    assert len(read_graph(file.model, 1).nodes) == len(want)
    path.unlink()
    file.check()


def test_the_message_has_the_numbers(tmp_path: Path) -> None:
    path = tmp_path / "model.rknn"
    path.write_bytes(np.zeros(5000, np.uint8))
    file = ModelFile(path)
    assert len(file.data) == 5000
    file.check()
    os.truncate(path, 1000)
    with pytest.raises(ModelInvalid, match=f"{path}: .*it had 5000 bytes, now 1000.*{RENAME}"):
        file.check()
