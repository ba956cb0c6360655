"""Language models: open a package, talk to it, export one.

>>> from rknnlite import Chat
>>> with Chat("models/tiny") as chat:                     # doctest: +SKIP
...     for piece in chat.stream("What is 12 + 30?"):
...         print(piece, end="", flush=True)

* Opening: ``opening`` (``open_llm``, ``Chat``), ``package``, ``weights``, ``container`` (what lies in the files),
  ``checksums``, ``verified_files``, ``draft_and_adapters``, ``inspection``.
* A folder of models: ``model_folder`` (which there are), ``model_facts`` (what their files say), ``model_placing`` (into it,
  copies), ``fetching`` (from a URL or a path, file by file through ``transfer``; ``public_hosts``: for somebody else).
* Export: ``export`` with ``export_weights``, ``recurrent_weights`` and ``export_tokenizer``; ``hf_folder``; ``gptq_awq`` and
  ``mxfp4`` widen quantised matrices. ``hf_config``, ``config_fields``, ``rope_config``, ``latent_config``, ``gemma4_config``,
  ``multimodal_config``, ``sequence_classification``, ``family_rules``, ``gpt_rules``, ``expert_rules``, ``recurrent_rules``
  and ``family_parts`` read ``config.json``; ``gguf``, ``gguf_import``, ``gguf_families``, ``gguf_config``, ``gguf_keys``,
  ``gguf_rules`` and ``gguf_layout`` read GGUF files.
* Pictures: ``towers`` (vision towers as ONNX, and running them).
* Text: ``tokenizer``, ``python_tokenizer`` (without the package ``tokenizers``), ``isolated_tokenizer`` and
  ``tokenizer_process`` (in a process of its own); ``messages``, ``plain_text``, ``inputs``,
  ``chat_template`` in a ``jinja_sandbox`` with a ``template_budget``.
* Answers: ``answers`` takes them apart; ``streaming``, ``callbacks``, ``sampling``, ``host_sampling``.
* Answers bound to rules: ``constraints``, ``grammars``, ``schemas``, ``closed_schemas``, ``gbnf``, ``gbnf_lark``,
  ``gbnf_terminals``, ``with_llguidance``, ``grammar_check`` (rules of strangers, in a process of their own first).
* What sessions of every backend share: ``engine``, ``guarded_session``.
* Vectors and scores: ``embedding``, ``reranking``. Figures: ``quality``, ``speed``, ``footprint``. ``commands``: the command
  line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rknnlite import hookimpl
from rknnlite.spi.public_name import PublicName, late_names

if TYPE_CHECKING:
    from rknnlite.spi.command import Command
    from rknnlite.spi.inspection import Inspector

    from .checksums import check_beside
    from .embedding import Embedder
    from .export import export_llm
    from .opening import Chat, open_llm
    from .package import EmbedTable, Package
    from .reranking import Reranker
    from .streaming import astream, stream
    from .tokenizer import Tokenizer
    from .towers import VisionEncoder, export_vision

__all__ = [
    "Chat",
    "EmbedTable",
    "Embedder",
    "Package",
    "Reranker",
    "Tokenizer",
    "VisionEncoder",
    "astream",
    "check_beside",
    "export_llm",
    "export_vision",
    "open_llm",
    "rknnlite_register_commands",
    "rknnlite_register_inspectors",
    "rknnlite_register_names",
    "stream",
]

_MODULES = {
    "checksums": ("check_beside",),
    "embedding": ("Embedder",),
    "export": ("export_llm",),
    "opening": ("Chat", "open_llm"),
    "package": ("EmbedTable", "Package"),
    "reranking": ("Reranker",),
    "streaming": ("astream", "stream"),
    "tokenizer": ("Tokenizer",),
    "towers": ("VisionEncoder", "export_vision"),
}

__getattr__ = late_names(__name__, _MODULES)


@hookimpl
def rknnlite_register_commands(register: Callable[[Command], None]) -> None:
    """Offer what talks to language models, and makes packages of them."""
    from rknnlite.libraries import commands_of

    for command in commands_of("llm"):
        register(command)


@hookimpl
def rknnlite_register_inspectors(register: Callable[[Inspector], None]) -> None:
    """Offer what packages of language models say of themselves."""
    from .inspection import PackageInspector

    register(PackageInspector())


@hookimpl
def rknnlite_register_names(register: Callable[[PublicName], None]) -> None:
    """Offer ``rknnlite.Chat`` and ``rknnlite.open_llm``."""
    for name in ("Chat", "open_llm"):
        register(PublicName(name, __name__))
