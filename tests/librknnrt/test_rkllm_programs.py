"""librkllmrt.so: C programs compiled with the header of each version, and what programs should not do."""

from __future__ import annotations

import ctypes as ct
import subprocess
from pathlib import Path

import pytest
from rknnlite_librknnrt import recipe
from rknnlite_llm import Chat
from rknnlite_rkllm.abi.revisions import revision_of
from rknnlite_rkllm.elf import exports
from rknnlite_rkllm.identify import identify

from rknnlite.spi.llm import LlmParams, MessagesInput
from tests.librknnrt.clients import environment, run
from tests.librknnrt.rkllm_clients import LAYOUTS, TINY, library_of, program, standing
from tests.librknnrt.test_rkllm import MOST, QUESTION

pytestmark = pytest.mark.slow


def started(folder: Path, version: str, name: str, *words: str) -> str:
    """What a program prints."""
    variables = environment(library_of(version), MARK=str(folder))
    return run([program(name, version), standing(folder), *words], env=variables).stdout


@pytest.mark.parametrize("version", LAYOUTS)
def test_a_demo(version: str, tmp_path: Path) -> None:
    with Chat(TINY, LlmParams(max_context_len=256), backend="cpu") as chat:
        wanted = chat.ask(QUESTION, max_new_tokens=MOST)
        tokens = chat.session.rendered(MessagesInput([{"role": "user", "content": QUESTION}]))
        text = chat.tokenizer.decode(tokens, False)
    assert started(tmp_path, version, "demo.c", text) == f"{wanted}\n"


@pytest.mark.parametrize(
    "what",
    [
        "killed",
        "forked",
        "several",
        "inside",
        "while_it_runs",
        "behind_its_back",
        "nonsense",
        "again_and_again",
    ],
)
def test_what_programs_should_not_do(what: str, tmp_path: Path) -> None:
    started(tmp_path, "1.2.3", "hostile.c", what)


@pytest.mark.parametrize("version", LAYOUTS)
@pytest.mark.parametrize("compiler", ["gcc -x c -std=gnu99 -pedantic", "g++ -x c++ -std=c++14 -pedantic"])
def test_layouts_of_the_headers(version: str, compiler: str, tmp_path: Path) -> None:
    """Sizes and places are those of the table that the vendor's headers were measured for."""
    unnamed = ("RKLLMInput_u", "RKLLMMultiModalInput_image", "RKLLMMultiModalInput_video")
    facts = []
    for name, struct in revision_of(version).structs.items():
        if name not in unnamed:
            facts.append(f"sizeof({name}) == {ct.sizeof(struct)}")
            places = [member for member, _ in struct._fields_ if member != "u"]
            facts += [f"offsetof({name}, {member}) == {getattr(struct, member).offset}" for member in places]
    text = "".join(f"typedef char fact_{at}[{fact} ? 1 : -1];\n" for at, fact in enumerate(facts))
    source = tmp_path / "layout"
    source.write_text(f'#include "rkllm.h"\n{text}')
    command = [
        *compiler.split(),
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fsyntax-only",
        f"-I{recipe.RKLLM_INCLUDE / version}",
        source,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("version", LAYOUTS)
def test_the_library_is_known_as_its_version(version: str) -> None:
    library, abi = library_of(version), revision_of(version)
    assert (identify(library).version, identify(library).abi) == (version, abi)
    assert {name for name in exports(library) if name.startswith("rkllm_")} == set(abi.exports)
