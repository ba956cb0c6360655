"""``--json``: a thing has one name in all commands, a time one unit, a size another; here is the table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.corpus import EXAMPLES
from tests.support.needs import skip_for_want

from .conftest import DIGIT, RESNET, Call

TINY = EXAMPLES / "llm_chat" / "models" / "tiny"
DETECT = EXAMPLES / "detect" / "detect_for_RK3588.rknn"
SCENE = EXAMPLES / "detect" / "scene.jpg"
TRAINED = EXAMPLES / "llm_chat" / "trained"
NAMES = {
    "model": "the model file, as it was given",
    "reference": "what it is compared with",
    "file": "a file that was written; null where none was",
    "files": "files that were written or belong together, with their sizes in bytes",
    "folder": "a folder that was written to",
    "bytes": "size of a file, a tensor or a buffer; other sizes end with _bytes",
    "backend": "who computes: cpu, rknnrt, ...",
    "device": "what --device named; null: this machine",
    "soc": "a SoC in small letters: rk3588",
    "runs_on": "SoCs that run the model, as their maker writes them",
    "version": "of a package or library; other versions end with _version",
    "inputs": "tensors that a model takes",
    "outputs": "tensors that it gives",
    "layers": "what is computed, one after the other",
    "name": "of a tensor, a layer, a plugin, a model",
    "op": "the operator of a layer",
    "index": "counted from 0",
    "dtype": "element type in small letters: int8, float16",
    "shape": "a list of numbers",
    "layout": "NHWC, NCHW, NC1HWC2, UNDEFINED",
    "scale": "real = (stored - zero_point) * scale; null where nothing is quantised",
    "zero_point": "see scale",
    "core_mask": "bits of NPU cores",
    "runs": "how often",
    "fps": "frames per second",
    "source": "a picture, film, camera or address that was looked at",
    "found": "what is in a picture, best first",
    "label": "the name of a class",
    "score": "how sure, 0 to 1",
    "box": "x1, y1, x2, y2 in pixels of the picture",
    "problem": "what is wrong with it; empty: nothing",
    "remedy": "what to do about it",
    "error": "why a command failed",
}
"""What everybody reads. Names that one command alone has are its own, as long as they keep the rules below."""
OTHER_WORDS = {
    "dims": "shape", "type": "dtype", "data_type": "dtype", "zp": "zero_point", "fmt": "layout", "path": "model or file",
    "model_path": "model", "out": "file", "size": "bytes", "toolkit": "toolkit_version", "compiler": "compiler_version",
    "driver": "driver_version", "platform_name": "soc", "target_platform": "soc", "ttft": "ttft_us", "latency": "..._us",
}  # fmt: skip
OTHER_UNITS = re.compile(r"(_ms|_ns|_sec|_seconds|(?<!_per)_s|_kb|_mb|_kib|_mib|_gb|_per_second|_tps)$")
"""Times are in microseconds (``_us``), sizes in bytes (``_bytes``), rates per second (``_per_s``)."""
FREE = {
    "files",
    "texts",
    "read_bytes",
    "offers",
    "resources",
    "temperatures",
    "batches",
    "silicon",
    "memory_of",
}
"""Objects whose names come from files, plugins and machines."""
TYPES: dict[str, Any] = {
    "model": str, "backend": str, "name": str, "op": str, "runs_on": list, "shape": list, "layers": list, "bytes": int,
    "version": str, "layout": str, "fps": float,
}  # fmt: skip

COMMANDS: list[tuple[Any, ...]] = [
    ("info", RESNET),
    ("info", f"{TINY}.rknn"),
    ("info", RESNET, RESNET),
    ("check", RESNET),
    ("run", RESNET, DIGIT, "--top", "1"),
    ("bench", RESNET, "--runs", "2", "--warmup", "0"),
    ("perf", RESNET),
    ("perf", RESNET, "--npu"),
    ("compare", RESNET, RESNET),
    ("compare", RESNET, DIGIT, "--ways"),
    ("detect", DETECT, SCENE),
    ("classify", RESNET, DIGIT),
    ("eval", DETECT, "things", "--float"),
    ("devices",),
    ("plugins",),
    ("chat", TINY, "--ask", "hi", "--max-new-tokens", "4"),
    ("export-onnx", RESNET, "network.onnx", "--tries", "1"),
    ("npu-plan", RESNET, "--base", "weight=0x10000000", "internal=0x20000000"),
    ("man", "pages"),
    ("new-plugin", "mine", "--kind", "python"),
    ("fleet", "resources", "--soc", "rk3588"),
    ("pull", f"{TINY}.rknn", "--into", ".", "--name", "small"),
    *(
        pytest.param(*words, marks=pytest.mark.slow)
        for words in [
            (("doctor", RESNET),),
            (("bench-llm", TINY, "--prompt-tokens", "8", "--new-tokens", "4", "--runs", "1"),),
            (("export-llm", TRAINED, "made", "--weights", "w8"),),
            (("llm-eval", TINY, "--source", TRAINED, "--tokens", "64"),),
        ]
    ),
]


def fields(value: Any, inside: str = "") -> Iterator[tuple[str, Any]]:
    """All names in a document with their values, those of free objects left out."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield name, one
            if name not in FREE:
                yield from fields(one, name)
    elif isinstance(value, list):
        for one in value[:50]:
            yield from fields(one, inside)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(map(str, words[:1])))
def test_names(call: Call, words: tuple[Any, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RKNNLITE_BACKEND", "cpu")
    for folder, file, data in (
        ("images", "scene.jpg", SCENE.read_bytes()),
        ("labels", "scene.txt", b"6 0.5 0.5 0.1 0.1"),
    ):
        (tmp_path / "things" / folder).mkdir(parents=True)
        (tmp_path / "things" / folder / file).write_bytes(data)
    done = call(*words, "--json")
    skip_for_want(done.err)
    assert done.code == 0, done.err
    found = list(fields(done.data))
    wrong = {name: OTHER_WORDS[name] for name, _ in found if name in OTHER_WORDS}
    assert not wrong, "one thing has one name"
    assert [name for name, _ in found if OTHER_UNITS.search(name)] == [], "_us, _bytes and _per_s"
    assert [name for name, _ in found if not re.fullmatch(r"[a-z][a-z0-9_]*", name)] == []
    for name, value in found:
        if name in TYPES and value is not None:
            assert isinstance(value, TYPES[name]), (name, value)
        if name == "dtype":
            assert value is None or value == value.lower()


def test_the_table_has_nothing_that_has_another_name() -> None:
    assert not set(NAMES) & set(OTHER_WORDS) and not [name for name in NAMES if OTHER_UNITS.search(name)]
