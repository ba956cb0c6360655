"""What the sessions of one ``.rkllm`` file share: the library, the file, and room for them. Each session has a handle."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Optional

from rknnlite_backend.versions import version_numbers
from rknnlite_llm.chat_template import ChatTemplate, JinjaTemplate
from rknnlite_llm.engine import LlmEngine

from rknnlite.errors import ContextInvalid, OutOfMemory, ParamInvalid, RknnError
from rknnlite.formats import ModelFile
from rknnlite.log import logger
from rknnlite.native.board import Board
from rknnlite.native.forks import made_before_fork
from rknnlite.spi.llm import KvStore, LlmConfig, LlmParams
from rknnlite.tensor import DType, KvDtype, Layout, TensorAttr

from . import checks
from .identify import Identity, LibraryUnknown
from .iommu_domains import Placement, domains
from .loader import Api
from .log_errors import context_limit, error_in_log, model_facts, runtime_version
from .model_process import LoadFailed, ModelProcess
from .native import NativeModel
from .requests import Model, Start
from .settings import RkllmSettings
from .structs import sampling_values
from .vocabulary import Vocabulary

__all__ = ["Loaded", "RkllmEngine"]

_OPEN_LIMIT = 600.0
_USUAL_CONTEXT = 4096
_SEVERAL = (1, 2, 2)  # several models in one process


class Loaded:
    """A model in the library, with what it occupies; ``close`` gives all of it back, again does nothing."""

    def __init__(self, model: Model, start: Start, leave: Callable[[], None]) -> None:
        self.model, self.start, self._leave = model, start, leave

    def close(self) -> None:
        """Destroy the handle."""
        leave, self._leave = self._leave, lambda: None
        try:
            self.model.close()
        finally:
            leave()


class RkllmEngine(LlmEngine):
    """See the module. Runs of several sessions go on at the same time: nothing is shared in the library."""

    def __init__(self, identity: Identity, file: ModelFile, settings: RkllmSettings, board: Board) -> None:
        """Look at everything that can be looked at; raises what is wrong with it."""
        super().__init__()
        checks.refuse(checks.of_board(board, identity.abi, settings.old_driver))
        checks.refuse(checks.of_file(file, board))
        self.identity, self.settings, self.inside = identity, settings, set[int]()
        self.file = checks.file_of(file)
        self._board = board
        self._vocabulary = Vocabulary.beside(self.file.path)
        self._template_source = settings.template or self._vocabulary.template
        self._lock = threading.Lock()
        self._placements: set[Placement] = set()
        self._closed = ""
        self.limit = self.file.context or _USUAL_CONTEXT
        self.model_facts: dict[str, str] = {}

    @property
    def version(self) -> str:
        """Of the library."""
        return self.identity.version

    @property
    def per_run(self) -> bool:
        """Whether sampling and the longest answer are told with every run."""
        return self.identity.abi.RKLLMSamplingParam is not None

    @property
    def config(self) -> LlmConfig:
        """Sizes that nobody tells are 0."""
        return LlmConfig(
            chat_template=self._template_source,
            vocab_size=self._vocabulary.size,
            embedding_dim=0,
            max_ctx_len=self.limit,
            max_position_embeddings=self.limit,
            kvcache_store_method=KvStore.UNDEFINED,
            kvcache_dtype=KvDtype.UNDEFINED,
            kvcache_group_size=0,
            kvcache_residual_depth=0,
            model_type="rkllm",
            core_num=int(self.model_facts.get("cores", 0)),
        )

    @property
    def inputs(self) -> list[TensorAttr]:
        """None: the library does not tell them."""
        return []

    @property
    def outputs(self) -> list[TensorAttr]:
        """Logits of the last token, and the last hidden states; the sizes are known when they come."""
        return [
            TensorAttr(index, name, (1, 0), DType.FLOAT32, Layout.UNDEFINED)
            for index, name in enumerate(("logits", "last_hidden_layer"))
        ]

    def template(self, stopping: Callable[[], bool]) -> Optional[ChatTemplate]:
        """The chat template where one is known."""
        if not self._template_source:
            return None
        bos, eos = self._vocabulary.marks
        return JinjaTemplate.of_model(str(self.file.path), self._template_source, bos, eos, stopping)

    @contextmanager
    def one_run(self, stopping: Callable[[], bool]) -> Iterator[bool]:
        self.check_open()
        yield True

    # -- loading ------------------------------------------------------------------------------------------

    def load(self, params: LlmParams) -> Loaded:
        """The model once more, for a session. Raises what the checks and the library say."""
        context = params.max_context_len or self.limit
        with self._lock:
            self.check_open()
            self._check_room()
            place = domains.take(self.file.size, self.settings.base_domain_id if not self._first_only else 0)
            self._placements.add(place)

        def leave() -> None:
            domains.give(place)
            with self._lock:
                self._placements.discard(place)

        try:
            start = self._start(params, context, place.first)
            checks.refuse(
                checks.of_opening(
                    self.identity.abi,
                    self.file,
                    self._board,
                    context,
                    self.settings.cpu_mask,
                    start.base_domain_id,
                )
            )
            model, start = self._opened(start, bool(params.max_context_len or self.file.context))
            return Loaded(model, start, leave)
        except BaseException:
            leave()
            raise

    @property
    def _first_only(self) -> bool:
        """Whether this version has no other IOMMU domain than the first."""
        return self.settings.base_domain_id is None and self.identity.abi.name in ("1.0.0", "1.0.1", "1.1.0")

    def _check_room(self) -> None:
        count = len(self._placements)
        free, size = self._board.memory().get("MemAvailable", 0), self.file.size
        room = f"{size / 2**30:.2f} GiB, {free / 2**30:.2f} GiB of memory are free"
        if count >= self.settings.sessions:
            raise ContextInvalid(
                f"{self.file.path} has {count} session{'s' * (count != 1)} already, and a handle of librkllmrt has one KV cache. "
                f"Close one, or open the model with sessions={count + 1}, which loads it once more ({room})"
            )
        if count and free and size > free:
            raise OutOfMemory(
                f"{self.file.path}: another session loads the model once more, which takes {room}"
            )
        if count and self.settings.in_process and version_numbers(self.version) < _SEVERAL:
            raise ParamInvalid(
                f"librkllmrt {self.version} takes one model per process; leave in_process out, or use 1.2.2 or later"
            )

    def _start(self, params: LlmParams, context: int, domain: int) -> Start:
        settings, vocab = self.settings, params.vocab
        if (
            vocab.special_eos_ids
            or vocab.special_bos_ids
            or vocab.vocab_size not in (0, self._vocabulary.size)
        ):
            raise ParamInvalid(
                "librkllmrt takes the model's own vocabulary; leave ids and sizes out of VocabInfo"
            )
        sampling_values(params.sampling)
        known = checks.platform(soc.name) if (soc := self._board.soc()) is not None else None
        usual = (
            known.cpus
            if known and self.identity.abi.has_field("RKLLMExtendParam", "enabled_cpus_mask")
            else 0
        )
        return Start(
            model=str(self.file.path),
            max_context_len=context,
            max_new_tokens=settings.max_new_tokens or context,
            sampling=params.sampling,
            ignore_eos_token=vocab.ignore_eos_token,
            n_keep=settings.n_keep,
            base_domain_id=domain,
            embed_flash=settings.embed_flash,
            cpus=settings.cpu_mask or usual,
            n_batch=settings.n_batch,
            cross_attention=settings.cross_attention,
            image_tags=tuple(settings.image_tags),  # type: ignore[arg-type]
            npu_cores=settings.npu_cores,
            mirostat=tuple(settings.mirostat),  # type: ignore[arg-type]
        )

    def _opened(self, start: Start, asked: bool) -> tuple[Model, Start]:
        """The model; one that holds fewer tokens than is usual is opened with as many as it holds."""
        try:
            model = self._model(start)
        except _TooLong as error:
            if asked or not 0 < error.limit < start.max_context_len:
                raise error.cause from None
            start = replace(
                start, max_context_len=error.limit, max_new_tokens=min(start.max_new_tokens, error.limit)
            )
            model = self._model(start)
            self.limit = error.limit
        printed = runtime_version(model.log)
        if printed and printed not in self.identity.abi.versions:
            model.close()
            raise LibraryUnknown(
                f"{self.identity.path} was taken for version {self.version} ({self.identity.how}), but says that it is {printed}; "
                "the model was closed again. Install the library as the vendor published it"
            )
        self.model_facts = model_facts(model.log) or self.model_facts
        trouble = error_in_log(
            str(self.file.path), [line for line in model.log if "auto-parsing failed" in line]
        )
        if trouble is not None and not self._template_source:
            logger.warning("%s", trouble)
        return model, start

    def _model(self, start: Start) -> Model:
        if self.settings.in_process:
            return NativeModel(Api(self.identity), start)
        try:
            return ModelProcess(
                self.identity, self.settings.version, start, self.settings.patience, _OPEN_LIMIT
            )
        except LoadFailed as error:
            cause = error_in_log(str(self.file.path), error.log) or error.cause
            limit = context_limit(error.log)
            if limit and isinstance(cause, ParamInvalid):
                raise _TooLong(cause, limit) from None
            raise cause from None

    # -- life ---------------------------------------------------------------------------------------------

    def check_open(self) -> None:
        if self._closed:
            raise ContextInvalid(self._closed)

    def close(self) -> None:
        """No more sessions."""
        self._closed = "the model is closed; open it again"

    def abandon(self) -> None:
        super().abandon()
        self._lock = threading.Lock()
        self._closed = made_before_fork("the model")


class _TooLong(Exception):
    """The model holds fewer tokens than were asked for."""

    def __init__(self, cause: RknnError, limit: int) -> None:
        super().__init__(str(cause))
        self.cause, self.limit = cause, limit
