"""What a server is told: models, addresses, limits. From the command line, or from a file of parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Optional

from rknnlite_llm.draft_and_adapters import DraftAndAdapters

from rknnlite.errors import ParamInvalid, shown
from rknnlite.files.json_text import parse_json
from rknnlite.files.reading import read_text
from rknnlite.spi.llm import SamplingParams

from .durations import seconds_of

__all__ = ["Made", "ModelSettings", "ServerSettings", "keep_alive_of", "settings_from_params"]

_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_WORDS = {"max-tokens": "predict", "n-predict": "predict", "n_predict": "predict", "temperature": "temp"}


@dataclass(frozen=True)
class Made:
    """What Ollama's ``create`` gives a model beside numbers: what is assumed where a request says nothing, and ``license``."""

    system: str = ""
    messages: tuple[Mapping[str, Any], ...] = ()
    template: str = ""
    stop: tuple[str, ...] = ()
    seed: int = -1
    min_p: float = 0.0
    license: str = ""

    def conversation(self, messages: list[Any]) -> list[Any]:
        """Messages of a request behind those of the model, and its system prompt where they have none of their own."""
        first = messages[0]
        if isinstance(first, dict) and first.get("role") in ("system", "developer"):
            return [first, *self.messages, *messages[1:]]
        system = [{"role": "system", "content": self.system}] if self.system else []
        return [*system, *self.messages, *messages]


@dataclass(frozen=True)
class ModelSettings:
    """One language model; names are those of the arguments of ``rkllm3-server`` (RKNN3 guide, 3.5).

    A path may be the number of an open file descriptor. ``ctx_size`` 0 means the model's, ``predict`` -1 as much as fits,
    ``speculate`` -1 four tokens with a ``draft`` and none without.
    """

    model: str
    alias: str = ""
    weight: str = ""
    model2: str = ""
    weight2: str = ""
    model3: str = ""
    weight3: str = ""
    vocab: str = ""
    embed: str = ""
    mel_filter: str = ""
    img_start: str = ""
    img_end: str = ""
    img_content: str = ""
    img_width: int = 0
    img_height: int = 0
    audio_start: str = ""
    audio_end: str = ""
    audio_content: str = ""
    chat_template_file: str = ""
    embedding: bool = False
    ctx_size: int = 4096
    predict: int = -1
    temp: float = 0.8
    top_k: int = 40
    top_p: float = 0.9
    repeat_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    device_id: str = ""
    backend: str = ""
    draft: str = ""
    speculate: int = -1
    lora: str = ""
    lora_scale: float = 1.0
    made: Made = Made()

    @property
    def name(self) -> str:
        """What clients call the model: the alias, else the path."""
        return self.alias or self.model

    @property
    def sampling(self) -> SamplingParams:
        """How tokens are chosen where a request says nothing."""
        return SamplingParams(
            top_k=self.top_k,
            top_p=self.top_p,
            temperature=self.temp,
            repeat_penalty=self.repeat_penalty,
            frequency_penalty=self.frequency_penalty,
            presence_penalty=self.presence_penalty,
        )

    @property
    def draft_and_adapters(self) -> DraftAndAdapters:
        """A draft and adapters."""
        return DraftAndAdapters(
            self.draft, None if self.speculate == -1 else self.speculate, self.lora, self.lora_scale
        )


@dataclass(frozen=True)
class ServerSettings:
    """A server. ``cors`` are origins whose pages may ask, ``allow_hosts`` names of this machine beside ``host`` (see
    ``rknnlite_server.origins``); ``timeout`` in seconds, ``max_body`` in bytes; ``parallel`` runs per model, ``queue`` requests
    wait. ``api_keys`` are as lines of ``api_key_file`` (see ``rknnlite_server.keys``), which is read again when it was changed;
    ``audit_file`` gets a line for each administrative call; files and batches are kept in ``batch_dir``, none where it is empty,
    for ``batch_days`` (0: for ever), and ``response_bytes`` of responses to go on from. ``traces`` is the address of a collector of
    OpenTelemetry, empty: what the environment says, None: there are no traces.

    ``speech``: folders of speech models.

    Of networks: ``workers`` 0 is one per NPU core, ``core_mask`` as ``Pool`` takes it, ``grpc_port`` -1 none;
    with ``grpc_needed`` it is an error when gRPC cannot be had, else REST is served without;
    ``explicit``: networks of the repository, and language models of theirs, are loaded when clients ask, not at start;
    ``window_ms`` is how long rows of a batch wait for each other; ``upload_bytes`` bounds what clients may leave here,
    ``upload_models`` how many of those are open at a time, ``queue_bytes`` the requests to networks that are read, wait
    or run.

    Of language models that come and go: ``llm_repository`` is their folder, ``llm_defaults`` what they are opened with,
    ``llm_models`` how many of them are open at a time, in ``llm_bytes`` together (0: any), ``keep_alive`` how many seconds one
    stays that nobody asks (-1: until there is no room); with ``allow_manage`` clients of other machines may add and delete;
    ``allow_pull`` are hosts that models may be fetched from beside public ones, ``*`` for all.
    """

    models: tuple[ModelSettings, ...] = ()
    speech: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    port: int = 8080
    timeout: float = 600.0
    parallel: int = 4
    queue: int = 64
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    api_key_file: str = ""
    audit_file: str = ""
    batch_dir: str = ""
    batch_bytes: int = 1 << 30
    batch_days: float = 30.0
    tls_cert: str = ""
    tls_key: str = ""
    cors: tuple[str, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    metrics: bool = False
    traces: Optional[str] = None
    insecure: bool = False
    max_body: int = 32 << 20
    max_messages: int = 2048
    response_bytes: int = 64 << 20
    drain: float = 30.0
    networks: tuple[str, ...] = ()
    repository: str = ""
    explicit: bool = False
    grpc_port: int = 8001
    grpc_needed: bool = False
    workers: int = 0
    core_mask: str = "spread"
    backend: str = ""
    device_id: str = ""
    window_ms: float = 2.0
    allow_upload: bool = False
    upload_dir: str = ""
    upload_bytes: int = 4 << 30
    upload_models: int = 4
    queue_bytes: int = 512 << 20
    llm_repository: str = ""
    llm_defaults: ModelSettings = ModelSettings("")
    llm_models: int = 3
    llm_bytes: int = 0
    keep_alive: float = 300.0
    allow_manage: bool = False
    allow_pull: tuple[str, ...] = ()

    @property
    def serves_networks(self) -> bool:
        """Whether the Open Inference Protocol has anything to answer for."""
        return bool(self.networks or self.repository or self.allow_upload)

    @property
    def has_keys(self) -> bool:
        """Whether clients need a key."""
        return bool(self.api_keys or self.api_key_file)

    def checked(self) -> ServerSettings:
        """The same; raises ParamInvalid for what cannot work, or must not be done by mistake."""
        if not 0 <= self.port <= 0xFFFF:
            raise ParamInvalid(f"port is {self.port}, must be in 0..65535")
        if not -1 <= self.grpc_port <= 0xFFFF:
            raise ParamInvalid(f"grpc-port is {self.grpc_port}, must be in 0..65535, or -1 for none")
        if self.serves_networks and self.grpc_port == self.port > 0:
            raise ParamInvalid(f"port and grpc-port are both {self.port}; HTTP and gRPC need a port each")
        for name in ("workers", "window_ms", "upload_bytes", "response_bytes", "batch_days"):
            if getattr(self, name) < 0:
                raise ParamInvalid(f"{name} is {getattr(self, name)}, must be 0 or more")
        if self.repository and not Path(self.repository).is_dir():
            raise ParamInvalid(f"repository {self.repository} is no folder")
        if self.llm_repository and not Path(self.llm_repository).is_dir():
            raise ParamInvalid(f"llm-repository {self.llm_repository} is no folder")
        if self.llm_bytes < 0:
            raise ParamInvalid(f"llm-bytes is {self.llm_bytes}, must be 0 or more")
        for name in (
            "parallel",
            "timeout",
            "max_body",
            "max_messages",
            "upload_models",
            "batch_bytes",
            "llm_models",
        ):
            if not getattr(self, name) > 0:
                raise ParamInvalid(f"{name} is {getattr(self, name)}, must be above 0")
        if self.queue_bytes < self.max_body:
            raise ParamInvalid(
                f"queue-bytes is {self.queue_bytes}, must be at least max-body, {self.max_body}: one request has to fit"
            )
        if self.queue < 0:
            raise ParamInvalid(f"queue is {self.queue}, must be 0 or more")
        if bool(self.tls_cert) != bool(self.tls_key):
            raise ParamInvalid("TLS needs both a certificate and its key: --tls-cert FILE --tls-key FILE")
        if self.host not in _LOOPBACK and not self.has_keys and not self.insecure:
            raise ParamInvalid(
                f"the server would listen on {self.host} for everybody: give it keys with --api-key-file FILE, or say "
                "--insecure"
            )
        names = [
            *(model.name for model in self.models),
            *(Path(folder).resolve().name for folder in self.speech),
        ]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ParamInvalid(f"two models have the name {twice[0]!r}; give each an alias of its own")
        return self


def settings_from_params(path: str, base: ServerSettings) -> ServerSettings:
    """The settings in a JSON file of parameters; ``base`` has what such a file has no words for.

    Raises ParamInvalid naming the file and the entry.
    """
    try:
        data = parse_json(read_text(Path(path)))
    except (OSError, ValueError) as error:
        raise ParamInvalid(f"{path}: {shown(error)}") from None
    return settings_of(data, base, path)


def settings_of(data: Any, base: ServerSettings, label: str) -> ServerSettings:
    """As ``settings_from_params``, of parsed JSON."""
    named = data.get("models", {}) if isinstance(data, Mapping) else None
    folder = isinstance(data, Mapping) and bool(data.get("llm-repository", base.llm_repository))
    if not isinstance(named, Mapping) or not (named or folder):
        raise ParamInvalid(
            f"{label}: needed is an object with host, port, timeout and models: {{NAME: {{model: ...}}}}, or with llm-repository"
        )
    models = tuple(_model(name, entry, f"{label}: models.{name}") for name, entry in named.items())
    unknown = sorted(set(data) - {*_ENTRIES, "keep-alive", "allow-pull", "models"})
    if unknown:
        raise ParamInvalid(f"{label}: unknown entry {unknown[0]!r}")
    given = {key.replace("-", "_"): data[key] for key in _ENTRIES if key in data}
    _check_types(given, ServerSettings, label)
    if "keep-alive" in data:
        given["keep_alive"] = keep_alive_of(str(data["keep-alive"]), f"{label}: keep-alive")
    if "allow-pull" in data:
        hosts = data["allow-pull"]
        if not isinstance(hosts, list) or not all(isinstance(host, str) for host in hosts):
            raise ParamInvalid(f"{label}: allow-pull is {shown(hosts)}, must be a list of hosts")
        given["allow_pull"] = tuple(hosts)
    return replace(base, models=models, **given).checked()


def keep_alive_of(text: str, label: str) -> float:
    """Seconds; raises ParamInvalid naming the label."""
    seconds = seconds_of(text)
    if seconds is None:
        raise ParamInvalid(f"{label} {text}: no duration; 300, 5m, 1h and -1 are")
    return seconds


def _model(name: str, entry: Any, label: str) -> ModelSettings:
    if not isinstance(entry, Mapping):
        raise ParamInvalid(f"{label} is {shown(entry)}, must be an object with at least model")
    given = {_WORDS.get(key, key).replace("-", "_"): value for key, value in entry.items() if key != "qwenvl"}
    known = {item.name for item in fields(ModelSettings)} - {"made"}
    unknown = sorted(set(given) - known)
    if unknown:
        raise ParamInvalid(f"{label}: unknown entry {unknown[0]!r}")
    if not given.get("model"):
        raise ParamInvalid(f"{label}: model is missing, the path of a .rknn file")
    given = {
        key: str(value) if key in _PATHS and type(value) is int else value for key, value in given.items()
    }
    _check_types(given, ModelSettings, label)
    return ModelSettings(**{"alias": name, **given})


_ENTRIES = (
    "host",
    "port",
    "timeout",
    "llm-repository",
    "llm-models",
    "llm-bytes",
    "explicit",
    "allow-manage",
)
_PATHS = (
    "model",
    "weight",
    "model2",
    "weight2",
    "model3",
    "weight3",
    "vocab",
    "embed",
    "mel_filter",
    "chat_template_file",
)
_KINDS: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "float": (int, float), "bool": (bool,)}


def _check_types(given: Mapping[str, Any], kind: Any, label: str) -> None:
    types = {item.name: str(item.type) for item in fields(kind)}
    for key, value in given.items():
        wanted = _KINDS[types[key]]
        if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
            raise ParamInvalid(f"{label}: {key} is {shown(value)}, must be {types[key]}")
