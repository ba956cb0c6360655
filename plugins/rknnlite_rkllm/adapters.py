"""What only this library has: adapters by run, prompt caches in files, an encoder's results."""

from __future__ import annotations

import abc
import os
from pathlib import Path
from typing import Any

import numpy as np
from rknnlite_llm.guarded_session import GuardedSession

from rknnlite.errors import InputInvalid, ModelInvalid, ParamInvalid

from .abi.revisions import Revision, versions_with
from .requests import CrossAttention

__all__ = ["Adapters"]


class Adapters(GuardedSession):
    """Part of a session."""

    _abi: Revision
    _lora = ""
    _loras: tuple[str, ...] = ()
    _save = ""

    @abc.abstractmethod
    def _call(self, name: str, *args: Any) -> Any:
        """One call of the library; raises the error that its log tells of."""

    def load_lora(self, path: str | os.PathLike[str], name: str, scale: float = 1.0) -> None:
        """Load an adapter (a ``.rkllm`` that was converted with the model); it stays until the session is closed.

        Raises ModelInvalid without the file, ParamInvalid without a name.
        """
        if not name:
            raise ParamInvalid("an adapter needs a name, by which runs choose it")
        self._file(path, "adapter")
        with self._using("load_lora"):
            self._call("load_lora", os.fspath(path), name, float(scale))
            self._loras = (*self._loras, name)

    def enable_lora(self, name: str) -> None:
        """Use a loaded adapter in the following runs, instead of any other."""
        with self._using("enable_lora"):
            if name not in self._loras:
                raise ParamInvalid(
                    f"no adapter {name!r} is loaded; there are {sorted(self._loras) or 'none'}"
                )
            self._lora = name

    def disable_lora(self) -> None:
        """Use no adapter any more."""
        with self._using("disable_lora"):
            self._lora = ""

    def save_prompt_cache(self, path: str | os.PathLike[str]) -> None:
        """Have the next run write its KV cache to a file when it ends; models with full attention in all layers only."""
        if self._abi.RKLLMPromptCacheParam is None:
            needed = versions_with(lambda abi: abi.RKLLMPromptCacheParam is not None)
            raise ParamInvalid(f"librkllmrt {self._abi.known_as} saves no prompt cache; that needs {needed}")
        with self._using("save_prompt_cache"):
            if not Path(path).parent.is_dir():
                raise ParamInvalid(f"there is no folder {Path(path).parent} for the prompt cache")
            self._save = str(Path(path).absolute())

    def load_prompt_cache(self, path: str | os.PathLike[str]) -> None:
        """Have the next run reuse what a file of ``save_prompt_cache`` holds of its beginning: faster, nothing else.

        Whether the library refuses a file of another model is not documented.
        """
        self._file(path, "prompt cache")
        with self._using("load_prompt_cache"):
            self._call("load_prompt_cache", str(Path(path).absolute()))

    def release_prompt_cache(self) -> None:
        """Give back what ``load_prompt_cache`` loaded, before another one."""
        with self._using("release_prompt_cache"):
            self._call("release_prompt_cache")

    def set_cross_attention(self, keys: Any, values: Any, mask: Any, positions: Any) -> None:
        """An encoder's results for the following runs, of a model opened with ``cross_attention=True``.

        Args:
            keys: float32 (layers, tokens, kv_heads, head_dim).
            values: float32 (layers, kv_heads, head_dim, tokens).
            mask: float32 (tokens,).
            positions: int32 (tokens,).
        """
        given = [np.asarray(array, np.float32) for array in (keys, values, mask)]
        places = np.asarray(positions, np.int32).reshape(-1)
        tokens = given[0].shape[1] if given[0].ndim == 4 else 0
        if (
            not tokens
            or given[1].ndim != 4
            or given[1].shape[3] != tokens
            or {len(places), given[2].size} != {tokens}
        ):
            shapes = [list(array.shape) for array in (*given, places)]
            raise InputInvalid(
                f"keys, values, mask and positions have shapes {shapes}; needed are (layers, tokens, kv_heads, head_dim), "
                "(layers, kv_heads, head_dim, tokens), (tokens,), (tokens,)"
            )
        with self._using("set_cross_attention"):
            self._call("cross_attention", CrossAttention(given[0], given[1], given[2], places, tokens))

    @staticmethod
    def _file(path: str | os.PathLike[str], what: str) -> None:
        if not Path(path).is_file():
            raise ModelInvalid(f"there is no {what} {os.fspath(path)}")
