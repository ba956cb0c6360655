"""Options of ``rknnlite.open_llm("model.rkllm", **options)``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Optional

from rknnlite_llm.chat_template import CHATML

from rknnlite.errors import ParamInvalid
from rknnlite.files.reading import read_text
from rknnlite.spi.types import check_options

from .requests import NO_MIROSTAT, Mirostat

__all__ = ["RkllmSettings"]

_MOST_BATCH, _CPUS = 100, 32


@dataclass(frozen=True)
class RkllmSettings:
    """How models are opened.

    Attributes:
        library: path of librkllmrt.so.
        version: of the library, where the file does not tell.
        in_process: the library runs in this process; a crash of it ends the program.
        sessions: sessions at a time; each loads the model once more, and has a process of its own.
        base_domain_id: first IOMMU domain (4 GiB each) that the model uses; None: one that other models leave free.
        embed_flash: embeddings are read from the file when they are needed (1.2.0 and later).
        cpus: CPUs that the library uses, as a mask or a list of numbers; None: the fast ones of a known SoC.
        n_batch: inputs of ``run_batch`` (1.2.1 and later).
        n_keep: tokens that stay when the context is full (1.2.0 and later); None: the library's choice.
        max_new_tokens: the longest answer of any run, fixed when the model is loaded; None: the context.
        cross_attention: for models with an encoder (1.2.1 and later).
        image_tags: start, end and content of images, which versions before 1.3.0 fix when the model is loaded.
        chat_template: Jinja text, a file with it, or the word chatml: conversations are rendered here and go to the
            model as they are. None: that of the tokenizer beside the model, else the library's own.
        tool_tag: what results of tools are wrapped in by the library's own template.
        npu_cores: 1.0.x only; later files fix it.
        mirostat: version (0: off, 1 or 2), tau and eta of the sampling that keeps answers equally surprising, instead of top_k
            and top_p.
        old_driver: open models although the NPU driver is older than 0.9.7.
        patience: seconds that a run may go on after ``stop`` (a prefill cannot be interrupted).
    """

    library: Optional[str] = None
    version: Optional[str] = None
    in_process: bool = False
    sessions: int = 1
    base_domain_id: Optional[int] = None
    embed_flash: bool = True
    cpus: Any = None
    n_batch: int = 1
    n_keep: Optional[int] = None
    max_new_tokens: Optional[int] = None
    cross_attention: bool = False
    image_tags: tuple[str, str, str] = ("", "", "")
    chat_template: Optional[str] = None
    tool_tag: str = "tool_response"
    npu_cores: Optional[int] = None
    mirostat: Mirostat = NO_MIROSTAT
    old_driver: bool = False
    patience: float = 60.0

    @classmethod
    def of(cls, extra: Mapping[str, Any]) -> RkllmSettings:
        """Read the options, those of other backends left out; raises ParamInvalid for unknown ones and illegal values."""
        check_options("rkllm", extra)
        known = {field.name for field in fields(cls)}
        made = cls(**{name: value for name, value in extra.items() if name in known})
        made._check()
        return made

    def _check(self) -> None:
        whole = {
            "sessions": (1, 64),
            "n_batch": (1, _MOST_BATCH),
            "base_domain_id": (0, 64),
            "n_keep": (-1, 1 << 20),
            "max_new_tokens": (1, 1 << 20),
            "npu_cores": (1, 3),
        }
        for name, (least, most) in whole.items():
            value = getattr(self, name)
            if value is not None and (type(value) is not int or not least <= value <= most):
                raise ParamInvalid(f"{name} is {value!r}, must be {least} to {most}")
        if not isinstance(self.patience, (int, float)) or not 0 < self.patience < 1e6:
            raise ParamInvalid(f"patience is {self.patience!r}, must be a number of seconds above 0")
        tags = self.image_tags
        if (
            not isinstance(tags, (list, tuple))
            or len(tags) != 3
            or not all(isinstance(tag, str) for tag in tags)
        ):
            raise ParamInvalid(f"image_tags is {tags!r}, must be three texts: start, end and content")
        self._check_mirostat()
        _ = self.cpu_mask

    def _check_mirostat(self) -> None:
        given = self.mirostat
        is_row = isinstance(given, (list, tuple)) and len(given) == 3
        if not (
            is_row
            and given[0] in (0, 1, 2)
            and all(type(x) in (int, float) and 0 < x < 1e4 for x in given[1:])
        ):
            raise ParamInvalid(
                f"mirostat is {given!r}, must be (version, tau, eta): 0, 1 or 2, and two numbers above 0"
            )

    @property
    def cpu_mask(self) -> int:
        """A bit per CPU, 0 where nothing was asked for; raises ParamInvalid."""
        if self.cpus is None:
            return 0
        if type(self.cpus) is int and 0 < self.cpus < 1 << _CPUS:
            return self.cpus
        listed = isinstance(self.cpus, (list, tuple, range)) and len(self.cpus) > 0
        if listed and all(type(cpu) is int and 0 <= cpu < _CPUS for cpu in self.cpus):
            return sum(1 << cpu for cpu in set(self.cpus))
        raise ParamInvalid(f"cpus is {self.cpus!r}; give a mask such as 0xf0, or a list such as [4, 5, 6, 7]")

    @property
    def template(self) -> str:
        """Source of the chat template that was given, empty for none; raises ParamInvalid."""
        given = self.chat_template or ""
        if given.strip().lower() == "chatml":
            return CHATML
        if not given or "{" in given:
            return given
        try:
            return read_text(Path(given))
        except (OSError, ValueError) as error:
            raise ParamInvalid(
                f"chat_template {given[:100]!r} is no template, no file ({error}) and not the word chatml"
            ) from None
